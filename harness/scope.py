"""Which tracks of a problem an entry of its problem.yaml belongs to. A track is a dtype and a variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.document import Section

KEYS = ("dtypes", "variants")


@dataclass(frozen=True)
class Scope:
    """The dtypes and the variants that an entry exists in; an empty tuple stands for all."""

    dtypes: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    def holds(self, dtype: str, variant: str) -> bool:
        """Whether the entry exists in that track."""
        return (not self.dtypes or dtype in self.dtypes) and (not self.variants or variant in self.variants)

    def meets(self, other: Scope) -> bool:
        """Whether some track has both entries."""
        return _meet(self.dtypes, other.dtypes) and _meet(self.variants, other.variants)


EVERYWHERE = Scope()


def _meet(some: Sequence[str], others: Sequence[str]) -> bool:
    return not some or not others or not set(some).isdisjoint(others)


def read_scope(section: Section, known: Scope) -> Scope:
    """The keys `dtypes` and `variants` of an entry, for a problem that has those of `known`. Raises ProblemError."""
    return Scope(_read(section, "dtypes", known.dtypes), _read(section, "variants", known.variants))


def _read(section: Section, key: str, known: tuple[str, ...]) -> tuple[str, ...]:
    found = section.words(key, [])
    if key in section and not found:
        raise section.error("an empty list: the entry would exist in no track; leave the key out for all", key)
    unknown = [name for name in found if name not in known]
    if unknown:
        raise section.error(f"found {unknown[0]!r}, the problem has: {', '.join(known)}", key)
    return found
