"""Every track of the three problems, judged in the emulator: a plain kernel, a warp for each row, is accepted.

One text serves all tracks of a problem: T is the type of queries and outputs, C that of keys and values, and what solve()
does not get in a track is a null pointer.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from harness import problem
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.problem import Problem
from harness.results import Report
from harness.submission import from_bytes
from harness.verdict import Verdict

ATTENTION = """
// A warp takes one query; lane l holds dimensions l, l + 32, ... Keys come one after the other.
struct Row {
  float query[4], sum[4], top, total;
  int dim;

  __device__ void begin(const T* q, int head_dim) {
    dim = head_dim, top = -INFINITY, total = 0.0f;
    for (int i = 0; i < 4; ++i) sum[i] = 0.0f;
    for (int i = 0; 32 * i < dim; ++i) query[i] = float(q[threadIdx.x + 32 * i]);
  }
  __device__ void add(const C* key, const C* value, float scale) {
    float score = 0.0f;
    for (int i = 0; 32 * i < dim; ++i) score += query[i] * float(key[threadIdx.x + 32 * i]);
    for (int far = 16; far; far /= 2) score += __shfl_xor_sync(~0u, score, far);
    score *= scale;
    float next = fmaxf(top, score), kept = expf(top - next), weight = expf(score - next);
    total = total * kept + weight, top = next;
    for (int i = 0; 32 * i < dim; ++i) sum[i] = sum[i] * kept + weight * float(value[threadIdx.x + 32 * i]);
  }
  __device__ void end(T* out, float* lse, float factor) {
    for (int i = 0; 32 * i < dim; ++i) out[threadIdx.x + 32 * i] = T(total > 0 ? factor * sum[i] / total : 0.0f);
    if (lse && threadIdx.x == 0) *lse = total > 0 ? top + logf(total) : -INFINITY;
  }
};
"""
PAGED = ATTENTION + """
__global__ void attend(const T* q, const C* k_cache, const C* v_cache, const float* k_scale, const float* v_scale,
                       const int* table, const int* lens, T* out, float* lse, int heads, int kv_heads, int dim,
                       int page, int columns, float scale) {
  int head = blockIdx.x, seq = blockIdx.y, kv = head / (heads / kv_heads);
  size_t number = size_t(seq) * heads + head;
  Row row;
  row.begin(q + number * dim, dim);
  for (int token = 0; token < lens[seq]; ++token) {
    size_t slot = size_t(table[seq * columns + token / page]) * page + token % page;
    size_t place = (slot * kv_heads + kv) * dim;
    row.add(k_cache + place, v_cache + place, k_scale ? scale * k_scale[kv] : scale);
  }
  row.end(out + number * dim, lse ? lse + number : nullptr, v_scale ? v_scale[kv] : 1.0f);
}
HEAD {
  attend<<<dim3(num_heads, num_seqs), 32>>>(q, k_cache, v_cache, K_SCALE, V_SCALE, block_table, context_lens, out, LSE,
                                            num_heads, num_kv_heads, head_dim, page_size, max_blocks_per_seq, scale);
}
"""
FLASH = ATTENTION + """
__global__ void attend(const T* q, const T* k, const T* v, T* out, float* lse, int group, int rows, int keys, int dim,
                       float scale, int causal) {
  int head = blockIdx.y, query = blockIdx.x;
  size_t number = size_t(head) * rows + query, first = size_t(head / group) * keys;
  int seen = causal ? min(keys, query + 1 + keys - rows) : keys;
  Row row;
  row.begin(q + number * dim, dim);
  for (int key = 0; key < seen; ++key) row.add(k + (first + key) * dim, v + (first + key) * dim, scale);
  row.end(out + number * dim, lse ? lse + number : nullptr, 1.0f);
}
HEAD {
  attend<<<dim3(ROWS, HEADS), 32>>>(q, k, v, out, LSE, GROUP, ROWS, KEYS, head_dim, scale, causal);
}
"""
MERGE = """
__global__ void merge(const T* partial_out, const float* m, const float* l, T* out, float* lse, int splits, int rows) {
  int row = blockIdx.x, dim = blockDim.x;
  float top = -INFINITY, total = 0.0f, sum = 0.0f;
  for (int split = 0; split < splits; ++split) top = fmaxf(top, m[split * rows + row]);
  for (int split = 0; split < splits; ++split) {
    int number = split * rows + row;
    if (m[number] == -INFINITY) continue;
    float weight = expf(m[number] - top) * l[number];
    total += weight;
    sum += weight * float(partial_out[size_t(number) * dim + threadIdx.x]);
  }
  out[size_t(row) * dim + threadIdx.x] = T(total > 0 ? sum / total : 0.0f);
  if (threadIdx.x == 0) lse[row] = total > 0 ? top + logf(total) : -INFINITY;
}
HEAD {
  merge<<<rows, head_dim>>>(partial_out, m, l, out, lse, num_splits, rows);
}
"""
GROUPED = {"ROWS": "seq_len_q", "HEADS": "batch * num_heads", "GROUP": "num_heads / num_kv_heads", "KEYS": "seq_len_kv"}
SINGLE = {"ROWS": "seq_len", "HEADS": "batch_heads", "GROUP": "1", "KEYS": "seq_len"}
TEXTS = {"paged_decode": PAGED, "flash_attention": FLASH, "split_k_merge": MERGE}
LARGE = ("chapter*", "rows_1000", "splits_12*", "outliers_causal", "long_sums", "needles_12*", "*large_values",
         "gqa_one_query", "gqa_long_sums", "gqa_eights*")  # fmt: skip
TRACKS = [track for name in TEXTS for track in problem.load(name).tracks()]


def solution(track: Problem) -> str:
    """The problem's kernel for one of its tracks."""
    types = {p.name: p.type for p in track.signature}
    names = {"K_SCALE": "k_scale", "V_SCALE": "v_scale", "LSE": "lse"}
    words = {word: name if name in types else "nullptr" for word, name in names.items()}
    words |= GROUPED if "seq_len_q" in types else SINGLE
    words["HEAD"] = track.declaration().split("\n")[-1].removesuffix(";")
    text = TEXTS[track.id]
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return f"using T = {types['out']};\nusing C = {types.get('k_cache', types['out'])};\n{text}"


def judged(track: Problem, text: str) -> Report:
    """On the tests that are quick."""
    names = [case.name for case in track.tests if not any(fnmatchcase(case.name, pattern) for pattern in LARGE)]
    options = Options(device="cpu", seed=11, cases=",".join(names), resource_seconds=0.0)
    *_, last = judge(problem.load(track.id), from_bytes("my.cu", text.encode()), options)
    assert isinstance(last, Finished)
    return last.report


@pytest.mark.parametrize("track", TRACKS, ids=lambda track: f"{track.id}-{track.dtype}-{track.variant}")
def test_a_plain_kernel_is_accepted_in_every_track(track: Problem) -> None:
    report = judged(track, solution(track))
    assert (report.dtype, report.variant) == (track.dtype, track.variant)
    assert report.verdict is Verdict.ACCEPTED, report
    assert not [finding for case in report.cases for finding in case.findings]
    assert len(report.cases) >= 8
