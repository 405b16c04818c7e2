"""Fractions as per cent, alike in every table, note and report."""

from __future__ import annotations

import math


def percent(value: float) -> str:
    """About three digits: one decimal from 10 %, two from 1 %, three below; what is not zero never looks like zero.

    >>> percent(0.7478), percent(0.0195), percent(0.00091), percent(0.0), percent(1e-7)
    ('74.8 %', '1.95 %', '0.091 %', '0 %', '<0.001 %')
    """
    hundredths = value * 100
    if value == 0:
        return "0 %"
    if 0 < hundredths < 0.0005:
        return "<0.001 %"
    return f"{hundredths:,.{_decimals(hundredths)}f} %"


def percent_up(value: float) -> str:
    """As `percent`, rounded up: for "at most".

    >>> percent_up(0.0), percent_up(1e-7), percent_up(0.01951), percent_up(0.0020001)
    ('0 %', '0.001 %', '1.96 %', '0.201 %')
    """
    step = 10.0 ** _decimals(value * 100)
    return percent(math.ceil(value * 100 * step - 1e-7) / step / 100)


def _decimals(hundredths: float) -> int:
    """Decimals, by the number as it is shown."""
    size = abs(hundredths)
    return 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
