"""Drawings of traces: what they say in words, that they show what the records hold, and that they are sound SVG."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from markupsafe import Markup

from harness.report import access_picture, bank_picture, block_picture, html, traffic_bars, warp_pictures
from harness.results import CaseResult, CompileResult, Report
from harness.traces import BlockMap, CaseTrace, WarpRequest
from harness.traffic import AccessTraffic, CaseTraffic, LaunchTraffic, LineTraffic, SharedTraffic, TensorTraffic
from harness.verdict import Verdict

TEMPLATES = Path(html.__file__).parent / "templates"
HOSTILE = "</text><script>alert(1)</script>\x1b[31m\u202e"


def _request(*offsets: int | None, nbytes: int = 4, space: str = "global", start: int = 0) -> WarpRequest:
    full = tuple(offsets) + (None,) * (32 - len(offsets))
    return WarpRequest("k", "my.cu", 7, "a", space, "read", nbytes, (0, 1, 0), 2, full, start)


def _strided(step: int, nbytes: int = 4, space: str = "global", first: int = 0) -> WarpRequest:
    return _request(*(first + step * lane for lane in range(32)), nbytes=nbytes, space=space)


MAP = BlockMap(
    "k", "out", "write", (2, 2, 1), (4, 2, 8), 256, 64, 1, 32, 2, (1, 2, 1, 2, 3, 4, 0, 4), (1, 1, 1, 1, 1, 1, 0, 2)
)


def _classes(drawing: Markup) -> Counter[str]:
    """How many elements of each class; raises for what is no XML, or has a style of its own."""
    root = ET.fromstring(drawing)
    assert not any(e.get("style") or e.tag == "style" or e.tag == "script" for e in root.iter())
    title, description = root[0].text, root[1].text
    assert title and description and root.get("role") == "img"
    return Counter(name for e in root.iter() for name in (e.get("class") or "").split())


WORDS = [
    (_strided(4), "4 sectors for 128 bytes: coalesced."),
    (_strided(16, 16), "16 sectors for 512 bytes: coalesced."),
    (_strided(512), "32 sectors for 128 bytes: each lane moves a sector of its own; stride 512 B. 4 would do."),
    (_strided(0), "1 sector for 4 bytes: all lanes want the same 4 bytes, which are moved once."),
    (_strided(8), "8 sectors for 128 bytes: stride 8 B. 4 would do."),
    (_strided(-4, first=124), "4 sectors for 128 bytes: coalesced."),
    (_strided(4, first=4), "5 sectors for 128 bytes: the lanes lie side by side, but the first byte is no multiple of 32. "
                           "4 would do."),
    (_request(0, 4, 400, 4), "2 sectors for 12 bytes: the lanes' bytes are scattered. 1 would do. 4 of 32 lanes take part."),
    (_request(28), "1 sector for 4 bytes: the fewest. 1 of 32 lanes takes part."),
    (_request(28, 28), "1 sector for 4 bytes: these lanes want the same 4 bytes, which are moved once. "
                       "2 of 32 lanes take part."),
    (_strided(4, space="shared"), "1 pass: no bank conflict."),
    (_strided(0, space="shared"), "1 pass: all lanes want the same word, which is given to all at once."),
    (_strided(8, space="shared"), "2 passes instead of 1: a 2-way bank conflict; banks 0, 2, 4, 6, ... have 2 different "
                                  "words to give."),
    (_strided(128, space="shared"), "32 passes instead of 1: a 32-way bank conflict; bank 0 has 32 different words to give."),
    (_strided(32, space="shared"), "8 passes instead of 1: an 8-way bank conflict; banks 0, 8, 16, 24 have 8 different "
                                   "words to give."),
    (_strided(16, 16, space="shared"), "4 passes: no bank conflict."),
    (_request(0, 128, space="shared"), "2 passes instead of 1: a 2-way bank conflict; bank 0 has 2 different words to "
                                       "give. 2 of 32 lanes take part."),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "said"), WORDS)
def test_a_caption_says_what_a_request_costs_and_why(request_: WarpRequest, said: str) -> None:
    picture = warp_pictures.of_request(request_, "p")
    assert picture.caption == f"my.cu:7 reads a: {said}" and picture.line == 7
    description = ET.fromstring(picture.drawing)[1].text
    assert description is not None and description.startswith(picture.caption) and "block (0, 1, 0), warp 2" in description


@pytest.mark.parametrize(
    ("request_", "operation", "said"),
    [
        (_strided(0), "write", "1 sector for 4 bytes: all lanes write the same 4 bytes, which are moved once."),
        (_strided(0), "atomic", "1 sector for 4 bytes: the fewest. All lanes update the same place, one after the other."),
        (_request(*(4 * (lane % 2) for lane in range(32))), "atomic",
         "1 sector for 8 bytes: coalesced. Up to 16 lanes update the same place, one after the other."),
        (_strided(4), "atomic", "4 sectors for 128 bytes: coalesced."),
        (_strided(0, space="shared"), "write", "1 pass: no bank conflict."),
        (_request(8, 8, space="shared"), "atomic", "1 pass: no bank conflict. 2 of 32 lanes take part. These 2 lanes "
                                                   "update the same place, one after the other."),
        (_strided(8, space="shared"), "copy", "2 passes instead of 1: a 2-way bank conflict; banks 0, 2, 4, 6, ... have "
                                              "2 different words to take."),
    ],
)  # fmt: skip
def test_lanes_that_write_or_update_one_place_are_not_said_to_be_served_at_once(
    request_: WarpRequest, operation: str, said: str
) -> None:
    assert warp_pictures.of_request(replace(request_, operation=operation), "p").caption.endswith(f" a: {said}")


@pytest.mark.parametrize("step", [0, 4, 8, 60, 512, 4096])
@pytest.mark.parametrize("nbytes", [1, 4, 16])
def test_every_lane_is_drawn_and_every_sector_of_the_lines_that_it_touches(step: int, nbytes: int) -> None:
    r = _strided(step * nbytes // 4, nbytes)
    drawn = _classes(access_picture.draw(r, "p"))
    assert drawn["link-0"] == drawn["link-1"] == 16
    assert drawn["moved"] == r.units and drawn["moved"] + drawn["unmoved"] == 4 * drawn["line-of-128"]


def test_pieces_lie_within_the_memory_in_the_order_of_their_addresses() -> None:
    root = ET.fromstring(access_picture.draw(_strided(2052), "p"))
    xs = [float(e.get("x2") or "nan") for e in root.iter() if (e.get("class") or "").startswith("link")]
    assert xs == sorted(xs) and xs[0] > 0 and xs[-1] < 480


def test_lanes_that_take_no_part_are_drawn_hollow() -> None:
    assert _classes(access_picture.draw(_request(0, None, 4, None), "p"))["lane-idle"] == 30


@pytest.mark.parametrize(
    ("request_", "served", "conflicts"),
    [
        (_strided(4, space="shared"), 32, 0),
        (_strided(8, space="shared"), 0, 32),
        (_strided(0, space="shared"), 1, 0),
        (_strided(128, space="shared"), 0, 9),  # of 32 passes the first eight and the last
        (_strided(16, 16, space="shared"), 32, 0),
        (_request(0, 4, 128, space="shared"), 1, 2),
    ],
)
def test_a_bank_serves_each_word_in_a_pass_of_its_own(request_: WarpRequest, served: int, conflicts: int) -> None:
    drawn = _classes(bank_picture.draw(request_, "p"))
    assert (drawn["bank-served"], drawn["bank-conflict"]) == (served, conflicts)


def test_banks_count_from_where_shared_memory_starts() -> None:
    r = _request(0, 4, space="shared", start=120)
    titles = [e.text for e in ET.fromstring(bank_picture.draw(r, "p")).iter() if e.tag == "title"]
    assert titles[1:] == ["bank 30: lanes 0", "bank 31: lanes 1"]


def test_a_map_colours_cells_by_block_and_marks_those_of_none_and_of_several() -> None:
    drawn = _classes(block_picture.draw(MAP, "p"))
    assert drawn["untouched"] == 2 and drawn["several"] == 2  # each once in the legend
    assert {name for name in drawn if re.match(r"block-\d", name)} == {"block-0", "block-1", "block-2", "block-3"}
    assert block_picture.caption(MAP) == (
        "out [4, 2, 8], written by k, a grid of 4 blocks: blocks keep to parts of their own but for 1 of 7 cells; "
        "12 % of the cells are not written."
    )


def test_a_map_claims_no_more_than_its_cells_tell() -> None:
    """A block that shares all of its cells is in no record; a cell that was touched may be so in part only."""
    alone = replace(MAP, first=(1, 0, 1, 0, 3, 0, 0, 0), blocks=(1, 0, 1, 0, 1, 0, 0, 0))
    assert block_picture.title(alone) == "out [4, 2, 8], written by 2 blocks of k"
    one = replace(MAP, grid=(1, 1, 1), columns=500, first=(1,) + (0,) * 499, blocks=(1,) + (0,) * 499)
    assert block_picture.caption(one).endswith("by 1 block of k: the only block writes it; "
                                               "more than 99 % of the cells are not written.")  # fmt: skip


def test_a_map_of_what_most_blocks_share_is_coloured_by_their_number() -> None:
    shared = replace(MAP, operation="read", first=(1,) * 8, blocks=(4,) * 7 + (2,))
    drawn = _classes(block_picture.draw(shared, "p"))
    assert drawn["sharing-2"] and drawn["sharing-1"] and not any(name.startswith("block") for name in drawn)
    assert block_picture.caption(shared).endswith("a part is read by 3.75 blocks on average, by 4 at most.")
    assert block_picture.caption(replace(shared, blocks=(4,) * 8)).endswith(": each part is read by 4 blocks.")


def test_a_map_of_many_cells_stays_small() -> None:
    """Neighbours that look alike are one shape."""
    one = replace(MAP, grid=(1, 1, 1), columns=32, first=(1,) * 2048, blocks=(1,) * 2048)
    drawing = block_picture.draw(one, "p")
    assert _classes(drawing)["block-0"] == 64 + 1 and len(drawing) < 12_000


TRAFFIC = CaseTraffic(
    launches=(
        LaunchTraffic("k", 9, (1, 1, 1), (32, 1, 1), 0, 1, 1, True,
                      lines=(LineTraffic("my.cu", 4, "a", "read", 10, 1280, 320, 40),
                             LineTraffic("my.cu", 5, HOSTILE, "write", 10, 1280, 40, 40)),
                      shared=(SharedTraffic("my.cu", 6, "read", 4, 8, 4),)),
    ),
    tensors=(TensorTraffic("a", 2560, read=AccessTraffic(10, 0, 1280, 1280, 320, 40, 2560)),
             TensorTraffic(HOSTILE, 1280, write=AccessTraffic(10, 0, 1280, 1280, 40, 40, 1280))),
)  # fmt: skip


def test_bars_set_what_was_moved_against_the_least() -> None:
    lines, shared = traffic_bars.line_bars(TRAFFIC), traffic_bars.shared_bars(TRAFFIC)
    tensors = traffic_bars.tensor_bars(TRAFFIC)
    assert (lines[0].name, lines[0].amount, lines[0].ideal) == ("my.cu:4 reads a", 32, 4)
    assert [(b.name, b.amount, b.ideal) for b in shared] == [("my.cu:6 reads shared memory", 2, 1)]
    assert [(b.amount, b.ideal) for b in tensors] == [(10240, 2560), (1280, 1280)]
    assert [b.figure for b in tensors] == ["10.2 kB, 4.00x", "1.3 kB, 1.00x"]
    assert traffic_bars.caption(lines, "sectors a request") == (
        "Most sectors a request beyond the least: my.cu:4 reads a, 8.00 times as many."
    )
    assert traffic_bars.caption(lines[1:], "sectors a request") == "All sectors a request are at their least."
    drawn = _classes(traffic_bars.draw(lines, "p", "Lines", "sectors a request"))
    assert drawn["needed"] == drawn["full"] == 2
    assert traffic_bars.draw([], "p", "Lines", "sectors a request") == ""


def _case() -> CaseResult:
    request = replace(_strided(512), kernel=HOSTILE, tensor=HOSTILE, file=HOSTILE)
    trace = CaseTrace(
        (request, replace(_strided(8, space="shared"), tensor=HOSTILE)),
        (replace(MAP, tensor=HOSTILE, kernel=HOSTILE),), complete=False,
    )  # fmt: skip
    return CaseResult("c", Verdict.ACCEPTED, traffic=TRAFFIC, trace=trace)


def test_names_of_a_hostile_submission_stay_words() -> None:
    for k, picture in enumerate(warp_pictures.of_case(_case())):
        _classes(picture.drawing)
        assert "<script" not in picture.drawing and "\x1b" not in picture.drawing + picture.caption, k
        assert "\u202e" not in picture.drawing + picture.caption


def test_names_of_drawings_are_unique_in_a_page() -> None:
    pictures = warp_pictures.of_case(_case())
    names = re.findall(r' id="([^"]+)"', "".join(p.drawing for p in pictures))
    assert len(names) == len(set(names)) and [p.kind for p in pictures] == [
        "tensors", "lines", "passes", "request", "banks", "blocks",
    ]  # fmt: skip


def test_of_a_line_the_costliest_request_is_drawn_and_wasteful_lines_come_first() -> None:
    costly = replace(_strided(512), costliest=True)
    other = replace(_strided(8), line=3)
    clean = [replace(_strided(4, space="shared"), line=line) for line in (20, 21)]
    trace = CaseTrace((_strided(4), costly, other, *clean))
    assert warp_pictures.worth_drawing(trace) == [costly, other, clean[0]]


def _page(*cases: CaseResult) -> str:
    report = Report("p", "my.cu", "cpu", "float32", 1, Verdict.ACCEPTED, CompileResult(True), cases)
    return html.render(report, "", "judge.py p my.cu", "today")


def test_a_page_shows_the_traced_case_and_nothing_where_none_was() -> None:
    page = _page(CaseResult("b", Verdict.ACCEPTED, traffic=TRAFFIC), _case())
    assert page.count("<h2>What the warps did") == 1 and "in c, modelled" in page and "Up to where the run ended" in page
    assert "<script" not in page and "\x1b" not in page
    assert "What the warps did" not in _page(CaseResult("b", Verdict.ACCEPTED, traffic=TRAFFIC))


def test_every_class_that_a_drawing_uses_has_a_rule() -> None:
    style = html._environment().get_template("style.html.j2").render()
    used = {name for p in warp_pictures.of_case(_case()) for name in _classes(p.drawing)} - {"chart", "paper", "ink"}
    assert not {name for name in used if f".{name} " not in style and f".{name}," not in style}


def test_a_page_of_the_command_line_has_the_drawings(tmp_path: Path) -> None:
    page, root = tmp_path / "page.html", Path(__file__).resolve().parents[1]
    solution = root / "solutions/split_k_merge/01_naive.cu"
    command = [sys.executable, "judge.py", "--device", "cpu", "--cases", "two_splits", "--html", str(page)]
    done = subprocess.run([*command, "split_k_merge", str(solution)], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "What the warps did <small>in two_splits" in page.read_text()
