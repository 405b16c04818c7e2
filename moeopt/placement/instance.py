"""The placement instance: loads, GPUs and rules, frozen and checked at birth; see ``models/placement.md``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.documents import sha256, whole
from moeopt.errors import Violations
from moeopt.placement import checks, rules, shape
from moeopt.placement import shared as shared_experts
from moeopt.placement.derived import Derived
from moeopt.placement.move_budget import moves_of
from moeopt.workload.table import Loads

Split = Literal["even", "free", "sglang-static", "sglang-static-node", "random"]
SPLITS: tuple[Split, ...] = ("even", "free", "sglang-static", "sglang-static-node", "random")
Combine = Literal["worst", "mean", "cvar"]
Shared = Literal["replicated", "fused", "hosted"]
Fill = Literal["all", "at_most"]
FloorRule = Literal["per_expert", "per_replica"]
GroupRule = Literal["auto", "hierarchical"]

SCHEMA = "moeopt/placement-instance/1"


@dataclass(frozen=True, init=False, eq=False)
class PlacementInstance(Derived):
    """Where may the replicas of each expert go, and what does each placement cost?

    Parameters
    ----------
    loads
        (L, E) tokens routed to each expert of each layer over `steps` forward passes; finite, >= 0. Or (W, L, E):
        W windows, each planned for; `loads` is then their sum, and `window_loads` keeps them apart.
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
        ``even``: an expert's replicas get equal parts; ``free``: any parts, chosen by the solver; or what the engine
        does: ``sglang-static`` (a source GPU uses one replica: its own, else they are dealt to the sources in turn),
        ``sglang-static-node`` (own GPU, then own node, then the others), ``random`` (every token draws a replica).
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
    combine, alpha
        How the windows of a layer become one figure: ``worst``, ``mean`` or ``cvar``, the mean of the worst
        ``1 - alpha`` of them.
    current, current_gpu
        (L, S0) expert in each slot of the running plan, -1 empty; GPU of each of its slots (default: as `slots`).
    max_moves, max_moves_per_layer, move_cost
        Most (expert, GPU) pairs that may be new, in all (``"10%"`` is of all slots) and in a layer; tokens that one
        of them is worth.
    lost, retire
        GPUs that died, with all they held; GPUs to be emptied, which can still be read from. They get no slots.
    min_replicas, survive_nodes
        Least replicas of an expert, one number or E; every expert lies on at least ``survive_nodes + 1`` nodes.
    c_slot, c_tok
        Seconds per slot touched in a pass and per token: plans are then priced in seconds too.
    token_bytes, recv_bytes_per_s
        Bytes of one token and what a GPU receives, one rate or G: receiving slows a GPU down (needs `c_tok`).
    shared, num_shared, top_k
        Shared experts: ``replicated`` on every GPU beside its slots, ``fused`` (in a slot of every GPU) or
        ``hosted`` (further experts that every token selects); how many; experts a token selects.
    batch_tokens
        Tokens a GPU has in one step, for the noise that no plan can remove.
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
    window_loads: Loads | None
    layers: tuple[int, ...]
    steps: int
    window_steps: tuple[int, ...]
    combine: Combine
    alpha: float
    floor_tokens: float
    floor_rule: FloorRule
    split: Split
    fill: Fill
    distinct: bool
    slots: tuple[int, ...]
    slots_before: tuple[int, ...]
    given_slots: tuple[int, ...]
    speed: tuple[float, ...]
    given_speed: tuple[float, ...]
    node: tuple[int, ...]
    groups: tuple[int, ...] | None
    group_rule: GroupRule
    pin: tuple[tuple[int, int], ...]
    forbid: tuple[tuple[int | None, int], ...]
    expert_bytes: float | None
    memory_bytes: tuple[float, ...] | None
    names: tuple[str, ...] | None
    current: NDArray[np.int32] | None
    current_gpu: tuple[int, ...] | None
    max_moves: int | None
    max_moves_per_layer: int | None
    move_cost: float
    lost: tuple[int, ...]
    retire: tuple[int, ...]
    min_replicas: tuple[int, ...]
    survive_nodes: int
    c_slot: float | None
    c_tok: float | None
    token_bytes: float | None
    recv_bytes_per_s: tuple[float, ...] | None
    shared: Shared | None
    num_shared: int
    top_k: int | None
    batch_tokens: int | None
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
        steps: int | Sequence[int] = 1,
        combine: Combine = "worst",
        alpha: float = 0.9,
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
        current: Any = None,
        current_gpu: Sequence[int] | None = None,
        max_moves: int | str | None = None,
        max_moves_per_layer: int | None = None,
        move_cost: float = 0.0,
        lost: Sequence[int] = (),
        retire: Sequence[int] = (),
        min_replicas: int | Sequence[int] = 1,
        survive_nodes: int = 0,
        c_slot: float | None = None,
        c_tok: float | None = None,
        token_bytes: float | None = None,
        recv_bytes_per_s: float | Sequence[float] | None = None,
        shared: Shared | None = None,
        num_shared: int = 1,
        top_k: int | None = None,
        batch_tokens: int | None = None,
        name: str = "",
        llm: Mapping[str, Any] | None = None,
        phase: str | None = None,
        engine: str | None = None,
    ) -> None:
        check = Violations()

        def put(key: str, value: object) -> None:  # the class is frozen
            object.__setattr__(self, key, value)

        table, window_loads = rules.windows(loads, check, layers)
        for key, value, allowed in (
            ("group_rule", group_rule, ("auto", "hierarchical")),
            ("floor_rule", floor_rule, ("per_expert", "per_replica")),
            ("split", split, SPLITS),
            ("fill", fill, ("all", "at_most")),
            ("combine", combine, ("worst", "mean", "cvar")),
        ):
            checks.choice(key, value, allowed, check)
            put(key, value)
        for key, flag in (("distinct", distinct), ("uneven_slots", uneven_slots)):
            if not isinstance(flag, bool | np.bool_):
                check.refuse(key, flag, rule="must be true or false", fix="Use true or false")
        put("window_steps", rules.steps(steps, 1 if window_loads is None else len(window_loads), check))
        put("steps", sum(self.window_steps))
        put("alpha", checks.fraction("alpha", alpha, check))
        put("floor_tokens", checks.number("floor_tokens", floor_tokens, check))
        put("distinct", isinstance(distinct, bool | np.bool_) and bool(distinct))
        put("num_shared", checks.whole("num_shared", num_shared, 1, check))
        put("top_k", rules.positive_or_none("top_k", top_k, check))
        if shared is not None:
            checks.choice("shared", shared, ("replicated", "fused", "hosted"), check)
        put("shared", shared)
        shared_experts.refuse(shared, self.num_shared, self.top_k, groups, check)
        check.raise_if_any()
        assert table is not None
        if self.num_hosted:
            assert self.top_k is not None
            table = shared_experts.hosted(table, self.num_hosted, self.top_k)
            if window_loads is not None:
                window_loads = shared_experts.hosted(window_loads, self.num_hosted, self.top_k)
            more = [f"shared {place}" for place in range(self.num_hosted)]
            names = shared_experts.extended(names, more, table.shape[1])
            min_replicas = shared_experts.extended(min_replicas, [1] * self.num_hosted, table.shape[1])
        num_layers, num_experts = table.shape
        memory = checks.memory(expert_bytes, memory_bytes, check)
        num_gpus = checks.num_gpus(gpus, slots, speed, memory, check)
        check.raise_if_any()
        put("loads", table)
        put("window_loads", window_loads)
        put("layers", checks.layers(layers, num_layers, check))
        put("names", checks.names(names, num_experts, check))
        put("given_speed", checks.speed(speed, num_gpus, check))
        self._put_prices(put, c_slot, c_tok, token_bytes, recv_bytes_per_s, num_gpus, check)
        put("speed", rules.effective_speed(self.given_speed, self.c_tok, self.token_bytes, self.recv_bytes_per_s))
        if not all(0.0 < pace < math.inf for pace in self.speed) and not check.found:
            rule = "with c_tok and recv_bytes_per_s must leave every GPU a speed that is a double > 0"
            check.add("token_bytes", self.token_bytes, rule=rule, fix="Check the units of all three")
        put("node", checks.node(nodes, num_gpus, check))
        put("groups", checks.groups(groups, num_experts, check))
        put("expert_bytes", None if expert_bytes is None else float(expert_bytes))
        put("memory_bytes", checks.per_gpu_memory(memory, num_gpus, check))
        put("slots", ())
        check.raise_if_any()
        put("given_slots", shape.slots(self, slots, bool(uneven_slots), check))
        put("slots_before", self.given_slots)
        if shared == "fused":
            put("slots_before", shared_experts.fused_slots(self.given_slots, self.num_shared, check))
        put("slots", self.slots_before)
        put("pin", checks.pairs("pin", pin, num_experts, num_gpus, check))
        put("forbid", checks.pairs("forbid", forbid, num_experts, num_gpus, check, any_expert=True))
        put("name", str(name).encode("utf-8", "backslashreplace").decode())  # file names may not be text
        put("llm", checks.facts("llm", llm, check))
        put("phase", checks.word("phase", phase, check))
        put("engine", checks.word("engine", engine, check))
        plan = rules.running_plan(current, current_gpu, self, check)
        put("current", plan[0])
        put("current_gpu", plan[1])
        allowed_moves = rules.part_budget("max_moves", max_moves, current, check)
        put("max_moves_per_layer", rules.budget("max_moves_per_layer", max_moves_per_layer, current, check))
        put("move_cost", checks.number("move_cost", move_cost, check))
        put("min_replicas", rules.min_replicas(min_replicas, num_experts, check))
        put("survive_nodes", checks.whole("survive_nodes", survive_nodes, 0, check))
        put("batch_tokens", rules.positive_or_none("batch_tokens", batch_tokens, check))
        check.raise_if_any()
        shape.refuse(self, check)
        gone = rules.gone(lost, retire, num_gpus, check)
        put("lost", gone[0])
        put("retire", gone[1])
        put("slots", tuple(0 if g in {*gone[0], *gone[1]} else n for g, n in enumerate(self.slots_before)))
        put("max_moves", moves_of(allowed_moves, self))
        check.raise_if_any()

    def _put_prices(
        self,
        put: Callable[[str, object], None],
        c_slot: Any,
        c_tok: Any,
        token_bytes: Any,
        recv_bytes_per_s: Any,
        num_gpus: int,
        check: Violations,
    ) -> None:
        """Seconds per slot and token, and what receiving costs."""
        put("c_slot", rules.price("c_slot", c_slot, check))
        put("c_tok", rules.price("c_tok", c_tok, check))
        size, rates = rules.receiving(token_bytes, recv_bytes_per_s, self.c_tok, num_gpus, check)
        put("token_bytes", size)
        put("recv_bytes_per_s", rates)

    def to_dict(self, *, with_loads: bool = True) -> dict[str, Any]:
        """The document; the defaults of the plain problem are written out, further rules where they are in force.

        Without loads it is what a plan embeds.
        """
        from moeopt.placement.written import to_document

        return to_document(self, with_loads=with_loads)

    @cached_property
    def sha256(self) -> str:
        """Digest of the canonical document with loads and without the name, so that file formats do not matter."""
        document = self.to_dict(with_loads=False)
        del document["name"]
        table = self.given_loads
        return sha256(document, loads=table if table.dtype == np.int64 else whole(table.tolist()))

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
