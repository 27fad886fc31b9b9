"""What the kernels of a submission did, as pictures, where its judging kept a record of that."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from harness.results import Report


@dataclass(frozen=True)
class Picture:
    """An SVG, and what it shows in words."""

    svg: Markup
    caption: str


def of(report: Report) -> list[Picture]:
    """All that there are."""
    return []
