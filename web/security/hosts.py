"""The Host that a request was sent to, and the Origin that it was sent from.

A name of an attacker that resolves to 127.0.0.1 (DNS rebinding) makes a browser believe that this site is his. His
name is then the Host of every request, so only names of loopback are served.
"""

from __future__ import annotations

import ipaddress

from fastapi import Request

from web.errors import SiteError

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN = frozenset({"same-origin", "none"})  # of Sec-Fetch-Site; a page at another port of localhost is "same-site"
_HTTP_PORT = 80


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address: 127.0.0.0/8, ::1, or the name localhost."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_url(host: str) -> str:
    """As it is written before a port: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def allowed(host: str, port: int) -> frozenset[str]:
    """Values of the header Host that are ours, for a site that listens on `host` and `port`."""
    names = {"localhost", "127.0.0.1", "[::1]", in_url(host).lower()}
    return frozenset({f"{name}:{port}" for name in names} | (names if port == _HTTP_PORT else set()))


def check_host(request: Request, hosts: frozenset[str]) -> None:
    """Raises SiteError 400 for a Host that is not one of `hosts`."""
    found = request.headers.getlist("host")
    if len(found) != 1 or found[0].lower() not in hosts:
        names = ", ".join(sorted(hosts))
        hint = f"it answers to {names}; through a tunnel, use the same port on both sides"
        raise SiteError(400, "wrong_host", "this site does not go by the name in the header Host", hint)


def check_origin(request: Request) -> None:
    """Raises SiteError 403 for a request that changes something and comes from a page of another origin. The Host has
    been checked before. A program sends neither header, and is none of this function's business."""
    if request.method in SAFE_METHODS:
        return
    origins = request.headers.getlist("origin")
    own = f"http://{request.headers['host'].lower()}"
    if any(origin.lower() != own for origin in origins) or request.headers.get("sec-fetch-site", "none") not in _OWN:
        hint = "open the site itself and send it from there"
        raise SiteError(403, "wrong_origin", "this request was sent by a page of another site", hint)
