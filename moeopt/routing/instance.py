"""The routing instance: loads, where the experts lie, and what GPUs cost; frozen and checked at birth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.documented import Documented
from moeopt.documents import sha256, whole
from moeopt.errors import Violations
from moeopt.routing import checks
from moeopt.routing.layer import Hosting, Ints, Task, exact_sum, whole_numbers
from moeopt.workload.table import Loads, as_loads

FloorRule = Literal["per_replica", "per_expert"]
SCHEMA = "moeopt/routing-instance/1"


@dataclass(frozen=True, init=False, eq=False)
class RoutingInstance(Documented):
    """How should the tokens of each expert be split over its replicas?

    Parameters
    ----------
    loads
        (L, E) tokens routed to each expert of each layer over `steps` forward passes; finite, >= 0.
    slot_expert
        (L, S) expert in each slot, -1 for an empty one; GPU-major where `gpu_of_slot` is not given.
    gpus, gpu_of_slot
        G; S GPU ids, by default equally many slots a GPU.
    speed
        G relative speeds > 0; a GPU's cost is its tokens divided by its speed.
    base
        G, or (L, G), tokens that a GPU has whatever is split, such as those of a shared expert.
    nodes
        N nodes of G/N consecutive GPUs, or G node ids; for locality only.
    sources
        (L, E, G) tokens of each expert by the GPU they come from. ``None``: evenly from all GPUs.
    steps, floor_tokens, floor_rule
        A kernel is as slow as if it had ``floor_tokens`` a pass: ``K = floor_tokens * steps``. ``per_replica``: each
        replica costs at least K; ``per_expert``: an expert costs at least K, shared like its tokens.
    whole
        Tokens cannot be cut: every share must be a whole number of them.
    layers, name
        L layer ids; a label.

    Raises
    ------
    InstanceError
        Everything malformed, all at once.

    Examples
    --------
    >>> instance = RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
    >>> instance.num_experts, instance.gpu_of_slot.tolist()
    (3, [0, 0, 1, 1])
    """

    loads: Loads
    slot_expert: NDArray[np.int32]
    gpu_of_slot: Ints
    speed: tuple[float, ...]
    base: tuple[tuple[float, ...], ...]
    node: tuple[int, ...]
    sources: NDArray[Any] | None
    steps: int
    floor_tokens: float
    floor_rule: FloorRule
    whole: bool
    layers: tuple[int, ...]
    name: str

    def __init__(
        self,
        loads: Any,
        slot_expert: Any,
        *,
        gpus: int | None = None,
        gpu_of_slot: Sequence[int] | None = None,
        speed: Sequence[float] | None = None,
        base: Any = None,
        nodes: int | Sequence[int] = 1,
        sources: Any = None,
        steps: int = 1,
        floor_tokens: float = 0.0,
        floor_rule: FloorRule = "per_replica",
        whole: bool = False,
        layers: Sequence[int] | None = None,
        name: str = "",
    ) -> None:
        check = Violations()
        table = as_loads(loads, check, layers=layers)
        count = checks.num_gpus(gpus, gpu_of_slot, speed, check)
        checks.choice("floor_rule", floor_rule, ("per_replica", "per_expert"), check)
        fields: dict[str, Any] = {
            "speed": checks.per_gpu("speed", speed, count, 1.0, check, positive=True),
            "node": checks.node(nodes, count, check),
            "steps": checks.whole("steps", steps, 1, check),
            "floor_tokens": checks.number("floor_tokens", floor_tokens, check),
            "floor_rule": floor_rule,
            "whole": checks.flag("whole", whole, check),
            "name": str(name).encode("utf-8", "backslashreplace").decode(),  # file names may not be text
        }
        num_layers, num_experts = _shape(loads) if table is None else table.shape
        held = checks.slot_expert(slot_expert, num_layers, num_experts, check)
        if held is not None:
            fields["gpu_of_slot"] = checks.gpu_of_slot(gpu_of_slot, held.shape[1], count, check)
        fields["base"] = checks.base(base, num_layers, count, check)
        fields["layers"] = checks.layers(layers, num_layers, check)
        if table is None:
            check.raise_if_any()
            raise AssertionError
        checks.range_of_loads(table, check)
        fields["sources"] = checks.sources(sources, table, count, check)
        if fields["whole"]:
            _whole_tokens(table, fields, check)
        check.raise_if_any()
        fields |= {"loads": table, "slot_expert": held}
        fields["gpu_of_slot"].flags.writeable = False
        for key, value in fields.items():
            object.__setattr__(self, key, value)

    @property
    def num_layers(self) -> int:
        """L."""
        return int(self.loads.shape[0])

    @property
    def num_experts(self) -> int:
        """E."""
        return int(self.loads.shape[1])

    @property
    def num_gpus(self) -> int:
        """G."""
        return len(self.speed)

    @cached_property
    def floor(self) -> Fraction:
        """K, tokens."""
        return exact(self.floor_tokens) * self.steps

    @cached_property
    def exact_speed(self) -> tuple[Fraction, ...]:
        """G speeds."""
        return tuple(exact(pace) for pace in self.speed)

    @cached_property
    def exact_base(self) -> tuple[tuple[Fraction, ...], ...]:
        """(L, G) tokens that a GPU has anyway."""
        known = {row: tuple(exact(more) for more in row) for row in set(self.base)}
        return tuple(known[row] for row in self.base)

    @cached_property
    def hostings(self) -> tuple[Hosting, ...]:
        """Where the experts of each layer lie; equal rows share one."""
        known: dict[bytes, Hosting] = {}
        found = []
        for row in self.slot_expert:
            key = row.tobytes()
            if key not in known:
                known[key] = Hosting.of(row, self.gpu_of_slot, self.num_experts, self.num_gpus)
            found.append(known[key])
        return tuple(found)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Each layer in whole numbers."""
        pace, unit_pace = whole_numbers(self.exact_speed)
        kind = np.int64 if sum(pace) < 2**31 else object
        speeds = np.array(pace, dtype=kind)
        return tuple(self._task(row, speeds, unit_pace) for row in range(self.num_layers))

    def _task(self, row: int, speeds: NDArray[Any], pace: Fraction) -> Task:
        hosting, loads, base = self.hostings[row], self.loads[row], self.base[row]
        floor = self.floor
        if loads.dtype.kind == "i" and floor.denominator == 1 and all(value.is_integer() for value in set(base)):
            unit, a, b, k = Fraction(1), loads, [int(value) for value in base], int(floor)
        else:
            values = [*(exact(value) for value in loads.tolist()), *map(exact, base), floor]
            scaled, unit = whole_numbers(values)
            a = np.array(scaled[: len(loads)], dtype=object)
            b, k = scaled[len(loads) : -1], scaled[-1]
        if exact_sum(a) + sum(b) + k * (len(self.gpu_of_slot) + 1) >= 2**61:
            a = a.astype(object)
        elif a.dtype == object:
            a = a.astype(np.int64)
        more = np.array(b, dtype=a.dtype)
        if self.floor_rule == "per_expert":
            costs = np.maximum(a, k) if k else a
            return Task(costs, more, speeds, costs, 0, unit, pace)
        if not k:
            return Task(a, more, speeds, a, 0, unit, pace)
        weight = np.maximum(a - k * hosting.replicas.astype(a.dtype), 0)
        return Task(weight, more + k * hosting.filled.astype(a.dtype), speeds, a, k, unit, pace)

    @cached_property
    def sha256(self) -> str:
        """Digest of the canonical document without the name."""
        document = {"schema": SCHEMA, "layers": list(self.layers), **self._small()}
        bulk: dict[str, Any] = {"slot_expert": self.slot_expert, "loads": self.loads}
        if self.loads.dtype.kind != "i":
            bulk["loads"] = whole(self.loads.tolist())
        document["sources"] = None if self.sources is None else self.sources.tolist()
        return sha256(document, **bulk)

    @classmethod
    def from_dict(cls, document: Any, source: str = "") -> RoutingInstance:
        """Read a document; unknown fields and versions are refused by name."""
        from moeopt.routing.document import read_instance

        return read_instance(document, source)

    def to_dict(self, *, with_loads: bool = True) -> dict[str, Any]:
        """The document: what `from_dict` reads; without loads and sources it is what a result embeds."""
        document: dict[str, Any] = {"schema": SCHEMA, "name": self.name}
        if with_loads:
            document["loads"] = self.loads.tolist()
            document["sources"] = None if self.sources is None else self.sources.tolist()
        rows = {"layers": list(self.layers), "slot_expert": self.slot_expert.tolist()}
        return document | rows | self._small()

    def _small(self) -> dict[str, Any]:
        """What is not by layer and expert or slot."""
        same = len(set(self.base)) == 1
        return {
            "gpu_of_slot": self.gpu_of_slot.tolist(),
            "speed": list(self.speed),
            "base": list(self.base[0]) if same else [list(row) for row in self.base],
            "nodes": list(self.node),
            "steps": self.steps,
            "floor_tokens": self.floor_tokens,
            "floor_rule": self.floor_rule,
            "whole": self.whole,
        }


def exact(value: float) -> Fraction:
    """A double as the decimal it is written as, so that 0.1 + 0.2 is 0.3.

    >>> exact(0.1) + exact(0.2) == exact(0.3)
    True
    """
    if isinstance(value, int) or value.is_integer():
        return Fraction(int(value))
    return Fraction(repr(value))


def _shape(loads: Any) -> tuple[int, int]:
    """How large broken loads were to be, so that what belongs to them can be checked too."""
    rows = loads if checks.listed(loads) and len(loads) and checks.listed(loads[0]) else [loads]
    return len(rows), max((len(row) for row in rows if checks.listed(row)), default=1)


def _whole_tokens(loads: Loads, fields: dict[str, Any], check: Violations) -> None:
    """Whole tokens need whole loads, and a floor that is whole and each replica's."""
    for row, expert in np.argwhere(loads != np.floor(loads)).tolist():
        where = f"layer row {row}, expert {expert}"
        fix = "Round the loads, or leave whole out"
        check.add("loads", float(loads[row, expert]), rule="must be whole tokens with whole", fix=fix, where=where)
    floor = fields["floor_tokens"] * fields["steps"]
    if fields["floor_rule"] == "per_expert" and floor:
        rule = "has no whole split under per_expert, where tokens below the floor weigh more than 1"
        check.add("whole", True, rule=rule, fix="Use floor_rule per_replica, or leave whole out")
    elif floor != int(floor):
        rule = "times steps must be whole tokens with whole"
        check.add("floor_tokens", fields["floor_tokens"], rule=rule, fix=f"Use {int(fields['floor_tokens']) + 1}")
