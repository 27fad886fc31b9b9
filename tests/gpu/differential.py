"""`python3 -m tests.gpu.differential --out DIR`: the same kernels, from the same PTX, on a card and in the emulator.

    random programs   differential_random.py: seven families, compared bit for bit
    instructions      differential_tables.py: every row of the instruction tables on pairs and triples of edges
    approximations    differential_approx.py: both sides' errors against float64 and the documented bounds
    mma               differential_mma.py: how the card's matrix instructions round
    fp8dump           differential_mma_others.py: what a card makes of some tiles of fp8, to try models on

Prints tables and writes what differs to DIR: random.json and random.txt, tables.json, approx.json, mma.json and
mma_others.json, fp8.json. Exits 1 where something differs. Without a card, --without-card compares the emulator with
itself, with and without LLVM's passes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.gpu import (
    differential_approx,
    differential_mma_others,
    differential_random,
    differential_tables,
)
from tests.gpu.differential_children import Child
from tests.gpu.differential_random import CLASSES, LOST, Comparison, Tally
from tests.gpu.differential_sides import card, emulator, emulator_unoptimised
from tests.random_ptx.compare import PAYLOAD
from tests.random_ptx.families import FAMILIES

IN_FULL, SHOWN = 5, 8  # cases of a family that are written with their source, and printed
PARTS = ("mma", "fp8dump", "approx", "tables", "random")


@dataclass(frozen=True)
class Suite:
    """Processes and folders that all parts share."""

    emulators: list[Child]
    other: Child
    folder: Path
    out: Path
    options: argparse.Namespace


def main() -> int:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        emulators = [Child(emulator) for _ in range(options.workers)]
        other = Child(emulator_unoptimised if options.without_card else card)
        suite = Suite(emulators, other, Path(folder), options.out, options)
        try:
            differs = [_timed(part, suite) for part in options.parts]
        finally:
            for child in (*emulators, other):
                child.close()
    return int(any(differs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--programs", type=int, default=2800, help="random programs over all families")
    parser.add_argument("--families", nargs="+", choices=[*FAMILIES], default=[*FAMILIES])
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--batch", type=int, default=25, help="programs in a module")
    parser.add_argument("--seconds", type=float, default=170, help="for the random programs; what is left is not run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--without-card", action="store_true")
    return parser.parse_args()


def _timed(part: str, suite: Suite) -> bool:
    """Run a part; whether it found differences. A part that fails itself does not lose the others."""
    begun = time.monotonic()
    print(f"== {part}", flush=True)
    try:
        differs = _RUN[part](suite)
    except Exception as error:
        print(f"the part failed: {type(error).__name__}: {error}", file=sys.stderr)
        differs = True
    print(f"   {time.monotonic() - begun:.1f} s\n", flush=True)
    return differs


def _random(suite: Suite) -> bool:
    o = suite.options
    work = differential_random.batches(o.programs, o.batch, o.first, o.families)
    comparison = Comparison(suite.emulators, suite.other, suite.folder, time.monotonic() + o.seconds)
    tally = comparison.run(work)
    _print_tally(tally)
    write_random(suite.out, tally)
    return any(c.verdict != PAYLOAD for c in tally.cases)


def write_random(out: Path, tally: Tally) -> None:
    """random.json: counts, and a line for each case; random.txt: the first cases of each family in full."""
    cases = [c for family in FAMILIES for c in tally.worst(family, len(tally.cases))]
    write(out / "random.json", {"counts": tally.counts, "refusals": tally.refusals, "cases": [c.line() for c in cases]})
    full = [c.text() for family in FAMILIES for c in [*tally.worst(family, IN_FULL), *tally.worst(family, 2, PAYLOAD), *tally.worst(family, 2, LOST)]]
    (out / "random.txt").write_text("\n\n".join(dict.fromkeys(full)))


def _print_tally(tally: Tally) -> None:
    print(f"{'family':12}{'programs':>9}" + "".join(f"{c:>{max(9, len(c) + 2)}}" for c in CLASSES))
    total = sum(tally.counts.values(), Counter())
    for family, counts in (*tally.counts.items(), ("all", total)):
        if not counts:
            continue
        print(f"{family:12}{sum(counts.values()):9}" + "".join(f"{counts[c]:{max(9, len(c) + 2)}}" for c in CLASSES))
    for text, count in tally.refusals.most_common(12):
        print(f"   refused {count:4}: {text}")
    for family in FAMILIES:
        for case in tally.worst(family, SHOWN):
            print(f"   {case.line()}")


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, default=str))


_RUN: dict[str, Callable[[Suite], bool]] = {
    "random": _random,
    "tables": lambda s: differential_tables.compare(s.emulators, s.other, s.folder, s.out),
    "approx": lambda s: differential_approx.compare(s.emulators[0], s.other, s.folder, s.out),
    "mma": lambda s: differential_mma_others.probe(s.emulators[0], s.other, s.folder, s.out),
    "fp8dump": lambda s: differential_mma_others.dump(s.emulators[0], s.other, s.folder, s.out),
}


if __name__ == "__main__":
    sys.exit(main())
