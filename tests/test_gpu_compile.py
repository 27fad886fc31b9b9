"""Compiling for a card, with PyCUDA's compile path replaced: what it is asked for and what its answers mean."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from harness.compile import gpu
from harness.compile.cubin import match
from harness.compile.gpu import MAX_CUBIN_BYTES, clean, compile_cubin
from harness.errors import JudgeError, SubmissionError
from harness.verdict import FindingKind, Verdict
from tests.fake_cubin import fake_cubin

DECLARATION = 'extern "C" void solve(float* out);'
Compile = Callable[..., bytes]


class CompileError(Exception):
    def __init__(self, stdout: str, stderr: str):
        super().__init__("nvcc compilation failed")
        self.stdout, self.stderr = stdout, stderr


@pytest.fixture
def pycuda(monkeypatch: pytest.MonkeyPatch) -> Callable[[Compile], None]:
    """Put a function in the place of pycuda.compiler.compile."""

    def install(function: Compile) -> None:
        compiler, driver = types.ModuleType("pycuda.compiler"), types.ModuleType("pycuda.driver")
        compiler.compile, driver.CompileError = function, CompileError  # type: ignore[attr-defined]
        for name, module in {
            "pycuda": types.ModuleType("pycuda"),
            compiler.__name__: compiler,
            driver.__name__: driver,
        }.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(gpu, "find_nvcc", lambda: "/opt/cuda/bin/nvcc")

    return install


def refusal(install: Callable[[Compile], None], answer: bytes | Exception) -> SubmissionError:
    def compile_(*_: Any, **__: Any) -> bytes:
        if isinstance(answer, Exception):
            raise answer
        return answer

    install(compile_)
    with pytest.raises(SubmissionError) as caught:
        compile_cubin("", "my.cu", DECLARATION, "sm_90a")
    return caught.value


def test_pycuda_gets_the_users_lines_and_only_the_judges_options(pycuda: Callable[[Compile], None]) -> None:
    asked: dict[str, Any] = {}

    def compile_(source: str, **options: Any) -> bytes:
        asked.update(options, source=source)
        warnings.warn("The CUDA compiler succeeded, but said the following:\nmy.cu(3): warning: hm\n", stacklevel=1)
        return fake_cubin("_Z1kPf")

    pycuda(compile_)
    cubin = compile_cubin("__global__ void k(float*);", "my.cu", DECLARATION, "sm_90a")
    assert (cubin.bytes, cubin.log) == (fake_cubin("_Z1kPf"), "my.cu(3): warning: hm\n")
    assert f'{DECLARATION}\n#line 1 "my.cu"\n__global__ void k(float*);\n' in asked["source"]
    assert asked["no_extern_c"] is True and asked["cache_dir"] is False and asked["keep"] is False
    assert "-gencode=arch=compute_90a,code=sm_90a" in asked["options"] and asked["nvcc"] == "/opt/cuda/bin/nvcc"


def test_a_compile_error_carries_the_compilers_words(pycuda: Callable[[Compile], None]) -> None:
    error = refusal(pycuda, CompileError("", 'my.cu(2): error: identifier "y" is undefined\n'))
    assert error.verdict is Verdict.COMPILE_ERROR
    assert error.log == 'my.cu(2): error: identifier "y" is undefined\n'


def test_launching_from_the_device_is_unsupported_with_its_line(pycuda: Callable[[Compile], None]) -> None:
    said = "my.cu(7): error: kernel launch from __device__ or __global__ functions requires separate compilation mode\n"
    error = refusal(pycuda, CompileError("", said))
    assert error.verdict is Verdict.UNSUPPORTED
    assert [(f.kind, f.line) for f in error.findings] == [(FindingKind.UNSUPPORTED, 7)]
    with_another = refusal(pycuda, CompileError("", said + 'my.cu(8): error: identifier "y" is undefined\n'))
    assert with_another.verdict is Verdict.COMPILE_ERROR


def test_a_cubin_cut_off_by_a_file_limit_is_no_success(pycuda: Callable[[Compile], None]) -> None:
    assert refusal(pycuda, fake_cubin("_Z1kPf")[:-1]).verdict is Verdict.COMPILE_ERROR


def test_a_cubin_beyond_the_limit_is_refused(pycuda: Callable[[Compile], None]) -> None:
    error = refusal(pycuda, fake_cubin("_Z1kPf") + bytes(MAX_CUBIN_BYTES))
    assert error.verdict is Verdict.COMPILE_ERROR and str(MAX_CUBIN_BYTES) in str(error)


@pytest.mark.parametrize(
    ("symbol", "what"),
    [("malloc", "malloc() in device code"), ("__cudaCDP2LaunchDeviceV2", "launching kernels from device code"),
     ("__cudaCDP2StreamCreateWithFlags", "cudaStreamCreateWithFlags() in device code"),
     ("cudaGetParameterBuffer", "cudaGetParameterBuffer() in device code")],
)  # fmt: skip
def test_a_call_of_the_devices_own_run_time_is_unsupported(
    pycuda: Callable[[Compile], None], symbol: str, what: str
) -> None:
    error = refusal(pycuda, fake_cubin("_Z1kPf", undefined=("vprintf", symbol)))
    assert (error.verdict, str(error)) == (Verdict.UNSUPPORTED, f"{what} is not supported.")


def test_without_pycuda_the_judge_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with pytest.raises(JudgeError, match="pip install pycuda"):
        compile_cubin("", "my.cu", DECLARATION, "sm_90a")


def test_paths_of_this_machine_do_not_show() -> None:
    said = (
        "ptxas /tmp/x/tmpxft_000018ee_00000000-6_kernel.ptx, line 30; error   : Unknown modifier '.bar'\n"
        "/opt/cuda/targets/x86_64-linux/include/crt/sm_90_rt.hpp(225): note: \x1b[31mred\n"
        '1 error detected in the compilation of "kernel.cu".\n'
    )
    assert clean(said, "my.cu") == (
        "ptxas kernel.ptx, line 30; error   : Unknown modifier '.bar'\n"
        "<crt/sm_90_rt.hpp>(225): note: [31mred\n"
        '1 error detected in the compilation of "my.cu".\n'
    )


def test_a_variable_of_an_anonymous_namespace_is_found_under_the_other_compilers_name() -> None:
    ours = "_ZN40_INTERNAL_00000000_12_good_tour_cu_solve42_GLOBAL__N__00000000_12_good_tour_cu_solve14minus_infinityE"
    theirs = "_ZN32_INTERNAL_1139fc7c_5_gt_cu_solve34_GLOBAL__N__1139fc7c_5_gt_cu_solve14minus_infinityE"
    other = theirs.replace("14minus_infinityE", "13finished_rowsE")
    assert match(ours, (other, theirs)) == theirs
    assert match(ours, (other,)) is None
