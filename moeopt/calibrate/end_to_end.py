"""End-to-end measurements replayed: how far predictions are off, and what their choices would have cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel

from moeopt.calibrate.fit import Errors, Frozen, errors_of
from moeopt.calibrate.names import gpu_of
from moeopt.calibrate.table import Table
from moeopt.cost.checks import is_number
from moeopt.errors import InstanceError, MoeoptError, Violation, Violations

TTFT, TPOT = "silicon_ttft_ms", "silicon_tpot_ms"
DEGREES = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size", "batch_size")
WORDS = ("model_path", "backend", "precision", "mode")


@dataclass(frozen=True)
class Run:
    """One measured service.

    Parameters
    ----------
    llm, gpu, engine, precision, mode
        What ran; `mode` is ``agg`` or ``disagg``.
    input_tokens, output_tokens
        Lengths.
    pools
        By pool (``colocated``, or ``prefill`` and ``decode``): `tp`, `pp`, `dp`, `moe_tp`, `ep`, `batch` (of a
        data-parallel rank) and `workers`.
    ttft_s, tpot_s
        What was measured; TPOT is the mean of a request's tokens after its first.
    """

    llm: str
    gpu: str
    engine: str
    precision: str
    mode: str
    input_tokens: int
    output_tokens: int
    pools: Mapping[str, Mapping[str, int]]
    ttft_s: float
    tpot_s: float

    @property
    def gpus(self) -> int:
        """GPUs of all pools."""
        return sum(pool["tp"] * pool["pp"] * pool["dp"] * pool["workers"] for pool in self.pools.values())

    @property
    def sequences(self) -> int:
        """Sequences that are decoded at once."""
        pool = self.pools["decode" if "decode" in self.pools else "colocated"]
        return pool["batch"] * pool["dp"] * pool["workers"]


Predict = Callable[[Run], tuple[float | None, float | None]]
"""Seconds of TTFT and TPOT of a run, ``None`` for what it does not say; whatever it raises is why it refuses."""


class Part(BaseModel):
    """Errors on some of the runs."""

    model_config = Frozen
    runs: int
    answered: int
    tpot: Errors | None
    ttft: Errors | None


class Replay(BaseModel):
    """Predictions beside measurements.

    Parameters
    ----------
    parts
        By name: ``all``, each mode, each GPU, each LLM.
    regret, regret_mean, regret_worst, fewest_mean
        Measured tokens a second and GPU of the shape that predictions choose, over the best measured one: median, mean
        and least over the questions; and the mean for who always takes the fewest GPUs. ``None`` without a question.
    questions
        Sets of runs that differ in their shape alone: same LLM, GPU, engine, precision, mode, lengths and sequences.
    refused
        Why runs were not answered, and how many.
    unreadable
        Rows that were left aside, by reason.
    """

    model_config = Frozen
    parts: dict[str, Part]
    regret: float | None
    regret_mean: float | None
    fewest_mean: float | None
    regret_worst: float | None
    questions: int
    refused: dict[str, int]
    unreadable: dict[str, int]


def is_end_to_end(table: Table) -> bool:
    """Whether the columns are those of end-to-end runs."""
    return TPOT in table.columns


def runs_of(table: Table) -> tuple[list[Run], dict[str, int]]:
    """The runs of a table of aiconfigurator's form (``silicon_sample.csv``), and why rows were left aside."""
    missing = [name for name in (*WORDS, "system", "isl", "osl", TTFT) if name not in table.columns]
    if missing:
        rule = "must be columns of an end-to-end table"
        raise InstanceError([Violation("columns", "", ", ".join(missing), rule, "Add them")], table.source)
    runs, aside = [], Counter[str]()
    for place in range(len(table)):
        row = {name: cells[place] for name, cells in table.columns.items()}
        try:
            runs.append(_run(row))
        except (KeyError, TypeError, ValueError) as error:
            aside[str(error)] += 1
    return runs, dict(aside)


def replay(table: Table, predict: Predict) -> Replay:
    """Predict every run of an end-to-end table.

    `predict` gives the seconds, or tokens a second, that a model has for a run.

    Raises
    ------
    InstanceError
        Columns are missing, or no row can be read.

    >>> from moeopt.calibrate import Table
    >>> columns = "model_path backend precision mode system isl osl silicon_ttft_ms".split()
    >>> try:
    ...     replay(Table("runs.csv", {name: ["1"] for name in columns[1:]}), lambda run: None)
    ... except InstanceError as error:
    ...     print(error)
    runs.csv: columns = model_path: must be columns of an end-to-end table. Add them.
    """
    runs, aside = runs_of(table)
    if not runs:
        reason = "; ".join(aside) or "no rows"
        raise InstanceError([Violation("rows", "", reason, "no row can be read", "Repair the table")], table.source)
    said: list[tuple[float | None, float | None]] = []
    refused = Counter[str]()
    for run in runs:
        try:
            said.append(_checked(predict(run)))
        except Exception as error:  # the function is somebody's: what it raises is its answer
            said.append((None, None))
            kind = "" if isinstance(error, MoeoptError) else f"{type(error).__name__}: "
            refused[kind + str(error).partition("\n")[0]] += 1
    groups = {"all": list(range(len(runs)))}
    for name in ("mode", "gpu", "llm"):
        for place, run in enumerate(runs):
            groups.setdefault(str(getattr(run, name)), []).append(place)
    parts = {name: _part([runs[place] for place in chosen], [said[place] for place in chosen])
             for name, chosen in groups.items()}  # fmt: skip
    regrets = _regrets(runs, said)
    fewest = _regrets(runs, [one if one[1] is None else (None, 1.0) for one in said])
    return Replay(
        parts=parts,
        regret=float(np.median(regrets)) if regrets else None,
        regret_mean=float(np.mean(regrets)) if regrets else None,
        fewest_mean=float(np.mean(fewest)) if fewest else None,
        regret_worst=min(regrets) if regrets else None,
        questions=len(regrets),
        refused=dict(refused.most_common()),
        unreadable=aside,
    )


def _checked(said: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    ttft, tpot = said
    for value in (ttft, tpot):
        if value is not None and not (is_number(value) and value > 0):
            raise ValueError(f"{value!r} is no time")
    return ttft, tpot


def _run(row: dict[str, object]) -> Run:
    def whole(name: str) -> int:
        cell = row.get(name)
        if cell in (None, ""):
            raise ValueError(f"{name} is empty")
        value = int(float(str(cell)))
        if value < 1:
            raise ValueError(f"{name} is {value}")
        return value

    def seconds(name: str) -> float:
        value = float(str(row[name])) / 1e3
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} is not above 0")
        return value

    check = Violations()
    gpu = gpu_of(str(row["system"]), check)
    if check.found:
        raise ValueError(f"system {row['system']} is no GPU of the catalogue")
    mode = str(row["mode"])
    names = {"agg": {"colocated": ""}, "disagg": {"prefill": "prefill_", "decode": "decode_"}}.get(mode)
    if names is None:
        raise ValueError(f"mode {mode} is not agg or disagg")
    pools = {}
    for pool, prefix in names.items():
        tp, pp, dp, moe_tp, ep, batch = (whole(prefix + name) for name in DEGREES)
        workers = whole(f"{prefix}num_workers") if prefix else 1
        pools[pool] = {"tp": tp, "pp": pp, "dp": dp, "moe_tp": moe_tp, "ep": ep, "batch": batch, "workers": workers}
    llm, engine, precision, _ = (str(row[name]) for name in WORDS)
    lengths = whole("isl"), whole("osl")
    return Run(llm, gpu, engine, precision, mode, *lengths, pools, seconds(TTFT), seconds(TPOT))


def _part(runs: Sequence[Run], said: Sequence[tuple[float | None, float | None]]) -> Part:
    found: list[Errors | None] = []
    for place, name in ((1, "tpot_s"), (0, "ttft_s")):
        pairs = [
            (one[place], getattr(run, name)) for run, one in zip(runs, said, strict=True) if one[place] is not None
        ]
        both = np.array(pairs, dtype=float)
        found.append(errors_of(both[:, 0], both[:, 1]) if pairs else None)
    answered = sum(one != (None, None) for one in said)
    return Part(runs=len(runs), answered=answered, tpot=found[0], ttft=found[1])


def _regrets(runs: Sequence[Run], said: Sequence[tuple[float | None, float | None]]) -> list[float]:
    questions: dict[tuple[object, ...], list[int]] = {}
    for place, run in enumerate(runs):
        if said[place][1] is not None:
            asked = (run.llm, run.gpu, run.engine, run.precision, run.mode, run.input_tokens, run.output_tokens)
            questions.setdefault((*asked, run.sequences), []).append(place)
    found = []
    for places in questions.values():
        if len({str(runs[place].pools) for place in places}) > 1:
            measured = {place: 1 / (runs[place].tpot_s * runs[place].gpus) for place in places}
            chosen = min(places, key=lambda place: (said[place][1] or 0.0) * runs[place].gpus)
            found.append(measured[chosen] / max(measured.values()))
    return found
