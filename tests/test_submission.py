"""What users rely on: a file that is no CUDA source is refused with a sentence that says what and where."""

import os
import socket
from pathlib import Path

import pytest

from harness import submission
from harness.errors import SubmissionError, UsageError
from harness.verdict import Verdict

SOURCE = b'extern "C" void solve() {}\n'


def _refusal(data: bytes) -> SubmissionError:
    with pytest.raises(SubmissionError) as caught:
        submission.from_bytes("my.cu", data)
    assert caught.value.verdict == Verdict.COMPILE_ERROR
    assert str(caught.value) in caught.value.log
    return caught.value


def test_a_plain_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "my.cu"
    path.write_bytes(SOURCE)
    loaded = submission.load(path)
    assert (loaded.name, loaded.text) == ("my.cu", SOURCE.decode())
    assert len(loaded.sha256) == 64


def test_bom_and_crlf_are_no_fault() -> None:
    assert submission.from_bytes("my.cu", b"\xef\xbb\xbfint a;\r\nint b;\r\n").text == "int a;\nint b;\n"


def test_the_digest_is_of_the_bytes_as_sent() -> None:
    with_bom = submission.from_bytes("my.cu", b"\xef\xbb\xbf" + SOURCE)
    assert with_bom.sha256 != submission.from_bytes("my.cu", SOURCE).sha256


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(data: bytes) -> None:
    assert "empty" in str(_refusal(data))


def test_bytes_that_are_not_utf8_are_named_by_line_and_offset() -> None:
    error = _refusal(b"int a;\n// caf\xe9\n")
    assert "my.cu:2" in str(error)
    assert "byte 13 (0xe9)" in str(error)
    assert error.findings[0].line == 2


def test_nul_is_named_by_line() -> None:
    assert "my.cu:3 contains a NUL byte" in str(_refusal(b"int a;\n\nint\0 b;"))


def test_the_size_limit_is_exact() -> None:
    fits = b"/" * submission.MAX_BYTES
    assert len(submission.from_bytes("my.cu", fits).text) == submission.MAX_BYTES
    assert "256 KiB" in str(_refusal(fits + b"/"))


@pytest.mark.parametrize(("place", "words"), [("missing.cu", "there is no file"), (".", "is a directory")])
def test_a_wrong_path_is_a_usage_error(tmp_path: Path, place: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        submission.load(tmp_path / place)


def test_a_pipe_a_device_and_a_socket_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.cu")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.cu"))
    (tmp_path / "link.cu").symlink_to("pipe.cu")
    for path in (tmp_path / "pipe.cu", tmp_path / "socket.cu", tmp_path / "link.cu", Path("/dev/zero")):
        with pytest.raises(UsageError, match=f"{path} is not a regular file"):
            submission.load(path)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ('a".cu', "a_.cu"), ("a\nb.cu", "a_b.cu"), ("lösung 2.cu", "lösung 2.cu"), ("-dash.cu", "_dash.cu"),
        ("--x", "_-x"), ("@list.cu", "_list.cu"), ("  -x.cu ", "_x.cu"), (" ", "submission.cu"),
        ("a\u202e\u2028\udcff.cu", "a___.cu"), ("核.cu", "核.cu"),
    ],
)  # fmt: skip
def test_a_name_is_made_fit_for_messages(name: str, safe: str) -> None:
    assert submission.from_bytes(name, SOURCE).name == safe
