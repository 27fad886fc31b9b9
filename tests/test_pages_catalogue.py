"""The Chinese catalogue says everything that templates say, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
from babel.messages import pofile
from babel.messages.extract import extract_from_dir
from fastapi import FastAPI

from harness.problem import DIFFICULTIES
from harness.verdict import FindingKind, Verdict
from tests import api_kit
from web.pages import preferences, translations, vocabulary
from web.store.records import Kind, State

WEB = Path(translations.__file__).parent.parent
Message = str | tuple[str, ...]
_METHODS = [("templates/**.html", "jinja2.ext:babel_extract"), ("pages/**.py", "python")]
_KEYWORDS = {"_": None, "gettext": None, "ngettext": (1, 2), "N_": None}
_PERCENT = re.compile(r"%(?:\(\w+\)s|%)?")  # all that newstyle gettext knows
_BRACES = re.compile(r"\{\w*\}")


def used() -> Iterator[tuple[str, Message]]:
    """Every text that is to be translated, and where it stands."""
    options = {"templates/**.html": {"trimmed": "true", "silent": "false"}}
    for file, line, message, _, _ in extract_from_dir(WEB, _METHODS, options, keywords=_KEYWORDS):
        yield f"{file}:{line}", message


@pytest.fixture(scope="module")
def catalogue() -> dict[Message, tuple[str, ...]]:
    with (translations.FOLDER / "zh.po").open("rb") as file:
        found = pofile.read_po(file, locale="zh", abort_invalid=True)
    assert not any(message.fuzzy for message in found)
    return {_together(m.id): _strings(m.string) for m in found if m.id}


def _together(message: str | list[str] | tuple[str, ...]) -> Message:
    return message if isinstance(message, str) else tuple(message)


def _strings(found: str | list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    return (found or "",) if found is None or isinstance(found, str) else tuple(found)


def test_every_text_has_a_translation(catalogue: dict[Message, tuple[str, ...]]) -> None:
    missing = [f"{place}: {message!r}" for place, message in used() if not all(catalogue.get(message, ("",)))]
    assert missing == []


def test_no_translation_is_left_over(catalogue: dict[Message, tuple[str, ...]]) -> None:
    assert set(catalogue) - {message for _, message in used()} == set()


def test_placeholders_and_tags_agree(catalogue: dict[Message, tuple[str, ...]]) -> None:
    for message, strings in catalogue.items():
        texts = [message] if isinstance(message, str) else list(message)
        for pattern in (_PERCENT, _BRACES, re.compile(r"</?\w+>")):
            wanted = sorted(pattern.findall(texts[-1]))
            assert all(sorted(pattern.findall(text)) == wanted for text in (*texts, *strings)), message


def test_a_percent_sign_is_written_twice() -> None:
    """A single one would be taken for a placeholder when the page is made."""
    for place, message in used():
        for text in [message] if isinstance(message, str) else message:
            assert "%" not in _PERCENT.sub(lambda found: "" if len(found[0]) > 1 else "%", text), place


def test_translations_are_chinese(catalogue: dict[Message, tuple[str, ...]]) -> None:
    """Those that are not are names, which Chinese engineers write in English, too."""
    same = {message for message, strings in catalogue.items() if strings == (message,)}
    assert all(not re.search("[\u4e00-\u9fff]", str(message)) for message in catalogue)
    assert len(same) < 20, same


def test_every_word_of_the_vocabularies_is_known() -> None:
    chinese = translations.of("zh")
    words = [vocabulary.verdict(verdict) for verdict in Verdict] + [vocabulary.finding(kind) for kind in FindingKind]
    words += [vocabulary.difficulty(each) for each in DIFFICULTIES]
    words += [vocabulary.state(each) for each in State] + [vocabulary.kind(each) for each in Kind]
    assert all(word and "_" not in word for word in words)
    assert [word for word in words if chinese.gettext(word) == word] == ["trap"]


def test_a_language_without_a_catalogue_is_english() -> None:
    assert translations.of("en").gettext("Problems") == "Problems"
    assert set(preferences.LANGUAGES) == set(preferences.TAGS)


def test_every_template_compiles_in_every_language(tmp_path: Path) -> None:
    app: FastAPI = api_kit.site(tmp_path).app
    environments: dict[str, jinja2.Environment] = app.state.templates._environments
    for environment in environments.values():
        for name in environment.list_templates():
            environment.get_template(name)
