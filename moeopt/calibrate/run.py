"""From tables to constants: each table is told by its columns."""

from __future__ import annotations

from collections.abc import Iterable

from moeopt import kinds
from moeopt.calibrate.collectives import CollectiveFit, fit_collectives, is_collective_table
from moeopt.calibrate.document import Calibration, Source
from moeopt.calibrate.end_to_end import is_end_to_end
from moeopt.calibrate.kernels import KernelFit, fit_kernels, is_kernel_table
from moeopt.calibrate.steps import StepFit, fit_steps, is_step_table
from moeopt.calibrate.table import Table
from moeopt.errors import Violations

FORMS = (
    "tokens, hidden, width, experts, top_k and a time (kernel); op, ranks, bytes and a time (collective); "
    "batch and a time (step); or a table of aiconfigurator: moe_perf, nccl_perf, silicon_sample"
)


def kind_of(table: Table) -> str:
    """``kernel``, ``collective``, ``step`` or ``end-to-end``.

    Raises
    ------
    InstanceError
        The columns are those of none.
    """
    if is_end_to_end(table):
        return "end-to-end"
    if is_kernel_table(table):
        return "kernel"
    if is_collective_table(table):
        return "collective"
    if is_step_table(table):
        return "step"
    check = Violations(table.source)
    check.add("columns", ", ".join(table.columns), rule="are of no known table", fix=f"Known are {FORMS}")
    check.raise_if_any()
    raise AssertionError


@kinds.expects(tables=kinds.some)
def calibrate(tables: Iterable[Table], *, gpu: str | None = None) -> Calibration:
    """Fit what the tables determine.

    Parameters
    ----------
    tables
        Measurements of kernels, collectives or steps, told apart by their columns.
    gpu
        The GPU they are from, where a table does not say it, or says it otherwise.

    Raises
    ------
    InstanceError
        No table, one of no known form or with bad numbers, an unknown GPU, or nothing that can be fitted.

    >>> from moeopt.calibrate import Table
    >>> sizes = [2**power for power in range(10, 20)]
    >>> times = [1e-5 + size / 1e11 for size in sizes]
    >>> rows = {"op": ["all_reduce"] * 10, "ranks": [8] * 10, "bytes": sizes, "time_s": times}
    >>> fit = calibrate([Table("mine.csv", rows)], gpu="H200").collectives[0]
    >>> round(fit.alpha_s * 1e6)
    10
    """
    kernels: list[KernelFit] = []
    collectives: list[CollectiveFit] = []
    steps: list[StepFit] = []
    sources: list[Source] = []
    skipped: list[str] = []
    check = Violations()
    for table in tables:
        with check.within():
            kind = kind_of(table)
            if kind == "end-to-end":
                fix = "Replay it by itself: moeopt.calibrate.replay"
                check.add("table", table.source, rule="has whole runs, from which no constant follows", fix=fix)
                continue
            if kind == "kernel":
                kernels += fit_kernels(table, gpu, skipped)
            elif kind == "collective":
                collectives += fit_collectives(table, gpu, skipped)
            else:
                steps += fit_steps(table, skipped)
            sources.append(Source(file=table.source, sha256=table.sha256, rows=len(table), kind=kind))
    if not check.found and not (kernels or collectives or steps):
        files = ", ".join(source.file for source in sources) or "none"
        reason = f": {'; '.join(skipped)}" if skipped else ""
        few = any("few" in said for said in skipped) or not skipped
        fix = "Give more measurements" if few else "Mend what is named, or measure something else"
        check.add("tables", files, rule=f"nothing can be fitted{reason}", fix=fix)
    check.raise_if_any()
    return Calibration(
        schema="moeopt/calibration/1",
        kernels=kernels,
        collectives=collectives,
        steps=steps,
        sources=sources,
        skipped=skipped,
    )
