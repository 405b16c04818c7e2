"""`CollocationInstance`: a routing trace, the GPUs it runs on, and what their transport merges; checked at birth."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt import kinds
from moeopt.collocation import checks, derived
from moeopt.collocation.transports import Transport, find_transport
from moeopt.documents import sha256
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.cluster.described import Described
    from moeopt.cluster.graph import Cluster

Ints = NDArray[np.int64]

SCHEMA = "moeopt/collocation-instance/1"
RULES = ("nearest", "home_node", "even")
OBJECTIVES = ("auto", "time", "copies", "tokens")
HIDDEN, BATCH_TOKENS = 7168, 4096
"""What a copy and a step are taken to be where nothing is said; a note says so."""


@dataclass(frozen=True, init=False, eq=False)
class CollocationInstance:
    """Which experts share a GPU or a node.

    Parameters
    ----------
    ids
        (L, T, k) experts of each token, or (T, k) of one layer; -1 is padding.
    pairs
        (L, E, E) instead of `ids`: tokens that select both experts, loads on the diagonal. Copies cannot be counted
        from it; the objective is pairs apart, and says so.
    experts
        E; by default one more than the largest id, with a note.
    cluster, nodes, gpus
        A link graph, or a rank-cost matrix as it was read, which says the nodes alone; or a number of nodes (or the
        node of each GPU) and of GPUs in all, without links.
    slots, fill
        Slots of all GPUs or of each, by default as few as hold every expert once, equally many a GPU; ``all``: every
        slot gets an expert, ``at_most``: slots may be empty.
    transport
        A name of `TRANSPORTS`, or a `Transport`.
    replica_rule
        ``nearest``, ``home_node`` or ``even``: see ``models/collocation.md``.
    source
        (T,) GPU of each token; by default each GPU alike.
    objective
        ``time`` of the busiest link, ``copies`` or ``tokens`` of the busiest GPU; ``auto``: by transport and cluster.
    max_imbalance
        Most tokens of a GPU over the mean of GPUs.
    groups, top_groups
        Group-limited routing: groups are runs of consecutive experts.
    held_out
        Share of the tokens, the last ones, that plans are scored on and not made for.
    hidden, batch_tokens, step_s
        Elements of a token; tokens of a GPU in a step; seconds of a step, all layers.
    current
        (L, S) the running plan.

    Raises
    ------
    InstanceError
        Anything is malformed, out of range, repeated or contradictory; all violations at once.

    >>> pairs = CollocationInstance([[0, 2], [1, 3], [0, 2]], nodes=2, gpus=2)
    >>> pairs.num_tokens, pairs.slots.tolist(), pairs.objective
    (3, [2, 2], 'copies')
    >>> CollocationInstance([[0, 0], [1, 9]], experts=4, nodes=2, gpus=2, transport="allgather")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: ids[layer 0, token 1] = 9: must be -1 or an expert below experts = 4. Drop the token or give more experts.
    ids[layer 0, token 0] = [0, 0]: a token selects an expert once. Drop the double.
    transport = allgather: every GPU gets every token, so no placement changes the bytes: collocation has nothing to win; moeopt place balances the tokens. Use deepep-normal where the engine can.
    """  # noqa: E501

    ids: Ints = field(repr=False)
    pairs: Ints | None = field(repr=False)
    num_experts: int
    layers: tuple[int, ...]
    cluster: Cluster | None
    node: Ints = field(repr=False)
    unit: Ints = field(repr=False)
    slots: Ints = field(repr=False)
    fill: str
    transport: Transport
    replica_rule: str
    source: Ints | None = field(repr=False)
    objective: str
    max_imbalance: float | None
    limited: tuple[int, int] | None
    held_out: float
    hidden: int
    batch_tokens: float
    step_s: float | None
    current: Ints | None = field(repr=False)
    name: str
    notes: tuple[str, ...] = field(repr=False)

    def __init__(
        self,
        ids: Any = None,
        *,
        pairs: Any = None,
        experts: int | None = None,
        layers: Sequence[int] | None = None,
        cluster: Cluster | Described | None = None,
        nodes: int | Sequence[int] | None = None,
        gpus: int | None = None,
        slots: int | Sequence[int] | None = None,
        fill: str = "all",
        transport: str | Transport = "deepep-normal",
        replica_rule: str = "nearest",
        source: Any = None,
        objective: str = "auto",
        max_imbalance: float | None = None,
        groups: int | None = None,
        top_groups: int | None = None,
        held_out: float = 0.0,
        hidden: int | None = None,
        batch_tokens: float | None = None,
        step_s: float | None = None,
        current: Any = None,
        name: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        check = Violations()
        said = list(kinds.listed(check, "notes", notes, str))

        def put(key: str, value: object) -> None:  # the class is frozen
            object.__setattr__(self, key, value)

        if (ids is None) == (pairs is None):
            fix = "Give the trace; pairs only where there is none"
            check.add("ids, pairs", "both" if pairs is not None else "neither", rule="exactly one is needed", fix=fix)
            check.raise_if_any()
        known = None if experts is None else checks.whole("experts", experts, 1, check)
        table = None if pairs is None else checks.pair_counts(pairs, check)
        found = derived.from_pairs(table) if pairs is not None else checks.token_ids(ids, known, check)
        way = find_transport(transport, check)
        put("replica_rule", checks.choice("replica_rule", replica_rule, RULES, check))
        put("fill", checks.choice("fill", fill, ("all", "at_most"), check))
        wanted = checks.choice("objective", objective, OBJECTIVES, check)
        where = derived.gpus(cluster, nodes, gpus, check)
        links: Any = cluster
        if getattr(cluster, "cost", None) is not None:  # of a matrix nothing but the nodes is known
            said.append(derived.without_links(links.name, where))
            links = None
        put("hidden", HIDDEN if hidden is None else checks.whole("hidden", hidden, 1, check))
        put(
            "batch_tokens", BATCH_TOKENS if batch_tokens is None else checks.number("batch_tokens", batch_tokens, check)
        )
        put("step_s", None if step_s is None else checks.number("step_s", step_s, check))
        cap = None if max_imbalance is None else checks.number("max_imbalance", max_imbalance, check, least=1.0)
        put("max_imbalance", cap)
        if not (isinstance(held_out, int | float) and 0 <= held_out < 1):
            check.add("held_out", held_out, rule="must be a share of the tokens in [0, 1)", fix="Use 0.5")
            held_out = 0.0
        check.raise_if_any()
        assert found is not None and way is not None
        num_layers, num_tokens = found.shape[:2]
        if table is not None and known is not None and known != table.shape[1]:
            rule = f"pairs has {table.shape[1]} of them"
            check.add("experts", known, rule=rule, fix="Leave it out")
        size = table.shape[1] if table is not None else known if known is not None else int(found.max()) + 1
        if known is None and table is None:
            said.append(f"experts are taken to be {size}, one more than the largest id")
        put("num_experts", size)
        put("layers", checks.layer_ids(layers, num_layers, check))
        put("node", where)
        put("slots", checks.slots(slots, size, len(where), check))
        put("source", checks.sources(source, num_tokens, len(where), check))
        put("limited", checks.limited(found, size, groups, top_groups, check))
        if table is not None and (source is not None or held_out or groups is not None):
            rule = "a trace is needed for this"
            check.add("source, held_out, groups", "given", rule=rule, fix="Give ids instead of pairs")
        put("unit", derived.units(where, links, way))
        put("objective", derived.objective(wanted, way, links, self.source is not None, table is not None, check))
        put("held_out", float(held_out))
        if not 1 <= self._cut(num_tokens) <= num_tokens - bool(held_out):
            rule = f"must leave some of the {num_tokens} tokens on either side"
            check.add("held_out", held_out, rule=rule, fix="Use 0.5" if num_tokens > 1 else "Use 0")
        elif held_out:
            checks.either_side(found, self._cut(num_tokens), self.layers, check)
        put("current", derived.current(current, num_layers, int(self.slots.sum()), size, check))
        check.raise_if_any()
        found.flags.writeable = False
        put("ids", found)
        put("pairs", table)
        put("cluster", links)
        put("transport", way)
        put("name", name)
        if self.source is None and table is None:
            said.append("sources of tokens are not given: every GPU is taken to have as many")
        if links is not None and (hidden is None or batch_tokens is None):
            what = f"{self.hidden:,} elements a token and {self.batch_tokens:,.0f} tokens a GPU and step are assumed"
            said.append(f"{what}: give hidden and batch_tokens for seconds of your own")
        if table is not None:
            said.append("pair counts stand for tokens: the objective is pairs apart, an approximation of copies")
        put("notes", tuple(dict.fromkeys(said)))

    def _cut(self, tokens: int) -> int:
        return int(tokens * (1 - self.held_out))

    @property
    def num_layers(self) -> int:
        """L."""
        return int(self.ids.shape[0])

    @property
    def num_gpus(self) -> int:
        """G."""
        return len(self.node)

    @property
    def num_slots(self) -> int:
        """S."""
        return int(self.slots.sum())

    @property
    def num_units(self) -> int:
        """Units that the transport merges by."""
        return int(self.unit.max()) + 1

    @property
    def num_tokens(self) -> int:
        """Tokens that plans are made for."""
        return self._cut(self.ids.shape[1])

    @cached_property
    def gpu_of_slot(self) -> Ints:
        """(S,) GPU of each slot."""
        return np.repeat(np.arange(self.num_gpus), self.slots)

    @cached_property
    def place_in_node(self) -> Ints:
        """(G,) index of each GPU within its unit of the network: where copies from the same index land."""
        group = self.landing
        return np.array([int((group[:gpu] == group[gpu]).sum()) for gpu in range(self.num_gpus)])

    @property
    def landing(self) -> Ints:
        """(G,) the node, or the scale-up domain where that is larger, that one copy over the network goes to."""
        return self.unit if self.transport.merge == "node" else self.node

    @cached_property
    def unit_slots(self) -> Ints:
        """(U,) slots of each unit."""
        return np.bincount(self.unit, weights=self.slots, minlength=self.num_units).astype(np.int64)

    @cached_property
    def unit_gpus(self) -> Ints:
        """(U,) GPUs of each unit."""
        return np.bincount(self.unit, minlength=self.num_units)

    @cached_property
    def sha256(self) -> str:
        """Digest of what is decided on."""
        document = self.to_dict(bulk=False)
        del document["name"], document["notes"]
        return sha256(document)

    def to_dict(self, *, bulk: bool = True) -> dict[str, Any]:
        """The document, with the trace or without."""
        from moeopt.collocation.document import to_dict

        return to_dict(self, bulk=bulk)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], source: str = "") -> CollocationInstance:
        """An instance from its document; raises `InstanceError` with every violation."""
        from moeopt.collocation.document import from_dict

        return from_dict(document, source)

    @property
    def trace_sha256(self) -> str:
        """Digest of the trace."""
        data = self.ids if self.pairs is None else self.pairs
        return hashlib.sha256(str(data.shape).encode() + np.ascontiguousarray(data).tobytes()).hexdigest()
