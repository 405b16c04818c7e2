"""The ways in which the work of a layer can be cut up and overlapped: one file each, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from moeopt.microbatch.builders import chunks, dual, hop_b, ping_pong, shared_link, waves
from moeopt.microbatch.graph import Lap, Number, Stage

Durations = Mapping[str, Sequence[Number]]
"""Seconds of each stage, one per micro-batch; of ``rest`` one in all."""


@dataclass(frozen=True)
class Pattern:
    """One way to overlap.

    Parameters
    ----------
    symbols
        Its stages in order, each with the letter that the formulas use.
    build
        The lap, from the seconds of each stage and micro-batch.
    sides
        Resources whose utilisation is what the pattern is for.
    optional
        Stages that may be left out.
    build_stages
        The stages that are split, with their resources.
    """

    name: str
    summary: str
    symbols: Mapping[str, str]
    build: Callable[[Durations], Lap]
    sides: tuple[str, ...]
    optional: tuple[str, ...] = field(default=())

    build_stages: tuple[Stage, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages."""
        return tuple(self.symbols)


FOUR = {"attention": "T_a", "dispatch": "T_d", "experts": "T_e", "combine": "T_b"}


def _rest(times: Durations) -> Number:
    return times["rest"][0] if "rest" in times else 0


def _four(times: Durations) -> tuple[Sequence[Number], ...]:
    return tuple(times[name] for name in FOUR)


PATTERNS: dict[str, Pattern] = {
    one.name: one
    for one in (
        Pattern(
            "ping-pong",
            "micro-batches between attention GPUs and expert GPUs, one link for each direction",
            FOUR,
            lambda times: ping_pong.lap(*_four(times)),
            ("attention", "experts"),
            ("combine",),
            ping_pong.STAGES,
        ),
        Pattern(
            "shared-link",
            "the same with one half-duplex link for both directions",
            FOUR,
            lambda times: shared_link.lap(*_four(times)),
            ("attention", "experts"),
            ("combine",),
            shared_link.STAGES,
        ),
        Pattern(
            "dual",
            "micro-batches that take turns on one set of GPUs: one computes while the other one is on the network",
            FOUR,
            lambda times: dual.lap(*_four(times)),
            ("compute",),
            ("combine",),
            dual.STAGES,
        ),
        Pattern(
            "chunks",
            "dispatch cut into chunks: experts compute one while the next one is on the way",
            {"dispatch": "t_c", "experts": "t_g", "rest": "t_0"},
            lambda times: chunks.lap(times["dispatch"], times["experts"], _rest(times)),
            ("compute",),
            ("rest",),
            chunks.STAGES,
        ),
        Pattern(
            "waves",
            "experts cut into waves: dispatch, compute and combine of three waves at once",
            {"dispatch": "t_d", "experts": "t_e", "combine": "t_b", "rest": "t_0"},
            lambda times: waves.lap(times["dispatch"], times["experts"], times["combine"], _rest(times)),
            ("compute",),
            ("combine", "rest"),
            waves.STAGES,
        ),
        Pattern(
            "hop-b",
            "groups of requests: the exchange of one group behind the attention of the next",
            {"attention": "a", "exchange": "c", "rest": "t_0"},
            lambda times: hop_b.lap(times["attention"], times["exchange"], _rest(times)),
            ("compute",),
            ("rest",),
            hop_b.STAGES,
        ),
    )
}
