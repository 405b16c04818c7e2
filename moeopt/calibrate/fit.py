"""Least relative deviations with coefficients that are not negative, and the errors that remain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

Floats = NDArray[np.float64]
Frozen = ConfigDict(extra="forbid", frozen=True)
ROUNDS = 40
NOTHING = 1e-9
"""A term that is no larger part of any time is rounding, and none."""
HELD_OUT = 5
"""Every fifth point by rising time is held out to see how well the constants foretell."""


class Errors(BaseModel):
    """Relative errors of modelled times, ``(modelled - measured) / measured``.

    Parameters
    ----------
    points
        Measurements.
    median, mean, p90
        Of the absolute errors.
    bias
        Median of the signed errors: below 0, the model is too fast.
    held_out
        Median absolute error on every fifth point, with constants fitted to the others; ``None`` where there are too
        few.
    """

    model_config = Frozen
    points: int
    median: float
    mean: float
    p90: float
    bias: float
    held_out: float | None = None


def errors_of(modelled: Floats, measured: Floats, held_out: float | None = None) -> Errors:
    """The errors of a model.

    >>> errors_of(np.array([1.0, 3.0]), np.array([1.0, 2.0])).mean
    0.25
    """
    signed = modelled / measured - 1
    size = np.abs(signed)
    return Errors(
        points=len(size),
        median=float(np.median(size)),
        mean=float(np.mean(size)),
        p90=float(np.quantile(size, 0.9)),
        bias=float(np.median(signed)),
        held_out=held_out,
    )


def least_deviations(terms: Floats, measured: Floats) -> Floats:
    """Coefficients >= 0 that make ``sum |terms x - measured| / measured`` small.

    Parameters
    ----------
    terms
        (n, p), finite and >= 0.
    measured
        (n,) above 0.

    Notes
    -----
    Strength: a fixed number of re-weighted rounds of non-negative least squares (`scipy.optimize.nnls`) from the
    least-squares start; the best round counts. Outliers, such as a run with a busy host, weigh by their size and not
    by its square.

    >>> terms = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 4.0]])
    >>> least_deviations(terms, np.array([3.0, 5.0, 7.0, 90.0])).round(6).tolist()  # 1 + 2 x, and one outlier
    [1.0, 2.0]
    """
    from scipy.optimize import nnls

    relative = terms / measured[:, None]
    size = np.linalg.norm(relative, axis=0)
    scale = np.where(size > 0, size, 1.0)
    scaled = relative / scale
    weight = np.ones(len(measured))
    best, least = np.zeros(terms.shape[1]), np.inf
    for _ in range(ROUNDS):
        rows = np.column_stack([scaled, np.ones(len(scaled))]) * weight[:, None]
        triangle = np.asarray(np.linalg.qr(rows, mode="r"))
        found = nnls(triangle[:, :-1], triangle[:, -1])[0]  # the same minimum as of all n rows
        off = np.abs(scaled @ found - 1)
        if off.sum() >= least * (1 - 1e-12):
            if off.sum() > least or off.sum() < 1e-12:
                break
        else:
            best, least = found, float(off.sum())
        weight = 1 / np.sqrt(np.maximum(off, 1e-7))
    result: Floats = best / scale
    result[(relative * result).max(axis=0) < NOTHING] = 0.0
    return result


def held_out_error(terms: Floats, measured: Floats) -> float | None:
    """Median absolute relative error on points that the fit has not seen."""
    if len(measured) < 2 * HELD_OUT:
        return None
    order = np.argsort(measured, kind="stable")
    seen = np.ones(len(measured), dtype=bool)
    seen[order[HELD_OUT // 2 :: HELD_OUT]] = False
    found = least_deviations(terms[seen], measured[seen])
    return float(np.median(np.abs(terms[~seen] @ found / measured[~seen] - 1)))


def outside(ranges: dict[str, tuple[float, float]], asked: dict[str, float]) -> list[str]:
    """What is asked beyond what was measured, in words.

    >>> outside({"tokens": (1.0, 4096.0)}, {"tokens": 8192})
    ['tokens = 8192 is beyond the measured 1 to 4096']
    """
    return [
        f"{name} = {value:g} is beyond the measured {ranges[name][0]:g} to {ranges[name][1]:g}"
        for name, value in asked.items()
        if name in ranges and not ranges[name][0] <= value <= ranges[name][1]
    ]
