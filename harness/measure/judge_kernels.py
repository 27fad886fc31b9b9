"""The judge's own kernels (harness/measure/kernels) behind the driver seam: what happens on the card around a window.

Theory of operation. Every method queues a launch and returns at once. Those that find something out leave it in a slot
on the card; `fingerprints` and `read_figures` wait, read all slots filled since the last time, and empty them. Nothing
here measures time.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from harness.cards import Card
from harness.compile import cache
from harness.compile.nvrtc import nvrtc
from harness.devices.driver import Driver
from harness.errors import JudgeError

KINDS = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3": 1, "int32": 4}  # bytes of an element
COUNT_SLOTS = 1 << 16
FIGURE_SLOTS = 1 << 12
PATIENCE = 60.0  # seconds for everything that was queued
PerAxis = Mapping[int, int]  # axis -> device address

_OPTIONS = ("-std=c++17", "--fmad=false")  # figures are rounded as NumPy rounds them
_AXES = 4
_THREADS = 256  # of a block
_ROWS = _THREADS // 32  # a block's warps take a row each
_BLOCKS_PER_SM = 8
_LOCAL_BYTES = (1024, 8192, 32768)  # as compiled; the judge allows no submission more than the last
_LARGEST = 1 << 32  # number of units that the kernels' 32-bit divisions can take apart
_FIGURES = struct.Struct("<4d3Q")
_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Figures:
    """One output against its reference, in the figures of harness/check.py; NaN is the worst of all numbers."""

    worst_max: float  # A: max |e| / rms(row), worst row; for elements the worst |e| over what is allowed
    worst_norm: float  # B: sqrt(mean e^2) / rms(row), worst row; 0 for elements
    square_sum: float  # sum of e^2 over the tensor; 0 for elements
    ratio: float  # the worst of A and B over its limit
    worst_row: int  # number of the row, or element, with that ratio, in the undisguised order
    nonfinite: int  # elements that are not finite although the reference is
    poisoned: int  # elements in 4-byte words that still hold poison


def compile_judge_kernels(arch: str, form: str = "cubin") -> bytes:
    """The kernels as machine code for `arch`, as "sm_90a", or with form "ptx" as PTX for the emulator.

    They are kept on disk between runs. Raises UsageError where there is no compiler, JudgeError where it refuses.
    """
    folder = resources.files("harness.measure") / "kernels"
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.is_file()}
    everything = "\0".join(f"{name}\0{texts[name]}" for name in sorted(texts))
    key = cache.key(everything, "judge.cu", "", arch, form, *_OPTIONS)
    kept = cache.get(key)
    if kept is None:
        kept = _compile(texts, arch, form)
        cache.put(key, kept)
    return kept


def _compile(texts: Mapping[str, str], arch: str, form: str) -> bytes:
    compiler = nvrtc()
    headers = {name: text for name, text in texts.items() if name.endswith(".cuh")}
    options = [f"--gpu-architecture={arch}", *_OPTIONS, *(f"-I{path}" for path in compiler.toolkit.include)]
    output = compiler.compile(texts["judge.cu"], "judge.cu", headers, options, cubin=form == "cubin")
    if not output.ok:
        raise JudgeError(f"the judge's own kernels do not compile for {arch}: {output.log}")
    return output.cubin if form == "cubin" else output.ptx.encode()


class JudgeKernels:
    """The kernels on one card, with the memory that they need: four times its L2 cache, and the slots.

    Addresses are device addresses, sizes bytes. Tensors and tables start at multiples of 16. Methods raise ValueError
    for arguments that the kernels cannot take, JudgeError when all slots are taken, DriverError as the driver does."""

    def __init__(self, driver: Driver, card: Card, cubin: bytes):
        self._driver, self._card = driver, card
        self._module = driver.load(cubin)
        self._functions: dict[str, Any] = {}
        self._flushed = 2 * card.l2_bytes // 16 * 16
        self._memory = {
            "written": driver.allocate(self._flushed),
            "read": driver.allocate(self._flushed),
            "parts": driver.allocate(self._most_blocks * _FIGURES.size),
            "sink": driver.allocate(16),
        }
        driver.memset(self._memory["read"], 0, self._flushed)
        self._counts = _Slots(driver, COUNT_SLOTS, 8)
        self._figures = _Slots(driver, FIGURE_SLOTS, _FIGURES.size)
        driver.allow_shared(self._function("poison_shared"), card.shared_per_block_optin)

    def close(self) -> None:
        """Give the memory and the module back."""
        for address in self._memory.values():
            self._driver.free(address)
        self._counts.close()
        self._figures.close()
        self._driver.unload(self._module)

    # -- tensors

    def disguise(self, target: int, source: int, shape: Sequence[int], itemsize: int, kind: str, gather: PerAxis,
                 scale: PerAxis) -> None:  # fmt: skip
        """target = source under a disguise (harness/disguise.py). `shape`: one to four axes; `gather`: axis -> address
        of as many int32 as the axis is long, each inside it; `scale`: the same of float32; not for "int32"."""
        if KINDS.get(kind) != itemsize or (scale and kind == "int32"):
            raise ValueError(f"no disguise of {kind}, {itemsize} bytes an element, with factors for axes {list(scale)}")
        _check_aligned(target, source)
        change = _Change(shape, gather, scale)
        wide = change.shape[3] * itemsize % 16 == 0
        units = math.prod(shape) * itemsize // (16 if wide else itemsize)
        if units:
            name = f"{f'scale_{kind}' if scale else f'gather_{itemsize}'}_{'wide' if wide else 'single'}"
            self._launch(name, self._blocks(units), struct.pack("<3Q", target, source, _small(units)) + change.packed())

    def compare_rows(self, found: int, shape: Sequence[int], kind: str, expected: int, rms: int, gather: PerAxis,
                     scale: PerAxis, limits: tuple[float, float] = (1.0, 1.0), poison: int = 0) -> int:  # fmt: skip
        """Set an output against its float64 reference `expected` of the same shape; a row is the last axis.

        `rms`: float64 [rows], the floored rms of each row; both in the undisguised order. `gather` and `scale`: of the
        output's disguise; `limits`: LA and LB, which rank rows; `poison`: the word that outputs are filled with.
        Returns the number of its Figures in `read_figures`."""
        change = _Change(shape, gather, scale)
        rows = math.prod(change.shape[:3])
        blocks = self._blocks(rows, _ROWS)
        return self._compare(f"compare_rows_{kind}", blocks, found, expected, rms, limits, rows, change, poison)

    def compare_elements(self, found: int, shape: Sequence[int], kind: str, expected: int, gather: PerAxis,
                         scale: PerAxis, poison: int = 0) -> int:  # fmt: skip
        """The same for an output that is checked element by element."""
        change = _Change(shape, gather, scale)
        rows, blocks = math.prod(change.shape[:3]), self._blocks(math.prod(shape))
        return self._compare(f"compare_elements_{kind}", blocks, found, expected, 0, (1.0, 1.0), rows, change, poison)

    def _compare(self, name: str, blocks: int, found: int, expected: int, rms: int, limits: tuple[float, float],
                 rows: int, change: _Change, poison: int) -> int:  # fmt: skip
        _check_aligned(found)
        number, slot = self._figures.take()
        parts = self._memory["parts"]
        floored = [max(limit, 1e-300) for limit in limits]
        block = struct.pack("<4Q2dQ", found, expected, rms, parts, *floored, _small(rows))
        self._launch(name, blocks, block + change.packed() + struct.pack("<I4x", poison))
        self._launch("merge_figures", 1, struct.pack("<3Q", parts, blocks, slot))
        return number

    def read_figures(self) -> list[Figures]:
        """Wait, and take the figures of all comparisons since the last call, in their order."""
        return [Figures(*_FIGURES.unpack(data)) for data in self._figures.read(self._wait)]

    # -- counts

    def fingerprint(self, address: int, nbytes: int, key: int) -> int:
        """Queue a 64-bit fingerprint of memory under a secret key. Returns its number in `fingerprints`."""
        _check_aligned(address)
        number, slot = self._counts.take()
        secret, odd = _splitmix(key, 1), _splitmix(key, 2) | 1
        args = struct.pack("<5Q", address, nbytes, secret, odd, slot)
        self._launch("fingerprint", self._blocks(nbytes // 16 + 1), args)
        return number

    def differences(self, address: int, pattern_address: int, nbytes: int) -> int:
        """Queue the number of 4-byte words in which memory differs from a pattern; addresses need not be aligned.
        Returns its number in `fingerprints`."""
        number, slot = self._counts.take()
        args = struct.pack("<4Q", address, pattern_address, nbytes, slot)
        self._launch("differences", self._blocks(-(-nbytes // 4)), args)
        return number

    def fingerprints(self) -> list[int]:
        """Wait, and take the results of all fingerprints and differences since the last call, in their order."""
        return [int.from_bytes(data, "little") for data in self._counts.read(self._wait)]

    # -- the card's state

    def flush(self) -> None:
        """Drive everything out of the L2 cache: write twice its size, then read as much other memory, so that no line
        of ours is left that would be written back within the window."""
        units, memory = self._flushed // 16, self._memory
        self._launch("write_all", self._blocks(units), struct.pack("<2Q", memory["written"], units))
        args = struct.pack("<2QI4xQ", memory["read"], units, 1, memory["sink"])
        self._launch("read_all", self._blocks(units), args)

    def poison_shared(self, word: int) -> None:
        """Fill the shared memory of all multiprocessors. A block takes the whole of one; there are twice as many, so
        that none is left out where a block starts late."""
        nbytes = self._card.shared_per_block_optin // 4 * 4
        args = struct.pack("<2I", word, nbytes // 4)
        function = self._function("poison_shared")
        self._driver.launch(function, (2 * self._card.sms, 1, 1), (1024, 1, 1), nbytes, args)

    def poison_local(self, word: int, nbytes: int) -> None:
        """Fill the local memory of all threads that the card holds, at least `nbytes` of each."""
        size = next((size for size in _LOCAL_BYTES if size >= nbytes), _LOCAL_BYTES[-1])
        function = self._function(f"poison_local_{size}")
        blocks = 2 * self._card.sms * self._card.threads_per_sm // 1024
        args = struct.pack("<2IQ", word, 1, self._memory["sink"])
        self._driver.launch(function, (blocks, 1, 1), (1024, 1, 1), 0, args)

    def seal(self, target: int, source: int, nbytes: int, key: int) -> None:
        """target = source under a pad that follows from the key, word by word; sealing twice gives the source back.
        Of bytes beyond the last whole word nothing is taken."""
        args = struct.pack("<5Q", target, source, nbytes // 4, _splitmix(key, 1), _splitmix(key, 2) | 1)
        self._launch("seal", self._blocks(nbytes // 4), args)

    def hold(self, seconds: float) -> None:
        """Keep the card busy for so long, so that whatever is queued meanwhile follows without gaps."""
        function = self._function("hold")
        self._driver.launch(function, (1, 1, 1), (1, 1, 1), 0, struct.pack("<Q", round(seconds * 1e9)))

    # -- launching

    @property
    def _most_blocks(self) -> int:
        return self._card.sms * _BLOCKS_PER_SM

    def _blocks(self, items: int, per_block: int = _THREADS) -> int:
        """Blocks for so many items, at most as many as the card holds at once: they go round."""
        return max(1, min(-(-items // per_block), self._most_blocks))

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = self._driver.function(self._module, name)
        return self._functions[name]

    def _launch(self, name: str, blocks: int, args: bytes) -> None:
        self._driver.launch(self._function(name), (blocks, 1, 1), (_THREADS, 1, 1), 0, args)

    def _wait(self) -> None:
        if not self._driver.wait(PATIENCE):
            raise JudgeError(f"the judge's own kernels, or what they wait for, did not end within {PATIENCE:.0f} s")


class _Slots:
    """Places on the card for results, which are read together; empty ones are zero."""

    def __init__(self, driver: Driver, count: int, size: int):
        self._driver, self._count, self._size, self._used = driver, count, size, 0
        self._address = driver.allocate(count * size)
        driver.memset(self._address, 0, count * size)

    def take(self) -> tuple[int, int]:
        """(number, address) of the next one."""
        if self._used == self._count:
            raise JudgeError(f"more than {self._count} results are waiting to be read")
        self._used += 1
        return self._used - 1, self._address + (self._used - 1) * self._size

    def read(self, wait: Callable[[], None]) -> list[bytes]:
        """The contents of those taken, which are empty afterwards."""
        if not self._used:
            return []
        wait()
        nbytes, self._used = self._used * self._size, 0
        data = self._driver.download(self._address, nbytes).tobytes()
        self._driver.memset(self._address, 0, nbytes)
        return [data[at : at + self._size] for at in range(0, nbytes, self._size)]

    def close(self) -> None:
        self._driver.free(self._address)


class _Change:
    """A disguise of a tensor, with axes of length one in front so that there are four."""

    def __init__(self, shape: Sequence[int], gather: PerAxis, scale: PerAxis):
        if not 1 <= len(shape) <= _AXES or not all(0 <= axis < len(shape) for axis in (*gather, *scale)):
            raise ValueError(f"no disguise of shape {tuple(shape)} along axes {sorted({*gather, *scale})}")
        _check_aligned(*gather.values(), *scale.values())
        self._added = _AXES - len(shape)
        self.shape = (1,) * self._added + tuple(shape)
        self._gather, self._scale = gather, scale

    def packed(self) -> bytes:
        """The kernels' `Change`."""
        axes = [axis - self._added for axis in range(_AXES)]
        addresses = [table.get(axis, 0) for table in (self._gather, self._scale) for axis in axes]
        return struct.pack("<8Q4I", *addresses, *self.shape)


def _check_aligned(*addresses: int) -> None:
    if any(address % 16 for address in addresses):
        raise ValueError(f"tensors and tables start at multiples of 16 bytes, not at {', '.join(map(hex, addresses))}")


def _small(units: int) -> int:
    if units >= _LARGEST:
        raise ValueError(f"a tensor of {units} rows or units is too large for the judge's kernels")
    return units


def _splitmix(seed: int, number: int) -> int:
    """The so many-th output of the generator splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
    Generators, OOPSLA 2014)."""
    x = (seed + number * 0x9E3779B97F4A7C15) & _WORD
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _WORD
    return x ^ x >> 31
