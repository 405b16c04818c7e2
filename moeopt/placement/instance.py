"""The placement instance: loads, GPUs and rules, frozen and checked at birth; see ``models/placement.md``."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.documents import sha256, whole
from moeopt.errors import Violations
from moeopt.kernels.counts import greedy_counts
from moeopt.placement import checks, shape
from moeopt.workload.table import Loads, as_loads

Split = Literal["even", "free"]
Fill = Literal["all", "at_most"]
FloorRule = Literal["per_expert", "per_replica"]
GroupRule = Literal["auto", "hierarchical"]

SCHEMA = "moeopt/placement-instance/1"


@dataclass(frozen=True, init=False, eq=False)
class PlacementInstance:
    """Where may the replicas of each expert go, and what does each placement cost?

    Parameters
    ----------
    loads
        (L, E) tokens routed to each expert of each layer over `steps` forward passes; finite, >= 0.
    gpus
        G, the number of GPUs; may be left out where `slots`, `speed` or `memory_bytes` has one entry a GPU.
    slots
        S, the slots of all GPUs together, dealt evenly; or G numbers, one a GPU. Left out with `memory_bytes`.
    nodes
        N nodes of G/N consecutive GPUs; or G node ids.
    groups
        Q groups of E/Q consecutive experts that stay on one node; or E group ids. ``None``: no such rule.
    group_rule
        ``auto``: flat, with a note, when the groups do not divide over the nodes; ``hierarchical``: then refused.
    steps, floor_tokens, floor_rule
        A kernel is as slow as if it had ``floor_tokens`` per pass: ``K = floor_tokens * steps``. ``per_expert``:
        an expert costs ``max(a_e, K)``, shared by its replicas; ``per_replica``: each replica costs at least K.
    split
        ``even``: an expert's replicas get equal parts; ``free``: any parts, chosen by the solver.
    fill
        ``all``: every slot holds a replica (engines need it); ``at_most``: slots may stay empty.
    distinct
        No two replicas of an expert on one GPU.
    speed
        G relative speeds > 0; a GPU's cost is its tokens divided by its speed.
    uneven_slots
        Allow a total of `slots` that GPUs do not divide; GPUs then differ by at most one slot.
    pin, forbid
        ``(expert, gpu)`` pairs: a replica that must be there; one that must not (expert ``None``: any expert).
    expert_bytes, memory_bytes
        Bytes of one replica in one layer, and G (or one) bytes per GPU for them in one layer: gives `slots`.
    names
        E unique expert names.
    layers
        L layer ids of the LLM.
    name, llm, phase, engine
        Carried into plans: a label, facts of the LLM, ``prefill`` or ``decode``, the serving engine.

    Raises
    ------
    InstanceError
        Everything malformed and every refused shape, all at once.

    Examples
    --------
    >>> instance = PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4)
    >>> instance.num_layers, instance.num_experts, instance.slots
    (1, 4, (2, 2))
    """

    loads: Loads
    layers: tuple[int, ...]
    steps: int
    floor_tokens: float
    floor_rule: FloorRule
    split: Split
    fill: Fill
    distinct: bool
    slots: tuple[int, ...]
    speed: tuple[float, ...]
    node: tuple[int, ...]
    groups: tuple[int, ...] | None
    group_rule: GroupRule
    pin: tuple[tuple[int, int], ...]
    forbid: tuple[tuple[int | None, int], ...]
    expert_bytes: float | None
    memory_bytes: tuple[float, ...] | None
    names: tuple[str, ...] | None
    name: str = field(compare=False)
    llm: Mapping[str, Any] | None
    phase: str | None
    engine: str | None

    def __init__(
        self,
        loads: Any,
        *,
        gpus: int | None = None,
        slots: int | Sequence[int] | None = None,
        nodes: int | Sequence[int] = 1,
        groups: int | Sequence[int] | None = None,
        group_rule: GroupRule = "auto",
        steps: int = 1,
        floor_tokens: float = 0.0,
        floor_rule: FloorRule = "per_expert",
        split: Split = "even",
        fill: Fill = "all",
        distinct: bool = True,
        speed: Sequence[float] | None = None,
        uneven_slots: bool = False,
        pin: Sequence[tuple[int, int]] = (),
        forbid: Sequence[tuple[int | None, int]] = (),
        expert_bytes: float | None = None,
        memory_bytes: float | Sequence[float] | None = None,
        names: Sequence[str] | None = None,
        layers: Sequence[int] | None = None,
        name: str = "",
        llm: Mapping[str, Any] | None = None,
        phase: str | None = None,
        engine: str | None = None,
    ) -> None:
        check = Violations()

        def put(key: str, value: object) -> None:  # the class is frozen
            object.__setattr__(self, key, value)

        table = as_loads(loads, check, layers=layers)
        for key, value, allowed in (
            ("group_rule", group_rule, ("auto", "hierarchical")),
            ("floor_rule", floor_rule, ("per_expert", "per_replica")),
            ("split", split, ("even", "free")),
            ("fill", fill, ("all", "at_most")),
        ):
            checks.choice(key, value, allowed, check)
            put(key, value)
        for key, flag in (("distinct", distinct), ("uneven_slots", uneven_slots)):
            if not isinstance(flag, bool | np.bool_):
                check.add(key, flag, rule="must be true or false", fix="Use true or false")
        put("steps", checks.whole("steps", steps, 1, check))
        put("floor_tokens", checks.number("floor_tokens", floor_tokens, check))
        put("distinct", isinstance(distinct, bool | np.bool_) and bool(distinct))
        check.raise_if_any()
        assert table is not None
        num_layers, num_experts = table.shape
        memory = checks.memory(expert_bytes, memory_bytes, check)
        num_gpus = checks.num_gpus(gpus, slots, speed, memory, check)
        check.raise_if_any()
        put("loads", table)
        put("layers", checks.layers(layers, num_layers, check))
        put("names", checks.names(names, num_experts, check))
        put("speed", checks.speed(speed, num_gpus, check))
        put("node", checks.node(nodes, num_gpus, check))
        put("groups", checks.groups(groups, num_experts, check))
        put("expert_bytes", None if expert_bytes is None else float(expert_bytes))
        put("memory_bytes", checks.per_gpu_memory(memory, num_gpus, check))
        put("slots", ())
        check.raise_if_any()
        put("slots", shape.slots(self, slots, bool(uneven_slots), check))
        put("pin", checks.pairs("pin", pin, num_experts, num_gpus, check))
        put("forbid", checks.pairs("forbid", forbid, num_experts, num_gpus, check, any_expert=True))
        put("name", str(name).encode("utf-8", "backslashreplace").decode())  # file names may not be text
        put("llm", checks.facts("llm", llm, check))
        put("phase", checks.word("phase", phase, check))
        put("engine", checks.word("engine", engine, check))
        check.raise_if_any()
        shape.refuse(self, check)
        check.raise_if_any()

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
        return len(self.slots)

    @property
    def num_slots(self) -> int:
        """S, over all GPUs."""
        return sum(self.slots)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Distinct node ids, ascending."""
        return tuple(sorted(set(self.node)))

    @property
    def uniform(self) -> bool:
        """All GPUs have equal slots and equal speed."""
        return len(set(self.slots)) == 1 and len(set(self.speed)) == 1

    @property
    def hierarchical(self) -> bool:
        """Groups are kept on one node each: given, more than one node, and dividing over the nodes."""
        if self.groups is None or len(self.node_ids) == 1:
            return False
        return len(set(self.groups)) % len(self.node_ids) == 0

    @property
    def constrained(self) -> bool:
        """Some (expert, GPU) pairs are pinned or forbidden."""
        return bool(self.pin or self.forbid)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the rules turned into where that was not asked for."""
        if self.groups is None or self.hierarchical or len(self.node_ids) == 1:
            return ()
        count = len(set(self.groups))
        return (f"groups ignored (global placement): {count} groups do not divide over {len(self.node_ids)} nodes",)

    @cached_property
    def slot_start(self) -> NDArray[np.int64]:
        """(G + 1,) first slot of each GPU in GPU-major order, and S at the end."""
        return np.concatenate([[0], np.cumsum(self.slots)]).astype(np.int64)

    @cached_property
    def gpu_of_slot(self) -> NDArray[np.int64]:
        """(S,) GPU of each slot."""
        return np.repeat(np.arange(self.num_gpus), self.slots)

    @cached_property
    def floor(self) -> Fraction:
        """K, the load floor in tokens over the window, exact."""
        return Fraction(self.floor_tokens) * self.steps

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """(L, E) ``w_e = max(a_e, K)``, the load each expert costs, in floating point."""
        return np.maximum(self.loads.astype(np.float64), float(self.floor))

    @cached_property
    def greedy_counts(self) -> NDArray[np.int64]:
        """(L, E) replicas by the greedy rule over all GPUs, at most one a GPU where they are distinct."""
        usable = sum(count > 0 for count in self.slots)
        return greedy_counts(self.weights, self.num_slots, usable if self.distinct else None)

    @cached_property
    def exact_loads(self) -> tuple[NDArray[Any], int, int]:
        """Loads and K as whole numbers over one denominator: ``(a, K, denominator)``.

        ``a`` is (L, E) int64 where sums of S entries fit, else Python ints in an object array.
        """
        denominator = self.floor.denominator  # a power of two, like that of every float
        if self.loads.dtype == np.int64:
            whole: NDArray[Any] = self.loads if denominator == 1 else self.loads.astype(object) * denominator
        else:
            ratios = [value.as_integer_ratio() for value in self.loads.ravel().tolist()]
            denominator = max(denominator, *(bottom for _, bottom in ratios))
            tops = [top * (denominator // bottom) for top, bottom in ratios]
            whole = np.array(tops, dtype=np.int64 if max(tops) < 2**62 else object).reshape(self.loads.shape)
        return whole, int(self.floor * denominator), denominator

    @cached_property
    def ideal(self) -> tuple[Fraction, ...]:
        """L exact values ``sum_e w_e / sum_g speed_g``: the cost of every GPU in perfect balance."""
        whole, floor, denominator = self.exact_loads
        speed = sum(map(Fraction, self.speed))
        fits = max(int(whole.max()), floor) * self.num_experts < 2**62
        weights = np.maximum(whole if fits else whole.astype(object), floor)
        return tuple(Fraction(int(total), denominator) / speed for total in weights.sum(axis=1))

    def to_dict(self, *, with_loads: bool = True) -> dict[str, Any]:
        """The document; every default is written out. Without loads it is what a plan embeds."""
        document: dict[str, Any] = {"schema": SCHEMA, "name": self.name}
        if with_loads:
            document["loads"] = self.loads.tolist()
        document |= {
            "layers": list(self.layers),
            "steps": self.steps,
            "floor_tokens": self.floor_tokens,
            "floor_rule": self.floor_rule,
            "split": self.split,
            "fill": self.fill,
            "distinct": self.distinct,
            "slots": list(self.slots),
            "speed": list(self.speed),
            "nodes": list(self.node),
            "groups": None if self.groups is None else list(self.groups),
            "group_rule": self.group_rule,
            "pin": [list(pair) for pair in self.pin],
            "forbid": [list(pair) for pair in self.forbid],
            "expert_bytes": self.expert_bytes,
            "memory_bytes": None if self.memory_bytes is None else list(self.memory_bytes),
            "names": None if self.names is None else list(self.names),
            "llm": copy.deepcopy(self.llm),
            "phase": self.phase,
            "engine": self.engine,
        }
        return document

    @cached_property
    def sha256(self) -> str:
        """Digest of the canonical document with loads and without the name, so that file formats do not matter."""
        document = self.to_dict(with_loads=False)
        del document["name"]
        rows = self.loads.tolist()
        return sha256(document, loads=rows if self.loads.dtype == np.int64 else whole(rows))

    def __eq__(self, other: object) -> bool:
        """Equal data; the name does not count."""
        return isinstance(other, PlacementInstance) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    @classmethod
    def from_dict(cls, document: Any, source: str = "") -> PlacementInstance:
        """Read a document; unknown fields and versions are refused by name."""
        from moeopt.placement.document import read_instance

        return read_instance(document, source)
