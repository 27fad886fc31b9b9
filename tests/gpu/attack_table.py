"""Attempts on the score judged on a card: `python -m tests.gpu.attack_table [--out table.json] [--only 's01*']`.

tests/attacks/scoring/README.md says what is declared. Prints a row for each attack and, below the table, what those that
differ said. Exit code 0: every attack got a verdict that it declares, with its finding, and where it was accepted no
benchmark scores more than it may and none is timed below its floor. Each judging is a process of its own with a
deadline; one at a time, since launches are timed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tests.attacks.fixtures import Attack, attacks
from tests.gpu import verdict_table
from tests.gpu.verdict_table import Entry, Outcome

_SEED = 1
_THREADS = 8  # for drawing inputs and for compiling


@dataclass(frozen=True)
class Row:
    """One attack and what the card made of it."""

    attack: Attack
    outcome: Outcome

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(float(figures["score"]) for figures in self.outcome.benchmarks)

    def objections(self) -> Iterator[str]:
        """Why this is not what was declared; nothing where it is."""
        want, got = self.attack.gpu, self.outcome
        if got.verdict not in want.verdicts:
            yield f"verdict {got.verdict}"
        if got.verdict != "accepted" and want.finding and want.finding not in got.findings:
            yield f"no finding {want.finding} but {', '.join(got.findings) or 'none'}"
        for text in want.message_contains:
            if not any(text in message for message in got.messages):
                yield f"no message has {text!r}"
        if any(score > want.score_at_most for score in self.scores):
            yield f"scores {max(self.scores):.1f}, more than {want.score_at_most:g}"
        if any(figures["seconds"] < figures["floor_seconds"] for figures in got.benchmarks):
            yield "faster than the floor"
        if got.verdict == "accepted" and not got.benchmarks:
            yield "nothing was timed"

    def text(self) -> str:
        """The printed line."""
        declared = "/".join(self.attack.gpu.verdicts)
        score = " ".join(f"{score:.1f}" for score in self.scores) or "-"
        verdict = "DIFFERS" if any(self.objections()) else "yes"
        return (f"{self.attack.name:<28} {self.attack.attack_class:<4} {declared:<40} {self.outcome.verdict:<17} "
                f"{score:>6} {self.outcome.seconds:6.1f} s  {verdict}")  # fmt: skip


def judge(attack: Attack, seconds: float) -> Row:
    """One attack on the card, stopped after so many seconds."""
    entry = Entry(attack.name, attack.problem, attack.source, attack.gpu.verdicts[0], attack.gpu.cases)
    return Row(attack, verdict_table.judge(entry, "gpu", seconds, _SEED, _THREADS))


def build(chosen: Sequence[Attack], each: float, total: float) -> Iterator[Row]:
    """Judge all within `total` seconds, `each` at most for one; what does not fit is `not run`."""
    deadline = time.monotonic() + total
    for attack in chosen:
        yield judge(attack, min(each, deadline - time.monotonic()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, print, write; exit code 1 where something differs from what is declared."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, help="write the table here as JSON")
    parser.add_argument("--only", default="*", help="pattern for names, as 's01*'")
    parser.add_argument("--each", type=float, default=60.0, help="seconds for one judging")
    parser.add_argument("--limit", type=float, default=480.0, help="seconds for all")
    parsed = parser.parse_args(arguments)
    rows = []
    for row in build([a for a in attacks() if fnmatch(a.name, parsed.only)], parsed.each, parsed.limit):
        print(row.text(), flush=True)
        rows.append(row)
    wrong = [row for row in rows if any(row.objections())]
    print(f"{len(rows) - len(wrong)} of {len(rows)} as declared")
    for row in wrong:
        print(f"{row.attack.name}: {'; '.join(row.objections())}: {row.outcome.note}"[:700])
    if parsed.out:
        table = [dataclasses.asdict(row) | {"objections": list(row.objections())} for row in rows]
        parsed.out.write_text(json.dumps(table, indent=1, default=str) + "\n", encoding="utf-8")
    return 0 if rows and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
