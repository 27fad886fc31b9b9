"""What is prepared when the site starts: after it, no page reads a problem, compiles a template or parses a statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from harness import problem as problems
from harness.errors import ProblemError
from tests import api_kit
from web import catalogue, warm
from web.pages import templating
from web.rendering import statements


def _not_again(*_: Any, **__: Any) -> None:
    raise AssertionError("this was to be done beforehand")


def test_the_first_pages_find_everything_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = api_kit.site(tmp_path)
    warm.up(site.app)
    for place, name in (
        (jinja2.Environment, "compile"), (problems, "load_directory"), (statements._PARSER, "parse"), (yaml, "load"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, _not_again)
    browser, _ = site.browser()
    for path in ("/", "/problems/flash_attention", "/problems/paged_decode/ladder", "/submissions"):
        for language in ("en", "zh"):
            assert browser.get(path, params={"lang": language}).status_code == 200


def test_a_problem_that_cannot_be_read_is_left_to_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ProblemError("problem.yaml: line 3")

    monkeypatch.setattr(catalogue, "problems", broken)
    monkeypatch.setattr(templating.Templates, "compile", lambda self: None)
    warm.up(api_kit.site(tmp_path).app)
