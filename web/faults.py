"""What does not fit in a request, in words for whoever sent it: not pydantic's, which name its own types.

Nothing of the request is repeated: it may be long, or no text at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 5  # that one answer tells of
_SOURCES = ("body", "query", "path", "header")
_OBJECT = "must be a JSON object, sent with Content-Type: application/json"
_SAID = {
    "missing": "is missing",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
}
_FORMS = {
    "problem": "must be the id of a problem of this site, such as split_k_merge; it takes no paths",
    "id": "is no id of a submission",
    "before": "is no id of a submission",
    "idempotency-key": "must have 1 to 200 printable ASCII characters and no space",
}


def in_words(faults: Sequence[Any]) -> str:
    """Such as "kind must be 'run' or 'submit'; source is missing"."""
    return "; ".join(_in_words(fault) for fault in faults[:_MOST])


def of_problem(faults: Sequence[Any]) -> bool:
    """Whether one is of what should be a problem's id."""
    return any(_place(fault) == "problem" for fault in faults)


def _place(fault: Mapping[str, Any]) -> str:
    return ".".join(str(step) for step in fault["loc"] if step not in _SOURCES)


def _in_words(fault: Mapping[str, Any]) -> str:
    kind, place, context = fault["type"], _place(fault), fault.get("ctx") or {}
    if kind == "json_invalid":
        return f"the body is no JSON: {context.get('error', '')}, at character {place}"
    if not place and kind == "missing":
        return f"the body is missing: it {_OBJECT}"
    if place in _FORMS and kind in ("string_pattern_mismatch", "string_too_long", "string_too_short"):
        said = _FORMS[place]
    else:
        said = _SAID[kind].format_map(context) if kind in _SAID else fault["msg"]
    return f"{place or 'the body'} {said}"
