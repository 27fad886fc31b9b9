"""Two sources compared: what was removed and added, with unchanged stretches folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice

from markupsafe import Markup

from web.rendering.alignment import Alignment, Stretch, align
from web.rendering.highlighting import LINES, highlighted, shown, source_lines
from web.rendering.words import word

_AROUND = 3  # unchanged lines shown beside a change
_FEWEST = 4  # lines that are worth folding
_TAGS = {" ": "span", "-": "del", "+": "ins"}
_CLASSES = {" ": "line", "-": "line removed", "+": "line added"}


@dataclass(frozen=True)
class _Row:
    sign: str
    old: int | None  # the line's numbers in the file before and after, from 1
    new: int | None
    text: Markup
    hidden: bool = False


def diff(before: str, after: str, names: tuple[str, str], language: str = "cuda", words: str = "en") -> Markup:
    """The second file as a change of the first, at most LINES rows. `names` are what the files are called, `words` is
    the language of the site."""
    found = align(source_lines(before), source_lines(after))
    rows = list(islice(_rows(found, highlighted(before, language, words), highlighted(after, language, words)), LINES))
    changes = [stretch for stretch in found.stretches if not stretch.same]
    removed, added = sum(len(stretch.before) for stretch in changes), sum(len(stretch.after) for stretch in changes)
    head = Markup(
        '<p class="names"><span class="removed">\N{MINUS SIGN}{} {}</span> <span class="added">+{} {}</span></p>'
    ).format(removed, shown(names[0]), added, shown(names[1]))
    notes = Markup("").join(Markup('<p class="more">{}</p>').format(note) for note in _notes(found, words))
    return head + (_body(rows, words) if changes else Markup()) + notes


def _notes(found: Alignment, words: str) -> Iterator[str]:
    if all(stretch.same for stretch in found.stretches):
        yield word("none", words)
    if found.coarse:
        yield word("coarse", words)
    left = sum(len(part.before) + (0 if part.same else len(part.after)) for part in found.stretches) - LINES
    if left > 0:
        yield word("more_lines", words, count=left)


def _rows(found: Alignment, before: tuple[Markup, ...], after: tuple[Markup, ...]) -> Iterator[_Row]:
    last = len(found.stretches) - 1
    for place, stretch in enumerate(found.stretches):
        if stretch.same:
            hidden = _hidden(stretch, place == 0, place == last)
            for number, (i, j) in enumerate(zip(stretch.before, stretch.after, strict=True)):
                yield _Row(" ", i + 1, j + 1, after[j], number in hidden)
        else:
            yield from (_Row("-", i + 1, None, before[i]) for i in stretch.before)
            yield from (_Row("+", None, j + 1, after[j]) for j in stretch.after)


def _hidden(stretch: Stretch, first: bool, last: bool) -> range:
    """Which lines of an unchanged stretch are folded: those that no change is near."""
    start, stop = (0 if first else _AROUND), len(stretch.before) - (0 if last else _AROUND)
    return range(start, stop) if stop - start >= _FEWEST else range(0)


def _body(rows: list[_Row], words: str) -> Markup:
    width = max(len(str(number)) for row in rows for number in (row.old, row.new) if number)
    parts = [_part(list(group), hidden, width, words) for hidden, group in groupby(rows, lambda row: row.hidden)]
    head = Markup('<div class="code diff" tabindex="0" role="group" aria-label="{}">').format(word("difference", words))
    return head + Markup("").join(parts) + Markup("</div>")


def _part(rows: list[_Row], hidden: bool, width: int, words: str) -> Markup:
    lines = Markup("<pre><code>{}</code></pre>").format(_lines(rows, width))
    if not hidden:
        return lines
    about = word("one_same", words) if len(rows) == 1 else word("same", words, count=len(rows))
    return Markup("<details><summary>{}</summary>{}</details>").format(about, lines)


def _lines(rows: Iterable[_Row], width: int) -> Markup:
    line = Markup('<{0} class="{1}"><span class="number">{2} {3}</span><span class="sign"> {4} </span>{5}</{0}>')
    return Markup("\n").join(
        line.format(
            _TAGS[row.sign], _CLASSES[row.sign], _number(row.old, width), _number(row.new, width), row.sign, row.text
        )
        for row in rows
    )


def _number(number: int | None, width: int) -> str:
    return f"{'' if number is None else number:>{width}}"
