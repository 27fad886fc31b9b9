"""The lines of CUDA on the online-softmax page, put together and judged: right ones pass, and each mistake is found."""

from __future__ import annotations

import pytest

from harness import cards, cases, check, problem
from harness.compile.build import compile_submission
from harness.devices.base import Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.submission import from_bytes
from harness.verdict import FindingKind, Verdict, verdict_of
from web.theatre import snippets
from web.theatre.recurrence import Mistake

FLASH = """
constexpr int D = 64, TILE = 8;
__global__ void attend(const float* queries, const float* k, const float* v, float* out, int seq_len, float scale,
                       bool causal) {
  __shared__ float k_tile[TILE][D], v_tile[TILE][D];
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const bool active = row < seq_len;
  const size_t head = size_t(blockIdx.y) * seq_len * D;
  k += head, v += head, out += head + size_t(row) * D;
  float q[D], o[D], s[TILE], l = 0.f;
  for (int d = 0; d < D; ++d) q[d] = active ? scale * queries[head + size_t(row) * D + d] : 0.f, o[d] = 0.f;
  @start
  for (int first = 0; first < seq_len; first += TILE) {
    for (int i = threadIdx.x; i < TILE * D; i += blockDim.x) {
      const int j = i / D, d = i % D, key = min(first + j, seq_len - 1);
      @load
    }
    __syncthreads();
    for (int j = 0; j < TILE; ++j) {
      const bool masked = first + j >= seq_len || (causal && first + j > row);
      @scores
    }
    @maximum
    @rescale
    for (int j = 0; j < TILE; ++j) {
      @add
    }
    @next
    __syncthreads();
  }
  if (active)
    for (int d = 0; d < D; ++d) {
      @end
    }
}
extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  attend<<<dim3((seq_len + 31) / 32, batch_heads), 32>>>(q, k, v, out, seq_len, scale, causal);
}
"""
MERGE = """
__global__ void merge(const float* outputs, const float* maxima, const float* sums, float* merged, float* lse,
                      int parts, int rows) {
  float m_part[16], l_part[16], out_part[16], out;
  for (int s = 0; s < parts; ++s) {
    const int number = s * rows + blockIdx.x;
    m_part[s] = maxima[number], l_part[s] = sums[number], out_part[s] = outputs[number * blockDim.x + threadIdx.x];
  }
  @merge
  merged[blockIdx.x * blockDim.x + threadIdx.x] = out;
  if (threadIdx.x == 0) lse[blockIdx.x] = l > 0.f ? m + logf(l) : -INFINITY;
}
extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  merge<<<rows, head_dim>>>(partial_out, m, l, out, lse, num_splits, rows);
}
"""


def flash(mistake: Mistake) -> str:
    """The panels' lines in a kernel: each at its place in the loop over tiles."""
    code = {panel: [line.text for line in snippets.lines(panel, mistake)] for panel in snippets.PANELS}
    code["load"].remove("__syncthreads();")  # stands behind the loop that fills the tile
    code["start"] = [line for line in code["maximum"] if line.endswith("// at first")]
    code["maximum"] = [line for line in code["maximum"] if line not in code["start"]]
    code["next"] = [line for line in code["stand"] if line.startswith("m = ")]
    code["end"] = [line for line in code["stand"] if line.startswith("out")]
    return filled(FLASH, code)


def filled(frame: str, code: dict[str, list[str]]) -> str:
    for name, lines in code.items():
        frame = frame.replace(f"@{name}\n", "\n".join(lines) + "\n")
    return frame


def verdict(name: str, text: str, cases: str) -> Verdict:
    options = Options(device="cpu", seed=5, cases=cases, resource_seconds=0.0)
    *_, last = judge(problem.load(name), from_bytes("my.cu", text.encode()), options)
    assert isinstance(last, Finished)
    return last.report.verdict


def test_the_right_lines_are_a_kernel_that_is_accepted() -> None:
    cases = "needles_65,above_a_tile_causal,large_scores_causal,offset_scores_causal"
    assert verdict("flash_attention", flash(Mistake.NONE), cases) is Verdict.ACCEPTED


def found(text: str, case: str) -> set[FindingKind]:
    """What is wrong with one case of a kernel, found in this process: quicker than a judging."""
    track = problem.load("flash_attention")
    (one,) = cases.build(track, case, seed=5)
    compiled = compile_submission(text, "my.cu", track.declaration(), cards.get("H100"))
    result = EmulatorDevice().run(Program("my.cu", compiled.ptx), one.arguments, RunLimits(), 0)
    _, findings, _ = check.compare(one, result.outputs, result.unwritten)
    return {finding.kind for finding in (*result.findings, *findings)}


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize(("mistake", "case"), snippets.FOUND_BY.items())
def test_each_mistake_as_written_is_a_wrong_answer(mistake: Mistake, case: str) -> None:
    kinds = found(flash(mistake), case)
    assert kinds and all(verdict_of(kind) is Verdict.WRONG_ANSWER for kind in kinds)


def test_the_lines_that_merge_are_accepted() -> None:
    text = filled(MERGE, {"merge": [line.text for line in snippets.lines("merge")]})
    assert verdict("split_k_merge", text, "empty_splits,empty_splits_hold_nan,empty_rows") is Verdict.ACCEPTED
