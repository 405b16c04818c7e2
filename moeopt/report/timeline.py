"""What a timeline shows: the bars of every lane, and the windows of time worth drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

WHOLE_LAYERS = 7
"""Up to this many layers a timeline is drawn whole."""
ENDS, STEADY = 2, 2
"""Layers drawn at either end of a longer one, and of its steady state."""
NOUNS = {"chunks": "chunk", "waves": "wave", "hop-b": "group"}
"""What a part of a step is called; a micro-batch elsewhere."""


def plural(noun: str, number: int) -> str:
    """The noun for so many.

    >>> plural("chunk", 1), plural("micro-batch", 2)
    ('chunk', 'micro-batches')
    """
    return noun if number == 1 else f"{noun}es" if noun.endswith("ch") else f"{noun}s"


@dataclass(frozen=True)
class Bar:
    """One item: a micro-batch (-1: what is not split) of a layer on a lane, in seconds."""

    micro_batch: int
    layer: int
    start: float
    end: float


@dataclass(frozen=True)
class Lane:
    """The bars of one stage; a resource that serves several stages has a lane for each."""

    resource: str
    stage: str
    bars: tuple[Bar, ...]

    def runs(self) -> list[tuple[int, float, float]]:
        """Layer, start and end of neighbouring bars of one layer.

        >>> Lane("experts", "experts", (Bar(0, 0, 0, 1), Bar(1, 0, 1, 2), Bar(0, 1, 3, 4))).runs()
        [(0, 0, 2), (1, 3, 4)]
        """
        found: list[tuple[int, float, float]] = []
        for bar in self.bars:
            if found and found[-1][0] == bar.layer:
                found[-1] = (bar.layer, found[-1][1], bar.end)
            else:
                found.append((bar.layer, bar.start, bar.end))
        return found


@dataclass(frozen=True)
class Window:
    """A piece of time that is drawn, and the layers that lie unseen before it."""

    start: float
    end: float
    unseen: str = ""

    @property
    def length(self) -> float:
        """Seconds."""
        return self.end - self.start


@dataclass(frozen=True)
class Timeline:
    """A step, from the solution of a micro-batch plan.

    Parameters
    ----------
    lanes
        In the order in which a micro-batch goes through them; what takes no time has none.
    utilisation
        Part of the step in which each resource is busy.
    cycle
        Seconds that one more layer costs, where that is known.
    """

    lanes: tuple[Lane, ...]
    utilisation: Mapping[str, float]
    span: float
    layers: int
    m: int
    pattern: str
    cycle: float | None

    @classmethod
    def of(cls, solution: Mapping[str, Any]) -> Timeline:
        """From the solution of a plan.

        >>> from moeopt import microbatch
        >>> times = {"attention": 1, "dispatch": 0.5, "experts": 1}
        >>> step = Timeline.of(microbatch.solve(microbatch.MicrobatchInstance(times, layers=2, m=4)).solution)
        >>> step.span, [lane.stage for lane in step.lanes], step.utilisation["experts"]
        (10.0, ['attention', 'dispatch', 'experts', 'combine'], 0.8)
        """
        drawn = solution["timeline"]
        names, stages = drawn["resources"], drawn["stages"]
        lanes: dict[tuple[int, int], list[Bar]] = {}
        for resource, micro_batch, layer, stage, start, end in drawn["items"]:
            if end > start:
                lanes.setdefault((stage, resource), []).append(Bar(micro_batch, layer, start, end))
        order = {resource: min(stage for stage, other in lanes if other == resource) for _, resource in lanes}
        keys = sorted(lanes, key=lambda key: (order[key[1]], key[0]))
        made = tuple(Lane(names[resource], stages[stage], tuple(lanes[stage, resource])) for stage, resource in keys)
        return cls(
            made,
            solution["utilisation"],
            solution["time_s"],
            solution["num_layers"],
            solution["m"],
            solution["pattern"],
            solution["cycle_s"],
        )

    @property
    def noun(self) -> str:
        """What a part of the step is called."""
        return NOUNS.get(self.pattern, "micro-batch")

    @cached_property
    def resources(self) -> list[str]:
        """Those that are drawn, each once."""
        return list(dict.fromkeys(lane.resource for lane in self.lanes))

    @cached_property
    def starts(self) -> list[float]:
        """When the first bar of each layer starts."""
        first = [self.span] * self.layers
        for lane in self.lanes:
            for bar in lane.bars:
                first[bar.layer] = min(first[bar.layer], bar.start)
        return first

    def windows(self) -> list[Window]:
        """The whole of a short step; of a long one its first layers, two in the middle, and the last ones.

        >>> bars = tuple(Bar(0, layer, layer, layer + 1) for layer in range(40))
        >>> step = Timeline((Lane("experts", "experts", bars),), {"experts": 1.0}, 40, 40, 1, "chunks", 1)
        >>> [(window.start, window.end, window.unseen) for window in step.windows()]
        [(0.0, 2, ''), (19, 21, 'layers 2-18'), (38, 40, 'layers 21-37')]
        """
        if self.layers <= WHOLE_LAYERS or not self.lanes:
            return [Window(0.0, self.span)]
        starts, middle, last = self.starts, self.middle, self.layers - ENDS
        return [
            Window(0.0, starts[ENDS]),
            Window(starts[middle], starts[middle + STEADY], unseen(ENDS, middle - 1)),
            Window(starts[last], self.span, unseen(middle + STEADY, last - 1)),
        ]

    @cached_property
    def middle(self) -> int:
        """The first layer of the steady state that is drawn."""
        return max((self.layers - STEADY) // 2, 0)

    def cycle_shown(self, windows: Sequence[Window]) -> tuple[float, float] | None:
        """Start and end of a lap to mark: the first in the middle window that takes as long as the cycle."""
        if not self.cycle or self.layers < 2:
            return None
        for window in (windows[len(windows) // 2], *windows):
            laps = zip(self.starts, self.starts[1:], strict=False)
            for start, end in laps:
                seen = window.start <= start and end <= window.end
                if seen and abs(end - start - self.cycle) <= 1e-9 * self.cycle:
                    return start, end
        return None


def unseen(first: int, last: int) -> str:
    """Layers that are left out.

    >>> unseen(2, 18), unseen(3, 3), unseen(4, 3)
    ('layers 2-18', 'layer 3', '')
    """
    if last < first:
        return ""
    return f"layer {first}" if first == last else f"layers {first}-{last}"
