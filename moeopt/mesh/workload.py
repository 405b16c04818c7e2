"""What is asked of a service: lengths of requests, how many a second, and how soon tokens must come."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.checks import is_number, positive, whole
from moeopt.errors import Violations


@dataclass(frozen=True)
class Workload:
    """Requests of one kind.

    Parameters
    ----------
    input_tokens, output_tokens
        Mean tokens of a prompt and of an answer, whole.
    cached
        Part of the prompt whose cache is there already (prefix hits), within 0 and 1: it is not computed again, but
        it is attended to and kept.
    rate_per_s
        Requests a second that have to be served; ``None``: as many as the GPUs can.

    Raises
    ------
    InstanceError
        Lengths below 1, a share outside [0, 1), a rate that is not above 0.

    >>> Workload(4096, 1024, cached=0.5).computed_tokens, Workload(571, 159).context_tokens
    (2048.0, 650.5)
    """

    input_tokens: int
    output_tokens: int
    cached: float = 0.0
    rate_per_s: float | None = None

    def __post_init__(self) -> None:
        check = Violations()
        whole(check, input_tokens=self.input_tokens, output_tokens=self.output_tokens)
        if not is_number(self.cached) or not 0 <= self.cached < 1:
            fix = "Give the part of prompt tokens that hit the cache, as 0.56"
            check.refuse("cached", self.cached, rule="must be a number within 0 and 1, below 1", fix=fix)
        if self.rate_per_s is not None:
            positive(check, rate_per_s=self.rate_per_s)
        check.raise_if_any()

    @property
    def computed_tokens(self) -> float:
        """Prompt tokens that prefill computes."""
        return self.input_tokens * (1 - self.cached)

    @property
    def cached_tokens(self) -> float:
        """Prompt tokens that prefill finds."""
        return self.input_tokens * self.cached

    @property
    def context_tokens(self) -> float:
        """Mean context over the decoding of a request: its prompt and half of its answer."""
        return self.input_tokens + self.output_tokens / 2

    @property
    def kept_tokens(self) -> int:
        """Tokens that a sequence keeps when it ends: what its place in memory must hold."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class Slo:
    """Service levels. Means of the model; attainment by requests is what `moeopt.mesh.goodput` simulates.

    Parameters
    ----------
    ttft_s
        Seconds from the arrival of a request to its first token, queueing and hand-off included.
    tpot_s
        Seconds a token after the first, mean of one request: ``(end - first token) / (output - 1)``.
    attainment
        Part of requests that must keep both, for the simulation.

    Raises
    ------
    InstanceError
        Times that are not above 0, a part outside (0, 1].
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    attainment: float = 0.9

    def __post_init__(self) -> None:
        check = Violations()
        for name in ("ttft_s", "tpot_s"):
            if getattr(self, name) is not None:
                positive(check, **{name: getattr(self, name)})
        if not is_number(self.attainment) or not 0 < self.attainment <= 1:
            check.add("attainment", self.attainment, rule="must be above 0 and at most 1", fix="Use 0.9")
        check.raise_if_any()
