// CUDA C++ for the editor: the C++ grammar, which recovers from CUDA's own syntax, and CUDA's words on top.

import { Decoration, MatchDecorator, ViewPlugin } from "@codemirror/view";
import { syntaxTree } from "@codemirror/language";
import { cpp } from "@codemirror/lang-cpp";

const QUALIFIERS = "__(?:global|device|host|shared|constant|managed|forceinline|noinline|restrict|launch_bounds|" +
  "align|grid_constant)__";
const BUILT_IN = "(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)";
const TYPES = "(?:dim3|half2?|__half2?|__nv_bfloat16[2]?|__nv_fp8_e[45]m[23]|nv_bfloat16[2]?|" +
  "(?:char|short|int|long|longlong|uchar|ushort|uint|ulong|float|double)[1-4])";
const FUNCTIONS = "(?:__(?:syncthreads|syncwarp|threadfence|shfl|ballot|any|all|activemask|match|reduce|ldg|ldcs|" +
  "stcs|float|half|bfloat|expf|logf|fdividef|fmaf|popc|clz|ffs|brev|trap|nanosleep)\\w*|atomic[A-Z]\\w*|" +
  "cuda[A-Z]\\w*)";
const WORDS = new RegExp(`\\b(?:(${QUALIFIERS})|(${BUILT_IN})|(${TYPES})|(${FUNCTIONS}))\\b|<<<|>>>`, "g");
const CLASSES = ["cm-cuda-launch", "cm-cuda-qualifier", "cm-cuda-variable", "cm-cuda-type", "cm-cuda-function"];

const matcher = new MatchDecorator({
  regexp: WORDS,
  decorate(add, from, to, match, view) {
    if (/Comment|String|Char|Include/.test(syntaxTree(view.state).resolveInner(from, 1).name)) return;
    const group = match.slice(1).findIndex((found) => found !== undefined);
    add(from, to, Decoration.mark({ class: CLASSES[group + 1] }));
  },
});

const words = ViewPlugin.define(
  (view) => ({
    decorations: matcher.createDeco(view),
    tree: syntaxTree(view.state),
    update(update) {
      const tree = syntaxTree(update.state);
      if (tree !== this.tree) this.decorations = matcher.createDeco(update.view); // comments may begin far above
      else this.decorations = matcher.updateDeco(update, this.decorations);
      this.tree = tree;
    },
  }),
  { decorations: (plugin) => plugin.decorations },
);

export const cuda = () => [cpp(), words];
