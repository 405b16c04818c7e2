"""The mesh instance: LLMs with their workloads, GPUs there are, what is wanted; frozen and checked at birth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from moeopt import kinds
from moeopt.cost.checks import is_number, not_negative, whole
from moeopt.cost.constants import OVERHEAD_S
from moeopt.cost.roofline import Numerics
from moeopt.documented import Documented
from moeopt.errors import Violations, did_you_mean
from moeopt.llm.facts import LlmFacts
from moeopt.llm.precision import FORMATS
from moeopt.llm.reading import MOST_LAYERS
from moeopt.mesh import given, roles
from moeopt.mesh.config import Config, Family
from moeopt.mesh.config_document import config_faults
from moeopt.mesh.degrees import MOST_DEGREE
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.imbalance import Imbalance
from moeopt.mesh.workload import Slo, Workload

Objective = Literal["gpus", "price", "goodput", "time"]
FAMILIES: tuple[Family, ...] = get_args(Family)
OR_GOODPUT = ", or ask for goodput with the GPUs there are"
"""What else one demand without a rate can be asked for."""
MOST_BATCH = 4096
"""Sequences of one data-parallel rank at most, unless the instance says otherwise."""


@dataclass(frozen=True)
class Demand:
    """One LLM with the requests it has to serve.

    Parameters
    ----------
    llm
        Sizes of the LLM.
    workload, slo
        Requests, and service levels; none by default.
    numerics
        Formats of weights, cache and arithmetic; ``None``: those of the LLM's checkpoint as far as GPUs have them.
    """

    llm: LlmFacts
    workload: Workload
    slo: Slo = field(default_factory=Slo)
    numerics: Numerics | None = None

    def __post_init__(self) -> None:
        check = Violations()
        if kinds.is_a(check, "llm", self.llm, LlmFacts) and not self.llm.layers <= MOST_LAYERS:
            check.add("llm.layers", self.llm.layers, rule=f"must be at most {MOST_LAYERS:,}", fix="Check the number")
        kinds.is_a(check, "workload", self.workload, Workload)
        kinds.is_a(check, "slo", self.slo, Slo)
        kinds.is_a(check, "numerics", self.numerics, Numerics, none=True)
        check.raise_if_any()


@dataclass(frozen=True, eq=False)
class MeshInstance(Documented):
    """Which degrees, which pools, which GPUs, how many?

    Parameters
    ----------
    demands
        One or several LLMs, each with its workload.
    gpus
        Types of GPU by falling preference among equals; names are unique.
    objective
        ``gpus`` or ``price``: the fewest or cheapest that serve every demand's rate; ``goodput``: the most requests a
        second with the stock there is (with several demands in proportion to their rates); ``time``: the shortest
        time per output token with the stock.
    families
        Families to look at; empty: those that `sides` name, or where there are none, all but ``long``.
    kv_formats
        Formats of the cache to look at; empty: that of the numerics.
    reserve_bytes
        Kept free on every GPU beyond the unusable part: graphs, activations, other processes.
    most_pp, most_batch
        Pipeline stages, and sequences of a data-parallel rank, at most.
    redundant
        Numbers of redundant experts to look at; ``None``: those that divide, up to a replica more on each rank.
    imbalance
        Load of the busiest rank over the mean, by EP and redundant experts.
    overhead_s
        Seconds of launches of one layer.
    sides
        Roles, part to type of GPU: ``{"attention": "H20", "experts": "L40S"}``. What is bought obeys them: no family
        serves the same requests elsewhere (`moeopt.mesh.roles.families_of`). Other parts may use any type.
    engine
        Only what this engine can launch; ``None``: everything, with a mark.
    transport
        All-to-all of experts: ``deepep-normal``, ``deepep-ll``, ``allgather`` or ``auto`` (prefill the first, decode
        the second, one domain NVLink).
    drafts
        Mean tokens that a step yields for 1, 2, ... drafted tokens (`moeopt.cost.accepted_lengths`); empty: none.
    configs
        Configurations with figures of their own, measured ones for instance, instead of those that the families yield;
        ``None``: the families'.
    name
        For people.

    Raises
    ------
    InstanceError
        Everything malformed, all at once: no demands or GPUs, a name twice, a rate missing where one is needed, a
        price missing where price is asked, a stock missing where goodput or time is asked, unknown names.
    """

    demands: tuple[Demand, ...]
    gpus: tuple[GpuType, ...]
    objective: Objective = "gpus"
    families: tuple[Family, ...] = ()
    kv_formats: tuple[str, ...] = ()
    reserve_bytes: float = 0.0
    most_pp: int = 8
    most_batch: int = MOST_BATCH
    redundant: tuple[int, ...] | None = None
    imbalance: Imbalance = field(default_factory=Imbalance.shipped)
    overhead_s: float = OVERHEAD_S
    sides: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None
    transport: str = "auto"
    drafts: tuple[float, ...] = ()
    configs: tuple[Config, ...] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check = Violations()
        self._check_kinds(check)
        if not self.families:
            object.__setattr__(self, "families", roles.families_of(self.sides))
        if not self.demands:
            check.add("demands", "none", rule="there must be an LLM to serve", fix="Give one")
        self._check_gpus(check)
        self._check_objective(check)
        for family in self.families:
            if family not in FAMILIES:
                fix = did_you_mean(family, FAMILIES, "Use one of these")
                check.add("families", family, rule=f"is not one of {', '.join(FAMILIES)}", fix=fix)
        for kv in self.kv_formats:
            if kv not in FORMATS:
                fix = did_you_mean(kv, FORMATS, "Use one of these")
                check.add("kv_formats", kv, rule=f"is not one of {', '.join(FORMATS)}", fix=fix)
        self._check_serving(check)
        not_negative(check, reserve_bytes=self.reserve_bytes, overhead_s=self.overhead_s)
        room = max((gpu.machine.memory_bytes for gpu in self.gpus), default=None)
        if room is not None and is_number(self.reserve_bytes) and self.reserve_bytes >= room:
            rule = f"must leave something of a GPU's {room:,.0f} bytes"
            check.add("reserve_bytes", self.reserve_bytes, rule=rule, fix="Give what stays free on a GPU")
        whole(check, most_pp=self.most_pp, most_batch=self.most_batch)
        self._check_redundant(check)
        for place, mean in enumerate(self.drafts):
            if not is_number(mean) or not 1 <= mean <= place + 2:
                rule = f"a step with {place + 1} drafted tokens yields 1 to {place + 2}"
                check.add(f"drafts[{place}]", mean, rule=rule, fix="Give the mean of tokens that a step yields")
        if self.configs is not None:
            given.check_configs(check, self)
        check.raise_if_any()

    def _check_kinds(self, check: Violations) -> None:
        """Lists as tuples, a single item as a list of it; what is of another kind ends it here."""

        def put(name: str, value: tuple[Any, ...]) -> None:  # the class is frozen
            object.__setattr__(self, name, value)

        put("demands", kinds.listed(check, "demands", self.demands, Demand))
        put("gpus", kinds.listed(check, "gpus", self.gpus, GpuType))
        put("families", kinds.listed(check, "families", self.families, str))
        put("kv_formats", kinds.listed(check, "kv_formats", self.kv_formats, str))
        put("drafts", kinds.numbers(check, "drafts", self.drafts))
        if self.redundant is not None:
            put("redundant", kinds.numbers(check, "redundant", self.redundant))
        if self.configs is not None:
            put("configs", kinds.listed(check, "configs", self.configs, Config))
            for place, config in enumerate(self.configs or ()):
                found = config_faults(config)
                check.found += [replace(one, field=f"configs[{place}].{one.field}") for one in found]
        kinds.is_a(check, "imbalance", self.imbalance, Imbalance)
        if kinds.mapping(check, "sides", self.sides, '{"prefill": "H800"}'):
            for role, name in self.sides.items():
                if kinds.word(check, "sides", role):
                    kinds.word(check, f"sides[{role}]", name)
        kinds.word(check, "objective", self.objective)
        kinds.word(check, "transport", self.transport)
        if self.engine is not None:
            kinds.word(check, "engine", self.engine)
        check.raise_if_any()

    def _check_redundant(self, check: Violations) -> None:
        """A rank holds an expert once at most: what is beyond fits no number of ranks."""
        experts = max((demand.llm.experts or 0 for demand in self.demands), default=0)
        ranks = max((MOST_DEGREE if gpu.stock is None else gpu.stock for gpu in self.gpus), default=1)
        most = experts * (max(min(ranks, MOST_DEGREE), 1) - 1)
        for place, value in enumerate(self.redundant or ()):
            known = len(check.found)
            whole(check, 0, **{f"redundant[{place}]": value})
            if len(check.found) == known and value > most and self.demands and self.gpus:
                ranks_said = f"{ranks:,} GPUs" if ranks <= MOST_DEGREE else "as many GPUs as are looked at"
                rule = f"must be at most {most:,}: {ranks_said} hold each of {experts} experts once at most"
                check.add(f"redundant[{place}]", value, rule=rule, fix=f"Use {most}, or leave it out")

    def _check_gpus(self, check: Violations) -> None:
        if not self.gpus:
            check.add("gpus", "none", rule="there must be a type of GPU", fix="Give one")
        names = [gpu.name for gpu in self.gpus]
        for name in sorted({name for name in names if names.count(name) > 1}):
            check.add("gpus", name, rule="is there twice", fix="Give its whole stock once")
        roles.check_roles(check, self)

    def _check_serving(self, check: Violations) -> None:
        from moeopt.mesh.flags import ENGINES
        from moeopt.mesh.transport import TRANSPORTS

        if self.engine is not None and self.engine not in ENGINES:
            rule = f"is not one of {', '.join(ENGINES)}"
            check.add(
                "engine",
                self.engine,
                rule=rule,
                fix=did_you_mean(self.engine, ENGINES, "Use one of these, or leave it out"),
            )
        if self.transport not in TRANSPORTS:
            fix = did_you_mean(self.transport, TRANSPORTS, "Use one of these")
            check.add("transport", self.transport, rule=f"is not one of {', '.join(TRANSPORTS)}", fix=fix)

    def _check_objective(self, check: Violations) -> None:
        if self.objective not in get_args(Objective):
            known = ", ".join(get_args(Objective))
            fix = did_you_mean(self.objective, get_args(Objective), "Use one of these")
            check.add("objective", self.objective, rule=f"is not one of {known}", fix=fix)
            return
        if self.objective == "time" and not any(given.SERVES.get(one, (0, 0))[1] for one in self.families):
            fix = "Add decode, or ask for goodput"
            check.add("families", ", ".join(self.families), rule="do not decode, so there is no time a token", fix=fix)
        for place, demand in enumerate(self.demands):
            wants_rate = self.objective in ("gpus", "price") or len(self.demands) > 1
            if wants_rate and demand.workload.rate_per_s is None:
                fix = "Give requests a second"
                fix += "; several demands share the GPUs by their rates" if len(self.demands) > 1 else OR_GOODPUT
                where = f"{place}: {demand.llm.name}"
                check.add(
                    "rate_per_s", "missing", rule=f"is needed for the objective {self.objective}", fix=fix, where=where
                )
        for gpu in self.gpus:
            if self.objective == "price" and gpu.price is None:
                fix = "Give what one GPU costs, or ask for the fewest GPUs"
                check.add("price", "missing", rule="is needed where price is asked", fix=fix, where=gpu.name)
            if self.objective in ("goodput", "time") and gpu.stock is None:
                fix = "Say how many GPUs there are"
                check.add(
                    "stock", "missing", rule=f"is needed for the objective {self.objective}", fix=fix, where=gpu.name
                )

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What has been computed from it once: configurations, the market, bounds."""
        return {}

    @classmethod
    def from_dict(cls, document: Any, source: str = "") -> MeshInstance:
        """Read a document; unknown fields and versions are refused by name."""
        from moeopt.mesh.document import read_instance

        return read_instance(document, source)

    def to_dict(self) -> dict[str, Any]:
        """The document: what `from_dict` reads, all seconds and bytes."""
        from moeopt.mesh.written import to_document

        return to_document(self)

    def gpu(self, name: str) -> GpuType:
        """The type of GPU with this name."""
        return next(gpu for gpu in self.gpus if gpu.name == name)

    def for_side(self, side: str) -> tuple[GpuType, ...]:
        """Types of GPU that this part may use."""
        only = self.sides.get(side)
        return self.gpus if only is None else (self.gpu(only),)


def demand_of(llm: LlmFacts, workload: Workload | Sequence[int], **rest: Any) -> Demand:
    """A demand whose workload may be written ``(input_tokens, output_tokens)``.

    `rest` are the other fields of a `Demand`. Raises `InstanceError` where any is of another kind.

    >>> from moeopt.llm import find
    >>> demand_of(find("mixtral-8x7b"), (1024, 256), slo=Slo(tpot_s=0.05)).workload.output_tokens
    256
    """
    if isinstance(workload, Workload):
        return Demand(llm, workload, **rest)
    check = Violations()
    tokens = kinds.numbers(check, "workload", workload)
    if len(tokens) != 2:
        check.refuse("workload", workload, rule="must be a Workload, or two numbers of tokens", fix="Write (1024, 256)")
    check.raise_if_any()
    return Demand(llm, Workload(*tokens), **rest)
