"""The kernels of tests/checks under compute-sanitizer: `python -m tests.gpu.sanitizer_table --out table.json`.

Each file gets a main() that uploads the inputs of tests/check_fixtures.py and calls its solve(), is compiled by nvcc
and run under the four tools of compute-sanitizer. A row says which tools reported something, beside the kind of fault
that was planted, which the emulator finds (tests/test_checks.py). A clean kernel that a tool reports is worth a look:
either it is not clean, or the tool is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from tests.check_fixtures import CLEAN, FAULTS, SIGNATURES, signature, size

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SECONDS = 20  # of one run; deadlocks take all of them
_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
_UPLOAD = """
template <class T> T* upload(const char* path) {
  FILE* file = fopen(path, "rb");
  fseek(file, 0, SEEK_END);
  const long bytes = ftell(file);
  rewind(file);
  std::vector<char> data(bytes);
  if (fread(data.data(), 1, bytes, file) != (size_t)bytes) exit(3);
  fclose(file);
  void* memory;
  cudaMalloc(&memory, bytes);
  cudaMemcpy(memory, data.data(), bytes, cudaMemcpyHostToDevice);
  return (T*)memory;
}
template <class T> T* allocate(size_t bytes) {
  void* memory;
  cudaMalloc(&memory, bytes);
  return (T*)memory;
}
"""


def main_text(parameters: str, n: int, folder: Path) -> str:
    """A main() that calls solve() once; its inputs are written to the folder."""
    values = []
    arguments = SIGNATURES[parameters](n, np.random.default_rng(n))
    for argument, parameter in zip(arguments, parameters.split(","), strict=False):
        kind = parameter.split()[-2].rstrip("*")
        array = argument.value
        assert isinstance(array, np.ndarray)
        if argument.role == "out":
            values.append(f"allocate<{kind}>({array.nbytes})")
        else:
            path = folder / argument.name
            path.write_bytes(array.tobytes())
            values.append(f'upload<const {kind}>("{path}")')
    calls = ", ".join([*values, str(n)])
    return (
        f"\n#include <cstdio>\n#include <cstdlib>\n#include <vector>\n{_UPLOAD}\n"
        f"int main() {{ solve({calls}); return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1; }}\n"
    )


def judged(path: Path, tools: Sequence[str], deadline: float) -> dict[str, str]:
    """What each tool said: clean, the number of reports, timeout, or why it did not run."""
    if time.monotonic() > deadline:
        return dict.fromkeys(tools, "not run")
    text = path.read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, program = folder / "kernel.cu", folder / "kernel"
        source.write_text(text + main_text(signature(text), size(text), folder))
        command = ["nvcc", "-arch=sm_90a", "-std=c++17", "-lineinfo", "-o", str(program), str(source)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            return dict.fromkeys(tools, f"does not compile: {built.stderr[-300:]}")
        return {tool: _run(tool, program) for tool in tools}


def _run(tool: str, program: Path) -> str:
    more = {"racecheck": ["--racecheck-report", "all"], "initcheck": []}.get(tool, [])
    command = ["compute-sanitizer", "--tool", tool, *more, str(program)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "timeout"
    found = _SUMMARY.search(ran.stdout + ran.stderr)
    if not found:
        return f"no summary: {(ran.stdout + ran.stderr)[-200:]}"
    count = int(found[1] or found[2])
    return "clean" if count == 0 else f"{count} reports"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS)
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of names, as faults/data_race/*")
    parser.add_argument("--seconds", type=float, default=600, help="files that have not begun by then are not run")
    options = parser.parse_args()
    files = {f"faults/{name}": path for name, path in FAULTS.items()}
    files |= {f"clean/{name}": path for name, path in CLEAN.items()}
    files = {name: path for name, path in files.items() if any(fnmatch(name, p) for p in options.only)}
    deadline = time.monotonic() + options.seconds
    with ThreadPoolExecutor(options.workers) as pool:
        rows = dict(zip(files, pool.map(lambda p: judged(p, options.tools, deadline), files.values()), strict=True))
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    _print(rows)


def _print(rows: dict[str, dict[str, str]]) -> None:
    planted: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for name, said in rows.items():
        top, kind, _ = name.split("/")
        reports = [tool for tool, text in said.items() if "report" in text or text == "timeout"]
        if top == "faults":
            planted[kind] += 1
            seen[kind] += bool(reports)
        elif reports:
            print(f"{name}: {', '.join(f'{tool}: {said[tool]}' for tool in reports)}")
    for kind, count in planted.items():
        print(f"{kind:20} planted {count:3}  reported by some tool {seen[kind]:3}")
    odd = [f"{name}: {text[:120]}" for name, said in rows.items() for text in set(said.values()) if "no" in text[:8]]
    print("\n".join(odd[:20]))


if __name__ == "__main__":
    main()
