"""`judge.py editor`: builds the site's editor, or removes it."""

from __future__ import annotations

from collections.abc import Sequence

from harness import commandline, streams
from web.editor import build


def run(arguments: Sequence[str]) -> int:
    """Build or remove, and say where. Raises EditorError where that is not possible."""
    parser = commandline.command_parser("editor", "Build the site's code editor, once, into this user's cache.")
    parser.add_argument("--remove", action="store_true", help="delete what was built")
    if parser.parse(list(arguments)).remove:
        words = "removed the editor; the site has a plain text area" if build.remove() else "there is no editor"
    else:
        built = build.bundle()
        words = f"the editor is built: {built}" if built else f"built the editor: {build.bundle(build=True)}"
    with streams.printing():
        print(words)
    return 0
