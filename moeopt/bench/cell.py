"""One cell: a policy on one shape under one load and seed, as a document without anything that a clock says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from moeopt.errors import MoeoptError
from moeopt.limits import Limits

CELL_SCHEMA = "moeopt/bench-cell/1"
FIGURES = ("objective", "unit", "lower_bound", "bound_kind", "gap", "iterations")


@dataclass(frozen=True)
class Cell:
    """What is run, as a grid names it, with everything that it depends on.

    Parameters
    ----------
    policy, shape, loads, seed
        Its place in the grid.
    rules, drawn
        What shape and loads are.
    """

    policy: str
    shape: str
    rules: dict[str, Any] = field(repr=False)
    loads: str
    drawn: dict[str, Any] = field(repr=False)
    seed: int
    limits: Limits = field(default_factory=Limits, repr=False)
    plans: bool = field(default=False, repr=False)

    @property
    def label(self) -> str:
        """Its place in the grid, for people."""
        return f"{self.policy}, {self.shape}, {self.loads}, seed {self.seed}"

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all that the result depends on: axes, rules, contents of the file, limits, version of moeopt."""
        from moeopt._version import __version__
        from moeopt.documents import sha256

        limits = {name: getattr(self.limits, name) for name in ("time_s", "gap", "iterations", "nodes")}
        known = {"policy": self.policy, "shape": self.shape, "loads": self.loads, "seed": self.seed, "limits": limits}
        return sha256(
            {**known, "rules": self.rules, "drawn": self._drawn(), "plans": self.plans, "moeopt": __version__}
        )

    def _drawn(self) -> dict[str, Any]:
        if "file" not in self.drawn:
            return self.drawn
        from moeopt.workload.readers import split_key

        file, key = split_key(self.drawn["file"])
        try:
            seen = Path(file).stat()
        except OSError:
            return {"missing": True}
        return {"key": key, "content": _content(file, seen.st_mtime_ns, seen.st_size)}

    @property
    def file_name(self) -> str:
        """Of its result: readable, safe on every system, different for different cells.

        >>> Cell("my.own:policy", "g 4", {}, "zipf", {"generator": "zipf"}, 0).file_name[:24]
        'my.own-policy_g-4_zipf_0'
        """
        words = (self.policy, self.shape, self.loads, str(self.seed))
        plain = "_".join(re.sub(r"[^A-Za-z0-9.]+", "-", word)[:40] for word in words)
        return f"{plain}_{self.fingerprint[:8]}.json"

    def document(self) -> dict[str, Any]:
        """What is said of it in its result."""
        place = {"policy": self.policy, "shape": self.shape, "loads": self.loads, "seed": self.seed}
        return {"schema": CELL_SCHEMA, "fingerprint": self.fingerprint, "cell": place}

    def instance(self) -> Any:
        """The placement instance.

        Raises
        ------
        InstanceError
            The loads cannot be read or drawn, or do not go with the shape.
        """
        from moeopt.placement import PlacementInstance
        from moeopt.workload import SHAPES

        rules = dict(self.rules)
        deployment = SHAPES.get(rules.pop("deployment", ""))
        if deployment is not None:
            own = {"gpus": deployment.gpus, "slots": deployment.slots, "nodes": deployment.nodes}
            rules = {**own, **({} if deployment.groups is None else {"groups": deployment.groups}), **rules}
        table = self._table(deployment)
        names = {} if table.names is None else {"names": table.names}
        return PlacementInstance(table.loads, layers=table.layers, name=f"{self.shape}, {self.loads}", **names, **rules)

    def _table(self, deployment: Any) -> Any:
        from moeopt.workload import generate, read_loads

        if "file" in self.drawn:
            return read_loads(self.drawn["file"])
        given = {name: value for name, value in self.drawn.items() if name != "generator"}
        sizes = (
            {} if deployment is None else {name: getattr(deployment, name) for name in ("layers", "experts", "top_k")}
        )
        from moeopt.bench.grid import TOKENS

        return generate(self.drawn["generator"], **{**sizes, "tokens": TOKENS, "seed": self.seed, **given})


def run_cell(cell: Cell) -> dict[str, Any]:
    """Solve it: the document of its result, the same on every run but for `runtime_s` and `stop` by time.

    What does not apply, does not fit or fails is a result with its reason.

    Raises
    ------
    KeyboardInterrupt
        The method was interrupted: what it has so far is no result of this cell.

    >>> from moeopt.bench import Grid
    >>> loads = {"generator": "zipf", "layers": 1, "experts": 4, "top_k": 2}
    >>> grid = Grid(("lpt",), {"two": {"gpus": 2, "slots": 4}}, {"drawn": loads})
    >>> [run_cell(cell)["cell"]["policy"] for cell in grid.cells()]
    ['lpt']
    """
    from moeopt.placement import PROBLEM
    from moeopt.result import Stop

    found: dict[str, Any] = {**cell.document(), "status": None, "reason": None}
    try:
        instance = cell.instance()
        PROBLEM.method(cell.policy)
    except MoeoptError as error:
        return {**found, "reason": str(error), "runtime_s": 0.0}
    except MemoryError:
        return {**found, "reason": "there is not enough memory for this cell", "runtime_s": 0.0}
    (row,) = PROBLEM.compare(instance, [cell.policy], limits=cell.limits, seed=cell.seed).rows
    result = row.result
    found["instance"] = {"name": instance.name, "sha256": instance.sha256}
    found |= {"reason": row.reason or None, "remark": row.remark or None}
    if result is None:
        return {**found, "runtime_s": 0.0}
    if result.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    found |= {"status": str(result.status), "stop": str(result.stop), "notes": list(result.notes)}
    found |= {name: getattr(result, name) for name in FIGURES}
    found["bound_kind"] = None if result.bound_kind is None else str(result.bound_kind)
    if result.solution is not None:
        found |= _figures(result, cell.plans)
    elif result.conflicts:
        found["reason"] = "; ".join(str(one["message"]) for one in result.conflicts)
    return {**found, "runtime_s": result.runtime_s}


def _figures(result: Any, plans: bool) -> dict[str, Any]:
    from moeopt.documents import sha256

    layers = result.solution["layers"]
    gaps = [
        0.0 if one["max_load"] <= one["lower_bound"] else 1 - one["lower_bound"] / one["max_load"] for one in layers
    ]
    slots = {str(one["layer"]): one["slot_expert"] for one in layers}
    return {
        "imbalance_mean": result.solution["imbalance_mean"],
        "imbalance_worst": max(one["imbalance"] for one in layers),
        "gap_worst": max(gaps),
        "imbalance": [one["imbalance"] for one in layers],
        "plan_sha256": sha256(slots),
        **({"slot_expert": slots} if plans else {}),
    }


@lru_cache
def _content(file: str, changed_ns: int, size: int) -> str:
    """Digest of a file, read once for all cells; when and how large it was are what the cache looks at."""
    import hashlib

    from moeopt.documents import read_bytes

    return hashlib.sha256(read_bytes(file)).hexdigest()
