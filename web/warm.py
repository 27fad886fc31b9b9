"""What the first reader of a page would wait for, done beforehand: problems read, templates compiled, statements
rendered. All of it is kept where pages look for it, so that nothing here has to be done for a page to be right."""

from __future__ import annotations

import logging

from fastapi import FastAPI

from harness.errors import ProblemError
from web import catalogue
from web.pages import preferences, rungs
from web.pages.templating import Templates
from web.rendering.statements import statement

_log = logging.getLogger(__name__)


def up(app: FastAPI) -> None:
    """In the order in which a visitor comes to them. A problem that cannot be read is left to its page, which says
    why."""
    templates: Templates = app.state.templates
    try:
        problems = catalogue.problems()
    except ProblemError as error:
        _log.debug("pages are not prepared: %s", error)
        problems = []
    templates.compile()
    for problem in problems:
        for language in preferences.LANGUAGES:
            statement(problem, language)
        rungs.measured(problem.id)
