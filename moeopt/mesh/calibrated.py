"""Measured constants in the place of assumed ones, and how far an answer may be from the truth either way."""

from __future__ import annotations

from dataclasses import dataclass, replace

from moeopt.calibrate import Calibration
from moeopt.cost.constants import OVERHEAD_S
from moeopt.cost.links import Link
from moeopt.cost.roofline import Numerics
from moeopt.mesh.hardware import GpuType
from moeopt.percent import percent


@dataclass(frozen=True)
class Band:
    """Where measured tokens a second lie, as multiples of the modelled ones.

    Parameters
    ----------
    low, high
        The multiples.
    source
        What they are from.
    """

    low: float
    high: float
    source: str


RUNS = "nine of ten of the 821 measured runs of aiconfigurator 0.12.0's silicon_sample with plain attention"
UNCALIBRATED = Band(0.37, 1.21, f"uncalibrated, from data sheets: {RUNS}")
"""Of answers from data sheets alone: tokens a second without this band say nothing."""
CALIBRATED = Band(0.52, 1.89, f"with measured kernels and links: {RUNS}")
"""Of answers with constants of the expert kernel and of collectives; the middle of the runs moves from 0.73 to 0.88."""


@dataclass(frozen=True)
class Calibrated:
    """A GPU with measured constants.

    Parameters
    ----------
    gpu
        Efficiencies and links as measured, what was not measured as before.
    overhead_s
        Seconds of launches of one layer: the usual ones and the constant of the expert kernel.
    band
        Of answers with these constants.
    notes
        What was taken, from how many measurements, and what was not.
    """

    gpu: GpuType
    overhead_s: float
    band: Band
    notes: tuple[str, ...]


def calibrated(
    gpu: GpuType,
    constants: Calibration,
    *,
    expert_width: int,
    numerics: Numerics,
    engine: str | None = None,
    overhead_s: float = OVERHEAD_S,
) -> Calibrated:
    """Put measured constants into a type of GPU.

    Parameters
    ----------
    gpu, constants
        The GPU, and what was fitted.
    expert_width
        Width of an expert on one GPU, which says how much of the peak its kernel reaches.
    numerics
        Formats; the arithmetic of the experts chooses the kernel.
    engine
        Of several kernels, that of this engine.
    overhead_s
        Seconds of launches of one layer besides the expert kernel.

    Notes
    -----
    Strength: an approximation. The measured kernel adds computing and moving where the roofline takes the longer of
    both, so near the ridge the roofline stays too fast, by a factor of two at most. Links come from the all-reduce
    within a domain and from the all-to-all beyond it.
    """
    notes: list[str] = []
    made = gpu
    band = UNCALIBRATED
    kernel = constants.kernel(gpu.name, numerics.ffn, stored=numerics.weights, engine=engine)
    if kernel is None:
        notes.append(f"{gpu.name}: no kernel was measured in {numerics.ffn}: efficiencies are assumed")
    else:
        usual = gpu.machine.efficiency
        reached = usual.compute
        if kernel.compute is not None:
            least, most = kernel.ranges.get("own_width", (0.0, float("inf")))
            width = min(max(float(expert_width), least), most)
            reached = kernel.compute * width / (width + kernel.half_width)
            for one in kernel.outside(own_width=float(expert_width)):
                notes.append(f"{gpu.name}: {one}; the nearest measured one is taken")
        memory = usual.memory if kernel.memory is None else kernel.memory
        for name, value in (("compute", reached), ("memory", memory)):
            if value > 1:
                notes.append(f"{gpu.name}: {name} = {value:.2f} of the data sheet is taken as 1")
        efficiency = replace(usual, compute=min(reached, 1.0), memory=min(memory, 1.0))
        made = replace(made, machine=replace(made.machine, efficiency=efficiency))
        overhead_s += kernel.constant_s
        said = f"{kernel.engine} {kernel.dtype}".strip()
        notes.append(f"{gpu.name}: efficiencies by {kernel.errors.points:,} measurements of the expert kernel ({said})")
        notes.append(f"{gpu.name}: nine of ten times of that kernel are within {percent(kernel.errors.p90)} of the fit")
        band = CALIBRATED
    made = replace(
        made,
        scale_up=_link(gpu.scale_up, constants, "all_reduce", gpu, notes, range(2, gpu.domain_gpus + 1)),
        network=_link(gpu.network, constants, "all_to_all", gpu, notes, range(gpu.domain_gpus + 1, 1 << 20)),
    )
    return Calibrated(made, overhead_s, band, tuple(notes))


def _link(
    known: Link | None, constants: Calibration, op: str, gpu: GpuType, notes: list[str], ranks: range
) -> Link | None:
    """The measured link of an operation on so many ranks; the known one where there is none."""
    found = [
        fit
        for fit in constants.collectives
        if fit.op == op and fit.ranks in ranks and (not fit.gpu or gpu.name in fit.gpu)
    ]
    for fit in sorted(found, key=lambda fit: -fit.ranks):
        link = fit.link()
        if known is not None and link is not None:
            notes.append(f"{gpu.name}: link by {fit.errors.points:,} measurements of {op} on {fit.ranks} ranks")
            return link
    if known is not None and constants.collectives:
        where = "within a domain" if ranks.start == 2 else "beyond a domain"
        notes.append(f"{gpu.name}: no {op} was measured {where}: the link is assumed")
    return known
