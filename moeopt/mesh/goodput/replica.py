"""One decode replica: ranks that step together, sequences that come and go at the boundaries of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import ceil

import numpy as np

from moeopt.mesh.clock import look
from moeopt.mesh.goodput.service import Service

FIRST, LAST = 0, 1
"""Kinds of events, in the order in which they are handled at one boundary."""


class Replica:
    """Simulated from event to event: steps between two events take equally long, so they are passed over at once.

    Events of a sequence stand on a heap by the step at whose beginning they happen. The clock is the boundary `step` at
    `time`, from which each step takes `seconds` until something changes.
    """

    def __init__(self, service: Service, outputs: Sequence[int], chunks: Sequence[int], seed: int) -> None:
        self.service = service
        self.outputs, self.chunks = outputs, chunks
        self.time, self.step, self.seconds = 0.0, 0, 0.0
        self.events: list[tuple[int, int, int, int]] = []
        self.waiting: deque[int] = deque()
        self.occupied = [0] * service.ranks
        self.decoding = [0] * service.ranks
        self.held = 0
        self.with_count = [service.ranks] + [0] * service.slots  # ranks by the sequences that they decode
        self.busiest = 0
        self.prefill_until = [0] * service.ranks
        self.prefilling_until = 0
        self.least = [(0, rank) for rank in range(service.ranks)]
        heapify(self.least)
        self.turn = 0
        self.rng = np.random.default_rng(seed)
        self.first: dict[int, float] = {}
        self.last: dict[int, float] = {}
        self.total = 0
        self.steps, self.sum_busiest, self.sum_decoding = 0, 0, 0

    @property
    def load(self) -> int:
        """Sequences that are here or wait to be."""
        return self.held + len(self.waiting)

    def advance(self, now: float) -> None:
        """Handle every event until `now`."""
        events = self.events
        while events and self.time + (events[0][0] - self.step) * self.seconds <= now:
            self._to(events[0][0])

    def add(self, request: int, now: float) -> None:
        """A request whose turn has come; it is admitted at the next boundary, if there is a place."""
        self.waiting.append(request)
        if not self.held:
            self.time = max(self.time, now)
            self._admit()
        elif self.held < len(self.occupied) * self.service.slots:
            ahead = max(ceil((now - self.time) / self.seconds * (1 - 1e-12)), 0)
            self._to(min(self.step + ahead, self.events[0][0]))

    def _to(self, step: int) -> None:
        """Move the clock to a boundary, handle its events, and let in who waits."""
        look()
        passed = step - self.step
        self.steps += passed
        self.sum_busiest += passed * self.busiest
        self.sum_decoding += passed * self.total
        self.time += passed * self.seconds
        self.step = step
        events = self.events
        while events and events[0][0] == step:
            _, kind, rank, request = heappop(events)
            if kind == FIRST:
                self.first[request] = self.time
                self._decode(rank, 1)
            else:
                self.last[request] = self.time
                self._decode(rank, -1)
                self.held -= 1
                self.occupied[rank] -= 1
                heappush(self.least, (self.occupied[rank], rank))
        self._admit()

    def _admit(self) -> None:
        places = len(self.occupied) * self.service.slots
        while self.waiting and self.held < places:
            request = self.waiting.popleft()
            rank = self._rank()
            self.held += 1
            self.occupied[rank] += 1
            heappush(self.least, (self.occupied[rank], rank))
            if self.service.prefill_servers or not self.chunks[request]:  # its first token is there, or came before
                self._decode(rank, 1)
                first = self.step
            else:
                first = max(self.step, self.prefill_until[rank]) + self.chunks[request]
                self.prefill_until[rank] = first
                self.prefilling_until = max(self.prefilling_until, first)
                heappush(self.events, (first, FIRST, rank, request))
            heappush(self.events, (first + self.outputs[request] - 1, LAST, rank, request))
        mixed = self.step < self.prefilling_until
        table = self.service.mixed_step_s if mixed else self.service.step_s
        self.seconds = table[self.busiest]  # type: ignore[index]

    def _decode(self, rank: int, change: int) -> None:
        count = self.with_count
        before = self.decoding[rank]
        after = self.decoding[rank] = before + change
        self.total += change
        count[before] -= 1
        count[after] += 1
        if after > self.busiest:
            self.busiest = after
        while self.busiest and not count[self.busiest]:
            self.busiest -= 1

    def _rank(self) -> int:
        """A rank with a free place."""
        slots, ranks = self.service.slots, len(self.occupied)
        if self.service.assign == "least":
            while True:
                held, rank = heappop(self.least)
                if held == self.occupied[rank]:
                    return rank
        if self.service.assign == "random":
            self.turn = int(self.rng.integers(ranks))
        while self.occupied[self.turn] >= slots:
            self.turn = (self.turn + 1) % ranks
        chosen, self.turn = self.turn, (self.turn + 1) % ranks
        return chosen
