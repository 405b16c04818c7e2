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


def three(value: float) -> str:
    """Three significant digits, thousands set apart and never a power of ten: a model has no more.

    >>> three(15.8412), three(51234.0), three(999.6), three(0.0123), three(40.0)
    ('15.8', '51,200', '1,000', '0.0123', '40')
    """
    if abs(value) >= 999.5:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


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


def tokens(value: float) -> str:
    """Tokens with thousands set apart; what no one counts to by a power of ten.

    >>> tokens(1234567.25), tokens(12.3456789), tokens(2.5e307)
    ('1,234,567.2', '12.3457', '2.50000e+307')
    """
    if abs(value) >= 1e15:
        return f"{value:.5e}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.6g}"


def total(value: float, ratios: bool) -> str:
    """An objective or a bound as every table shows it: tokens, or with windows a sum of ratios.

    >>> total(1234567.25, False), total(27.818, True)
    ('1,234,567.2', '27.8180')
    """
    return f"{value:.4f}" if ratios else tokens(value)
