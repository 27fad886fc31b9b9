"""What the first reader of a page would wait for, done beforehand: problems read, templates compiled, statements
rendered. All of it is kept where pages look for it, so that nothing here has to be done for a page to be right."""

from __future__ import annotations

import logging

from fastapi import FastAPI

from harness.errors import ProblemError
from harness.problem import Problem
from web import catalogue
from web.pages import preferences, rungs
from web.pages.templating import Templates
from web.rendering.statements import statement

_log = logging.getLogger(__name__)


def problems() -> list[Problem]:
    """All of them, which takes longest; none where one cannot be read, which is left to the pages to say."""
    try:
        return catalogue.problems()
    except ProblemError as error:
        _log.debug("problems are not prepared: %s", error)
        return []


def up(app: FastAPI) -> None:
    """Everything, in the order in which a visitor comes to it."""
    templates: Templates = app.state.templates
    known = problems()
    templates.compile()
    for problem in known:
        for language in preferences.LANGUAGES:
            statement(problem, language)
        rungs.measured(problem.id)
