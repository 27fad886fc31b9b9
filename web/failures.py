"""From whatever went wrong to the answer: JSON under /api, elsewhere the page that `app.state.error_page` makes of it.

A failure of our own gets a reference number. The answer has nothing but the number; where in the code it happened
stands under that number in the log.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from harness.report.excerpt import printable
from harness.report.reading import ReportFormatError
from web import catalogue, faults
from web.errors import SiteError, later

ErrorPage = Callable[[Request, SiteError], Response]
_log = logging.getLogger(__name__)
_BUSY_SECONDS = 5.0
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
_MOST_SAID = 1000  # characters
_USUAL = {
    400: ("bad_request", "the body cannot be read as JSON in UTF-8", "see /api/openapi.json"),
    404: ("not_found", "there is nothing at this address", "/ lists the problems; /api/openapi.json describes the API"),
    405: ("method_not_allowed", "this address does not take that method", "the header Allow names those that it takes"),
}


def install(app: FastAPI) -> None:
    """Have every failure of `app` answered here."""
    app.add_exception_handler(SiteError, _site)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(OperationalError, _store)
    app.add_exception_handler(ReportFormatError, _unreadable)
    app.add_exception_handler(Exception, _unexpected)


def respond(request: Request, error: SiteError) -> Response:
    """The answer in the form that the address speaks."""
    path = request.scope["path"]
    if path == "/api" or path.startswith("/api/"):
        return JSONResponse(error.as_json(), error.status, error.headers)
    page: ErrorPage | None = getattr(request.app.state, "error_page", None)
    if page:
        response = page(request, error)
        response.headers.update(error.headers)
        return response
    text = f"{error.message}; {error.hint}" if error.hint else error.message
    return PlainTextResponse(f"{error.status}: {text}\n", error.status, error.headers)


def _site(request: Request, error: Exception) -> Response:
    assert isinstance(error, SiteError)
    return respond(request, error)


def _http(request: Request, error: Exception) -> Response:
    """Of the framework: no such address, another method, a body that is no JSON."""
    assert isinstance(error, HTTPException)
    code, message, hint = _USUAL.get(error.status_code, ("bad_request", str(error.detail), ""))
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))  # the framework names those of one route alone
    return respond(request, SiteError(error.status_code, code, message, hint, headers))


def _methods(request: Request) -> list[str]:
    """What can be asked of this address."""
    routes = request.app.router.routes
    scopes = [{**request.scope, "method": method} for method in _METHODS]
    found = {scope["method"] for scope in scopes if any(route.matches(scope)[0] is Match.FULL for route in routes)}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))  # web/security/head.py


def _invalid(request: Request, error: Exception) -> Response:
    """Values that do not fit."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    said = printable(faults.in_words(found)).encode(errors="replace").decode()[:_MOST_SAID]
    hint = f"problems: {', '.join(catalogue.ids())}" if faults.of_problem(found) else "see /api/openapi.json"
    return respond(request, SiteError(422, "invalid", said, hint))


def _store(request: Request, error: Exception) -> Response:
    """The database is locked for too long, its disk is full, or it is gone."""
    assert isinstance(error, OperationalError)
    _log.error("%s %s: the store: %s", request.method, request.url.path, error.orig)
    return respond(request, later(503, "store_unavailable", f"the store does not answer: {error.orig}", _BUSY_SECONDS))


def _unreadable(request: Request, error: Exception) -> Response:
    """A report in the store is damaged, or of a judge that wrote them in another way."""
    message = f"the report cannot be read: {printable(str(error))}"
    return respond(request, SiteError(500, "unreadable_report", message, "submit the source again; it is still there"))


def _unexpected(request: Request, error: Exception) -> Response:
    reference = secrets.token_hex(4)
    where = f"{request.method} {printable(request.url.path)}"
    _log.error("error %s: %s failed: %s", reference, where, type(error).__name__, exc_info=error)
    message = f"the site failed; this is error {reference}"
    return respond(request, SiteError(500, "internal", message, "whoever runs the site finds it by that number"))
