"""Templates -> HTML in the reader's language. A text goes through _(), and is shown in English where the catalogue of
the language lacks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from harness.report.excerpt import printable


class Templates:
    """All templates of one folder."""

    def __init__(self, folder: Path):
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined, finalize=_safe,
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.i18n"],
        )  # fmt: skip
        self._environment.install_null_translations(newstyle=True)  # type: ignore[attr-defined]

    def page(self, request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
        """A whole page."""
        shared = {"request": request, "language": "en", "theme": "auto", "csrf_token": ""}
        return HTMLResponse(self._environment.get_template(name).render(shared | context), status)


def page(request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page from the application's templates."""
    templates: Templates = request.app.state.templates
    return templates.page(request, name, status, **context)


def _safe(value: Any) -> Any:
    """Of whatever a template shows: no control characters. Jinja2 escapes the rest."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
