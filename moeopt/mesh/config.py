"""Configurations: a shape with everything that is chosen besides, and what the cost model says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

from moeopt.mesh.shape import ApartShape, Shape

Family = Literal["colocated", "prefill", "decode", "apart", "long"]
Binds = Literal["kv", "buffer", "tpot", "ttft", "prefill", "most", "none"]
"""What keeps the batch from growing: memory of caches, transport buffers, either SLO, the instance's largest batch; or
nothing, where more sequences would win no throughput."""


@dataclass(frozen=True)
class Memory:
    """Bytes on the GPU that holds most, by part; `free` is what is left of the usable part (negative: does not fit).

    ``weights`` are all but routed experts; ``redundant`` those of redundant replicas alone.
    """

    weights: float
    experts: float
    redundant: float
    kv: float
    buffers: float
    reserve: float
    usable: float

    @property
    def used(self) -> float:
        """All parts together."""
        return self.weights + self.experts + self.redundant + self.kv + self.buffers + self.reserve

    @property
    def free(self) -> float:
        """What is left."""
        return self.usable - self.used


@dataclass(frozen=True)
class Config:
    """One configuration of one replica, judged.

    Parameters
    ----------
    demand
        Place in the instance's demands: which LLM and workload it serves.
    family, shape
        What it is.
    batch
        Sequences of one data-parallel rank (decode; of one attention node and micro-batch where experts are apart), or
        prompts of one at a time (prefill).
    chunk
        Prompt tokens of one rank and step; ``None`` where nothing is prefilled.
    draft
        Tokens drafted a step; 0: no speculation.
    overlap
        Two micro-batches, one computing while the other communicates.
    kv
        Format of the cache.
    gpus
        GPUs of a replica by type.
    prefill_per_s, decode_per_s
        Requests a second of one replica that keep the SLO, by phase; 0 where it does not do that phase. Equal where it
        serves whole requests.
    ttft_s, tpot_s
        Seconds of the first token (queueing and hand-off included) and of each further one; ``None`` where it does
        not do that phase.
    tokens_per_s
        Output tokens a second (prefill: prompt tokens) of one replica.
    memory
        Of the GPU that holds most, by type of GPU.
    binds
        What keeps its batch from growing.
    parts_s
        Where the step goes: attention, experts, communication, overhead, head, hidden; seconds.
    reasons
        Why it cannot be used, every reason; empty for one that can.
    legal_in
        Engines that can launch it; empty: paper only.
    notes
        What to know about it.
    name
        What a given configuration is called; empty: its label says what it is.
    """

    demand: int
    family: Family
    shape: Shape | ApartShape
    batch: int
    gpus: Mapping[str, int]
    prefill_per_s: float = 0.0
    decode_per_s: float = 0.0
    ttft_s: float | None = None
    tpot_s: float | None = None
    tokens_per_s: float = 0.0
    chunk: int | None = None
    draft: int = 0
    overlap: bool = False
    kv: str = "bf16"
    memory: Mapping[str, Memory] = field(default_factory=dict)
    binds: Binds = "none"
    parts_s: Mapping[str, float] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    legal_in: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    name: str = ""

    @property
    def total_gpus(self) -> int:
        """GPUs of a replica, all types."""
        return sum(self.gpus.values())

    @property
    def fits(self) -> bool:
        """Whether it is known to fit into memory, so that nobody has to look; ``False`` says nothing."""
        return False

    @property
    def usable(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons

    @property
    def label(self) -> str:
        """Its name, or family and shape in one line."""
        return self.name or f"{self.family} {self.shape.label}"

    @property
    def key(self) -> tuple[Any, ...]:
        """What is chosen: two configurations of one instance with equal keys are the same."""
        return (
            self.demand,
            self.family,
            self.shape,
            self.batch,
            self.chunk,
            self.draft,
            self.overlap,
            self.kv,
            self.name,
        )


NAMES = tuple(one.name for one in fields(Config))
PLAIN = {one.name: one.default for one in fields(Config) if one.default is not MISSING and one.name != "legal_in"}
"""What an enumerated configuration has unless it says otherwise, one after another of thousands."""


class Enumerated(Config):
    """A configuration that families yield: what few are asked for is made for those alone.

    It is the same as a `Config` of its figures in every other way.
    """

    _memory: Callable[[], Mapping[str, Memory]]
    _parts_s: Callable[[], Mapping[str, float]]
    _legal_in: Callable[[], tuple[str, ...]]

    def __init__(
        self,
        *known: Any,
        memory: Callable[[], Mapping[str, Memory]],
        parts_s: Callable[[], Mapping[str, float]],
        legal_in: Callable[[], tuple[str, ...]],
        **more: Any,
    ) -> None:
        made = {"_memory": memory, "_parts_s": parts_s, "_legal_in": legal_in}
        self.__dict__.update(PLAIN, **dict(zip(NAMES, known, strict=False)), **more, **made)

    @cached_property
    def memory(self) -> Mapping[str, Memory]:
        """Made when asked for."""
        return self._memory()

    @cached_property
    def parts_s(self) -> Mapping[str, float]:
        """Made when asked for."""
        return self._parts_s()

    @cached_property
    def legal_in(self) -> tuple[str, ...]:
        """Made when asked for."""
        return self._legal_in()

    @property
    def fits(self) -> bool:
        """Its batch was chosen so that it does."""
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.plain.__dict__ == _plain(other).__dict__

    __hash__ = Config.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, tuple(getattr(self, one.name) for one in fields(Config))

    @property
    def plain(self) -> Config:
        """All figures written out."""
        return Config(*(getattr(self, one.name) for one in fields(Config)))


def _plain(config: Config) -> Config:
    return config.plain if isinstance(config, Enumerated) else config
