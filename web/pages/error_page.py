"""What a page says when there is nothing to show: what is wrong, and what to do."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import HTMLResponse

from web.errors import SiteError
from web.pages import templating
from web.pages.vocabulary import N_

_TITLES = {
    400: N_("This request cannot be answered"),
    403: N_("This request was not accepted"),
    404: N_("There is nothing here"),
    405: N_("This address does not take that"),
    408: N_("The request came too slowly"),
    413: N_("That is too long"),
    422: N_("Something does not fit"),
    429: N_("Too many submissions at once"),
    500: N_("The site made a mistake"),
    503: N_("Not at the moment"),
}
_ADVICE = {
    403: N_("Open the page again, and send it from there."),
    404: N_("The address may be misspelt, or what was here is gone."),
    429: N_("Go back, wait a little, and send it again; what you wrote is still in the editor."),
    500: N_("Nothing that was submitted is lost. Try it again; if it fails again, tell whoever runs the site."),
    503: N_("Go back, wait a little, and send it again; what you wrote is still in the editor."),
}


def show(request: Request, error: SiteError) -> HTMLResponse:
    """The page, with the status of the error."""
    return templating.page(
        request, "error.html", error.status, error=error, title=_TITLES.get(error.status, _TITLES[400]),
        advice=_ADVICE.get(error.status, ""),
    )  # fmt: skip
