// CUDA C++ for the editor: the C++ grammar on a text in which CUDA's own syntax is replaced, and CUDA's words.

import { Decoration, MatchDecorator, ViewPlugin } from "@codemirror/view";
import { Language, LanguageSupport, syntaxTree } from "@codemirror/language";
import { cppLanguage } from "@codemirror/lang-cpp";
import { Parser } from "@lezer/common";

// What the grammar reads in place of each word: C++ of the same role, filled with spaces to the same length, so that
// every position of the tree is a position of the text.
const READ_AS = new Map(Object.entries({
  __global__: "inline", __device__: "inline", __host__: "inline", __shared__: "static", __constant__: "static",
  __managed__: "static", __forceinline__: "inline", __noinline__: "inline", __restrict__: "const", __align__: "alignas",
  __grid_constant__: "const", "<<<": "(", ">>>": ")",
}));
// Templates within templates end with >>>, too: one that closes a launch is followed by the arguments.
const REPLACED = /__launch_bounds__\s*\([^()]*\)|\b__\w+__\b|<<<|>>>(?=\s*\()/g;

/** @param {string} text @returns {string} as long as the text */
export function asPlainCpp(text) {
  return text.replace(REPLACED, (word) => {
    if (word.startsWith("__launch_bounds__")) return " ".repeat(word.length);
    return (READ_AS.get(word) ?? word).padEnd(word.length);
  });
}

// Chunks are lines (lineChunks of the editor's own input), so that no word lies across two of them.
class PlainInput {
  constructor(input) { this.input = input; }
  get length() { return this.input.length; }
  get lineChunks() { return this.input.lineChunks; }
  chunk(from) { return asPlainCpp(this.input.chunk(from)); }
  read(from, to) { return asPlainCpp(this.input.read(from, to)); }
}

class CudaParser extends Parser {
  createParse(input, fragments, ranges) {
    return cppLanguage.parser.createParse(new PlainInput(input), fragments, ranges);
  }
}

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

/** @returns {LanguageSupport} */
export function cuda() {
  return new LanguageSupport(new Language(cppLanguage.data, new CudaParser(), [], "cuda"), [words]);
}
