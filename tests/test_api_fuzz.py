"""The JSON API under what Schemathesis makes of its own description: nothing fails, and every answer is as described."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from harness.results import CaseResult, CompileResult, Report
from harness.verdict import Verdict
from tests import api_kit
from tests.api_kit import PROGRAM
from web.queue.base import NoQueue
from web.store import judgings

_EXAMPLES = 25  # of each of the operations
_CONFIG = SchemathesisConfig.from_dict({
    # What a description cannot say: sources of nothing but blanks, tracks that a problem does not have.
    "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409", "422"]}},
})  # fmt: skip


class AtOnce(NoQueue):
    """Judges whatever comes before the next request: streams of events have an end."""

    def __init__(self, site: api_kit.Site):
        self._site = site

    def wake(self) -> None:
        while claim := judgings.claim(self._site.engine, "test"):
            cases = (CaseResult("one", Verdict.ACCEPTED),)
            report = Report(claim.problem, "a.cu", "", "float32", 1, Verdict.ACCEPTED, CompileResult(True), cases)
            judgings.finish(self._site.engine, claim, report)



@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[schemathesis.BaseSchema]:
    site = api_kit.site(tmp_path_factory.mktemp("site"))
    site.app.state.queue = AtOnce(site)
    assert site.send(name="first.cu").status_code == 201
    yield schemathesis.openapi.from_asgi("/api/openapi.json", site.app, config=_CONFIG, headers=HEADERS)
    site.engine.dispose()


HEADERS = PROGRAM | {"Host": "localhost:8000"}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_answer_is_as_described(described: schemathesis.BaseSchema, mode: GenerationMode) -> None:
    called: set[str] = set()
    for operation in described.get_all_operations():
        assert isinstance(operation, Ok)
        found = operation.ok()
        if mode is GenerationMode.NEGATIVE and not {"parameters", "requestBody"} & set(found.definition.raw):
            continue  # there is nothing in it to get wrong

        @hypothesis.settings(
            max_examples=_EXAMPLES, derandomize=True, database=None, deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        @hypothesis.given(case=found.as_strategy(generation_mode=mode))
        def fuzz(case: schemathesis.Case) -> None:
            called.add(case.operation.label)
            case.call_and_validate(headers=HEADERS)

        fuzz()
    assert len(called) >= 8
