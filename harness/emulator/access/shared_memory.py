"""Shared memory and its shadow: who wrote and who read each word, and in which epoch (layout.py: tags).

Two accesses of one word by different warps, at least one of them a write, with no completed barrier between them,
are a race. A word never written by this block has a tag below Context.start_tag.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.emulator import layout as L
from harness.emulator.access.base import (
    Needs,
    copy_elements,
    fault,
    first_lane,
    give,
    hazard,
    inlined,
    reject,
    values_type,
    within,
)
from harness.emulator.access.slow import SLOW_OPERANDS, Space, register, slow
from harness.emulator.access.vectors import (
    consecutive_lanes,
    gather_where,
    iota,
    lane_mask,
    load_where,
    masked_load,
    masked_store,
    missing,
    results,
    scatter_where,
    span_of,
    splat,
    splat_n,
    store_where,
)
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, Context, Warp


class Shared:
    """The block's shared memory, its shadow arrays and the current tags."""

    def __init__(self, f: Fn, m: Needs):
        def pointer(name: str) -> str:
            return f.get("%ctx", Context, name, pointer=True, constant=True)

        self.memory, self.wtag, self.winsn = pointer("shared"), pointer("wtag"), pointer("winsn")
        self.rtag, self.rinsn = pointer("rtag"), pointer("rinsn")
        self.size = f.let(f"trunc i64 {f.get('%ctx', Context, 'shared_bytes', constant=True)} to i32")
        self.epoch = f.get("%ctx", Context, "etag", constant=not m.fenced)
        self.start = f.get("%ctx", Context, "start_tag", constant=True)
        self.mine = f.let(f"add i32 {self.epoch}, {f.get('%warp', Warp, 'number', constant=True)}")
        self.many = f.let(f"add i32 {self.epoch}, {L.TAG_MANY}")


def ordered_tag(f: Fn, s: Shared, tag: str, width: int = 0) -> str:
    """Whether the tagged access is ordered before this one: an earlier epoch, or this warp."""
    t = f"<{width} x i32>" if width else "i32"
    epoch = s.epoch if not width else splat_n(f, s.epoch, width)
    mine = s.mine if not width else splat_n(f, s.mine, width)
    b = f"<{width} x i1>" if width else "i1"
    return f.let(f"or {b} {f.let(f'icmp ult {t} {tag}, {epoch}')}, {f.let(f'icmp eq {t} {tag}, {mine}')}")


def shared_u(m: Needs, name: str, nbytes: int, n: int, store: bool, ordered: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    kind = "i1" if store else values_type(bits, n, vector=False)
    operands = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    f = Fn(
        f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i32 %a{operands}, i32 %mask, i32 %insn) {inlined(m)} {{"
    )
    f("entry:")
    s = Shared(f, m)
    ok = within(f, "%a", total, s.size, total, "%a", "i32")
    f(f"  br i1 {ok}, label %good, label %bad, !prof !2\nbad:")
    fault(m, f, first_lane(f), f.let("zext i32 %a to i64"), total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    p = f.let(f"getelementptr i8, ptr {s.memory}, i32 %a")
    places = [p] + [f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}") for k in range(1, n)]
    if store:
        for w in range(max(1, total // 4)):
            _shared_word(m, f, s, "%a", w, None, lambda w=w: _word_of(f, bits, w), total < 4, ordered)  # type: ignore[misc]
        for k, q in enumerate(places):
            f(f"  store i{bits} %v{k}, ptr {q}, align {nbytes}")
        f("  ret i1 true")
        return f.text()
    values = [f.let(f"load i{bits}, ptr {q}, align {nbytes}") for q in places]
    for w in range(max(1, total // 4)):
        _shared_word(m, f, s, "%a", w, None, None, total < 4, ordered)
    give(f, kind, values, [f"i{bits}"] * n, "true")
    return f.text()


def _word_of(f: Fn, bits: int, w: int) -> str:
    """Word w of the scalar values %v0, %v1, ... of `bits` bits each."""
    if bits == 32:
        return f"%v{w}"
    value = f"%v{w // 2}"
    if w % 2:
        value = f.let(f"lshr i64 {value}, 32")
    return f.let(f"trunc i64 {value} to i32")


def shared_v(m: Needs, name: str, nbytes: int, n: int, store: bool, ordered: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    vt = f"<{LANES} x i{bits}>"
    kind = "i1" if store else values_type(bits, n, vector=True)
    operands = "".join(f", {vt} %v{k}" for k in range(n)) if store else ""
    f = Fn(
        f"define internal {kind} @{name}(ptr %ctx, ptr %warp, <32 x i32> %a{operands}, "
        f"i32 %mask, i32 %insn, ptr %res) {inlined(m)} {{"
    )
    f("entry:")
    if total >= 4 and not ordered:
        first, start, consecutive = consecutive_lanes(f, "%a", "i32", total)
        f(f"  br i1 {consecutive}, label %line, label %slow, !prof !2\nline:")
        s = Shared(f, m)
        a0 = f.let(f"extractelement <32 x i32> %a, i32 {first}")
        ok = within(f, a0, span_of(f, first, total, "i32"), s.size, total, a0, "i32")
        f(f"  br i1 {ok}, label %inside, label %slow, !prof !2\ninside:")
        clean = _shared_line(f, s, start, total // 4, store)
        f(f"  br i1 {clean}, label %good, label %slow, !prof !2\ngood:")
        p = f.let(f"getelementptr i8, ptr {s.memory}, i32 {start}")
        if store:
            masked_store(f, p, [f"%v{k}" for k in range(n)], bits, total)
            f("  ret i1 true\nslow:")
        else:
            give(f, kind, masked_load(f, p, bits, n, total), [vt] * n, "true")
            f("slow:")
    wide = f.let("zext <32 x i32> %a to <32 x i64>")
    if store:
        for k in range(n):
            f(f"  store {vt} %v{k}, ptr {f.let(f'getelementptr i8, ptr %res, i64 {k * LANES * nbytes}')}, align 4")
    done = f.let(f"call i1 @{slow(m, 'shared', nbytes, n, store, ordered)}({SLOW_OPERANDS.format(address=wide)})")
    if store:
        f(f"  ret i1 {done}")
    else:
        give(f, kind, results(f, bits, n), [vt] * n, done)
    return f.text()


def _shared_line(f: Fn, s: Shared, start: str, words: int, store: bool) -> str:
    """Shadow of consecutive words: whether all is well; updated if so."""
    width = LANES * words
    t = f"<{width} x i32>"
    mask = lane_mask(f, words)
    word = f.let(f"ashr i32 {start}, 2")

    def at(base: str) -> str:
        return f.let(f"getelementptr i32, ptr {base}, i32 {word}")

    def load(p: str) -> str:
        return load_where(f, width, 32, p, 4, mask, splat_n(f, s.mine, width))

    def save(p: str, value: str, where: str) -> None:
        store_where(f, width, 32, value, p, 4, where)

    def stamp() -> str:
        insn = splat_n(f, f.let("shl i32 %insn, 5"), width)
        return f.let(f"or {t} {insn}, {iota('i32', 1, words, width)}")

    writer, reader = load(at(s.wtag)), load(at(s.rtag))
    fine = ordered_tag(f, s, writer, width)
    if store:
        fine = f.let(f"and <{width} x i1> {fine}, {ordered_tag(f, s, reader, width)}")
    else:
        fine = f.let(f"and <{width} x i1> {fine}, {f.let(f'icmp uge {t} {writer}, {splat_n(f, s.start, width)}')}")
    clean = f.let(f"icmp eq i{width} {f.let(f'bitcast <{width} x i1> {fine} to i{width}')}, -1")

    def update() -> None:
        if store:
            save(at(s.wtag), splat_n(f, s.mine, width), mask)
            save(at(s.winsn), stamp(), mask)
            return
        fresh = f.let(f"icmp ult {t} {reader}, {splat_n(f, s.epoch, width)}")
        ours = f.let(f"or <{width} x i1> {fresh}, {f.let(f'icmp eq {t} {reader}, {splat_n(f, s.mine, width)}')}")
        save(
            at(s.rtag),
            f.let(f"select <{width} x i1> {ours}, {t} {splat_n(f, s.mine, width)}, {t} {splat_n(f, s.many, width)}"),
            mask,
        )
        save(at(s.rinsn), stamp(), f.let(f"and <{width} x i1> {mask}, {fresh}"))

    f.when(clean, update, likely=True)
    return clean


def _shared_word(m: Needs, f: Fn, s: Shared, offset: str, w: int, lane: str | None, new: Callable[[], str] | None,
                 part: bool, ordered: bool) -> None:  # fmt: skip
    """Check and update the shadow of one word at byte offset + 4 w; `new` gives the word to be stored, None for a load.

    Part-word accesses and ordered (volatile, atomic) ones take no part in the search for races, since a word's tag
    cannot tell its bytes apart. Two warps that store the same value are not reported: the result is the same."""
    store = new is not None
    index = f.let(f"lshr i32 {offset}, 2")
    if w:
        index = f.let(f"add i32 {index}, {w}")
    wp = f.let(f"getelementptr i32, ptr {s.wtag}, i32 {index}")
    rp = f.let(f"getelementptr i32, ptr {s.rtag}, i32 {index}")
    writer = f.let(f"load i32, ptr {wp}")

    def who() -> str:
        return lane if lane is not None else first_lane(f)

    def place() -> str:
        return f.let(f"zext i32 {f.let(f'shl i32 {index}, 2')} to i64")

    def other(base: str) -> str:
        return f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {base}, i32 {index}')}")

    def stamp() -> str:
        return f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {who()}")

    if part or ordered:
        unset = f.let(f"icmp ult i32 {writer}, {s.start}")
        if store:
            f(f"  store i32 {f.let(f'select i1 {unset}, i32 {s.start}, i32 {writer}')}, ptr {wp}")
        else:
            f.when(unset, lambda: hazard(m, f, L.H_UNINIT_SHARED, who(), place()), likely=False)
        return
    reader = f.let(f"load i32, ptr {rp}")
    w_ok, r_ok = ordered_tag(f, s, writer), None
    if store:
        r_ok = ordered_tag(f, s, reader)
        assert new is not None
        word, old = new(), f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {s.memory}, i32 {index}')}, align 4")
        clash = f.let(f"and i1 {f.let(f'xor i1 {w_ok}, true')}, {f.let(f'icmp ne i32 {word}, {old}')}")
        f.when(clash, lambda: hazard(m, f, L.H_RACE_WRITE, who(), place(), writer, other(s.winsn)), likely=False)
        f.when(
            f.let(f"xor i1 {r_ok}, true"),
            lambda: hazard(m, f, L.H_RACE_READ, who(), place(), reader, other(s.rinsn)),
            likely=False,
        )
        f(f"  store i32 {s.mine}, ptr {wp}")
        f(f"  store i32 {stamp()}, ptr {f.let(f'getelementptr i32, ptr {s.winsn}, i32 {index}')}")
        return
    unset = f.let(f"icmp ult i32 {writer}, {s.start}")
    bad = f.let(f"or i1 {unset}, {f.let(f'xor i1 {w_ok}, true')}")

    def report() -> None:
        kind = f.let(f"select i1 {unset}, i32 {L.H_UNINIT_SHARED}, i32 {L.H_RACE_WRITE}")
        hazard(m, f, kind, who(), place(), writer, other(s.winsn))

    f.when(bad, report, likely=False)

    def note_reader() -> None:
        old = f.let(f"icmp ult i32 {reader}, {s.epoch}")
        f(f"  store i32 {f.let(f'select i1 {old}, i32 {s.mine}, i32 {s.many}')}, ptr {rp}")
        rip = f.let(f"getelementptr i32, ptr {s.rinsn}, i32 {index}")
        f.when(old, lambda: f(f"  store i32 {stamp()}, ptr {rip}"))

    f.when(f.let(f"icmp ne i32 {reader}, {s.mine}"), note_reader)


def _shared_gather(m: Needs, f: Fn, nbytes: int, store: bool, ordered: bool) -> None:
    """Scattered words, in bounds, aligned and without hazard: gathers (and scatters for a store)."""
    if nbytes != 4 or ordered:
        return
    s = Shared(f, m)
    offset = f.let("trunc <32 x i64> %a to <32 x i32>")
    roomy = f.let(f"icmp uge i32 {s.size}, 4")
    check, tags, go, lanes = (f.new_label() for _ in range(4))
    f(f"  br i1 {roomy}, label %{check}, label %{lanes}\n{check}:")
    limit = splat(f, f.let(f"sub i32 {s.size}, 3"), "i32")
    inside = f.let(f"icmp ult <32 x i32> {offset}, {limit}")
    low = f.let(f"and <32 x i32> {offset}, splat (i32 3)")
    fine = f.let(f"and <32 x i1> {inside}, {f.let(f'icmp eq <32 x i32> {low}, zeroinitializer')}")
    f(f"  br i1 {f.let(f'icmp eq i32 {missing(f, fine)}, 0')}, label %{tags}, label %{lanes}\n{tags}:")
    mask, mine = f.let("bitcast i32 %mask to <32 x i1>"), splat(f, s.mine, "i32")
    word = f.let(f"lshr <32 x i32> {offset}, splat (i32 2)")

    def pointers(base: str) -> str:
        return f.let(f"getelementptr i32, ptr {base}, <32 x i32> {word}")

    def gather(base: str) -> str:
        return gather_where(f, 32, pointers(base), mask, mine)

    def scatter(base: str, value: str, where: str) -> None:
        scatter_where(f, 32, value, pointers(base), where)

    def stamp() -> str:
        return f.let(f"or <32 x i32> {splat(f, f.let('shl i32 %insn, 5'), 'i32')}, {iota('i32')}")

    writer, reader = gather(s.wtag), gather(s.rtag)
    fine = ordered_tag(f, s, writer, LANES)
    also = ordered_tag(f, s, reader, LANES) if store else _written(f, s, writer)
    fine = f.let(f"and <32 x i1> {fine}, {also}")
    f(f"  br i1 {f.let(f'icmp eq i32 {missing(f, fine)}, 0')}, label %{go}, label %{lanes}\n{go}:")
    if store:
        scatter(s.wtag, mine, mask)
        scatter(s.winsn, stamp(), mask)
        scatter(s.memory, f.let("load <32 x i32>, ptr %res, align 4"), mask)
    else:
        store_where(f, LANES, 32, gather(s.memory), "%res", 4, mask)
        same = f.let(f"icmp eq <32 x i32> {reader}, {mine}")
        news = missing(f, same)

        def update() -> None:
            fresh = f.let(f"icmp ult <32 x i32> {reader}, {splat(f, s.epoch, 'i32')}")
            ours = f.let(f"or <32 x i1> {fresh}, {same}")
            many = splat(f, s.many, "i32")
            scatter(s.rtag, f.let(f"select <32 x i1> {ours}, <32 x i32> {mine}, <32 x i32> {many}"), mask)
            scatter(s.rinsn, stamp(), f.let(f"and <32 x i1> {mask}, {fresh}"))

        f.when(f.let(f"icmp ne i32 {news}, 0"), update)
    f(f"  ret i1 true\n{lanes}:")


def _written(f: Fn, s: Shared, writer: str) -> str:
    """Which of 32 words some thread of this block has written."""
    return f.let(f"icmp uge <32 x i32> {writer}, {splat(f, s.start, 'i32')}")


def _shared_lane(
    m: Needs, f: Fn, lane: str, a: str, places: list[str], nbytes: int, store: bool, ordered: bool
) -> None:
    total = nbytes * len(places)
    s = Shared(f, m)
    size = f.let(f"zext i32 {s.size} to i64")
    reject(m, f, within(f, a, total, size, total, a), lane, a, total)
    offset = f.let(f"trunc i64 {a} to i32")
    for w in range(max(1, total // 4)):
        source = places[w * 4 // nbytes]
        if nbytes == 8 and w % 2:
            source = f.let(f"getelementptr i8, ptr {source}, i64 4")
        new = (lambda source=source: f.let(f"load i32, ptr {source}, align 4")) if store else None
        _shared_word(m, f, s, offset, w, lane, new, total < 4, ordered)
    copy_elements(f, f.let(f"getelementptr i8, ptr {s.memory}, i64 {a}"), places, nbytes, store)


register("shared", Space(_shared_lane, _shared_gather))
