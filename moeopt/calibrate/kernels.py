"""The fused MoE kernel: four constants from a table of times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from moeopt.calibrate.fit import Errors, Frozen, errors_of, held_out_error, least_deviations, outside
from moeopt.calibrate.names import DTYPES, gpu_of
from moeopt.calibrate.table import Table
from moeopt.cost.constants import PEAK, Efficiency
from moeopt.cost.roofline import Machine
from moeopt.errors import Violations

Floats = NDArray[np.float64]
SIZES = {
    "tokens": ("tokens", "num_tokens"),
    "hidden": ("hidden", "hidden_size"),
    "width": ("width", "inter_size"),
    "experts": ("experts", "num_experts"),
    "top_k": ("top_k", "topk"),
    "moe_tp": ("moe_tp", "moe_tp_size"),
    "ep": ("ep", "moe_ep_size"),
}
OPTIONAL = ("moe_tp", "ep")
ROW_BLOCK = 16
"""Rows of an expert are computed in blocks of so many."""
FEWEST = 8
EVEN = ("balanced", "even", "uniform")


class KernelFit(BaseModel):
    """``t = F / (e_f peak I / (I + I_h)) + bytes / (e_b BW) + c``, for one GPU, engine and format.

    F counts the rows of each touched expert in blocks of 16; I is the width of an expert on one GPU (``width /
    moe_tp``), I_h the width at which a kernel reaches half of ``e_f``.

    Parameters
    ----------
    gpu, engine, dtype
        What was measured.
    compute, memory
        ``e_f`` and ``e_b``, parts of the data sheet's peaks; ``None`` where the measurements do not determine them: no
        point is bound by it.
    half_width
        ``I_h``; 0 where it is not determined.
    constant_s
        ``c``, seconds.
    errors, uncalibrated
        Of this fit, and of the plain roofline with the default efficiencies on the same points.
    regret, uncalibrated_regret
        Of the choice between MoE TP and EP at equal GPUs, measured best time over the measured time of what the model
        chooses: median over the questions that the table answers; ``None`` where it answers none.
    questions
        How many these are.
    skew
        Measured over modelled time, median, by kind of load other than even.
    ranges
        Least and largest of every size that was measured; `own_width` is that of an expert on one GPU.
    notes
        What to know.
    """

    model_config = Frozen
    gpu: str
    engine: str
    dtype: str
    compute: float | None
    memory: float | None
    half_width: float
    constant_s: float
    errors: Errors
    uncalibrated: Errors
    regret: float | None = None
    uncalibrated_regret: float | None = None
    questions: int = 0
    skew: dict[str, float] = {}
    ranges: dict[str, tuple[float, float]] = {}
    notes: list[str] = []

    def seconds(
        self, *, tokens: float, hidden: int, width: int, experts: int, top_k: int, moe_tp: int = 1, ep: int = 1
    ) -> float:
        """Seconds of one layer's experts on one GPU under an even load; see `outside` for what it may be asked."""
        one = {name: np.array([float(value)]) for name, value in locals().items() if name in SIZES}
        terms = _terms(one, Machine.of(self.gpu, efficiency=PEAK), self.dtype)
        return float((terms @ self._coefficients())[0])

    def outside(self, **asked: float) -> list[str]:
        """What is asked beyond the measured range: an extrapolation, which must be said."""
        return outside(self.ranges, asked)

    def _coefficients(self) -> Floats:
        part = 1 / self.compute if self.compute else 0.0
        return np.array([part, part * self.half_width, 1 / self.memory if self.memory else 0.0, self.constant_s])


@dataclass(frozen=True, eq=False)
class _Points:
    """Measurements of one GPU, engine, format."""

    gpu: str
    engine: str
    dtype: str
    sizes: dict[str, Floats]
    load: NDArray[np.str_]
    seconds: Floats

    def where(self, chosen: NDArray[np.bool_]) -> _Points:
        sizes = {name: values[chosen] for name, values in self.sizes.items()}
        return _Points(self.gpu, self.engine, self.dtype, sizes, self.load[chosen], self.seconds[chosen])


def is_kernel_table(table: Table) -> bool:
    """Whether the columns are those of a kernel."""
    return all(table.find(names) for name, names in SIZES.items() if name not in OPTIONAL)


def fit_kernels(table: Table, gpu: str | None, skipped: list[str]) -> Iterator[KernelFit]:
    """A fit for each GPU, engine and format of the table; what cannot be fitted goes into `skipped` with its reason."""
    check = Violations(table.source)
    sizes = {
        name: table.numbers(names, check, default=1.0 if name in OPTIONAL else None) for name, names in SIZES.items()
    }
    found = ("latency", 1e-3) if "num_tokens" in table.columns and "latency" in table.columns else None
    column, unit = found or table.seconds_column() or ("seconds", 1.0)
    seconds = table.numbers((column,), check) * unit
    devices = table.words(("gpu", "device"), gpu or "")
    known = {device: gpu_of(gpu or device, check) for device in sorted(set(devices))}
    check.raise_if_any()
    frameworks, versions = table.words(("engine", "framework"), ""), table.words(("version",), "")
    dtypes = table.words(("dtype", "moe_dtype"), "bf16")
    loads = np.array(table.words(("load", "distribution"), "balanced"))
    engines = [f"{name} {version}".strip() for name, version in zip(frameworks, versions, strict=True)]
    keys = [(known[device], engine, dtype) for device, engine, dtype in zip(devices, engines, dtypes, strict=True)]
    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    group = np.array([place[key] for key in keys])
    for key, number in place.items():
        chosen = group == number
        here = {name: values[chosen] for name, values in sizes.items()}
        points = _Points(*key, here, loads[chosen], seconds[chosen])
        fit = _fit(points, skipped)
        if fit is not None:
            yield fit


def _fit(points: _Points, skipped: list[str]) -> KernelFit | None:
    name = ", ".join(part for part in (points.gpu, points.engine, points.dtype) if part)
    if points.dtype not in DTYPES:
        skipped.append(f"{name}: {len(points.seconds):,} points of a format that is not known: {points.dtype}")
        return None
    machine = Machine.of(points.gpu, efficiency=PEAK)
    if DTYPES[points.dtype][0] not in machine.flops_per_s:
        skipped.append(f"{name}: no source confirms the GPU's peak in {DTYPES[points.dtype][0]}")
        return None
    even = np.isin(points.load, EVEN)
    notes = []
    if not even.any():
        even[:] = True
        notes.append(f"no even loads: fitted to {', '.join(sorted(set(points.load.tolist())))}")
    fitted = points.where(even)
    if len(fitted.seconds) < FEWEST:
        few = len(fitted.seconds)
        said = "1 point is" if few == 1 else f"{few} points are"
        skipped.append(f"{name}: {said} too few for four constants, {FEWEST} are needed")
        return None
    terms = _terms(fitted.sizes, machine, points.dtype)
    use = np.array([True, len(set((fitted.sizes["width"] / fitted.sizes["moe_tp"]).tolist())) > 1, True, True])
    if not use[1]:
        notes.append("half_width is not determined: one width was measured")
    found = np.zeros(4)
    found[use] = least_deviations(terms[:, use], fitted.seconds)
    if found[0] == 0 and found[1] > 0:  # all penalty and no rate: not a width at which half is reached
        use[1] = False
        found[:] = 0
        found[use] = least_deviations(terms[:, use], fitted.seconds)
        notes.append("half_width is not determined beside compute")
    compute = None if found[0] == 0 else float(1 / found[0])
    memory = None if found[2] == 0 else float(1 / found[2])
    for label, value in (("compute", compute), ("memory", memory)):
        if value is None:
            notes.append(f"{label} is not determined: no measured point is bound by it")
        elif value > 1:
            notes.append(
                f"{label} = {value:.2f} is above the data sheet: the count of work is larger than what is done"
            )
    own = ("own_width", fitted.sizes["width"] / fitted.sizes["moe_tp"])
    plain = _roofline(fitted.sizes, points.gpu, points.dtype)
    regrets, plain_regrets = _regrets(fitted, terms @ found), _regrets(fitted, plain)
    other = {
        str(load): float(np.median(some.seconds / (_terms(some.sizes, machine, points.dtype) @ found)))
        for load in sorted(set(points.load[~even].tolist()))
        for some in (points.where(points.load == load),)
    }
    return KernelFit(
        gpu=points.gpu,
        engine=points.engine,
        dtype=points.dtype,
        compute=compute,
        memory=memory,
        half_width=float(found[1] / found[0]) if found[0] else 0.0,
        constant_s=float(found[3]),
        errors=errors_of(terms @ found, fitted.seconds, held_out_error(terms[:, use], fitted.seconds)),
        uncalibrated=errors_of(plain, fitted.seconds),
        regret=float(np.median(regrets)) if regrets else None,
        uncalibrated_regret=float(np.median(plain_regrets)) if plain_regrets else None,
        questions=len(regrets),
        skew=other,
        ranges={key: (float(values.min()), float(values.max())) for key, values in (*fitted.sizes.items(), own)},
        notes=notes,
    )


def _work(sizes: dict[str, Floats], dtype: str, block: int) -> tuple[Floats, Floats, Floats]:
    """FLOPs, bytes and width of one GPU's part under an even load: gated experts, three matrices each."""
    rows = sizes["tokens"] * sizes["top_k"] / sizes["ep"]
    touched = np.minimum(sizes["experts"] / sizes["ep"], rows)
    width = sizes["width"] / sizes["moe_tp"]
    padded = np.ceil(rows / touched / block) * block * touched if block > 1 else rows
    matrices = 3 * sizes["hidden"] * width
    moved = touched * matrices * DTYPES[dtype][1] + rows * 2 * sizes["hidden"] * 2
    return 2 * padded * matrices, moved, width


def _terms(sizes: dict[str, Floats], machine: Machine, dtype: str) -> Floats:
    """(n, 4): what multiplies 1/e_f, I_h/e_f, 1/e_b and c."""
    flops, moved, width = _work(sizes, dtype, ROW_BLOCK)
    compute = flops / machine.peak(DTYPES[dtype][0])
    return np.stack([compute, compute / width, moved / machine.bytes_per_s, np.ones_like(compute)], axis=1)


def _roofline(sizes: dict[str, Floats], gpu: str, dtype: str) -> Floats:
    """Times of the model without any calibration."""
    flops, moved, _ = _work(sizes, dtype, 1)
    usual, machine = Efficiency(), Machine.of(gpu, efficiency=PEAK)
    compute = flops / (machine.peak(DTYPES[dtype][0]) * usual.compute)
    return np.maximum(compute, moved / (machine.bytes_per_s * usual.memory))


def _regrets(points: _Points, modelled: Floats) -> list[float]:
    """Best measured over chosen time, for each question: the same layer and tokens on equally many GPUs."""
    sizes = points.sizes
    gpus = sizes["moe_tp"] * sizes["ep"]
    asked = np.stack([sizes[name] for name in ("tokens", "hidden", "width", "experts", "top_k")] + [gpus], axis=1)
    _, question = np.unique(asked, axis=0, return_inverse=True)
    order = np.argsort(question.ravel(), kind="stable")
    found = []
    for part in np.split(order, np.flatnonzero(np.diff(question.ravel()[order])) + 1):
        shapes = {(sizes["moe_tp"][place], sizes["ep"][place]) for place in part.tolist()}
        if len(shapes) > 1:
            chosen = part[np.argmin(modelled[part])]
            found.append(float(points.seconds[part].min() / points.seconds[chosen]))
    return found
