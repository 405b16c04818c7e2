"""Changes of replicas: random swaps of slots, and slots given to other experts, on sets of sources kept as bits.

Sources that are alike are a class. For every unit and expert the classes that are sent there are the bits of a few
words, so that a row's copies to a unit are the bits of a union: one pass over the rows of an expert says what a change
of its replicas does to all classes at once, and taking it back is putting the old words there again.

In the subset that numba compiles; interpreted, it does the same steps and gives the same bytes. One file on purpose,
with its own small helpers: numba's cache notices changes of the file a function is in, not of those it calls into.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit
from moeopt.kernels.common import copy_into, draw
from moeopt.kernels.connectivity import Hosting
from moeopt.kernels.units import over, packed, put

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BITS = 32
"""Classes a word: sums of parts of a word stay below 2^63."""
EPSILON = 1e-9


class Field(NamedTuple):
    """What does not change: M rows, E experts, U units, C classes of sources, W words.

    ``start`` (M + 1,) and ``member``: the experts of each row; ``weight`` (M,) its tokens of a source; ``of`` (M,) the
    class they are in, -1 for all; ``first`` (E + 1,) and ``rows``: the rows of each expert; ``load`` (C, E) tokens;
    ``away`` (U, W) the classes whose copies to a unit count; ``plane`` (P, W) classes of equal size, ``size`` (P,)
    sources in each of them. ``price``, ``rate``, ``cap``, ``room``, ``seat`` and ``top`` as in `connectivity.Net`.
    """

    start: Ints
    member: Ints
    weight: Ints
    of: Ints
    first: Ints
    rows: Ints
    load: Floats
    away: Ints
    plane: Ints
    size: Ints
    price: Floats
    rate: Floats
    cap: Floats
    room: Ints
    seat: Ints
    top: Floats


class Sent(NamedTuple):
    """What the search changes.

    ``unit`` (C, E) where a class is sent for an expert; ``mask`` (U, E, W) the classes sent there; ``inflow`` (U,)
    copies; ``part`` (U, E) tokens, ``total`` (U,) their sums; ``height`` (U,) load of the busiest GPU, where capped.
    """

    unit: Ints
    mask: Ints
    inflow: Ints
    part: Floats
    total: Floats
    height: Floats


class Undo(NamedTuple):
    """What an expert had before it was routed anew: ``unit`` (C,); ``mask`` and ``part`` of the ``units`` changed."""

    unit: Ints
    units: Ints
    mask: Ints
    part: Floats
    seen: NDArray[np.bool_]


@jit
def ones(word: int) -> int:
    """How many of the 32 bits of a word are 1."""
    x = word - ((word >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24) & 0xFF


@jit
def sources(field: Field, word: int, w: int) -> int:
    """How many sources the classes of word `w` have."""
    found = 0
    for p in range(field.size.shape[0]):
        found += field.size[p] * ones(word & field.plane[p, w])
    return found


@jit
def routes(hosting: Hosting, hosts: Ints, e: int, to: Ints) -> None:
    """The unit that each class (C,) uses of expert `e`; `hosts` (E, U) are its replicas, one a unit."""
    num_units = hosting.group.shape[0]
    num_groups = hosting.group.max() + 1
    units = np.zeros(num_units, np.int64)
    n = 0
    for u in range(num_units):
        if hosts[e, u] > 0:
            units[n] = u
            n += 1
    if n == 1:
        to[:] = units[0]
        return
    near = np.zeros(n, np.int64)
    number, group = 0, -1
    for c in range(to.shape[0]):
        if hosting.rule == 2:
            to[c] = units[c % n]
            continue
        if hosting.rule == 0 and hosts[e, hosting.class_unit[c]] > 0:
            to[c] = hosting.class_unit[c]
            continue
        if hosting.class_group[c] != group:
            group = hosting.class_group[c]
            nearest = num_groups
            number = 0
            for i in range(n):
                ahead = (hosting.group[units[i]] - group) % num_groups
                if ahead < nearest:
                    nearest = ahead
                    number = 0
                if ahead == nearest:
                    near[number] = units[i]
                    number += 1
        to[c] = near[hosting.class_place[c] % number]


@jit
def note(state: Sent, undo: Undo, e: int, u: int, n: int) -> int:
    """Remember what a unit has of an expert, once; the units remembered."""
    if u < 0 or undo.seen[u]:
        return n
    undo.seen[u] = True
    undo.units[n] = u
    copy_into(undo.mask[n], state.mask[u, e])
    undo.part[n] = state.part[u, e]
    return n + 1


@jit
def difference(field: Field, state: Sent, e: int, u: int, before: Ints) -> int:
    """Copies more to a unit, where the classes sent there for `e` were `before` (W,)."""
    mask = state.mask
    total = 0
    for place in range(field.first[e], field.first[e + 1]):
        row = field.rows[place]
        if field.of[row] >= 0:
            first = field.of[row] // BITS
            last = first + 1
            part = 1 << (field.of[row] % BITS)
        else:
            first, last = 0, before.shape[0]
            part = -1
        found = 0
        for w in range(first, last):
            other = (before[w] ^ mask[u, e, w]) & field.away[u, w] & part
            if other == 0:
                continue
            for i in range(field.start[row], field.start[row + 1]):
                if field.member[i] != e:
                    other &= ~mask[u, field.member[i], w]
            if other != 0:
                found += sources(field, other & mask[u, e, w], w) - sources(field, other & before[w], w)
        total += field.weight[row] * found
    return total


@jit
def reroute(field: Field, hosting: Hosting, state: Sent, hosts: Ints, e: int, to: Ints, undo: Undo) -> int:
    """Send every class to the replica of `e` that the rule says now; how many units are changed, which `undo` knows."""
    routes(hosting, hosts, e, to)
    n = 0
    for c in range(to.shape[0]):
        out, into = state.unit[c, e], to[c]
        undo.unit[c] = out
        if out == into:
            continue
        n = note(state, undo, e, into, note(state, undo, e, out, n))
        w, bit, load = c // BITS, 1 << (c % BITS), field.load[c, e]
        if out >= 0:
            state.mask[out, e, w] &= ~bit
            state.total[out] -= load
            state.part[out, e] -= load
        state.mask[into, e, w] |= bit
        state.total[into] += load
        state.part[into, e] += load
        state.unit[c, e] = into
    for i in range(n):
        u = undo.units[i]
        undo.seen[u] = False
        state.inflow[u] += difference(field, state, e, u, undo.mask[i])
    return n


@jit
def back(state: Sent, e: int, n: int, undo: Undo) -> None:
    """Routes and words of an expert as they were; sums are put back as a whole."""
    copy_into(state.unit[:, e], undo.unit)
    for i in range(n):
        copy_into(state.mask[undo.units[i], e], undo.mask[i])
        state.part[undo.units[i], e] = undo.part[i]


@jit
def measure(field: Field, state: Sent, hosts: Ints, units: Ints, n: int) -> None:
    """The heights of the first `n` of some units, where GPUs are capped."""
    if field.room.shape[0] > 0:
        for i in range(n):
            u = units[i]
            state.height[u] = packed(field.seat, field.room, u, state.part[u][hosts[:, u] > 0])


@jit
def score_of(field: Field, state: Sent, timed: bool) -> float:
    """What the search makes small."""
    total = 0.0
    for u in range(state.inflow.shape[0]):
        total += field.price[u] * state.inflow[u]
        if timed:
            total += over(state.inflow[u], field.rate[u])
    return total


@jit
def excess(field: Field, state: Sent) -> float:
    """How far loads stand above their caps."""
    total = 0.0
    for u in range(state.total.shape[0]):
        if state.total[u] > field.cap[u] * (1.0 + EPSILON):
            total += state.total[u] - field.cap[u]
        if field.room.shape[0] > 0 and state.height[u] > field.top[0]:
            total += state.height[u] - field.top[0]
    return total


@jit
def undo_of(num_classes: int, num_units: int, num_words: int) -> Undo:
    """Room for what an expert had."""
    return Undo(
        np.zeros(num_classes, np.int64),
        np.zeros(num_units, np.int64),
        np.zeros((num_units, num_words), np.int64),
        np.zeros(num_units, np.float64),
        np.zeros(num_units, np.bool_),
    )


@jit
def replicate(field: Field, hosting: Hosting, held: Ints, timed: bool, rounds: int, slack: float, rng: Ints) -> int:
    """Try `rounds` random swaps of slots, and changes of a slot to another expert; the best of what comes.

    Parameters
    ----------
    held
        (S,) expert in each slot, -1 empty, no expert twice in a unit; updated.
    slack
        Share of the score that a try may be worse by and is kept; less and less of it, none in the end.
    """
    num_slots = held.shape[0]
    num_classes, num_experts = field.load.shape
    num_units, num_words = field.away.shape
    state = Sent(
        np.full((num_classes, num_experts), -1, np.int64),
        np.zeros((num_units, num_experts, num_words), np.int64),
        np.zeros(num_units, np.int64),
        np.zeros((num_units, num_experts), np.float64),
        np.zeros(num_units, np.float64),
        np.zeros(num_units, np.float64),
    )
    to = np.zeros(num_classes, np.int64)
    of_e = undo_of(num_classes, num_units, num_words)
    of_f = undo_of(num_classes, num_units, num_words)
    hosts = np.zeros((num_experts, num_units), np.int64)
    for slot in range(num_slots):
        put(hosts, held[slot], hosting.slot_unit[slot], 1)
    for e in range(num_experts):
        reroute(field, hosting, state, hosts, e, to, of_e)
    measure(field, state, hosts, np.arange(num_units), num_units)
    count = hosts.sum(axis=1)
    value = score_of(field, state, timed)
    above = excess(field, state)
    least, least_above = value, above
    now = held.copy()
    inflow, total, height = state.inflow.copy(), state.total.copy(), state.height.copy()
    for turn in range(rounds):
        one = draw(rng, num_slots)
        other = draw(rng, num_slots)
        a = hosting.slot_unit[one]
        b = hosting.slot_unit[other]
        e = now[one]
        f = now[other]
        swap = draw(rng, 2) == 0
        if not swap:
            f = draw(rng, num_experts + 1) - 1
        if e == f or (swap and a == b):
            continue
        if swap:
            if (e >= 0 and hosts[e, b] > 0) or (f >= 0 and hosts[f, a] > 0):
                continue
        else:  # the slot `one` goes over from e to f
            if e >= 0 and count[e] < 2:
                continue
            if (f < 0 and not hosting.empty) or (f >= 0 and hosts[f, a] > 0):
                continue
        put(hosts, e, a, -1)
        put(hosts, f, a, 1)
        if swap:
            put(hosts, f, b, -1)
            put(hosts, e, b, 1)
        n, m = 0, 0
        if e >= 0:
            n = reroute(field, hosting, state, hosts, e, to, of_e)
        if f >= 0:
            m = reroute(field, hosting, state, hosts, f, to, of_f)
        after = score_of(field, state, timed)
        allowed = least + slack * least * ((rounds - 1 - turn) / rounds) ** 2
        over_cap = above
        if after <= max(value, allowed) or above > 0.0:
            measure(field, state, hosts, of_e.units, n)
            measure(field, state, hosts, of_f.units, m)
            over_cap = excess(field, state)
        if over_cap < above or (over_cap <= above and after <= max(value, allowed)):
            value = after
            above = over_cap
            now[one] = f
            if swap:
                now[other] = e
            else:
                if e >= 0:
                    count[e] -= 1
                if f >= 0:
                    count[f] += 1
            if above < least_above or (above <= least_above and value <= least):
                least, least_above = value, above
                copy_into(held, now)
            copy_into(inflow, state.inflow)
            copy_into(total, state.total)
            copy_into(height, state.height)
            continue
        put(hosts, e, a, 1)
        put(hosts, f, a, -1)
        if swap:
            put(hosts, f, b, 1)
            put(hosts, e, b, -1)
        if e >= 0:
            back(state, e, n, of_e)
        if f >= 0:
            back(state, f, m, of_f)
        copy_into(state.inflow, inflow)
        copy_into(state.total, total)
        copy_into(state.height, height)
    return rounds
