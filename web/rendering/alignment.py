"""Which lines of two files correspond, within bounded time whatever the files are.

difflib finds what people expect, in time that is quadratic and worse for files that repeat the same lines. So it gets
only stretches that are small enough. A larger one is divided first at the lines that occur once in both files and in
the same order (Bram Cohen's patience diff); what cannot be divided counts as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

_WORK = 50_000_000  # elementary steps that difflib may take at the very most for all of two files: about a second
_DEPTH = 6  # how often a stretch is divided
_CHANCE = 3  # lines without a word that do not keep two changes apart


@dataclass(frozen=True)
class Stretch:
    """Lines, counted from 0, of the file before and of the one after: the same, or one for the other."""

    same: bool
    before: range
    after: range


@dataclass
class Alignment:
    """Stretches in order that cover both files; `coarse` if some of them were not compared line by line."""

    stretches: list[Stretch] = field(default_factory=list)
    coarse: bool = False


def align(before: Sequence[str], after: Sequence[str]) -> Alignment:
    """The stretches of two lists of lines."""
    return _Aligner(before, after).run()


class _Aligner:
    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        self.a, self.b = before, after
        self.work = _WORK
        self.found = Alignment()

    def run(self) -> Alignment:
        self._divide(range(len(self.a)), range(len(self.b)), _DEPTH)
        self.found.stretches = list(_joined(self._without_chance(list(_joined(self.found.stretches)))))
        return self.found

    def _divide(self, a: range, b: range, depth: int) -> None:
        """Take off what is the same at both ends; compare the middle, or divide it at its anchors."""
        head = self._common(a, b)
        self._add(True, a[:head], b[:head])
        a, b = a[head:], b[head:]
        tail = self._common(a[::-1], b[::-1])
        middle = a[: len(a) - tail], b[: len(b) - tail]
        if not all(middle):
            self._add(False, *middle)
        elif self._affordable(*middle):
            self._compare(*middle)
        else:
            self._divide_at_anchors(*middle, depth)
        self._add(True, a[len(a) - tail :], b[len(b) - tail :])

    def _common(self, a: range, b: range) -> int:
        pairs = enumerate(zip(a, b, strict=False))
        return next((n for n, (i, j) in pairs if self.a[i] != self.b[j]), min(len(a), len(b)))

    def _affordable(self, a: range, b: range) -> bool:
        """Whether difflib may compare them. It looks at each pair of equal lines, at most once for each line that it
        matches in the shorter one."""
        in_b = Counter(self.b[j] for j in b)
        cost = sum(in_b[self.a[i]] for i in a) * min(len(a), len(b)) + len(a) + len(b)
        affordable = cost <= self.work
        self.work -= cost if affordable else 0
        return affordable

    def _compare(self, a: range, b: range) -> None:
        lines = [self.a[i] for i in a], [self.b[j] for j in b]
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, *lines, autojunk=False).get_opcodes():
            self._add(tag == "equal", a[i1:i2], b[j1:j2])

    def _divide_at_anchors(self, a: range, b: range, depth: int) -> None:
        anchors = list(self._anchors(a, b)) if depth else []
        if not anchors:
            self.found.coarse = True
            self._add(False, a, b)
            return
        ends = [(a.start - 1, b.start - 1), *anchors, (a.stop, b.stop)]
        for (i1, j1), (i2, j2) in pairwise(ends):
            self._divide(range(i1 + 1, i2), range(j1 + 1, j2), depth - 1)
            if i2 < a.stop:
                self._add(True, range(i2, i2 + 1), range(j2, j2 + 1))

    def _anchors(self, a: range, b: range) -> list[tuple[int, int]]:
        """Pairs of lines that occur once in both: of them the most that keep their order in both."""
        where_in_b = _once(self.b, b)
        pairs = [(i, where_in_b[line]) for line, i in _once(self.a, a).items() if line in where_in_b]
        return _longest_rising(sorted(pairs))

    def _without_chance(self, stretches: Sequence[Stretch]) -> Iterator[Stretch]:
        """A brace or an empty line between two changes is the same by chance: keeping it would tear both apart."""
        for place, part in enumerate(stretches):
            inside = 0 < place < len(stretches) - 1
            chance = part.same and inside and len(part.before) <= _CHANCE and not any(map(self._says, part.before))
            yield Stretch(part.same and not chance, part.before, part.after)

    def _says(self, place: int) -> bool:
        return any(map(str.isalnum, self.a[place]))

    def _add(self, same: bool, a: range, b: range) -> None:
        if a or b:
            self.found.stretches.append(Stretch(same, a, b))


def _once(lines: Sequence[str], places: range) -> dict[str, int]:
    count = Counter(lines[place] for place in places)
    return {lines[place]: place for place in places if count[lines[place]] == 1}


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence whose second numbers rise (Fredman 1975), in n log n steps."""
    tops: list[int] = []  # for each length the least last number
    last: list[int] = []  # and the place of its pair
    previous: list[int] = []
    for place, (_, j) in enumerate(pairs):
        length = bisect_left(tops, j)
        tops[length : length + 1] = [j]
        previous.append(last[length - 1] if length else -1)
        last[length : length + 1] = [place]
    found = []
    place = last[-1] if last else -1
    while place >= 0:
        found.append(pairs[place])
        place = previous[place]
    return found[::-1]


def _joined(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """Neighbours of one kind as one."""
    whole: Stretch | None = None
    for part in stretches:
        if whole is not None and whole.same == part.same:
            whole = Stretch(part.same, _span(whole.before, part.before), _span(whole.after, part.after))
            continue
        if whole is not None:
            yield whole
        whole = part
    if whole is not None:
        yield whole


def _span(first: range, second: range) -> range:
    return range(first.start, second.stop)
