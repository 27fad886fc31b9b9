"""Shared memory by scattered addresses, and one lane's access of it.

Words at any addresses, one a lane, are collected and judged as vectors. Everything else goes lane by lane: what the
floor settles is noted in place, all granules of a lane at once; the rest goes through shared_checks.py.
"""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access import clocks
from harness.emulator.access import shared_checks as checks
from harness.emulator.access.base import Needs, first_lane, need, reject, within
from harness.emulator.access.shared_memory import (
    Asked,
    Shared,
    granules_of,
    read_by_others,
    second_look,
    sites_of,
    uniform_load,
)
from harness.emulator.access.slow import Space, register
from harness.emulator.access.vectors import gather_where, missing, scatter_where, splat, splat_n, store_where
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, Context, Warp


def _gather(m: Needs, f: Fn, nbytes: int, store: bool, ordered: bool) -> None:
    """Scattered words, in bounds, aligned and without hazard, all lanes together."""
    if nbytes != 4 or ordered or m.granule != 4:
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
    q = Asked(f, s, 1, m.exact)

    def pointers(base: str) -> str:
        return f.let(f"getelementptr i32, ptr {base}, <32 x i32> {word}")

    def gather(base: str) -> str:
        return gather_where(f, 32, pointers(base), mask)

    def scatter(base: str, value: str, where: str) -> None:
        scatter_where(f, 32, value, pointers(base), where)

    settled, ask = f.new_label(), f.new_label()
    if not store:
        _few_words(m, f, s, offset)
        values, late, news, replaced = _look(m, f, s, q, offset)
    else:
        late = q.some(q.both(q.late(store, gather), mask))
    f(f"  br i1 {late}, label %{ask}, label %{settled}, !prof !0\n{ask}:")
    fine = second_look(q, s, store, gather)
    if store and m.exact:
        fine = q.both(fine, read_by_others(f, q, gather))
    f(f"  br i1 {f.let(f'icmp eq i32 {missing(f, fine)}, 0')}, label %{settled}, label %{lanes}\n{settled}:")
    if store:
        # Lanes that meet in one word leave one site there: the others see that it is not theirs.
        sites = sites_of(f, 1)
        scatter(s.winsn, sites, mask)
        apart = f.let(f"icmp eq <32 x i32> {gather(s.winsn)}, {sites}")
        f(f"  br i1 {f.let(f'icmp eq i32 {missing(f, apart)}, 0')}, label %{go}, label %{lanes}\n{go}:")
        scatter(s.wtag, mine, mask)
        scatter(s.memory, f.let("load <32 x i32>, ptr %res, align 4"), mask)
    else:
        store_where(f, LANES, 32, values, "%res", 4, mask)
        _note_scattered(m, f, s, news, replaced)
    f(f"  ret i1 true\n{lanes}:")


def _note_scattered(m: Needs, f: Fn, s: Shared, news: str, replaced: str) -> None:
    """Tell the shadow of scattered words that these lanes have read them."""

    def at(lane: str) -> str:
        return f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr %at_offsets, i32 {lane}')}")

    def replace(lane: str) -> None:
        site = f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {lane}")
        f(f"  store i32 {site}, ptr {f.let(f'getelementptr i8, ptr {s.rinsn}, i32 {at(lane)}')}")

    f.each_lane(replaced, replace)
    f.each_lane(news, lambda lane: _note_lane(m, f, s, f.let(f"lshr i32 {at(lane)}, 2"), lane, 1))


def _few_words(m: Needs, f: Fn, s: Shared, offset: str) -> None:
    """Return from here if the lanes read one word, or two: each is then read once for its lanes together."""
    words = []
    rest = "%mask"
    for _ in range(2):
        a = f.let(f"extractelement <32 x i32> {offset}, i32 {f.let(f'call i32 @llvm.cttz.i32(i32 {rest}, i1 true)')}")
        same = f.let(f"bitcast <32 x i1> {f.let(f'icmp eq <32 x i32> {offset}, ' + splat(f, a, 'i32'))} to i32")
        words.append((a, f.let(f"and i32 {rest}, {same}")))
        rest = f.let(f"and i32 {rest}, {f.let(f'xor i32 {same}, -1')}")
        some, none = f.new_label(), f.new_label()
        f(f"  br i1 {f.let(f'icmp eq i32 {rest}, 0')}, label %{none}, label %{some}\n{none}:")
        value = "zeroinitializer"
        for place, lanes in words:
            word = f.let(f"call i32 @{_word(m)}(ptr %ctx, ptr %warp, i32 {place}, i32 {lanes}, i32 %insn)")
            hit = f.let(f"bitcast i32 {lanes} to <32 x i1>")
            value = f.let(f"select <32 x i1> {hit}, <32 x i32> {splat(f, word, 'i32')}, <32 x i32> {value}")
        store_where(f, LANES, 32, value, "%res", 4, f.let("bitcast i32 %mask to <32 x i1>"))
        f(f"  ret i1 true\n{some}:")


def _word(m: Needs) -> str:
    """(ctx, warp, i32 byte offset, mask, insn) -> i32: a word that all of these lanes read."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal i32 @{name}(ptr %ctx, ptr %warp, i32 %a, i32 %mask, i32 %insn) noinline {{")
        f("entry:")
        s = Shared(f, m)
        uniform_load(m, f, s, s.granule_of(f, "%a"))
        f(f"  ret i32 {f.let('load i32, ptr ' + f.let(f'getelementptr i8, ptr {s.memory}, i32 %a'))}")
        return f.text()

    return need(m, "shared_word", build)


_AT_ONCE = 4  # lanes in a turn of the loop that collects scattered words


def _collect(f: Fn, offset: str, arrays: dict[str, str]) -> dict[str, str]:
    """What arrays of words have at the running lanes' byte offsets; idle lanes repeat the first of them. One by one:
    many processors take longer for a gather."""
    idle = splat(f, f.let(f"extractelement <32 x i32> {offset}, i32 {first_lane(f)}"), "i32")
    running = f.let("bitcast i32 %mask to <32 x i1>")
    safe = f.let(f"select <32 x i1> {running}, <32 x i32> {offset}, <32 x i32> {idle}")
    for name in ("offsets", *arrays):
        f.lines.insert(2, f"  %at_{name} = alloca <32 x i32>, align 128")
    f(f"  store <32 x i32> {safe}, ptr %at_offsets, align 128")

    def turn(k: str) -> None:
        start = f.let(f"mul i32 {k}, {_AT_ONCE}")
        for j in range(_AT_ONCE):
            lane = f.let(f"add i32 {start}, {j}") if j else start
            at = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr %at_offsets, i32 {lane}')}")
            for name, base in arrays.items():
                word = f.let(f"load i32, ptr {f.let(f'getelementptr i8, ptr {base}, i32 {at}')}")
                f(f"  store i32 {word}, ptr {f.let(f'getelementptr i32, ptr %at_{name}, i32 {lane}')}")

    f.repeat(str(LANES // _AT_ONCE), turn)
    return {name: f.let(f"load <32 x i32>, ptr %at_{name}, align 128") for name in arrays}


def _look(m: Needs, f: Fn, s: Shared, q: Asked, offset: str) -> tuple[str, str, str, str]:
    """Scattered words: (their values, whether the floor leaves any of them unsettled, the lanes of which the shadow
    must be told, and those of which only the site is to be replaced)."""
    arrays = {"memory": s.memory, "wtag": s.wtag, "rtag": s.rtag, "rinsn": s.rinsn}
    if m.exact:
        arrays["rclock"] = clocks.reads_of(f, "rclock", f.get("%warp", Warp, "number", constant=True))
    found = _collect(f, offset, arrays)
    late = q.some(q.late(False, lambda base: found["wtag"]))
    several = q.test("eq", found["rtag"], q.splat(f.let(f"or i32 {s.mine}, {L.SEVERAL_LANES}")))
    many = q.test("eq", found["rtag"], q.splat(f.let(f"or i32 {f.get('%ctx', Context, 'etag')}, {L.MANY_WARPS}")))
    again = q.both(q.test("eq", found["rtag"], q.splat(s.mine)), q.same_lane(found["rtag"], found["rinsn"]))
    known = q.both(q.both(several, many, "or"), again, "or")
    if m.exact:
        known = q.both(known, q.test("eq", found["rclock"], q.splat(s.mine)))
    other = q.both(again, q.test("ne", found["rinsn"], sites_of(f, 1)))
    replaced = f.let(f"and i32 {f.let(f'bitcast {q.b} {q.both(other, known)} to i32')}, %mask")
    return found["memory"], late, missing(f, known), replaced


# -- one lane


def _note_lane(m: Needs, f: Fn, s: Shared, g: str, lane: str, count: int) -> None:
    """Note that a lane has read `count` granules from g on."""
    t, q = f"<{count} x i32>", Asked(f, s, count, m.exact, lane)

    def at(base: str) -> str:
        return f.let(f"getelementptr i32, ptr {base}, i32 {g}")

    site = q.splat(f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {lane}"))
    if m.exact:
        number = f.get("%warp", Warp, "number", constant=True)
        for name, value in (("rclock", q.splat(s.mine)), ("rsite", site)):
            f(f"  store {t} {value}, ptr {at(clocks.reads_of(f, name, number))}, align 4")
    reader, at_tag, at_site = f.let(f"load {t}, ptr {at(s.rtag)}, align 4"), at(s.rtag), at(s.rinsn)
    many = q.splat(f.let(f"or i32 {f.get('%ctx', Context, 'etag')}, {L.MANY_WARPS}"))

    def note() -> None:
        old = f.let(f"load {t}, ptr {at_site}, align 4")
        tags, where = q.read_again(reader, old)
        f(f"  store {t} {tags}, ptr {at_tag}, align 4")
        f(f"  store {t} {f.let(f'select {q.b} {where}, {t} {site}, {t} {old}')}, ptr {at_site}, align 4")

    f.when(q.some(q.test("ne", reader, many)), note)


def lane_settled(m: Needs, f: Fn, s: Shared, g: str, lane: str, count: int, store: bool) -> str:
    """Whether one lane's access of `count` granules from g on is in order, as far as can be told at a glance."""
    t, q = f"<{count} x i32>", Asked(f, s, count, m.exact, lane)

    def load(base: str) -> str:
        return f.let(f"load {t}, ptr {f.let(f'getelementptr i32, ptr {base}, i32 {g}')}, align 4")

    late = q.some(q.late(store, load))
    here, ask, on = (f.new_label() for _ in range(3))
    f(f"  br label %{here}\n{here}:\n  br i1 {late}, label %{ask}, label %{on}, !prof !0\n{ask}:")
    ordered = second_look(q, s, store, load)
    if store and m.exact:
        ordered = q.both(ordered, read_by_others(f, q, load))
    fine = f.let(f"xor i1 {q.some(q.both(ordered, 'splat (i1 true)', 'xor'))}, true")
    asked = f.new_label()
    f(f"  br label %{asked}\n{asked}:\n  br label %{on}\n{on}:")
    return f.let(f"phi i1 [ true, %{here} ], [ {fine}, %{asked} ]")


def _lane(m: Needs, f: Fn, lane: str, a: str, places: list[str], nbytes: int, store: bool, ordered: bool) -> None:
    total = nbytes * len(places)
    s = Shared(f, m)
    size = f.let(f"zext i32 {s.size} to i64")
    reject(m, f, within(f, a, total, size, total, a), lane, a, total)
    first = s.granule_of(f, f.let(f"trunc i64 {a} to i32"))
    target = f.let(f"getelementptr i8, ptr {s.memory}, i64 {a}")
    if ordered:
        _check_lane(m, f, s, first, lane, target, places, nbytes, store, ordered)
    else:
        count = granules_of(m, total)
        at_once, one_by_one, on = (f.new_label() for _ in range(3))
        settled = lane_settled(m, f, s, first, lane, count, store)
        f(f"  br i1 {settled}, label %{at_once}, label %{one_by_one}, !prof !2\n{at_once}:")
        if store:
            mark_lane(f, s, first, lane, count, s.mine)
        else:
            _note_lane(m, f, s, first, lane, count)
        f(f"  br label %{on}\n{one_by_one}:")
        _check_lane(m, f, s, first, lane, target, places, nbytes, store, ordered)
        f(f"  br label %{on}\n{on}:")
    bits = 8 * nbytes
    for k, place in enumerate(places):
        p = f.let(f"getelementptr i8, ptr {target}, i64 {k * nbytes}") if k else target
        source, to = (place, p) if store else (p, place)
        f(f"  store i{bits} {f.let(f'load i{bits}, ptr {source}, align {nbytes}')}, ptr {to}, align {nbytes}")


def mark_lane(f: Fn, s: Shared, g: str, lane: str, count: int, tag: str) -> None:
    """A lane has written `count` granules from g on."""
    site = f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {lane}")
    for base, value in ((s.wtag, tag), (s.winsn, site)):
        at = f.let(f"getelementptr i32, ptr {base}, i32 {g}")
        f(f"  store <{count} x i32> {splat_n(f, value, count)}, ptr {at}, align 4")


def _check_lane(m: Needs, f: Fn, s: Shared, first: str, lane: str, target: str, places: list[str], nbytes: int,
                store: bool, ordered: bool) -> None:  # fmt: skip
    """Check one lane's access granule by granule, and note it."""
    for k in range(granules_of(m, nbytes * len(places))):
        g = f.let(f"add i32 {first}, {k}") if k else first
        operands = f"ptr %ctx, ptr %warp, i32 %insn, i32 {lane}, i1 true, i32 {g}"
        if ordered:
            f(f"  call void @{checks.strong(m)}({operands}, i1 {str(store).lower()}, i1 {str(not store).lower()})")
        elif store:
            differs = _lane_differs(m, f, target, places, nbytes, k)
            f(f"  call void @{checks.write(m)}({operands}, i1 {differs})")
        else:
            f(f"  call void @{checks.read(m)}({operands})")


def _lane_differs(m: Needs, f: Fn, target: str, places: list[str], nbytes: int, k: int) -> str:
    """Whether granule k of one lane's values differs from what memory has."""
    at = k * m.granule
    new = f.let(f"getelementptr i8, ptr {places[at // nbytes]}, i64 {at % nbytes}")
    old = f.let(f"getelementptr i8, ptr {target}, i64 {at}")
    unit = f"i{8 * m.granule}"
    a, b = (f.let(f"load {unit}, ptr {p}, align {m.granule}") for p in (new, old))
    return f.let(f"icmp ne {unit} {a}, {b}")


def shared_atomic(m: Needs, f: Fn, address: str, lane: str, nbytes: int) -> None:
    """Bounds, alignment and shadow of one lane's atomic at a byte offset (i64); the offset may carry a window above it.
    Leaves to %bad with the fault recorded where it is refused."""
    s = Shared(f, m)
    offset = f.let(f"and i64 {address}, {(1 << L.WINDOW_BITS) - 1}")
    size = f.let(f"zext i32 {s.size} to i64")
    reject(m, f, within(f, offset, nbytes, size, nbytes, offset), lane, offset, nbytes)
    f(f"  store ptr {f.let(f'getelementptr i8, ptr {s.memory}, i64 {offset}')}, ptr %place")
    first = s.granule_of(f, f.let(f"trunc i64 {offset} to i32"))
    for k in range(granules_of(m, nbytes)):
        g = f.let(f"add i32 {first}, {k}") if k else first
        operands = f"ptr %ctx, ptr %warp, i32 %insn, i32 {lane}, i1 true, i32 {g}, i1 true, i1 true"
        f(f"  call void @{checks.strong(m)}({operands})")


register("shared", Space(_lane, _gather))
