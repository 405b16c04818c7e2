"""First come, first served without going through every layer: simulate until the schedule repeats itself, then jump.

What happens next depends on where every micro-batch is, how long what runs still takes, and in which order the others
wait. Once all this is as it was some layers before, the same time passes for as many layers again, as long as nobody
has reached the end. In whole ticks "as it was" is exact, and so is the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import lcm

from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.graph import SYNC, StageGraph
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.simulate import simulate

Running = tuple[int, int]
"""(end, micro-batch)."""
Waiting = tuple[int, int, int]
"""(arrival, place on its way, micro-batch)."""


def fcfs_time(instance: MicrobatchInstance, candidate: Candidate) -> Fraction:
    """Exact seconds of a candidate whose layers are all alike, as `simulate` would give them.

    >>> times = {"attention": 0.4, "dispatch": 0.3, "experts": 0.5}
    >>> instance = MicrobatchInstance(times, layers=40, pattern="shared-link", m=[4])
    >>> float(fcfs_time(instance, instance.candidates[0]))
    96.6
    """
    times = instance.durations(candidate)
    if SYNC in instance.kind.symbols:  # layers wait for one another: each takes as long as the first
        return instance.layers * Fraction(simulate(StageGraph(instance.kind.build(times), 1)).makespan)
    fine = lcm(*{time.denominator for row in times.values() for time in row})
    ticks = [[time.numerator * (fine // time.denominator) for time in row] for row in times.values()]
    names = [stage.resource for stage in instance.kind.build_stages]
    index = {name: place for place, name in enumerate(dict.fromkeys(names))}
    run = _Run([index[name] for name in names], ticks, instance.layers)
    return Fraction(run.makespan(), fine)


@dataclass(frozen=True)
class _Seen:
    """When a state was seen, and the layer in which the first micro-batch then was."""

    now: int
    layer: int


class _Run:
    """m micro-batches on their ways of L times S stages; a way is counted in stages done."""

    def __init__(self, resource: Sequence[int], ticks: Sequence[Sequence[int]], layers: int) -> None:
        self.resource, self.ticks = resource, ticks
        self.stages, self.length = len(resource), len(resource) * layers
        self.place = [0] * len(ticks[0])
        self.free = [True] * (max(resource) + 1)
        self.queues: list[list[Waiting]] = [[] for _ in self.free]
        self.queues[resource[0]] = [(0, 0, j) for j in range(len(self.place))]
        self.running: list[Running] = []
        self.now = 0

    def makespan(self) -> int:
        """Run to the end, with one jump over the layers that repeat."""
        seen: dict[object, _Seen] = {}
        jumped = False
        while True:
            self._start()
            if not self.running:
                return self.now
            if self._finish() and not jumped and max(self.place) < self.length:
                state = self._state()
                before = seen.get(state)
                layer = self.place[0] // self.stages
                if before is not None:
                    self._jump(layer - before.layer, self.now - before.now)
                    jumped = True
                seen[state] = _Seen(self.now, layer)

    def _start(self) -> None:
        """Every free resource takes the first of its queue."""
        for resource, queue in enumerate(self.queues):
            if self.free[resource] and queue:
                _, place, j = heappop(queue)
                self.free[resource] = False
                heappush(self.running, (self.now + self.ticks[place % self.stages][j], j))

    def _finish(self) -> bool:
        """Let time pass to the next end; whether the first micro-batch has come to the end of a layer."""
        self.now = self.running[0][0]
        layer_done = False
        while self.running and self.running[0][0] == self.now:
            j = heappop(self.running)[1]
            self.free[self.resource[self.place[j] % self.stages]] = True
            self.place[j] += 1
            place = self.place[j]
            if place < self.length:
                heappush(self.queues[self.resource[place % self.stages]], (self.now, place, j))
            layer_done = layer_done or (j == 0 and place % self.stages == 0)
        return layer_done

    def _state(self) -> object:
        """All that what happens next depends on, counted from now and from the first micro-batch."""
        first, now = self.place[0], self.now
        places = tuple(place - first for place in self.place)
        running = tuple(sorted((j, end - now) for end, j in self.running))
        waiting = tuple(sorted((j, now - arrival) for queue in self.queues for arrival, _, j in queue))
        return places, running, waiting

    def _jump(self, layers: int, ticks: int) -> None:
        """Over as many repetitions as leave everybody on the way."""
        ahead = layers * self.stages
        times = (self.length - 1 - max(self.place)) // ahead
        shift = times * ticks
        self.now += shift
        self.place = [place + times * ahead for place in self.place]
        self.running = [(end + shift, j) for end, j in self.running]
        self.queues = [[(came + shift, place + times * ahead, j) for came, place, j in queue] for queue in self.queues]
        heapify(self.running)
