"""`python -m tests.compare_compilers`: every solution, starter and fixture through NVRTC with the shim and through nvcc.

Prints the files on which they disagree and exits 1 if there are any. It takes minutes, so pytest does not run it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import cards, problem, submission
from harness.compile.build import compile_submission
from harness.errors import SubmissionError

ROOT = Path(__file__).parent.parent


def files() -> Iterator[tuple[str, Path]]:
    """(problem id, file) of everything that belongs to one problem."""
    for known in sorted((ROOT / "problems").iterdir()):
        places = (known, ROOT / "solutions" / known.name, ROOT / "tests" / "submissions" / known.name)
        for place in places:
            yield from ((known.name, path) for path in sorted(place.glob("*.cu")))


def nvrtc_accepts(text: str, name: str, declaration: str) -> bool:
    try:
        compile_submission(text, name, declaration, cards.get(cards.DEFAULT))
    except SubmissionError:
        return False
    return True


def nvcc_accepts(text: str, declaration: str, folder: Path) -> bool:
    source = folder / "kernel.cu"
    source.write_text(f"{declaration}\n#line 1\n{text}")
    command = ["nvcc", "-cubin", "-arch=sm_90a", "-std=c++17", "-w", "-o", str(folder / "kernel.cubin"), str(source)]
    return subprocess.run(command, capture_output=True, timeout=300, check=False).returncode == 0


def main() -> int:
    if shutil.which("nvcc") is None:
        print("nvcc is not installed: there is nothing to compare with", file=sys.stderr)
        return 2
    disagreements = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for problem_id, path in files():
            declaration = problem.load(problem_id).declaration()
            text = submission.load(path).text
            here, there = nvrtc_accepts(text, path.name, declaration), nvcc_accepts(text, declaration, Path(folder))
            total += 1
            if here != there:
                disagreements += 1
                print(f"{path.relative_to(ROOT)}: NVRTC {'accepts' if here else 'refuses'}, nvcc does not agree")
    print(f"{total} files, {disagreements} disagreements")
    return int(disagreements > 0)


if __name__ == "__main__":
    sys.exit(main())
