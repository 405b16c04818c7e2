"""Constants held against themselves, and with their tables, fitted anew."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from moeopt.calibrate.document import Calibration
from moeopt.calibrate.fit import Errors
from moeopt.calibrate.names import DTYPES, OPS
from moeopt.calibrate.run import calibrate
from moeopt.calibrate.table import Table
from moeopt.errors import InstanceError
from moeopt.llm.gpus import GPUS

TOLERANCE = 1e-6
"""Relative difference up to which a constant and the one fitted anew are the same: arithmetic differs by machine."""
KEYS = {"kernels": ("gpu", "engine", "dtype"), "collectives": ("op", "ranks", "gpu"), "steps": ("config",)}
"""What tells the fits of a kind apart."""
KINDS = {"kernels": "kernel", "collectives": "collective", "steps": "step"}
"""Kind of table that each is from."""
LOWEST: dict[str, float] = {
    **dict.fromkeys(("compute", "memory", "bytes_per_s"), math.ulp(0.0)),
    **dict.fromkeys(("half_width", "constant_s", "alpha_s", "fixed_s", "per_sequence_s", "per_cached_token_s"), 0.0),
}
"""Least value of every constant."""


def label_of(kind: str, fit: Any) -> str:
    """What a fit is of.

    >>> from moeopt.calibrate.steps import StepFit
    >>> none = Errors(points=4, median=0, mean=0, p90=0, bias=0)
    >>> label_of("steps", StepFit(config="a", fixed_s=1, per_sequence_s=0, per_cached_token_s=0, errors=none))
    'steps[a]'
    """
    return f"{kind}[{' '.join(str(getattr(fit, key)) for key in KEYS[kind] if getattr(fit, key) != '')}]"


def calibration_faults(found: Calibration, tables: Sequence[Table] = ()) -> tuple[list[str], list[str]]:
    """What is wrong with constants, and what could not be re-checked.

    Signs, ranges, residuals and names are looked at; with the tables that they are from, every digest and, where all
    tables are there, every constant and residual is computed anew.
    """
    faults: list[str] = []
    for kind in KEYS:
        seen: set[str] = set()
        for fit in getattr(found, kind):
            label = label_of(kind, fit)
            if label in seen:
                faults.append(f"{label}: is there twice")
            seen.add(label)
            faults += [f"{label}.{fault}" for fault in _fit_faults(kind, fit)]
        if seen and not any(source.kind == KINDS[kind] for source in found.sources):
            faults.append(f"sources: none is a table of {KINDS[kind]}s, and there are {kind}")
    if not any(getattr(found, kind) for kind in KEYS):
        faults.append("there are no constants")
    for source in found.sources:
        if source.rows < 1:
            faults.append(f"sources[{source.file}].rows = {source.rows}: must be at least 1")
    again, aside = _anew(found, tables)
    return list(dict.fromkeys(faults + again)), aside


def _fit_faults(kind: str, fit: Any) -> Iterator[str]:
    for name, low in LOWEST.items():
        value = getattr(fit, name, None)
        if value is not None and not low <= value < math.inf:
            yield f"{name} = {value!r}: must be a finite number {'>= 0' if low == 0 else '> 0'}"
    if kind == "kernels":
        if fit.gpu not in GPUS:
            yield f"gpu = {fit.gpu}: is no GPU of the catalogue (moeopt info gpus)"
        if fit.dtype not in DTYPES:
            yield f"dtype = {fit.dtype}: is not one of {', '.join(DTYPES)}"
        for name in ("regret", "uncalibrated_regret"):
            value = getattr(fit, name)
            if value is not None and not 0 < value <= 1:
                yield f"{name} = {value!r}: must be above 0 and at most 1"
        if (fit.regret is None) is not (fit.questions == 0):
            yield f"regret = {fit.regret!r}: of {fit.questions} questions"
        yield from _residuals("uncalibrated", fit.uncalibrated)
    if kind == "collectives":
        if fit.op not in OPS.values():
            yield f"op = {fit.op}: is not one of {', '.join(dict.fromkeys(OPS.values()))}"
        if fit.ranks < 2:
            yield f"ranks = {fit.ranks}: must be at least 2"
    yield from _residuals("errors", fit.errors)
    for name, (low, high) in fit.ranges.items():
        if not 0 <= low <= high < math.inf:
            yield f"ranges.{name} = {low:g} to {high:g}: must rise from 0 or more"


def _residuals(name: str, errors: Errors) -> Iterator[str]:
    if errors.points < 1:
        yield f"{name}.points = {errors.points}: must be at least 1"
    for key in ("median", "mean", "p90", "held_out"):
        value = getattr(errors, key)
        if value is not None and not 0 <= value < math.inf:
            yield f"{name}.{key} = {value!r}: must be a finite number >= 0"
    if errors.median > errors.p90:
        yield f"{name}.median = {errors.median!r}: is above p90 = {errors.p90!r}"
    if not -1 <= errors.bias < math.inf:
        yield f"{name}.bias = {errors.bias!r}: must be a relative error, -1 or more"


def _anew(found: Calibration, tables: Sequence[Table]) -> tuple[list[str], list[str]]:
    """Faults against the tables that were given."""
    if not tables:
        return [], ["constants and residuals: give the tables that they are from"]
    digests = {source.sha256: source.file for source in found.sources}
    faults = [
        f"{table.source}: is none of the tables that these constants are from: its sha256 is {table.sha256}"
        for table in tables
        if table.sha256 not in digests
    ]
    missing = [source.file for source in found.sources if source.sha256 not in {table.sha256 for table in tables}]
    if faults or missing:
        return faults, [f"constants and residuals: {', '.join(missing)} is missing"] if missing else []
    named = {fit.gpu for kind in ("kernels", "collectives") for fit in getattr(found, kind)}
    differences: list[list[str]] = []
    for gpu in (None, *(named if len(named) == 1 else ())):  # whether --gpu named it is not kept
        try:
            differences.append(_differences(found, calibrate(tables, gpu=gpu or None)))
        except InstanceError as error:
            differences.append([f"constants: the tables give none ({error})"])
    return min(differences, key=len), []


def _differences(found: Calibration, ours: Calibration) -> list[str]:
    faults = []
    for kind in KEYS:
        theirs = {label_of(kind, fit): fit.model_dump() for fit in getattr(found, kind)}
        known = {label_of(kind, fit): fit.model_dump() for fit in getattr(ours, kind)}
        faults += [f"{label}: does not follow from the tables" for label in theirs if label not in known]
        faults += [f"{label}: is missing" for label in known if label not in theirs]
        for label in theirs.keys() & known.keys():
            faults += list(_apart(label, theirs[label], known[label]))
    return sorted(faults)


def _apart(path: str, theirs: Any, ours: Any) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in dict.fromkeys([*ours, *theirs]):
            yield from _apart(f"{path}.{key}", theirs.get(key), ours.get(key))
    elif isinstance(theirs, list | tuple) and isinstance(ours, list | tuple) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from _apart(path, one, other)
    elif isinstance(theirs, int | float) and isinstance(ours, int | float):
        if abs(theirs - ours) > TOLERANCE * max(abs(theirs), abs(ours), TOLERANCE):
            yield f"{path} = {theirs!r}: fitted anew {ours!r}"
    elif theirs != ours:
        yield f"{path} = {theirs!r}: fitted anew {ours!r}"
