"""Numbers with their units, as reports show them: three digits that count, never an exponent where it can be helped."""

from __future__ import annotations

import math

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
_PREFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
NOTHING = "-"
_PLAIN_AND_NICE = (
    ("+- ", "\N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}"),
    (" %", "\N{NO-BREAK SPACE}%"),
    (" us", " \N{MICRO SIGN}s"),
    ("x as", "\N{MULTIPLICATION SIGN} as"),
)


def significant(value: float) -> str:
    """4110, 62.3, 8.15, 0.0021; "-" for what is no number."""
    if not math.isfinite(value):
        return NOTHING
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{value:.{digits}f}" if size >= 0.0995 or not size else f"{value:.2g}"


def seconds(value: float) -> str:
    """A time in the unit that suits it: 1.25 s, 6.42 ms, 41.6 us; "-" where there is none."""
    if not (math.isfinite(value) and value > 0):
        return NOTHING
    unit, size = next(((unit, size) for unit, size in _UNITS if value >= size), ("ns", 1e-9))
    return f"{significant(value / size)} {unit}"


def gigabytes(bytes_per_second: float) -> str:
    """Of a rate in bytes/s, in GB/s, without the unit."""
    return significant(bytes_per_second / 1e9)


def teraflops(rate: float) -> str:
    """Of a rate in FLOP/s, in TFLOP/s, without the unit."""
    return significant(rate / 1e12)


def percent(share: float) -> str:
    """Of a share of 1: 35 %, 3.4 %, 0.02 %."""
    if not math.isfinite(share):
        return NOTHING
    part = 100 * share
    return f"{part:.0f} %" if part >= 9.95 or not part else f"{part:.1f} %" if part >= 0.095 else f"{part:.1g} %"


def score(value: float) -> str:
    """Of 100: 63.2."""
    return f"{value:.1f}" if math.isfinite(value) else NOTHING


def times(ratio: float) -> str:
    """How many times as fast: 1.57x."""
    return f"{significant(ratio)}x"


def span(low: int, high: int) -> str:
    """45-61, or 45 where both are the same."""
    return str(low) if low == high else f"{low}-{high}"


def scaled(amount: float) -> str:
    """A count with one decimal and a decimal prefix: "83.9 M". It ends in a blank or a prefix, ready for a unit."""
    for size, prefix in _PREFIXES:
        if amount >= size:
            return f"{amount / size:.1f} {prefix}"
    return f"{amount:.0f} "


def nice(text: str) -> str:
    """Figures as a page can show them, which has more letters than some terminals."""
    for plain, better in _PLAIN_AND_NICE:
        text = text.replace(plain, better)
    return text
