"""A session -> JSON text, schema-versioned; findings have the fields of harness.results.Finding.

    schema        raised when a field changes its meaning
    device        "cpu" (the emulator) or "gpu"
    seed          of all files; `judge.py grade --seed` repeats their inputs
    report_only, interrupted, jobs, seconds
    counts        how many files have which status, all of harness.grading.graded.Status
    files[]       name, source, problem, dtype, variant,
                  declared {verdict, finding, line_contains, message_contains, cases, score, emulator_only, why, where}
                  (an empty `where`: nothing was declared, it must be accepted; tables then say FAILED for `surprise`)
                  verdict (null: nothing was judged), score, modelled, device, seconds, status, reasons[], log,
                  findings[]: the same mistake in several `cases` is one
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status
from harness.grading.session import Session

SCHEMA = 1
_NOT_SHOWN = ("problem", "dtype", "variant", "source")  # they stand beside the declaration, as they turned out


def render(session: Session) -> str:
    """The session as one indented JSON object."""
    return json.dumps(as_dict(session), indent=2, allow_nan=False) + "\n"


def as_dict(session: Session) -> dict[str, Any]:
    """The fields in the order in which they are documented."""
    options = session.settings.options
    return {
        "schema": SCHEMA,
        "device": options.device,
        "seed": options.seed,
        "report_only": session.settings.report_only,
        "interrupted": session.interrupted,
        "jobs": session.jobs,
        "seconds": round(session.seconds, 3),
        "counts": {status.value: session.counts[status] for status in Status},
        "files": [_file(entry, graded) for entry, graded in session.rows],
    }


def _file(entry: Entry, graded: Graded) -> dict[str, Any]:
    declared = dataclasses.asdict(entry.declared)
    return {
        "name": entry.name,
        "source": str(entry.source),
        "problem": entry.problem.id,
        "dtype": graded.dtype,
        "variant": graded.variant,
        "declared": {key: value for key, value in declared.items() if key not in _NOT_SHOWN},
        "verdict": graded.verdict,
        "score": graded.score,
        "modelled": graded.modelled,
        "device": graded.device,
        "seconds": round(graded.seconds, 3),
        "status": graded.status,
        "reasons": list(graded.reasons),
        "log": graded.log,
        "findings": [dataclasses.asdict(group.finding) | {"cases": list(group.cases)} for group in graded.findings],
    }
