"""Ceilings that were measured before, beside the compile results in the user's cache directory.

They hold for one card, one driver and one version of our kernels, for seven days. Whatever is damaged, too old or from
the future is as good as absent; who wants fresh figures does not ask.
"""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.compile import cache
from harness.measure.records import Ceilings

MOST_AGE = timedelta(days=7)
_FORMAT = "ceilings 1"
_HERE = Path(__file__).parent
_OURS = ("ceiling*.py", "matrix_rates.py", "kernels/ceilings.cu", "kernels/matrix*.cu", "kernels/bulk.cuh")


def known(card_name: str, driver_version: str, now: datetime | None = None) -> Ceilings | None:
    """The ceilings of a card, by the driver's name for it, if they were remembered and still hold."""
    payload = cache.get(_key(card_name, driver_version))
    try:
        found = _read(json.loads(payload or b""))
        age = (now or datetime.now(UTC)) - datetime.fromisoformat(found.date)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    holds = timedelta(0) <= age <= MOST_AGE and (found.card, found.driver) == (card_name, driver_version)
    return found if holds else None


def remember(ceilings: Ceilings) -> None:
    """Keep measured ceilings. A disk that cannot be written only costs the next measurement."""
    if not ceilings.modelled and not ceilings.cached:
        payload = json.dumps(dataclasses.asdict(ceilings)).encode()
        cache.put(_key(ceilings.card, ceilings.driver), payload)


def _key(card_name: str, driver_version: str) -> str:
    ours = [path for pattern in _OURS for path in _HERE.glob(pattern)]
    return cache.digest(_FORMAT, card_name, driver_version, cache.files_digest(ours))


def _read(fields: dict[str, Any]) -> Ceilings:
    found = Ceilings(**{**fields, "cached": True})
    figures = [found.copy, found.read, *found.rates.values()]
    if not all(math.isfinite(figure) and figure > 0 for figure in figures) or "fma" not in found.rates:
        raise ValueError("no ceilings")
    return found
