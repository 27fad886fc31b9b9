"""The approximate functions stay within the errors that the PTX ISA documents, measured against float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.emulator_kit import run

FUNCTIONS = ("ex2.approx", "ex2.approx.ftz", "lg2.approx", "lg2.approx.ftz", "sin.approx", "cos.approx", "tanh.approx", "rcp.approx",
             "rcp.approx.ftz", "rsqrt.approx", "rsqrt.approx.ftz", "sqrt.approx", "sqrt.approx.ftz")  # fmt: skip
TINY = 2.0**-126


def _text(index: str) -> str:
    body = "\n".join(f"{name}.f32 %y, %x; st.global.f32 [%out+{k * 4}], %y;" for k, name in enumerate(FUNCTIONS))
    return f""".version 9.0
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 a, .param .u64 b) {{
      .reg .f32 %x, %y; .reg .b32 %i, %t; .reg .b64 %in, %out, %o;
      ld.param.u64 %in, [a]; ld.param.u64 %out, [b]; mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; {index}
      mul.wide.u32 %o, %i, 4; add.s64 %in, %in, %o; mul.wide.u32 %o, %i, {4 * len(FUNCTIONS)}; add.s64 %out, %out, %o;
      ld.global.f32 %x, [%in];
      {body}
      ret;
    }}"""


def _inputs() -> np.ndarray:
    rng = np.random.default_rng(7)
    patterns = rng.integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    dense = [rng.uniform(-151, 129, 4096), rng.uniform(-np.pi, np.pi, 4096), rng.uniform(0.5, 2, 4096), rng.uniform(-0.1, 0.1, 2048),
             1 + rng.uniform(-1e-4, 1e-4, 1024), rng.uniform(-320, 320, 1024)]  # fmt: skip
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5, TINY, -TINY, 2.0**-149, -(2.0**-149), 128, -126, -149, -150,
                      -149.5, 127.99999, -127.3, 3.4e38, -3.4e38, 1e-38, np.pi, -np.pi, np.pi / 2, 1e5, 0.02, 2**-127])  # fmt: skip
    values = np.concatenate([patterns, *(d.astype(np.float32) for d in dense), edges.astype(np.float32)])
    return np.concatenate([values, np.ones(-len(values) % 32, np.float32)])


@cache
def _measured(shape: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Inputs, and each function's results for them: as vectors, or as scalars (fewer of them)."""
    x = _inputs()
    if shape == "uniform":
        x = np.concatenate([x[::16], x[-64:]])
    out = np.zeros((len(x), len(FUNCTIONS)), np.float32)
    text = _text("" if shape == "uniform" else "mad.lo.u32 %i, %i, 32, %t;")
    ran = run(text, [x, out], grid=len(x) if shape == "uniform" else len(x) // 32)
    assert ran.findings == []
    return x, {name: ran.arrays[1][:, k] for k, name in enumerate(FUNCTIONS)}


def _ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Error in units of the last place of the exact value, subnormals included."""
    exponent = np.maximum(np.frexp(exact)[1] - 24, -149)
    error: np.ndarray = np.abs(found.astype(np.float64) - exact)
    ulps: np.ndarray = error / np.exp2(exponent.astype(np.float64))
    return ulps


def _relative(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    error: np.ndarray = np.abs(found.astype(np.float64) - exact) / np.abs(exact)
    return error


def _flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < TINY, np.copysign(0.0, x), x)


REFERENCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: np.where(x == 0, np.copysign(np.inf, x), 1 / np.sqrt(x)), "sqrt": np.sqrt,
}  # fmt: skip


def _compare(name: str, shape: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, found, exact) where the exact result is an ordinary number; everything else must agree exactly."""
    x, results = _measured(shape)
    found = results[name]
    with np.errstate(all="ignore"):
        exact = REFERENCE[name.split(".")[0]](_flush(x.astype(np.float64)) if "ftz" in name else x.astype(np.float64))
        exact = _flush(exact) if "ftz" in name else exact
        exact = np.where(np.abs(exact) >= 2.0**128, np.copysign(np.inf, exact), exact)
    special = ~np.isfinite(exact) | (exact == 0)
    np.testing.assert_array_equal(found[special], exact[special].astype(np.float32), err_msg=name)
    return x[~special], found[~special], exact[~special]


SHAPES = pytest.mark.parametrize("shape", ["varying", "uniform"])


@SHAPES
@pytest.mark.parametrize("name", ["ex2.approx", "ex2.approx.ftz"])
def test_ex2_is_within_2_ulp_down_to_subnormal_results(name: str, shape: str) -> None:
    _, found, exact = _compare(name, shape)
    near_flush = ("ftz" in name) & (np.abs(exact) < 1.000001 * TINY)
    assert _ulps(found, exact)[~near_flush].max() <= 2


@SHAPES
@pytest.mark.parametrize("name", ["lg2.approx", "lg2.approx.ftz"])
def test_lg2_is_within_its_documented_error(name: str, shape: str) -> None:
    x, found, exact = _compare(name, shape)
    near_one = (x > 0.5) & (x < 2)
    assert np.abs(found - exact)[near_one].max() <= 2.0**-22
    assert _relative(found, exact)[~near_one].max() <= 2.0**-22


@SHAPES
@pytest.mark.parametrize("name", ["sin.approx", "cos.approx"])
def test_sin_and_cos_are_within_their_documented_error(name: str, shape: str) -> None:
    x, results = _measured(shape)
    for turns, bound in ((1, 2.0**-20.5), (50, 2.0**-14.7)):
        near = np.abs(x) <= 2 * np.pi * turns
        exact = REFERENCE[name[:3]](x[near].astype(np.float64))
        assert np.abs(results[name][near] - exact).max() <= bound
    zeros = results[name][x == 0]
    np.testing.assert_array_equal(np.signbit(zeros), np.signbit(x[x == 0]) & (name == "sin.approx"))
    assert np.isnan(results[name][~np.isfinite(x)]).all()
    assert (np.abs(results[name][np.isfinite(x)]) <= 1.0001).all()


@SHAPES
def test_tanh_is_within_its_documented_error(shape: str) -> None:
    x, results = _measured(shape)
    some = np.isfinite(x) & (np.abs(x) >= TINY)
    exact = np.tanh(x[some].astype(np.float64))
    assert _relative(results["tanh.approx"][some], exact).max() <= 2.0**-11
    np.testing.assert_array_equal(results["tanh.approx"][np.isinf(x)], np.sign(x[np.isinf(x)]))
    zero = results["tanh.approx"][x == 0]
    np.testing.assert_array_equal(np.signbit(zero), np.signbit(x[x == 0]))


@SHAPES
@pytest.mark.parametrize("name", ["rcp.approx", "rcp.approx.ftz", "rsqrt.approx", "rsqrt.approx.ftz", "sqrt.approx", "sqrt.approx.ftz"])
def test_reciprocals_and_roots_are_within_their_documented_error(name: str, shape: str) -> None:
    _, found, exact = _compare(name, shape)
    assert _ulps(found, exact).max() <= 1.0


def test_approximations_of_doubles_read_and_give_their_upper_words() -> None:
    """rcp and rsqrt.approx.ftz.f64: the lower 32 bits do not count and come out as zeros, subnormals are zeros."""
    text = """.version 9.0
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 a, .param .u64 b) {
      .reg .f64 %x, %y; .reg .b32 %t; .reg .b64 %in, %out, %o;
      ld.param.u64 %in, [a]; ld.param.u64 %out, [b]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 8;
      add.s64 %in, %in, %o; add.s64 %out, %out, %o; ld.global.f64 %x, [%in];
      rcp.approx.ftz.f64 %y, %x; st.global.f64 [%out], %y; rsqrt.approx.ftz.f64 %y, %x; st.global.f64 [%out+256], %y; ret; }"""
    tiny = 2.0**-1022
    x = np.array([0.0, -0.0, np.inf, -np.inf, tiny / 2, -tiny / 2, -1.0, 1.5e308, *np.linspace(0.3, 7, 24)])
    ran = run(text, [x, np.zeros((2, 32))])
    with np.errstate(all="ignore"):
        cut = (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
        cut = np.where(np.abs(cut) < tiny, np.copysign(0.0, cut), cut)
        exact = np.stack([1 / cut, 1 / np.sqrt(cut)])
        exact = np.where(np.abs(exact) < tiny, np.copysign(0.0, exact), exact)
    found = ran.arrays[1]
    assert not (found.view(np.uint64) & np.uint64(0xFFFFFFFF)).any()
    np.testing.assert_allclose(found, exact, rtol=2.0**-20)
    assert (np.signbit(found) == np.signbit(exact))[~np.isnan(exact)].all()
