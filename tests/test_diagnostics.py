"""The compiler's log as marks for an editor."""

from __future__ import annotations

import pytest

from web.queue.diagnostics import diagnostics


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("my.cu(3): error: expected a \";\"\n      foo()\n           ^\n\n", (3, 10, "error", 'expected a ";"')),
        ("my.cu(4): warning #177-D: variable \"x\" was declared\n  int x;\n      ^\n", (4, 5, "warning", 'variable "x" was declared')),
        ("my.cu(5): error: no instance matches\n            argument types are: (int)\n    f(1);\n    ^\n", (5, 3, "error", "no instance matches argument types are: (int)")),
        ("my.cu(1): error: <vector> is not available\n  #include <vector>\n\nmore", (1, 0, "error", "<vector> is not available")),
        ("my.cu(1): catastrophic error: cannot open source file \"x.h\"\n  #include <x.h>\n                ^\n", (1, 15, "error", 'cannot open source file "x.h"')),
    ],
)
def test_what_the_compiler_says_of_a_line(log: str, expected: tuple[int, int, str, str]) -> None:
    (said,) = diagnostics(log, "my.cu")
    assert (said["line"], said["column"], said["severity"], said["message"]) == expected


def test_lines_of_other_files_are_no_marks_and_each_is_one_once() -> None:
    log = "other.cu(3): error: x\nmy.cu(3): error: y\nmy.cu(3): error: y\n<h.h>(9): warning: z\n"
    assert [said["message"] for said in diagnostics(log, "my.cu")] == ["y"]
