"""Templates -> HTML in the reader's language. A text goes through _(), and is shown in English where the catalogue of
the language lacks it.

There is one environment for each language, so that macros and included templates speak it too. Control characters of
whatever is shown become visible, and Jinja2 escapes the rest.
"""

from __future__ import annotations

import datetime
import functools
from pathlib import Path
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from harness import __version__
from harness.errors import UsageError
from harness.problem import Problem
from harness.report import figures, html, measurement, wording
from harness.report.excerpt import printable
from web.pages import preferences, translations, vocabulary
from web.pages.links import link
from web.rendering import code

_FIRST = ("home.html", "base.html", "_verdict.html")


class Templates:
    """All templates of one folder, in every language."""

    def __init__(self, folder: Path):
        self._environments = {language: _environment(folder, language) for language in preferences.LANGUAGES}

    def compile(self) -> None:
        """All of them, those of the first page first; later requests find them compiled."""
        for environment in self._environments.values():
            for name in sorted(environment.list_templates(), key=lambda name: (name not in _FIRST, name)):
                environment.get_template(name)

    def page(self, request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
        """A whole page, for whoever asks."""
        language = preferences.language(request)
        shared = {
            "request": request, "language": language, "theme": preferences.theme(request),
            "here": preferences.address(request), "csrf_token": getattr(request.state, "csrf_token", ""),
            "csp_nonce": getattr(request.state, "csp_nonce", ""), "queue": request.app.state.queue,
        }  # fmt: skip
        template = self._environments[language].get_template(name)
        headers = {"Content-Language": preferences.TAGS[language], "Vary": "Cookie, Accept-Language"}
        return HTMLResponse(template.render(shared | context), status, headers)


def page(request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page from the application's templates."""
    templates: Templates = request.app.state.templates
    return templates.page(request, name, status, **context)


def _environment(folder: Path, language: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined, finalize=_safe,
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.i18n"],
    )  # fmt: skip
    environment.policies["ext.i18n.trimmed"] = True
    translated = translations.of(language)
    environment.install_gettext_translations(translated, newstyle=True)  # type: ignore[attr-defined]
    environment.globals |= {
        "figures": figures, "measurement": measurement, "wording": wording, "vocabulary": vocabulary,
        "mark": vocabulary.mark, "tone": vocabulary.tone, "code": code.code, "link": link, "version": __version__,
        "title_of": functools.partial(title_of, language=language), "languages": preferences.LANGUAGES,
        "tag": preferences.TAGS[language],
    }  # fmt: skip
    environment.filters |= {"nice": figures.nice, "extents": html.extents, "moment": moment}
    return environment


def title_of(problem: Problem, language: str) -> str:
    """The title of the statement in a language; where there is none, that of the problem."""
    try:
        first, _, _ = problem.statement_in(language).lstrip().partition("\n")
    except UsageError:
        return problem.title
    return first.removeprefix("# ").strip() if first.startswith("# ") else problem.title


def moment(value: datetime.datetime) -> str:
    """A point in time, by this machine's clock: 2026-11-30 09:41."""
    return value.astimezone().strftime("%Y-%m-%d %H:%M")


def _safe(value: Any) -> Any:
    """Of whatever a template shows: no control characters, also in names that a translated text has in it. Jinja2
    escapes the rest."""
    if isinstance(value, Markup):
        return Markup(printable(value))
    return printable(value) if isinstance(value, str) else value
