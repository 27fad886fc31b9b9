"""The judge's own kernels, run in the emulator, against NumPy and against harness/check.py."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from harness import cards, check
from harness.devices.driver import DriverError
from harness.disguise import Disguise
from harness.errors import JudgeError
from harness.measure import judge_kernels
from harness.measure.judge_kernels import KINDS, Figures, JudgeKernels, compile_judge_kernels
from tests.emulated_driver import EmulatedDriver

pytestmark = pytest.mark.usefixtures("quick_compiler")

CARD = dataclasses.replace(cards.get("H200"), sms=2, l2_bytes=4096)  # small, so that threads go round
POISON = 0x7FF31A25
BITS = {"float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16, "float8_e4m3": np.uint8, "int32": np.uint32}
SHAPES = [(2, 3, 5, 64), (3, 7, 16), (9, 13), (5, 1, 129), (2, 2, 3, 6), (301,)]


class Bench:
    """A small card with the kernels loaded."""

    def __init__(self) -> None:
        self.driver = EmulatedDriver()
        self.kernels = JudgeKernels(self.driver, CARD, compile_judge_kernels("sm_90a", "ptx"))

    def put(self, array: np.ndarray) -> int:
        array = np.ascontiguousarray(array)
        address = self.driver.allocate(array.nbytes)
        self.driver.upload(address, array)
        return address

    def tables(self, axes: Any) -> dict[int, int]:
        return {axis: self.put(values) for axis, values in axes.items()}

    def disguised(self, bits: np.ndarray, kind: str, gather: Any, scale: Any) -> np.ndarray:
        target = self.put(np.zeros_like(bits))
        self.kernels.disguise(target, self.put(bits), bits.shape, bits.itemsize, kind, self.tables(gather),
                              self.tables(scale))  # fmt: skip
        assert self.driver.wait(1)
        moved: np.ndarray = self.driver.download(target, bits.nbytes).view(bits.dtype).reshape(bits.shape)
        return moved

    def figures(self) -> Figures:
        (found,) = self.kernels.read_figures()
        assert self.driver.hazards == []
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def decode(bits: np.ndarray, kind: str) -> Any:
    """The float64 that the bits stand for."""
    if kind == "bfloat16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if kind == "float8_e4m3":
        magnitude = bits.astype(np.int64) & 0x7F
        exponent, fraction = magnitude >> 3, magnitude & 7
        value = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
        value = np.where(bits & 0x80, -value, value)
        return np.where(magnitude == 0x7F, np.nan, value)
    return bits.view({"float32": np.float32, "float16": np.float16}[kind]).astype(np.float64)


def encode(values: np.ndarray, kind: str) -> Any:
    """Bits of the nearest below in size, for random data only."""
    if kind == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind == "float8_e4m3":
        table = decode(np.arange(127, dtype=np.uint8), kind)
        return (np.searchsorted(table, np.abs(values), "right") - 1).astype(np.uint8) | (values < 0).astype(np.uint8) << 7
    return values.astype({"float32": np.float32, "float16": np.float16}[kind]).view(BITS[kind])


def random_axes(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[dict[int, Any], dict[int, Any]]:
    """(gather, scale) for some of the axes."""
    gather = {a: rng.permutation(n).astype(np.int32) for a, n in enumerate(shape) if rng.random() < 0.6}
    scale = {a: power_of_two(rng, n) for a, n in enumerate(shape) if rng.random() < 0.6}
    return gather, scale


def power_of_two(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.asarray(2.0 ** rng.integers(-1, 2, count) * rng.choice([-1, 1], count), np.float32)


# -- disguises


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float8_e4m3"])
def test_disguise_is_that_of_the_rule(bench: Bench, kind: str) -> None:
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        gather, scale = random_axes(rng, shape)
        scale = scale or {0: power_of_two(rng, shape[0])}
        # Sizes that neither overflow nor fall below the normal numbers of the narrowest type, whatever the factors.
        bits = encode(rng.choice([-1, 1], shape) * rng.uniform(0.5, 4.0, shape), kind)
        new = bench.disguised(bits, kind, gather, scale)
        rule = Disguise(gather={"x": gather}, scale={"x": scale})
        assert (decode(new, kind) == rule.applied("x", decode(bits, kind))).all(), (shape, list(gather), list(scale))


@pytest.mark.parametrize("kind", ["int32", "float16", "float8_e4m3"])
def test_a_disguise_without_factors_moves_bits(bench: Bench, kind: str) -> None:
    rng = np.random.default_rng(6)
    for shape in SHAPES:
        bits = rng.integers(0, 1 << 8 * KINDS[kind], shape, dtype=np.uint64).astype(BITS[kind])  # NaN among them
        for axes in (range(0), range(len(shape) - 1, len(shape)), range(len(shape))):
            gather = {a: rng.permutation(shape[a]).astype(np.int32) for a in axes}
            expected = Disguise(gather={"x": gather}).applied("x", bits)
            assert (bench.disguised(bits, kind, gather, {}) == expected).all()


def test_what_no_kernel_disguises(bench: Bench) -> None:
    bits = np.zeros((4, 4), np.uint32)
    with pytest.raises(ValueError, match="factors"):
        bench.disguised(bits, "int32", {}, {0: np.ones(4, np.float32)})
    with pytest.raises(ValueError, match="axes"):
        bench.disguised(bits, "float32", {2: np.arange(4, dtype=np.int32)}, {})
    with pytest.raises(ValueError, match="multiples of 16"):
        bench.kernels.disguise(bench.put(bits) + 4, bench.put(bits), (3, 4), 4, "float32", {}, {})


# -- comparison


def worst_of(errors: check.Errors, gather: Any, found: np.ndarray, expected: np.ndarray) -> Figures:
    """What harness/check.py says, as Figures."""
    rows = errors.limits.kind == "rows"
    a, b = errors.per_row.max(axis=0)
    return Figures(a, b, np.square(errors.distance).sum() if rows else 0.0, errors.row_ratios.max(),
                   int(errors.row_ratios.argmax()), int((~np.isfinite(found) & np.isfinite(expected)).sum()), 0)  # fmt: skip


def compared(bench: Bench, kind: str, check_kind: str, plain: np.ndarray, expected: np.ndarray, gather: Any,
             scale: Any) -> Figures:  # fmt: skip
    """Figures of an output whose undisguised bits are `plain`, compared under a disguise."""
    found = bench.put(bench.disguised(plain, kind, gather, scale))
    axes = bench.tables(gather), bench.tables(scale)
    if check_kind == "elements":
        bench.kernels.compare_elements(found, plain.shape, kind, bench.put(expected), *axes, poison=POISON)
    else:
        rms = bench.put(check.row_rms(expected))
        limits = check.FLOORS["float32"][:2]
        bench.kernels.compare_rows(found, plain.shape, kind, bench.put(expected), rms, *axes, limits, POISON)
    return bench.figures()


@pytest.mark.parametrize("check_kind", ["rows", "elements"])
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float8_e4m3"])
def test_figures_are_those_of_the_check(bench: Bench, kind: str, check_kind: str) -> None:
    rng = np.random.default_rng(7)
    for shape in SHAPES:
        gather, scale = random_axes(rng, shape)
        expected = rng.choice([-1, 1], shape) * rng.uniform(0.5, 4.0, shape)
        plain = encode(expected, kind)
        same(compared(bench, kind, check_kind, plain, expected, gather, scale), plain, expected, kind, check_kind)


@pytest.mark.parametrize("check_kind", ["rows", "elements"])
def test_figures_of_what_is_not_finite(bench: Bench, check_kind: str) -> None:
    """Found NaN and infinities, where the reference is finite and where it is infinite; rows that are zero."""
    rng = np.random.default_rng(8)
    shape = (6, 5, 32)
    gather, scale = {0: rng.permutation(6).astype(np.int32)}, {1: power_of_two(rng, 5), 2: power_of_two(rng, 32)}
    expected = rng.standard_normal(shape)
    expected[1] = 0
    for value in (np.nan, np.inf, -np.inf):
        found = expected.astype(np.float32)
        found[4, 2, 7] = value
        same(compared(bench, "float32", check_kind, found.view(np.uint32), expected, gather, scale),
             found.view(np.uint32), expected, "float32", check_kind)  # fmt: skip
    if check_kind == "elements":  # rows have no rms with an infinity
        for value in (np.inf, -np.inf, np.nan, 1.0):
            expected[4, 2, 7], found[4, 2, 7] = np.inf, value
            same(compared(bench, "float32", check_kind, found.view(np.uint32), expected, gather, scale),
                 found.view(np.uint32), expected, "float32", check_kind)  # fmt: skip


def test_a_tensor_that_is_zero_throughout(bench: Bench) -> None:
    zero = np.zeros((4, 16))
    found = np.zeros((4, 16), np.float32)
    same(compared(bench, "float32", "rows", found.view(np.uint32), zero, {}, {}), found.view(np.uint32), zero,
         "float32", "rows")  # fmt: skip
    found[2, 3] = 1e-30
    figures = compared(bench, "float32", "rows", found.view(np.uint32), zero, {}, {})
    assert (figures.worst_max, figures.worst_norm, figures.worst_row) == (np.inf, np.inf, 2)


def same(figures: Figures, plain: np.ndarray, expected: np.ndarray, kind: str, check_kind: str) -> None:
    """Figures are those of harness/check.py; sums of squares up to their order."""
    found = decode(plain, kind)
    limits = check.ErrorLimits(check_kind, check.FLOORS["float32"] if check_kind == "rows" else (1.0, 0.0, 0.0))
    with np.errstate(invalid="ignore"):
        errors = check.measure(found, expected, limits)
    wanted = worst_of(errors, {}, found, expected)
    assert figures.worst_max == wanted.worst_max
    assert figures.worst_row == wanted.worst_row
    assert (figures.nonfinite, figures.poisoned) == (wanted.nonfinite, 0)
    assert figures.worst_norm == pytest.approx(wanted.worst_norm, rel=1e-13)
    assert figures.square_sum == pytest.approx(wanted.square_sum, rel=1e-13)
    assert figures.ratio == pytest.approx(wanted.ratio, rel=1e-13)


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float8_e4m3"])
def test_elements_that_nobody_wrote_are_counted(bench: Bench, kind: str) -> None:
    shape, bits = (5, 24), encode(np.ones((5, 24)), kind)
    raw = bits.reshape(-1).view(np.uint8)
    raw[4 * 7 : 4 * 19] = np.full(12, POISON, np.uint32).view(np.uint8)
    expected = bench.put(np.ones(shape))
    bench.kernels.compare_rows(bench.put(bits), shape, kind, expected, bench.put(np.ones(5)), {}, {}, poison=POISON)
    bench.kernels.compare_elements(bench.put(bits), shape, kind, expected, {}, {}, poison=POISON)
    found = bench.kernels.read_figures()
    assert [f.poisoned for f in found] == [12 * 4 // bits.itemsize] * 2


def test_figures_repeat_to_the_bit_and_slots_are_emptied(bench: Bench) -> None:
    rng = np.random.default_rng(9)
    expected = rng.standard_normal((257, 33))
    found, reference, rms = bench.put(expected.astype(np.float32)), bench.put(expected), bench.put(np.ones(257))
    for _ in range(2):
        assert bench.kernels.compare_rows(found, (257, 33), "float32", reference, rms, {}, {}) == 0
        assert bench.kernels.compare_rows(found, (257, 33), "float32", reference, rms, {}, {}) == 1
        first, second = bench.kernels.read_figures()
        assert first == second and first.square_sum > 0
    assert bench.kernels.read_figures() == []


# -- fingerprints and counts


@pytest.mark.parametrize("nbytes", [1, 4, 15, 16, 36, 4096, 70_001])
def test_any_change_changes_the_fingerprint(bench: Bench, nbytes: int) -> None:
    rng = np.random.default_rng(nbytes)
    data = rng.integers(0, 256, nbytes, dtype=np.uint8)
    address, key = bench.put(data), 0x1234_5678_9ABC_DEF0
    bench.kernels.fingerprint(address, nbytes, key)
    bench.kernels.fingerprint(address, nbytes, key)
    bench.kernels.fingerprint(address, nbytes, key + 1)
    places = sorted({0, nbytes - 1, *rng.integers(0, nbytes, 6).tolist()})
    for place in places:
        bench.driver.upload(address + place, bytes([int(data[place]) ^ 0x80]))
        bench.kernels.fingerprint(address, nbytes, key)
        bench.driver.upload(address + place, bytes([int(data[place])]))
    first, again, other, *changed = bench.kernels.fingerprints()
    assert first == again
    assert len({first, other, *changed}) == 2 + len(places)
    assert bench.driver.hazards == []


def test_words_that_change_places_change_the_fingerprint(bench: Bench) -> None:
    data = np.arange(64, dtype=np.uint64)
    orders = [np.arange(64) for _ in range(4)]
    for order, pair in zip(orders[1:], ([4, 8], [5, 9], [4, 5]), strict=True):  # halves of 16 bytes, and both of one
        order[pair] = order[pair[::-1]]
    for order in orders:
        bench.kernels.fingerprint(bench.put(data[order]), data.nbytes, 7)
    assert len(set(bench.kernels.fingerprints())) == 4


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_differences_are_counted_in_words(bench: Bench, shift: int) -> None:
    rng = np.random.default_rng(11)
    pattern = rng.integers(0, 256, 64 * 1024 + 3, dtype=np.uint8)
    memory = np.concatenate([np.zeros(shift, np.uint8), pattern])
    changed = memory.copy()
    for word in (0, 1, 5000, 16384):  # the last has three bytes
        changed[shift + 4 * word + word % 3] ^= 1
    wanted = bench.put(pattern)
    bench.kernels.differences(bench.put(memory) + shift, wanted, pattern.size)
    bench.kernels.differences(bench.put(changed) + shift, wanted, pattern.size)
    bench.kernels.fingerprint(wanted, 64, 1)
    none, four, _ = bench.kernels.fingerprints()
    assert (none, four) == (0, 4)
    assert bench.kernels.fingerprints() == []


def test_slots_run_out_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_kernels, "COUNT_SLOTS", 2)
    small = Bench()
    address = small.put(np.zeros(4, np.uint32))
    small.kernels.fingerprint(address, 16, 1)
    small.kernels.differences(address, address, 16)
    with pytest.raises(JudgeError, match="more than 2 results"):
        small.kernels.fingerprint(address, 16, 1)


# -- the card's state


def test_a_flush_writes_and_then_reads_twice_the_cache(bench: Bench) -> None:
    before = {number: region.data.copy() for number, region in bench.driver.regions.items()}
    bench.kernels.flush()
    assert bench.driver.wait(1)
    assert [name for name, *_ in bench.driver.launches] == ["write_all", "read_all"]
    changed = [n for n, region in bench.driver.regions.items() if (region.data != before[n]).any()]
    (written,) = changed
    assert bench.driver.regions[written].data.size == 2 * CARD.l2_bytes
    assert not (bench.driver.regions[written].data == before[written]).all()


def test_shared_memory_is_poisoned_on_every_multiprocessor(bench: Bench) -> None:
    bench.kernels.poison_shared(POISON)
    assert bench.driver.wait(1)
    ((name, grid, _, shared, _),) = bench.driver.launches
    assert (name, shared) == ("poison_shared", CARD.shared_per_block_optin)
    assert grid[0] >= CARD.sms
    assert bench.driver.shared_limits[name] == shared


def test_holding_ends(bench: Bench) -> None:
    bench.kernels.hold(1e-5)
    assert bench.driver.wait(1)


# -- the driver


def test_closing_gives_everything_back() -> None:
    bench = Bench()
    bench.kernels.close()
    assert bench.driver.regions == {} and bench.driver.modules == []


def test_an_illegal_address_is_told_by_the_next_wait(bench: Bench) -> None:
    gone = bench.put(np.zeros(64, np.uint32))
    bench.driver.free(gone)
    bench.kernels.fingerprint(gone, 256, 1)
    with pytest.raises(DriverError, match="700"):
        bench.kernels.fingerprints()


def test_the_clock_goes_by_launches(bench: Bench) -> None:
    driver = bench.driver
    driver.durations["hold"] = 2e-3
    begin, end = driver.create_event(), driver.create_event()
    assert not driver.happened(begin)
    driver.record(begin)
    bench.kernels.hold(1e-6)
    bench.kernels.flush()
    driver.record(end)
    assert driver.elapsed(begin, end) == pytest.approx(2e-3 + 2 * driver.launch_seconds)
    assert not driver.happened(end)
    assert driver.wait(1.0) and driver.happened(end)


def test_machine_code_is_made_for_the_card() -> None:
    cubin = compile_judge_kernels("sm_90a")
    assert cubin[:4] == b"\x7fELF"
    assert b"compare_rows_float8_e4m3" in cubin
