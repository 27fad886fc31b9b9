"""The editor's bundle where it is: in the user's cache, or not built yet. Pages that find none have a text area."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse

from web.editor import build
from web.errors import SiteError

_JUDGE = Path(__file__).resolve().parent.parent / "judge.py"
_FOR_GOOD = "public, max-age=31536000, immutable"  # the address has a digest of the sources in it
_STOP_SECONDS = 5.0
_log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)


class EditorBundle:
    """The bundle of the sources that this site runs with."""

    def __init__(self) -> None:
        self._file = build.bundle()
        self._builder: subprocess.Popen[str] | None = None

    @property
    def file(self) -> Path | None:
        """Where it is; None where it is not built."""
        if self._file is None or not self._file.is_file():
            self._file = build.bundle()
        return self._file

    @property
    def url(self) -> str:
        """Of the module, for pages; "" where it is not built."""
        file = self.file
        return f"/editor/{file.parent.name}/{file.name}" if file else ""

    def build(self) -> None:
        """Start to build it, in a process of its own, if there is none."""
        if self.file is not None:
            return
        self._builder = subprocess.Popen(
            [sys.executable, str(_JUDGE), "editor"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._report, args=(self._builder,), daemon=True).start()

    def _report(self, builder: subprocess.Popen[str]) -> None:
        _, complaint = builder.communicate()
        if builder.returncode == 0:
            _log.info("the code editor is built; pages have it when they are loaded again")
        elif builder.returncode > 0:
            lines = complaint.strip().splitlines()
            _log.warning("%s", lines[-1] if lines else "the code editor could not be built")

    def close(self) -> None:
        """Stop building."""
        if self._builder and self._builder.poll() is None:
            self._builder.terminate()
            try:
                self._builder.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._builder.kill()


@router.get("/editor/{key}/editor.js")
def editor(request: Request, key: str) -> FileResponse:
    """The module."""
    bundle: EditorBundle = request.app.state.editor
    if (file := bundle.file) is None or file.parent.name != key:
        raise SiteError(404, "not_built", "there is no such editor", "`judge.py editor` builds it")
    return FileResponse(file, media_type="text/javascript", headers={"Cache-Control": _FOR_GOOD})
