"""A picture of one request in global memory: the warp's 32 lanes above the bytes they ask for, in sectors and lines.

Memory is one row: the lines of 128 bytes that the request touches, each of four sectors. What lies between lines that
are no neighbours is left out. A filled piece is asked for, a hatched sector is moved with it, an empty one stays where
it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from harness.report import request_words, svg
from harness.traces import WarpRequest
from harness.traffic import SECTOR_BYTES

LINE_BYTES = 128
_WIDTH = 480.0
_LEFT, _RIGHT = 6.0, 474.0
_LANE_TOP, _LANE = 16.0, 11.0  # the row of lanes; height of a lane
_MEMORY_TOP, _MEMORY = 84.0, 22.0
_HEIGHT = 140.0
_GAP = 6.0  # between lines that are no neighbours
_MOST_LABELS = 8  # of lines
_LABEL = 56.0  # width that the label of a line takes


def caption(r: WarpRequest) -> str:
    """The picture in one or two sentences."""
    return f"{request_words.place(r)}: {request_words.cost(r)}"


def draw(r: WarpRequest, name: str) -> Markup:
    """The picture as SVG. `name` is unique in the page."""
    memory = _Memory(r)
    drawn = [*memory.sectors(name), *memory.asked_for(), *memory.edges()]
    parts = [*_lanes(r), *_connections(r, memory), *drawn, *memory.labels(r)]
    said = f"{caption(r)} Shown is {request_words.who(r)}."
    return svg.picture(name, request_words.place(r), said, (_WIDTH, _HEIGHT), parts, "chart wide")


def _lane_at(lane: int) -> float:
    return _LEFT + (_RIGHT - _LEFT) * lane / 32


def _lanes(r: WarpRequest) -> Iterator[Markup]:
    width = (_RIGHT - _LEFT) / 32
    for lane, offset in enumerate(r.offsets):
        style = "lane-idle" if offset is None else f"lane-{lane // 8 % 2}"
        words = f"lane {lane}: " + ("takes no part" if offset is None else f"byte {offset}")
        yield svg.rectangle(_lane_at(lane) + 1, _LANE_TOP, width - 2, _LANE, style, words)
    for lane in (0, 7, 15, 23, 31):
        words = f"lane {lane}" if lane == 0 else str(lane)
        anchor = "start" if lane == 0 else "end" if lane == 31 else "middle"
        x = _LEFT if lane == 0 else _RIGHT if lane == 31 else _lane_at(lane) + width / 2
        yield svg.text(x, _LANE_TOP - 4, words, "tick", anchor)


class _Memory:
    """Where bytes are drawn."""

    def __init__(self, r: WarpRequest):
        self._r = r
        self.taking = [(lane, offset) for lane, offset in enumerate(r.offsets) if offset is not None]
        ends = [offset + r.lane_bytes - 1 for _, offset in self.taking]
        self.lines = sorted({byte // LINE_BYTES for byte in [*(o for _, o in self.taking), *ends]})
        breaks = sum(b != a + 1 for a, b in zip(self.lines, self.lines[1:], strict=False))
        room = _RIGHT - _LEFT - _GAP * breaks
        self._scale = min(room / len(self.lines), (_RIGHT - _LEFT) / 2) / LINE_BYTES
        x = _LEFT + (room - self._scale * LINE_BYTES * len(self.lines)) / 2
        self._starts: dict[int, float] = {}
        for k, line in enumerate(self.lines):
            x += _GAP * (k > 0 and line != self.lines[k - 1] + 1)
            self._starts[line] = x
            x += self._scale * LINE_BYTES

    def at(self, byte: int) -> float:
        line, inside = divmod(byte, LINE_BYTES)
        return self._starts[line] + self._scale * inside

    def sectors(self, name: str) -> Iterator[Markup]:
        moved = {b // SECTOR_BYTES for _, o in self.taking for b in (o, o + self._r.lane_bytes - 1)}
        width = self._scale * SECTOR_BYTES
        for line in self.lines:
            for sector in range(LINE_BYTES // SECTOR_BYTES):
                number = line * LINE_BYTES // SECTOR_BYTES + sector
                x = self.at(number * SECTOR_BYTES)
                if number in moved:
                    yield svg.rectangle(x, _MEMORY_TOP, width, _MEMORY, "moved", hatch=name)
                else:
                    yield svg.rectangle(x, _MEMORY_TOP, width, _MEMORY, "unmoved")

    def edges(self) -> Iterator[Markup]:
        """Of sectors and lines, above what is filled."""
        for line in self.lines:
            for sector in range(1, LINE_BYTES // SECTOR_BYTES):
                x = self.at(line * LINE_BYTES + sector * SECTOR_BYTES)
                yield svg.line(x, _MEMORY_TOP + 3, x, _MEMORY_TOP + _MEMORY - 3, "sector-edge")
            yield svg.rectangle(self._starts[line], _MEMORY_TOP, self._scale * LINE_BYTES, _MEMORY, "line-of-128")

    def asked_for(self) -> Iterator[Markup]:
        """Neighbours of one colour as one piece."""
        colours: dict[int, int] = {}
        for lane, offset in self.taking:
            colours.setdefault(offset, lane // 8 % 2)
        pieces: list[list[int]] = []  # start, end, colour
        for offset in sorted(colours):
            last = pieces[-1] if pieces else None
            if last and last[1] == offset and last[2] == colours[offset] and offset % LINE_BYTES:
                last[1] = offset + self._r.lane_bytes
            else:
                pieces.append([offset, offset + self._r.lane_bytes, colours[offset]])
        for start, end, colour in pieces:
            width = max(self._scale * (end - start), 1.5)
            yield svg.rectangle(self.at(start), _MEMORY_TOP + 3, width, _MEMORY - 6, f"lane-{colour}")

    def labels(self, r: WarpRequest) -> Iterator[Markup]:
        """Offsets of the lines that have room for one, and what the shapes mean."""
        y, last = _MEMORY_TOP + _MEMORY + 13, -_LABEL
        shown = self.lines if len(self.lines) <= _MOST_LABELS else [self.lines[0], self.lines[-1]]
        for line in shown:
            x = self._starts[line]
            end = x + _LABEL > _RIGHT
            x = x + self._scale * LINE_BYTES if end else x
            if (x - _LABEL if end else x) >= last:
                yield svg.text(x, y, f"+{line * LINE_BYTES}", "tick", "end" if end else "start")
                last = x if end else x + _LABEL
        lines = request_words.plural(len(self.lines), "line")
        words = f"{lines} of 128 bytes, {request_words.plural(r.units, 'sector')} moved, {r.ideal_units} at best"
        yield svg.text(_LEFT, _HEIGHT - 4, words, "label")


def _connections(r: WarpRequest, memory: _Memory) -> Iterator[Markup]:
    half = (_RIGHT - _LEFT) / 64
    for lane, offset in memory.taking:
        first, last = memory.at(offset), memory.at(offset + r.lane_bytes - 1)
        middle = (first + last) / 2 + (last - first) / max(2 * r.lane_bytes, 2)
        yield svg.line(_lane_at(lane) + half, _LANE_TOP + _LANE, middle, _MEMORY_TOP, f"link-{lane // 8 % 2}")
