"""What tests/attacks/scoring declares of its files (README.md there), read for the emulator and for a card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SCORING = Path(__file__).with_name("scoring")


@dataclass(frozen=True)
class Expected:
    """What one device must answer. Empty fields ask for nothing."""

    cases: str  # as of --cases
    verdicts: tuple[str, ...]  # any of these
    finding: str = ""
    message_contains: tuple[str, ...] = ()
    score_at_most: float = 105.0  # of each benchmark


@dataclass(frozen=True)
class Attack:
    """One file. `attack_class` is the row of the catalogue of attacks, as "S4"."""

    name: str
    source: Path
    problem: str
    attack_class: str
    why: str
    cpu: Expected
    gpu: Expected


def attacks(folder: Path = SCORING) -> Iterator[Attack]:
    """All of them, by name. Raises KeyError where a declaration lacks a key."""
    for path in sorted(folder.glob("*.expect.yaml")):
        name = path.name.removesuffix(".expect.yaml")
        declared: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield Attack(
            name, path.with_name(f"{name}.cu"), declared["problem"], declared["class"], declared["why"].strip(),
            _expected(declared, "cpu"), _expected(declared, "gpu"),
        )  # fmt: skip


def _expected(declared: dict[str, Any], device: str) -> Expected:
    """What stands under the device's key goes before what stands beside it."""
    of_device = declared | declared[device]
    verdict = of_device["verdict"]
    return Expected(
        of_device["cases"],
        (verdict,) if isinstance(verdict, str) else tuple(verdict),
        of_device.get("finding", ""),
        tuple(of_device.get("message_contains", ())),
        float(of_device.get("score_at_most", Expected.score_at_most)),
    )
