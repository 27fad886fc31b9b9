"""Addresses with a query, for templates."""

from __future__ import annotations

from urllib.parse import urlencode


def link(path: str, **query: object) -> str:
    """The path with those of the query that say something: link("/problems/x", dtype="float16", variant="")."""
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path
