"""What tests/gpu/differential.py relies on and a machine without a card can show."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from harness.devices.driver import DriverError
from tests.fake_driver import FakeDriver
from tests.gpu import differential, differential_mma, differential_random, differential_sides, differential_tables
from tests.gpu.differential_children import DIED, ENDLESS, FAULT, RAN, REFUSED, Build, Child, Handler, Reply, Run
from tests.gpu.differential_mma_model import Model
from tests.gpu.differential_random import LOST, Batch, Case, Comparison, Tally, batches
from tests.gpu.differential_shapes import COLUMNS, ROWS, SHAPES, Shape, decode, encode, fragments, result
from tests.gpu.differential_sides import emulator, emulator_unoptimised
from tests.random_ptx.build import errors_of
from tests.random_ptx.compare import DIFFERENT, EQUAL, Difference
from tests.random_ptx.families import FAMILIES
from tests.random_ptx.program import inputs, program


def _fragile() -> Handler:
    """Dies, hangs or spoils its context when asked to."""

    def handle(request: str) -> Reply:
        if request == "die":
            os._exit(7)
        if request == "hang":
            time.sleep(60)
        return Reply(FAULT if request == "fault" else RAN, f"{request} in {os.getpid()}")

    return handle


def test_a_child_that_dies_or_hangs_costs_one_request() -> None:
    child = Child(_fragile)
    try:
        first = child.call("go", 30)
        assert child.call("die", 30) == Reply(DIED, "exit code 7")
        second = child.call("go", 30)
        assert child.call("hang", 0.1).status == ENDLESS
        assert child.call("fault", 30).status == FAULT
        third = child.call("go", 30)
    finally:
        child.close()
    assert len({first.note, second.note, third.note}) == 3  # each in a process of its own


def test_a_difference_is_found_and_a_lost_kernel_does_not_lose_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs of each family; the other side is the emulator too, but for one program it is wrong, for one dead."""

    class Wrong(Child):
        def call(self, request: object, seconds: float) -> Reply:
            reply = super().call(request, seconds)
            if isinstance(request, Run) and request.kernel == "integer_0_":
                reply.arrays[1][5] ^= np.uint64(8)
            return Reply(DIED, "gone") if isinstance(request, Run) and request.kernel == "memory_0_" else reply

    here, there = Child(emulator), Wrong(emulator_unoptimised)
    try:
        work = [b for b in batches(14, 2, 0) if b.family in ("integer", "memory")]
        tally = Comparison([here], there, tmp_path, time.monotonic() + 300).run(work)
    finally:
        here.close()
        there.close()
    assert tally.counts["integer"] == {"different": 1, EQUAL: 1}
    assert tally.counts["memory"] == {"lost": 1, EQUAL: 1}
    apart = next(c for c in tally.cases if c.seed == 0 and c.family == "integer")
    assert apart.difference is not None
    assert apart.difference.first ^ apart.difference.second == 8
    assert apart.difference.thread == 0
    differential.write_random(tmp_path, tally)
    lines = json.loads((tmp_path / "random.json").read_text())["cases"]
    assert f"{apart.difference.first:#x} and {apart.difference.second:#x}" in lines[0]
    full = (tmp_path / "random.txt").read_text()
    assert "__global__ void integer_0_" in full
    assert " ".join(f"{int(w):#x}" for w in inputs(program("integer", 0), apart.launch).words[:16]) in full


def test_a_program_that_is_not_built_does_not_lose_its_batch(tmp_path: Path) -> None:
    class Picky(Child):
        def call(self, request: object, seconds: float) -> Reply:
            if isinstance(request, Build) and 2 in request.seeds:
                return Reply(FAULT, "kernel.cu(7): error: program 2")
            return Reply(RAN)

    child = Picky(_fragile)
    tally = Comparison([child], child, tmp_path, time.monotonic() + 300)
    tally._compare = lambda child, batch, stem, p: tally.tally.add(batch, p.seed, differential_random.Verdict(EQUAL))  # type: ignore[method-assign]
    assert tally.run([Batch("warp", range(5), "full", True)]).counts["warp"] == {EQUAL: 4, LOST: 1}
    assert "program 2" in tally.tally.cases[0].line()


def test_what_is_written_stays_small(tmp_path: Path) -> None:
    tally = Tally()
    apart = Difference(DIFFERENT, "out", "[7]: thread 0 of block 0, u32_0", 1, 2, 3, 0)
    for family in FAMILIES:
        tally.cases += [Case(family, seed, "full", True, DIFFERENT, 0, "log " * 10_000, apart) for seed in range(400)]
    differential.write_random(tmp_path, tally)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2_000_000


def test_of_a_compilers_log_the_errors_are_reported() -> None:
    log = "k.cu(1): warning #177-D: unused\n  int x;\n      ^\nk.cu(9): error: no such thing\n  y = z;\n      ^\n\nRemark: something"
    assert errors_of(log) == "k.cu(9): error: no such thing\n  y = z;\n      ^"
    assert errors_of("it went away") == "it went away"


def test_the_card_side_uploads_launches_and_downloads(tmp_path: Path) -> None:
    def double(driver: FakeDriver, block: bytes) -> None:
        address, number = (int.from_bytes(part, "little") for part in (block[:8], block[8:12]))
        driver.bytes_at(address, 16).view(np.uint32)[:] *= number

    def broken(driver: FakeDriver, block: bytes) -> None:
        raise DriverError(700, "cuCtxSynchronize", "an illegal memory access was encountered")

    (tmp_path / "k.cubin").write_bytes(b"")
    driver, data = FakeDriver({"double": double, "broken": broken}), np.arange(4, dtype=np.uint32)
    reply = differential_sides._on_card(driver, {}, Run(tmp_path / "k", "double", (data, 3), 2, 64, repeat=True))
    assert reply.status == RAN
    np.testing.assert_array_equal([reply.arrays[0], reply.again[0], data], [[0, 3, 6, 9], [0, 3, 6, 9], [0, 1, 2, 3]])
    assert driver.launches[0][:3] == ("double", (2, 1, 1), (64, 1, 1))
    with pytest.raises(DriverError):
        differential_sides._on_card(driver, {}, Run(tmp_path / "k", "broken", (data,), 1, 32))


def test_a_module_that_is_built_has_ptx_and_a_cubin(tmp_path: Path) -> None:
    assert emulator()(Build("warp", range(2), "mid", tmp_path / "w")).status == RAN
    assert (tmp_path / "w.cubin").read_bytes()[:4] == b"\x7fELF"
    assert ".entry warp_1_" in (tmp_path / "w.ptx").read_text()


def test_an_instruction_that_the_emulator_lacks_is_refused(tmp_path: Path) -> None:
    text = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k() { .reg .b32 %a; frobnicate.b32 %a, 1; ret; }"
    (tmp_path / "k.ptx").write_text(text)
    assert emulator()(Run(tmp_path / "k", "k", (), 1, 32)).status == REFUSED


@pytest.mark.parametrize(("kind", "positions"), [("f32", 3), ("u64", 3), ("pred", 2)])
def test_operands_have_all_triples_of_edges(kind: str, positions: int) -> None:
    n = differential_tables.TRIPLES**3
    edges = len(set(differential_tables._edges(kind)[: differential_tables.TRIPLES].tolist()))
    columns = [differential_tables.operands(kind, k)[:n].tolist() for k in range(positions)]
    assert len(set(zip(*columns, strict=True))) == edges**positions


def test_nans_of_untyped_registers_are_known_by_the_opcode() -> None:
    rows = {row.text: differential_tables._nan_kind(row) for row in differential_tables.tables()["half as it is"]}
    assert rows["fma.rn.f16x2"] == "f16x2"
    assert differential_tables._nan_kind(differential_tables._row("cvt.rn.bf16.f32", "b16", "f32")) == "bf16"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.opcode)
def test_fragments_hold_every_element_once(shape: Shape) -> None:
    """A, B and C numbered by their elements come back from the lanes' registers."""
    bits = 32 // shape.each
    a = np.arange(ROWS * shape.k, dtype=np.uint32).reshape(1, ROWS, shape.k) % (1 << min(bits, 31))
    b = np.arange(shape.k * COLUMNS, dtype=np.uint32).reshape(1, shape.k, COLUMNS) % (1 << min(bits, 31))
    c = np.arange(ROWS * COLUMNS, dtype=np.uint32).reshape(1, ROWS, COLUMNS)
    registers = fragments(shape, a, b, c)
    for numbered, regs in zip((a, b), registers[:2], strict=True):
        parts = np.concatenate([regs >> np.uint32(j * bits) & np.uint32((1 << bits) - 1) if bits < 32 else regs for j in range(shape.each)])
        assert sorted(parts.ravel().tolist()) == sorted(numbered.ravel().tolist())
    np.testing.assert_array_equal(result(shape, registers[2]), c)


class _Modelled(differential_mma.Sides):
    """A card that sums as a model says."""

    model = Model(24, 8, "rz", normalised=False)

    def tiles(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        s = self.shape
        x, y, z = decode(a, s.a), decode(b, s.b), decode(c, s.c)
        rows = np.repeat(x[:, :, None], COLUMNS, 2).reshape(-1, s.k)
        columns = np.repeat(np.swapaxes(y, 1, 2)[:, None], ROWS, 1).reshape(-1, s.k)
        with np.errstate(all="ignore"):
            return encode(self.model.sum(rows, columns, z.reshape(-1), s.c), s.c).reshape(c.shape)


def test_the_probe_finds_how_a_card_rounds() -> None:
    found = differential_mma._probe(_Modelled(Shape(16, "f16", "f16", "f32"), Child(emulator), Child(emulator), Path()))
    assert found["kept"]["product beside products"] == 24
    assert found["alignment"] == "towards zero"
    assert found["blocks"]["lost beside 0, 1"] == [2, 3, 4, 5, 6, 7]
    assert found["final rounding"]["+0.75"] == "+0, +0"
    assert found["exact models"] == [str(_Modelled.model)]
