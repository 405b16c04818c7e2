"""Predictions for measured runs, so that the model can be held against tables of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from moeopt.calibrate import Calibration
from moeopt.calibrate.end_to_end import Run
from moeopt.cost.constants import OVERHEAD_S
from moeopt.cost.roofline import Numerics
from moeopt.errors import InstanceError, Violation
from moeopt.llm import find
from moeopt.mesh.calibrated import calibrated
from moeopt.mesh.families.colocated import Mixed
from moeopt.mesh.families.context import Context
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.instance import Demand, MeshInstance
from moeopt.mesh.rules import faults
from moeopt.mesh.shape import Role, Shape
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.numerics import served
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.prefill import Portion, Prefiller
from moeopt.mesh.step.table import Table
from moeopt.mesh.workload import Workload

CHUNK = 8192
"""Prompt tokens of a step in engines that are not told otherwise (vLLM and SGLang, their defaults on large GPUs)."""
MANY = 1 << 20
"""GPUs there are: a run that was measured had its own."""
FORMATS = {
    "fp8": Numerics("fp8", "bf16", "bf16", "fp8"),
    "fp4": Numerics("fp4", "bf16", "bf16", "fp4"),
    "bf16": Numerics(),
}


class Predictor:
    """Seconds of TTFT and TPOT of measured runs by the step model.

    Parameters
    ----------
    constants
        Measured constants; ``None``: data sheets and the usual efficiencies.

    Notes
    -----
    TTFT is that of a prompt whose turn has come: no queue, whose length a table does not say. No speculation, one
    micro-batch, BF16 caches; the shipped imbalance.
    """

    def __init__(self, constants: Calibration | None = None) -> None:
        self.constants = constants
        self._known: dict[tuple[object, ...], tuple[Context, GpuType, Numerics]] = {}

    def __call__(self, run: Run) -> tuple[float, float]:
        """Predict one run.

        Raises
        ------
        InstanceError
            An LLM or GPU that no source confirms, a precision that is not known, degrees that break a rule.
        """
        tables = {}
        for pool, degrees in run.pools.items():
            context, gpu, numerics = self._question(run, degrees["moe_tp"])
            role: Role = "colocated" if pool == "colocated" else "prefill" if pool == "prefill" else "decode"
            sizes = {name: degrees[name] for name in ("tp", "pp", "dp", "ep", "moe_tp")}
            shape = Shape(role, gpu.name, **sizes, dense_tp=degrees["tp"])
            found = faults(shape, context.demand.llm, gpu, numerics)
            if found:
                raise InstanceError(found)
            tables[pool] = context, Table(context.setting(gpu, numerics), [shape])
        workload = Workload(run.input_tokens, run.output_tokens)
        rounds = -(-run.input_tokens // CHUNK)
        size = run.input_tokens / rounds
        portion = Portion(1, size, (run.input_tokens - size) / 2, rounds)
        if "colocated" in tables:
            context, table = tables["colocated"]
            mixed = Mixed(Decoder(table, workload.context_tokens), Prefiller(table, workload), context)
            batch = np.array([run.pools["colocated"]["batch"]])
            tpot, _ = mixed.times(batch, portion, mixed.beside(portion), 0, 1.0, False)
            return _first_s(table, workload, portion), float(tpot[0])
        decoder = Decoder(tables["decode"][1], workload.context_tokens)
        tpot = decoder.tpot_s(np.array([run.pools["decode"]["batch"]]))
        return _first_s(tables["prefill"][1], workload, portion), float(tpot[0])

    def _question(self, run: Run, moe_tp: int) -> tuple[Context, GpuType, Numerics]:
        asked = (run.llm, run.gpu, run.engine, run.precision, run.input_tokens, run.output_tokens, moe_tp)
        if asked not in self._known:
            self._known[asked] = self._made(run, moe_tp)
        return self._known[asked]

    def _made(self, run: Run, moe_tp: int) -> tuple[Context, GpuType, Numerics]:
        try:
            llm = find(run.llm)
        except InstanceError:
            llm = find(run.llm.rpartition("/")[2])  # copies of other publishers
        gpu = GpuType.of(run.gpu, stock=MANY)
        if run.precision not in FORMATS:
            rule = f"is not one of {', '.join(FORMATS)}"
            raise InstanceError([Violation("precision", "", run.precision, rule, "Use one of these")])
        numerics = served(llm, gpu.machine, FORMATS[run.precision])
        if (llm.expert_format or "").startswith(run.precision):
            numerics = replace(numerics, weights=str(llm.expert_format))
        gpu.machine.peak(numerics.ffn)
        overhead_s = OVERHEAD_S
        if self.constants is not None:
            width = max(int(llm.expert_width or 1) // moe_tp, 1)
            made = calibrated(gpu, self.constants, expert_width=width, numerics=numerics, engine=run.engine)
            gpu, overhead_s = made.gpu, made.overhead_s
        demand = Demand(llm, Workload(run.input_tokens, run.output_tokens), numerics=numerics)
        one = MeshInstance((demand,), (gpu,), objective="goodput", overhead_s=overhead_s)
        return Context(one, 0, demand), gpu, numerics


def _first_s(table: Table, workload: Workload, portion: Portion) -> float:
    step = total_s(Prefiller(table, workload).step(portion))
    return float((portion.rounds + table.pp[0] - 1) * step[0])
