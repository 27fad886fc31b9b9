"""The figures of the ladder: solutions/RESULTS.yaml -> the `Measured` line in each solution's header.

    python -m tests.ladder      writes the lines anew, after solutions/RESULTS.yaml was measured again
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "solutions" / "RESULTS.yaml"
_WIDTH = 120
_INDENT = "//           "
_LINES = re.compile(r"^// Measured .*\n(?://  .*\n)*", re.MULTILINE)  # with the lines that go on
SHOWN = {  # the benchmarks whose figures a header has
    "flash_attention": ("heads_64_seq_4096_d128", "heads_64_seq_4096_d128_causal", "heads_32_seq_4096_d64"),
    "paged_decode": ("seqs_64_len_4096", "seqs_1_len_131072", "one_65536_among_31_of_4096"),
    "split_k_merge": ("rows_65536_splits_32", "rows_262144_splits_4"),
}


def results() -> dict[str, Any]:
    """solutions/RESULTS.yaml."""
    found: dict[str, Any] = yaml.safe_load(RESULTS.read_text())
    return found


def measured(name: str, table: dict[str, Any]) -> str:
    """What the header of `problem/rung` says was measured, in comment lines of at most 120 columns."""
    entry, problem = table["solutions"][name], name.split("/")[0]
    if "cases" not in entry:
        text = f"no score: {entry['said'] or entry['verdict']}."
    else:
        figures = "; ".join(f"{case} {_figures(entry['cases'][case], problem)}" for case in SHOWN[problem])
        text = f"{table['card']['name']}: {figures}. Score {entry['score']:.1f}."
    first, *more = textwrap.wrap(text, _WIDTH - len(_INDENT), break_on_hyphens=False)
    return "\n".join([f"// Measured  {first}", *(_INDENT + line for line in more)]) + "\n"


def _figures(case: dict[str, Any], problem: str) -> str:
    rate = f"{case['tflop_per_s']:,.0f} TFLOP/s" if problem == "flash_attention" else f"{case['gb_per_s']:,.0f} GB/s"
    return f"{case['us']:,.0f} us, {rate} ({case['score']:.0f} % of the speed of light)"


def header(source: str) -> str:
    """The `Measured` lines of a solution; "" where it has none."""
    found = _LINES.search(source)
    return found[0] if found else ""


def main() -> int:
    """Write the lines of every solution that RESULTS.yaml has."""
    table = results()
    for name in table["solutions"]:
        file = ROOT / "solutions" / f"{name}.cu"
        source = file.read_text()
        file.write_text(source.replace(header(source), measured(name, table), 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
