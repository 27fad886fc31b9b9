"""The style of pictures, which the harness draws: its CSS as a file of the site."""

from __future__ import annotations

import hashlib
from functools import cache

from fastapi import APIRouter, Request, Response

from harness.report import html

router = APIRouter(include_in_schema=False)


@router.get("/static/charts.css")
def style(request: Request) -> Response:
    """The same for everybody, so that a browser asks once and then only whether it has changed."""
    text, tag = _style()
    known = request.headers.get("if-none-match") == tag
    return Response("" if known else text, 304 if known else 200, {"ETag": tag}, "text/css")


@cache
def _style() -> tuple[str, str]:
    text = html.picture_style()
    return text, f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'
