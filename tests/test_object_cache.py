"""Native code kept between runs is found again where it is the same, and never serves, or breaks, anything else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from harness import object_cache, problem
from harness.compile import cache
from harness.emulator import jit, objects, ptx
from harness.emulator.launch import shape_of
from harness.emulator.program import Program
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.results import Report
from harness.sandbox import codec
from harness.sandbox.frames import Frame, FrameError
from harness.submission import load
from harness.verdict import Verdict
from tests import emulator_kit
from tests.fake_toolchain import OBJECT

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "__global__ void k(float* a) { int i = threadIdx.x; a[i] = i < 5 ? 2 * a[i] : a[i] + 1; }"
NAME = "0" * 64


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache.directory()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> objects.ObjectStore:
    """A store of this test's own, in place of the process's."""
    store = objects.ObjectStore()
    monkeypatch.setattr(jit, "STORE", store)
    return store


@pytest.fixture
def compiled_here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many objects each judging has compiled."""
    counts: list[int] = []
    keep = object_cache.keep

    def count(text: str, fresh: dict[str, bytes]) -> None:
        counts.append(len(fresh))
        keep(text, fresh)

    monkeypatch.setattr(object_cache, "keep", count)
    return counts


def _judge(**changes: object) -> Report:
    """One case of a small submission, judged for real."""
    options = Options(seed=1, device="cpu", cases="one_split", **changes)  # type: ignore[arg-type]
    source = load(ROOT / "solutions/split_k_merge/01_naive.cu")
    (last,) = (e for e in judge(problem.load("split_k_merge"), source, options) if isinstance(e, Finished))
    return last.report


def _entry_of_objects(folder: Path) -> Path:
    """The entry that is not of PTX."""
    (entry,) = (path for path in folder.iterdir() if not path.read_bytes()[32:].startswith(b"{"))
    return entry


# -- whole judgings


def test_a_file_judged_again_compiles_nothing(compiled_here: list[int]) -> None:
    verdicts = [_judge().verdict for _ in range(2)]
    assert verdicts == [Verdict.ACCEPTED] * 2
    assert compiled_here == [2, 0]  # solve() and one kernel


def test_without_a_cache_nothing_is_kept(folder: Path, compiled_here: list[int]) -> None:
    assert _judge(cache=False).verdict is Verdict.ACCEPTED
    assert compiled_here == []
    assert not folder.exists()


def _garbled(data: bytes) -> bytes:
    return data[:2000] + bytes(100) + data[2100:]


def _rubbish(data: bytes) -> bytes:
    """A whole entry whose objects are none."""
    return _sealed(object_cache._pack(dict.fromkeys(object_cache._unpack(data[32:]), OBJECT)))


def _sealed(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest() + payload


@pytest.mark.parametrize("damage", [lambda data: data[:-1], _garbled, lambda data: b"", _rubbish])
def test_a_damaged_entry_is_made_anew(
    folder: Path, compiled_here: list[int], damage: Callable[[bytes], bytes]
) -> None:
    _judge()
    entry = _entry_of_objects(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert _judge().verdict is Verdict.ACCEPTED
    assert compiled_here == [2, 2]
    assert sorted(object_cache._unpack(entry.read_bytes()[32:])) == sorted(object_cache._unpack(whole[32:]))
    _judge()
    assert compiled_here == [2, 2, 0]


def test_two_judges_at_once(compiled_here: list[int]) -> None:
    reports: list[Report] = []
    threads = [threading.Thread(target=lambda: reports.append(_judge())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.verdict for report in reports] == [Verdict.ACCEPTED] * 2
    assert (_judge().verdict, compiled_here[-1]) == (Verdict.ACCEPTED, 0)


# -- the child, with a device that only says what it knows


@pytest.mark.usefixtures("nothing_left")
class TestChild:
    """`report_of` judges the source's orders; the PTX is the source."""

    def test_what_a_child_has_made_comes_to_the_next(self, report_of: Callable[..., Report]) -> None:
        text = "@run know\n@run compile"
        said = [report_of(text, cache=True, cases="one").cases[0].stdout for _ in range(2)]
        assert said == ["known: False\n", "known: True\n"]
        assert report_of(text + "\n", cache=True, cases="one").cases[0].stdout == "known: False\n"

    def test_a_child_that_died_is_not_given_them_again(self, report_of: Callable[..., Report]) -> None:
        text = "@run know\n@run compile@1\n@run crash@2"
        for known in (False, True):
            one, _, five = report_of(text, cache=True).cases
            assert (one.stdout, five.stdout) == (f"known: {known}\n", "known: False\n")
            object_cache.keep(text, {"a" * 64: OBJECT})

    @pytest.mark.parametrize("order", ["compile_rubbish"])
    def test_rubbish_in_place_of_objects_changes_nothing(
        self, report_of: Callable[..., Report], folder: Path, order: str
    ) -> None:
        report = report_of(f"@run {order}", cache=True)
        assert report.verdict is Verdict.ACCEPTED
        assert [path.name for path in folder.iterdir() if len(path.name) != 64] == []
        assert object_cache.known(f"@run {order}") == {}


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.zeros(4, np.uint8)},
        {"A" * 64: np.zeros(4, np.uint8)},
        {NAME: np.zeros(4, np.int32)},
        {f"{n:064x}": np.zeros(1, np.uint8) for n in range(300)},
    ],
)
def test_an_answer_that_is_no_set_of_objects(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(FrameError):
        codec.read_objects(Frame("objects", {}, arrays))


# -- the key and the digest


@pytest.mark.parametrize("part", ["_emulator", "_llvm", "_processor"])
def test_the_key_covers_version_and_machine(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    before = object_cache.key("ptx")
    assert object_cache.key("ptx ") != before == object_cache.key("ptx")
    monkeypatch.setattr(object_cache, part, lambda: "other")
    assert object_cache.key("ptx") != before


def test_the_machine_is_known() -> None:
    assert object_cache._llvm() not in ("", "none")
    assert object_cache._processor() not in ("", "unknown")


def _fresh(store: objects.ObjectStore, block: int, source: str = SOURCE) -> dict[str, bytes]:
    """The objects that compiling the kernel for a block size makes."""
    program = Program(ptx.parse(emulator_kit.ptx_of(source)))
    (name,) = (n for n in program.kernel_addresses if "1k" in n)
    program.kernel(name, shape_of((block, 1, 1)))
    return store.take_fresh()


def test_an_object_serves_its_own_text_and_shape_only(store: objects.ObjectStore) -> None:
    made = _fresh(store, 32)
    assert len(made) == 1
    store.learn(made)
    assert _fresh(store, 32) == _fresh(store, 64) == {}  # whole warps, both
    assert _fresh(store, 33).keys().isdisjoint(made) and _fresh(store, 33)
    assert _fresh(store, 32, SOURCE.replace("5", "6")).keys().isdisjoint(made)


@pytest.mark.parametrize("what", ["__version__", "get_host_cpu_name"])
def test_an_object_of_another_llvm_or_processor_is_not_used(
    store: objects.ObjectStore, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    store.learn(_fresh(store, 32))
    identity = jit._identity()
    other = tuple("other" if n == (0 if what == "__version__" else 3) else part for n, part in enumerate(identity))
    monkeypatch.setattr(jit, "_identity", lambda: other)
    assert len(_fresh(store, 32)) == 1


@pytest.mark.parametrize("data", [b"", b"rubbish" * 100, OBJECT, b"\x7fELF" + bytes(100)])
def test_what_is_no_object_is_compiled_afresh(store: objects.ObjectStore, data: bytes) -> None:
    (name,) = _fresh(store, 32)
    store.learn({name: data})
    assert list(_fresh(store, 32)) == [name]


def test_code_from_an_object_does_the_same(store: objects.ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(32, dtype=np.float32)
    results = []
    for _ in range(2):
        emulator_kit.program_of.cache_clear()
        results.append(emulator_kit.run(SOURCE, [values.copy()], kernel="1k").arrays[0])
        store.learn(store.take_fresh())
    assert np.array_equal(results[0], np.where(values < 5, 2 * values, values + 1))
    assert np.array_equal(results[0], results[1])


# -- the same IR in every process

_DIVERGENT = """
__device__ __noinline__ float f(float x) { __shared__ float s[8]; s[threadIdx.x & 7] = x; __syncthreads(); return s[0]; }
__device__ __noinline__ float g(float x) { __shared__ float t[16]; t[threadIdx.x & 15] = x; __syncthreads(); return t[1]; }
__device__ __noinline__ float h(float x) { __shared__ float u[32]; u[threadIdx.x & 31] = x; __syncthreads(); return u[2]; }
__global__ void k(float* a, int n) {
  float x = 0, y = 1, z = 2, w = 3;
  for (int i = threadIdx.x; i < n; i += 3) {
    if (a[i] > x) { x += a[i]; if (a[i] > 5) break; y *= x; } else if (a[i] < y) { z -= y; continue; }
    w += z;
    for (int j = 0; j < i; ++j) {
      if (a[j] == w) return;
      x -= 1;
      if (j == 3) { y += z; __syncthreads(); z *= w; } else if (j == 4) { w += 1; __syncthreads(); }
    }
  }
  a[threadIdx.x] = f(x) + g(y) + h(z) + w;
}
"""
_LOWER = """
import hashlib, sys
from harness.emulator import ptx
from harness.emulator.inline import flatten
from harness.emulator.program import Program, lower
from harness.emulator.uniform import Shape
garbage = [object() for _ in range(int(sys.argv[1]))]  # other addresses, hence other orders of sets of objects
program = Program(ptx.parse(sys.stdin.read()))
(name,) = (n for n in program.kernel_addresses if "1k" in n)
f = flatten(program.module, name)
lowered = lower(program.module, f, program._layout(name, f)[0], Shape(True, False))
places = [(i.op, i.loc.line if i.loc else 0) for i in lowered.instructions]
print(hashlib.sha256(lowered.ir.encode()).hexdigest(), places)
"""


def _lowered_elsewhere(text: str) -> Iterator[str]:
    for seed in range(3):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", _LOWER, str(777 * seed)]
        yield subprocess.run(
            command, input=text, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout


def test_the_same_ptx_gives_the_same_ir_in_every_process() -> None:
    assert len(set(_lowered_elsewhere(emulator_kit.ptx_of(_DIVERGENT)))) == 1
