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

from moeopt.limits import Deadline
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.graph import SYNC, Number, StageGraph
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.simulate import LOOK, OutOfTime, Shown, simulate

Running = tuple[int, int]
"""(end, micro-batch)."""
Waiting = tuple[int, int, int]
"""(arrival, place on its way, micro-batch)."""


MOST_EVENTS = 200_000
"""Items after which a schedule longer than that is taken for one that does not repeat itself."""
ENDS = 4
"""Layers shown at either end of a schedule that is too long to be shown whole, and of its middle."""


class TooLong(Exception):
    """A schedule that has too many items, and does not repeat itself soon enough to jump over most of them."""


@dataclass(frozen=True, eq=False)
class Laps:
    """The schedule of a step that is too long to be kept whole: its end, and every item of some of its layers."""

    graph: StageGraph
    makespan: int
    layers: tuple[int, ...]
    items: tuple[Shown, ...]

    def shown(self) -> list[Shown]:
        """The items that are kept."""
        return list(self.items)

    def busy(self) -> tuple[Number, ...]:
        """Time each resource is in use."""
        return self.graph.busy()


def fcfs_time(instance: MicrobatchInstance, candidate: Candidate, deadline: Deadline | None = None) -> Fraction:
    """Exact seconds of a candidate whose layers are all alike, as `simulate` would give them.

    Raises
    ------
    OutOfTime, TooLong
        The deadline passed; there are too many items, and they do not repeat themselves.

    >>> times = {"attention": 0.4, "dispatch": 0.3, "experts": 0.5}
    >>> instance = MicrobatchInstance(times, layers=40, pattern="shared-link", m=[4])
    >>> float(fcfs_time(instance, instance.candidates[0]))
    96.6
    """
    times = instance.durations(candidate)
    fine = lcm(*{time.denominator for row in times.values() for time in row})
    whole = {name: [time.numerator * (fine // time.denominator) for time in row] for name, row in times.items()}
    if SYNC in instance.kind.symbols:  # layers wait for one another: each takes as long as the first
        done = simulate(StageGraph(instance.kind.build(whole), 1), deadline=deadline)
        return Fraction(instance.layers * int(done.makespan), fine)
    names = [stage.resource for stage in instance.kind.build_stages]
    index = {name: place for place, name in enumerate(dict.fromkeys(names))}
    run = _Run([index[name] for name in names], list(whole.values()), instance.layers, deadline)
    return Fraction(run.makespan(), fine)


def fcfs_laps(graph: StageGraph) -> Laps:
    """The end of a long schedule of layers that are all alike, and its first, middle and last layers, in whole ticks.

    Raises
    ------
    TooLong
        It does not repeat itself.
    """
    lap, layers = graph.lap, graph.layers
    middle = (layers - 2) // 2
    near = {*range(ENDS), *range(middle - 2, middle + ENDS), *range(layers - ENDS, layers)}
    kept = tuple(sorted(layer for layer in near if 0 <= layer < layers))
    if lap.stages[0].name == SYNC:
        one = simulate(StageGraph(lap, 1))
        each = int(one.makespan)
        items = [
            (layer, stage, j, start + layer * each, end + layer * each)
            for layer in kept
            for _, stage, j, start, end in one.shown()
        ]
        return Laps(graph, layers * each, kept, tuple(items))
    m, num = lap.num_micro_batches, len(lap.stages)
    ticks = [[0] * m for _ in lap.stages]
    resource = [0] * num
    for (stage, j), time, index in zip(lap.items, lap.durations, lap.resource_of, strict=True):
        ticks[stage][j], resource[stage] = int(time), index
    run = _Run(resource, ticks, layers, None, keep=True)
    makespan = run.makespan()
    items = [
        (layer, stage, j, *run.times_of(layer * num + stage, j))
        for layer in kept
        for stage in range(num)
        for j in range(m)
    ]
    return Laps(graph, makespan, kept, tuple(items))


@dataclass(frozen=True)
class _Seen:
    """When a state was seen, and the layer in which the first micro-batch then was."""

    now: int
    layer: int


class _Run:
    """m micro-batches on their ways of L times S stages; a way is counted in stages done.

    With `keep` the times of every item that is gone through are kept, and those of the others follow from the jump.
    """

    def __init__(
        self,
        resource: Sequence[int],
        ticks: Sequence[Sequence[int]],
        layers: int,
        deadline: Deadline | None,
        *,
        keep: bool = False,
    ) -> None:
        self.deadline, self.keep = deadline, keep
        self.kept: dict[tuple[int, int], tuple[int, int]] = {}
        self.left: list[int] = []  # places from which the jump was made, its stages each time, its ticks each time
        self.ahead = self.period = self.repeats = 0
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
        most = MOST_EVENTS if self.length * len(self.place) > MOST_EVENTS else None
        steps = 0
        while True:
            steps += 1
            if self.deadline is not None and steps % LOOK == LOOK - 1 and self.deadline.passed():
                raise OutOfTime
            if most is not None and not jumped and steps > most:
                raise TooLong
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
            if self.keep:
                place = self.place[j]
                self.kept[place, j] = self.now - self.ticks[place % self.stages][j], self.now
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
        self.left, self.ahead, self.period, self.repeats = list(self.place), ahead, ticks, times
        self.now += shift
        self.place = [place + times * ahead for place in self.place]
        self.running = [(end + shift, j) for end, j in self.running]
        self.queues = [[(came + shift, place + times * ahead, j) for came, place, j in queue] for queue in self.queues]
        heapify(self.running)

    def times_of(self, place: int, j: int) -> tuple[int, int]:
        """Start and end of an item, that of a repetition from the same item some laps before."""
        beyond = place - self.left[j] if self.left else -1
        back = min(-(-(beyond + 1) // self.ahead), self.repeats) if beyond >= 0 else 0
        if beyond >= self.repeats * self.ahead:
            back = 0  # after the jump
        start, end = self.kept[place - back * self.ahead, j]
        return start + back * self.period, end + back * self.period
