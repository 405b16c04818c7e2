"""The algorithms carried out, message by message: the result is right, and so are the steps and bytes of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

import pytest

from moeopt.cost import collective_schedule

Piece = tuple[int, ...]
Message = tuple[int, int, list[Piece]]
Round = tuple[list[Message], bool]
SHAPES = [(1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (3, 4), (4, 3)]


class Machine:
    """Ranks of n nodes of g; each holds pieces, and of each piece whose contributions are added up in it."""

    def __init__(self, n: int, g: int) -> None:
        self.n, self.g, self.p = n, g, n * g
        self.held: list[dict[Piece, set[int]]] = [{} for _ in range(self.p)]
        self.rounds: Counter[str] = Counter()
        self.sent: Counter[tuple[str, int]] = Counter()

    def node(self, rank: int) -> list[int]:
        return [rank // self.g * self.g + index for index in range(self.g)]

    def rail(self, rank: int) -> list[int]:
        return [node * self.g + rank % self.g for node in range(self.n)]

    def run(self, rounds: Iterable[Round]) -> None:
        """Messages of a round leave before any arrives; they add to what is there, or replace it."""
        for messages, add in rounds:
            leaving = [(end, piece, set(self.held[start][piece])) for start, end, some in messages for piece in some]
            tiers = {
                (start, end): "inner" if start // self.g == end // self.g else "outer" for start, end, _ in messages
            }
            self.rounds.update(set(tiers.values()))
            for start, end, pieces in messages:
                self.sent[tiers[start, end], start] += len(pieces)
            for end, piece, whose in leaving:
                self.held[end][piece] = self.held[end].get(piece, set()) | whose if add else whose

    def sent_by_all(self, tier: str, pieces: int) -> Fraction:
        """What every rank sent over a fabric, as a part of a vector of so many pieces; the same for all."""
        parts = {Fraction(self.sent[tier, rank], pieces) for rank in range(self.p)}
        assert len(parts) == 1, parts
        return parts.pop()


def ring(ranks: list[int], parts: list[list[Piece]], *, reduce: bool, gather: bool) -> list[Round]:
    """Part i of as many as ranks ends, added up, at rank i; gathering starts from there."""
    size, rounds = len(ranks), []
    for add in [True] * reduce + [False] * gather:
        for step in range(size - 1):
            moved = [parts[(place - step - add) % size] for place in range(size)]
            rounds.append(([(ranks[i], ranks[(i + 1) % size], moved[i]) for i in range(size)], add))
    return rounds


def side_by_side(groups: Iterable[list[Round]]) -> list[Round]:
    """Rings of equal length that turn at once."""
    return [([message for some, _ in rounds for message in some], rounds[0][1]) for rounds in zip(*groups, strict=True)]


def cut(pieces: list[Piece], parts: int) -> list[list[Piece]]:
    size = len(pieces) // parts
    return [pieces[part * size : (part + 1) * size] for part in range(parts)]


def all_reduce(machine: Machine, algorithm: str) -> int:
    """Carry out an all-reduce of g n pieces; returns how many."""
    n, g, p = machine.n, machine.g, machine.p
    pieces = [(piece,) for piece in range(p)]
    for rank in range(p):
        machine.held[rank] = {piece: {rank} for piece in pieces}
    everyone = list(range(p))
    if algorithm == "ring":
        machine.run(ring(everyone, cut(pieces, p), reduce=True, gather=True))
    elif algorithm == "one_shot":
        machine.run([([(a, b, pieces) for a in everyone for b in everyone if a != b], True)])
    elif algorithm == "two_shot":
        pairs = [(a, b) for a in everyone for b in everyone if a != b]
        machine.run([([(a, b, [pieces[b]]) for a, b in pairs], True), ([(a, b, [pieces[a]]) for a, b in pairs], False)])
    else:
        shares = cut(pieces, g)
        nodes, rails = [machine.node(i * g) for i in range(n)], [machine.rail(i) for i in range(g)]
        machine.run(side_by_side(ring(node, shares, reduce=True, gather=False) for node in nodes))
        machine.run(side_by_side(ring(rail, cut(shares[rail[0]], n), reduce=True, gather=True) for rail in rails))
        machine.run(side_by_side(ring(node, shares, reduce=False, gather=True) for node in nodes))
    for rank in range(p):
        assert machine.held[rank] == {piece: set(everyone) for piece in pieces}
    return p


def all_to_all(machine: Machine, algorithm: str) -> int:
    """Carry out an all-to-all of one piece a pair; returns the pieces of a rank."""
    everyone = list(range(machine.p))
    for rank in everyone:
        machine.held[rank] = {(rank, target): {rank} for target in everyone}
    if algorithm == "hierarchical":
        for shift in range(1, machine.g):
            messages: list[Message] = []
            for rank in everyone:
                peer = machine.node(rank)[(rank + shift) % machine.g]
                messages.append((rank, peer, [(rank, target) for target in machine.rail(peer)]))
            machine.run([(messages, False)])
        for shift in range(1, machine.n):
            messages = []
            for rank in everyone:
                peer = machine.rail(rank)[(rank // machine.g + shift) % machine.n]
                messages.append((rank, peer, [(source, peer) for source in machine.node(rank)]))
            machine.run([(messages, False)])
    else:
        pairs = [(a, b) for a in everyone for b in everyone if a != b]
        machine.run([([(a, b, [(a, b)]) for a, b in pairs], False)])
    for rank in everyone:
        assert all(machine.held[rank][source, rank] == {source} for source in everyone)
    return machine.p


@pytest.mark.parametrize(("n", "g"), SHAPES)
@pytest.mark.parametrize("algorithm", ["ring", "one_shot", "two_shot", "hierarchical"])
def test_an_all_reduce_sends_what_its_schedule_says(algorithm: str, n: int, g: int) -> None:
    machine = Machine(n, g)
    pieces = all_reduce(machine, algorithm)
    plan = collective_schedule("all_reduce", algorithm, ranks=n * g, nodes=n)
    if algorithm == "ring" and n > 1:  # some hops stay in a node; the model takes every step as slow as the slowest
        total = sum(Fraction(machine.sent[tier, 0], pieces) for tier in ("inner", "outer"))
        assert (plan.outer.part, plan.outer.steps) == (total, machine.rounds["outer"])
        return
    for tier, stage in (("inner", plan.inner), ("outer", plan.outer)):
        assert stage.part == machine.sent_by_all(tier, pieces)
        assert stage.steps == machine.rounds[tier]


@pytest.mark.parametrize(("n", "g"), SHAPES)
@pytest.mark.parametrize("algorithm", ["direct", "hierarchical"])
def test_an_all_to_all_sends_what_its_schedule_says(algorithm: str, n: int, g: int) -> None:
    machine = Machine(n, g)
    pieces = all_to_all(machine, algorithm)
    plan = collective_schedule("all_to_all", algorithm, ranks=n * g, nodes=n)
    for tier, stage in (("inner", plan.inner), ("outer", plan.outer)):
        assert stage.part == machine.sent_by_all(tier, pieces)
        assert stage.steps == machine.rounds[tier]
