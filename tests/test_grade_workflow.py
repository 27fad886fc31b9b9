"""The workflows that are ready to use, here and in the README, call commands that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import commandline

ROOT = Path(__file__).resolve().parents[1]


def _of_the_readme() -> str:
    found = re.search(r"```yaml\n(name: grade\n.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert found
    return found[1]


def _commands(workflow: dict[str, Any]) -> list[list[str]]:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [shlex.split(step["run"]) for step in steps if "run" in step]


@pytest.mark.parametrize("where", [".github/workflows/judge.yml", "README.md"])
def test_a_workflow_grades_on_the_emulator_and_keeps_the_results(where: str) -> None:
    workflow = yaml.safe_load(_of_the_readme() if where == "README.md" else (ROOT / where).read_text())
    (words,) = [words for words in _commands(workflow) if "grade" in words]
    parsed = commandline.grade_parser().parse(words[words.index("grade") + 1 :])
    assert (parsed.device, parsed.markdown, parsed.junit) == ("cpu", "$GITHUB_STEP_SUMMARY", "grade.xml")
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    kept = job["steps"][-1]["with"]["path"]
    assert "grade." in kept


def test_the_readme_names_commands_that_parse() -> None:
    lines = re.findall(r"^    python judge\.py grade (.*?)(?:\s+#.*)?$", (ROOT / "README.md").read_text(), re.M)
    assert len(lines) >= 3
    for line in lines:
        commandline.grade_parser().parse(shlex.split(line))


def test_the_readme_names_every_option() -> None:
    text = (ROOT / "README.md").read_text().split("## For a class, and in CI")[1].split("\n## ")[0]
    options = {word for action in commandline.grade_parser()._actions for word in action.option_strings}
    assert [word for word in options - {"-h", "--help", "--debug"} if f"{word}" not in text] == []
