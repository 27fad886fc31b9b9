"""Starters of every dtype: they compile without a word, run cleanly, are told to be wrong for their numbers alone, and
once the steps are filled in the frame around them is a right kernel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness import problem
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.problem import Problem
from harness.results import Report
from harness.submission import from_bytes
from harness.verdict import FindingKind, Verdict

TRACKS = [loaded.track(dtype) for loaded in problem.list_problems() for dtype in loaded.dtypes]
CASES = {  # small ones: odd sizes, both values of head_dim, nothing to do
    "paged_decode": "one_token,empty_sequences,all_empty,page_edges,page_of_64",
    "flash_attention": "one_token,one_token_causal,above_a_tile_causal,needles_65,needles_129",
    "split_k_merge": "one_split,one_row,spread_80,empty_splits_hold_nan,empty_rows",
}

each = pytest.mark.parametrize("track", TRACKS, ids=lambda track: f"{track.id}-{track.dtype}")


def judged(track: Problem, text: str) -> Report:
    options = Options(device="cpu", seed=3, cases=CASES[track.id], resource_seconds=0.0)
    *_, last = judge(problem.load(track.id), from_bytes("my.cu", text.encode()), options)
    assert isinstance(last, Finished)
    return last.report


@each
def test_a_starter_runs_cleanly_and_is_not_accepted(track: Problem) -> None:
    report = judged(track, track.starter_for(track.dtype))
    assert report.compile.log.strip() == "", "no warning"
    assert (report.dtype, report.variant) == (track.dtype, "base")
    assert report.verdict is Verdict.WRONG_ANSWER
    assert {case.verdict for case in report.cases} <= {Verdict.WRONG_ANSWER, Verdict.ACCEPTED}
    kinds = {finding.kind for case in report.cases for finding in case.findings}
    assert kinds <= {FindingKind.MISMATCH}, "every output is written, and nothing else is wrong"


@each
def test_a_starter_says_what_to_do(track: Problem) -> None:
    text = track.starter_for(track.dtype)
    assert text.count("TODO") >= 2 and text.count("Common mistakes:") == text.count("// TODO")
    assert all(len(line) <= 120 for line in text.splitlines())
    head = track.declaration().split("\n")[-1].removesuffix(";")
    assert head in " ".join(text.split())


@each
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on this machine")
def test_a_starter_compiles_for_old_cards(track: Problem, tmp_path: Path) -> None:
    source = tmp_path / "my.cu"
    source.write_text(track.starter_for(track.dtype))
    command = ["nvcc", "-arch=sm_75", "-cubin", "-o", str(tmp_path / "my.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


STEPS = {  # what stands in the place of the TODOs: (text of the starter, what becomes of it)
    "paged_decode": [
        ("const float score = warp_sum(0.0f);", """
    const int kv_head = head / (num_heads / num_kv_heads);
    const size_t slot = size_t(block_table[size_t(seq) * max_blocks_per_seq + token / page_size]) * page_size +
                        token % page_size;
    const Cached* key = k_cache + (slot * num_kv_heads + kv_head) * D;
    float dot = 0.0f;
    for (int d = lane; d < D; d += kWarp) dot += float(q[row + d]) * float(key[d]);
    const float score = warp_sum(dot) * scale * K_SCALE;"""),
        ("float total = 0.0f;", """
  float largest = -INFINITY, total = 0.0f;
  for (int token = 0; token < context; ++token) largest = fmaxf(largest, scores[token]);
  for (int token = 0; token < context; ++token) total += expf(scores[token] - largest);"""),
        ("float sum = 0.0f;", """
  float sum = 0.0f;
  const int group_head = head / (num_heads / num_kv_heads);
  for (int token = 0; token < context; ++token) {
    const size_t slot = size_t(block_table[size_t(seq) * max_blocks_per_seq + token / page_size]) * page_size +
                        token % page_size;
    sum += expf(scores[token] - largest) * float(v_cache[(slot * num_kv_heads + group_head) * D + threadIdx.x]);
  }
  sum *= V_SCALE;"""),
    ],
    "flash_attention": [
        ("float m_new = m;", """
    float scores[kKeys], m_new = m;
    for (int j = 0; j < kKeys; ++j) {
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) dot += query[d] * key_tile[j][d];
      scores[j] = first + j >= seq_len || (causal && first + j > row) ? -INFINITY : dot * scale;
      m_new = fmaxf(m_new, scores[j]);
    }"""),
        ("    m = m_new;", """
    const float kept = expf(m - m_new);
    l *= kept;
    for (int d = 0; d < D; ++d) o[d] *= kept;
    for (int j = 0; j < kKeys; ++j) {
      const float weight = expf(scores[j] - m_new);
      l += weight;
      for (int d = 0; d < D; ++d) o[d] += weight * value_tile[j][d];
    }
    m = m_new;"""),
    ],
    "split_k_merge": [
        ("float largest = -INFINITY;", """
  float largest = -INFINITY;
  for (int s = 0; s < num_splits; ++s) largest = fmaxf(largest, m[s * rows + row]);"""),
        ("float total = 0.0f, sum = 0.0f;", """
  float total = 0.0f, sum = 0.0f;
  for (int s = 0; s < num_splits; ++s) {
    if (l[s * rows + row] == 0.0f) continue;
    const float weight = expf(m[s * rows + row] - largest) * l[s * rows + row];
    total += weight;
    sum += weight * float(partial_out[(size_t(s) * rows + row) * D + d]);
  }"""),
        ("lse[row] = largest;", "lse[row] = total > 0.0f ? largest + logf(total) : -INFINITY;"),
    ],
}  # fmt: skip


@each
def test_the_steps_filled_in_make_a_starter_right(track: Problem) -> None:
    text = track.starter_for(track.dtype)
    for old, new in STEPS[track.id]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    scaled = track.dtype == "float8_e4m3"
    text = text.replace("K_SCALE", "k_scale[kv_head]" if scaled else "1.0f")
    text = text.replace("V_SCALE", "v_scale[group_head]" if scaled else "1.0f")
    report = judged(track, text)
    assert report.verdict is Verdict.ACCEPTED, (report.compile.log, report.cases)
