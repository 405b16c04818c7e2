"""Parts of a hypergraph with few copies: swaps of experts between units, on counters that are kept up to date.

A row is a set of experts that tokens select together, with the number of those tokens. A unit that holds an expert of a
row, and is not the row's home, gets a copy of each of its tokens. For every expert it is kept what its unit would be
spared if it left (`ben`), what another unit would get if it came (`pen`), and for every other expert how much of the
first is in rows of both (`both`), where a swap spares nothing: so a swap is priced in constant time.

The search is a tabu search: the best swap that is allowed, better or not, and back to the best plan with a few random
swaps where nothing better comes. In the subset that numba compiles; interpreted, it does the same steps and gives the
same bytes. One file on purpose: numba's cache notices changes of the file a function is in, not of those it calls into.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PATIENCE = 60
"""Swaps in vain after which the search goes back to its best plan."""
EPSILON = 1e-9


class Net(NamedTuple):
    """What does not change: M rows, E experts (empty slots are experts without rows), U units.

    ``start`` (M + 1,) and ``member``: the experts of each row; ``weight`` (M,) tokens; ``home`` (M,) the unit the
    tokens are in, -1 for any; ``first`` (E + 1,) and ``rows``: the rows of each expert; ``load`` (E,) tokens; ``price``
    (U,) what a copy to a unit costs; ``rate`` (U,) what it adds to the time of the unit, all 0 where only the price
    counts; ``cap`` (U,) most load of a unit.
    """

    start: Ints
    member: Ints
    weight: Ints
    home: Ints
    first: Ints
    rows: Ints
    load: Floats
    price: Floats
    rate: Floats
    cap: Floats


class State(NamedTuple):
    """What the search changes.

    ``unit`` (E,) where an expert is; ``inside`` (M, U) experts of a row in a unit; ``inflow`` (U,) copies a unit gets;
    ``ben`` (E,), ``pen`` (E, U), ``both`` (E, E) as above; ``total`` (U,) loads; ``move`` the pair found last.
    """

    unit: Ints
    inside: NDArray[np.int16]
    inflow: Ints
    ben: Ints
    pen: Ints
    both: Ints
    total: Floats
    move: Ints


@jit
def draw(rng: Ints, below: int) -> int:
    """A whole number in 0 .. below - 1; `rng` (1,) goes on."""
    rng[0] = (rng[0] * 48271) % 2147483647
    return int(rng[0] % below)


@jit
def fill(net: Net, state: State) -> None:
    """Count everything anew from `unit`."""
    state.inside[:] = 0
    state.inflow[:] = 0
    state.ben[:] = 0
    state.pen[:] = 0
    state.both[:] = 0
    state.total[:] = 0.0
    unit, count = state.unit, state.inside
    paired = state.both.shape[0] > 0
    for e in range(unit.shape[0]):
        state.total[unit[e]] += net.load[e]
    for row in range(net.weight.shape[0]):
        for place in range(net.start[row], net.start[row + 1]):
            count[row, unit[net.member[place]]] += 1
        for u in range(state.inflow.shape[0]):
            if net.home[row] == u:
                continue
            if count[row, u] > 0:
                state.inflow[u] += net.weight[row]
            for place in range(net.start[row], net.start[row + 1]):
                e = net.member[place]
                if count[row, u] == 0:
                    state.pen[e, u] += net.weight[row]
                elif count[row, u] == 1 and unit[e] == u:
                    state.ben[e] += net.weight[row]
                    if paired:
                        for i in range(net.start[row], net.start[row + 1]):
                            state.both[e, net.member[i]] += net.weight[row]


@jit
def partner(net: Net, state: State, row: int, u: int, e: int) -> int:
    """The expert of a row that a unit holds besides `e`."""
    for i in range(net.start[row], net.start[row + 1]):
        g = net.member[i]
        if g != e and state.unit[g] == u:
            return int(g)
    return -1


@jit
def shift(net: Net, state: State, e: int, to: int) -> None:
    """Move an expert to another unit."""
    unit, count, ben, pen, both, inflow = state.unit, state.inside, state.ben, state.pen, state.both, state.inflow
    start, member, weight, home = net.start, net.member, net.weight, net.home
    out = unit[e]
    own = 0
    paired = both.shape[0] > 0
    for place in range(net.first[e], net.first[e + 1]):
        row = net.rows[place]
        w = weight[row]
        if home[row] != out:
            if count[row, out] == 1:
                inflow[out] -= w
                for i in range(start[row], start[row + 1]):
                    pen[member[i], out] += w
                    if paired:
                        both[e, member[i]] -= w
            elif count[row, out] == 2:
                g = partner(net, state, row, out, e)
                ben[g] += w
                if paired:
                    for i in range(start[row], start[row + 1]):
                        both[g, member[i]] += w
        count[row, out] -= 1
        if home[row] != to:
            if count[row, to] == 0:
                inflow[to] += w
                own += w
                for i in range(start[row], start[row + 1]):
                    pen[member[i], to] -= w
                    if paired:
                        both[e, member[i]] += w
            elif count[row, to] == 1:
                g = partner(net, state, row, to, e)
                ben[g] -= w
                if paired:
                    for i in range(start[row], start[row + 1]):
                        both[g, member[i]] -= w
        count[row, to] += 1
    ben[e] = own
    unit[e] = to
    state.total[out] -= net.load[e]
    state.total[to] += net.load[e]


@jit
def over(inflow: float, rate: float) -> float:
    """What the time of a unit counts: the eighth power, so that the longest rules and the others still matter."""
    x = inflow * rate
    x = x * x
    x = x * x
    return x * x


@jit
def best_swap(
    net: Net, state: State, e: int, least: int, timed: bool, tabu: Ints, now: int, best: float, hope: float
) -> float:
    """The least change of the score by a swap of `e` with an expert from `least` on, if below `best`; see `move`.

    A swap of an expert that is tabu counts only where the change is below `hope`.
    """
    unit, both, inflow, total, load = state.unit, state.both, state.inflow, state.total, net.load
    a = unit[e]
    for f in range(least, unit.shape[0]):
        b = unit[f]
        if b == a:
            continue
        grow = load[f] - load[e]
        if grow > 0.0 and total[a] + grow > net.cap[a] and total[a] + grow > total[b]:
            continue
        if grow < 0.0 and total[b] - grow > net.cap[b] and total[b] - grow > total[a]:
            continue
        d_a = state.pen[f, a] - state.ben[e] + both[e, f]
        d_b = state.pen[e, b] - state.ben[f] + both[f, e]
        change = net.price[a] * d_a + net.price[b] * d_b
        if timed:
            change += over(inflow[a] + d_a, net.rate[a]) - over(inflow[a], net.rate[a])
            change += over(inflow[b] + d_b, net.rate[b]) - over(inflow[b], net.rate[b])
        if change < best and ((tabu[e] <= now and tabu[f] <= now) or change < hope):
            best = change
            state.move[0] = e
            state.move[1] = f
    return best


@jit
def score_of(net: Net, state: State, timed: bool) -> float:
    """What the search makes small."""
    total = 0.0
    for u in range(state.inflow.shape[0]):
        total += net.price[u] * state.inflow[u]
        if timed:
            total += over(state.inflow[u], net.rate[u])
    return total


@jit
def excess(net: Net, state: State) -> float:
    """How far loads stand above their caps."""
    total = 0.0
    for u in range(state.total.shape[0]):
        if state.total[u] > net.cap[u] * (1.0 + EPSILON):
            total += state.total[u] - net.cap[u]
    return total


@jit
def improve(net: Net, best: Ints, timed: bool, rounds: int, width: int, goal: float, rng: Ints) -> int:
    """Search `rounds` swaps on from `best` (E,), which is updated; the swaps done.

    Parameters
    ----------
    timed
        Whether times count besides prices.
    width
        Experts whose swaps are looked at in each round; E or more looks at all.
    goal
        Score at which the search ends.
    """
    num_experts = best.shape[0]
    num_units = net.price.shape[0]
    state = State(
        best.copy(),
        np.zeros((net.weight.shape[0], num_units), np.int16),
        np.zeros(num_units, np.int64),
        np.zeros(num_experts, np.int64),
        np.zeros((num_experts, num_units), np.int64),
        np.zeros((num_experts, num_experts), np.int64),
        np.zeros(num_units, np.float64),
        np.zeros(2, np.int64),
    )
    fill(net, state)
    tabu = np.zeros(num_experts, np.int64)
    value = score_of(net, state, timed)
    least = value
    least_excess = excess(net, state)
    vain = 0
    done = 0
    while done < rounds and not (least <= goal and least_excess == 0.0):
        done += 1
        hope = least - value - EPSILON * abs(least)
        found = np.inf
        if width >= num_experts:
            for e in range(num_experts):
                found = best_swap(net, state, e, e + 1, timed, tabu, done, found, hope)
        else:
            at = draw(rng, num_experts)
            for _ in range(width):
                found = best_swap(net, state, at, 0, timed, tabu, done, found, hope)
                at = (at + 1 + draw(rng, num_experts)) % num_experts
        if found < np.inf:
            e = state.move[0]
            f = state.move[1]
            a = state.unit[e]
            b = state.unit[f]
            shift(net, state, e, b)
            shift(net, state, f, a)
            tenure = 2 + num_experts // 20
            tabu[e] = done + tenure + draw(rng, tenure)
            tabu[f] = done + tenure + draw(rng, tenure)
            value = score_of(net, state, timed)
            above = excess(net, state)
            if above < least_excess or (above <= least_excess and value < least - EPSILON * abs(least)):
                least = value
                least_excess = above
                best[:] = state.unit
                vain = 0
                continue
        vain += 1
        if vain >= PATIENCE:
            vain = 0
            state.unit[:] = best
            fill(net, state)
            tabu[:] = 0
            for _ in range(2 + draw(rng, 2 + num_experts // 3)):
                e = draw(rng, num_experts)
                f = draw(rng, num_experts)
                a = state.unit[e]
                b = state.unit[f]
                grow = net.load[f] - net.load[e]
                if a != b and state.total[a] + grow <= net.cap[a] and state.total[b] - grow <= net.cap[b]:
                    shift(net, state, e, b)
                    shift(net, state, f, a)
            value = score_of(net, state, timed)
    return done


class Hosting(NamedTuple):
    """Replicas in slots, seen from C classes of sources that are alike; members of the net are (class, expert) pairs.

    ``slot_unit`` (S,) unit of each slot; ``group`` (U,) node of each unit; ``class_unit``, ``class_group`` and
    ``class_place`` (C,): unit and node of a class, and its index among the GPUs of its node; ``rule``: 0 ``nearest``,
    1 ``home_node``, 2 ``even``; ``empty``: whether a slot may be empty.
    """

    slot_unit: Ints
    group: Ints
    class_unit: Ints
    class_group: Ints
    class_place: Ints
    rule: int
    empty: bool


@jit
def route(hosting: Hosting, hosts: Ints, e: int, c: int) -> int:
    """The unit that tokens of class `c` use of expert `e`; `hosts` (E, U) are its replicas."""
    num_units = hosting.group.shape[0]
    if hosting.rule == 2:
        number = 0
        for u in range(num_units):
            number += hosts[e, u]
        left = c % number
        for u in range(num_units):
            left -= hosts[e, u]
            if left < 0:
                return u
    if hosting.rule == 0 and hosts[e, hosting.class_unit[c]] > 0:
        return int(hosting.class_unit[c])
    num_groups = hosting.group.max() + 1
    nearest = num_groups
    number = 0
    for u in range(num_units):
        if hosts[e, u] > 0:
            ahead = (hosting.group[u] - hosting.class_group[c]) % num_groups
            if ahead < nearest:
                nearest = ahead
                number = 0
            if ahead == nearest:
                number += hosts[e, u]
    left = hosting.class_place[c] % number
    for u in range(num_units):
        if hosts[e, u] > 0 and (hosting.group[u] - hosting.class_group[c]) % num_groups == nearest:
            left -= hosts[e, u]
            if left < 0:
                return u
    return -1


@jit
def reroute(net: Net, state: State, hosting: Hosting, hosts: Ints, e: int) -> None:
    """Send every class to the replica of `e` that the rule says now."""
    num_experts = hosts.shape[0]
    for c in range(hosting.class_unit.shape[0]):
        member = c * num_experts + e
        to = route(hosting, hosts, e, c)
        if state.unit[member] != to:
            shift(net, state, member, to)


@jit
def put(hosts: Ints, e: int, u: int, change: int) -> None:
    """One replica more or less; the empty expert has none."""
    if e >= 0:
        hosts[e, u] += change


@jit
def replicate(net: Net, hosting: Hosting, held: Ints, num_experts: int, timed: bool, rounds: int, rng: Ints) -> int:
    """Try `rounds` random swaps of slots, and changes of a slot to another expert; keep what is no worse.

    Parameters
    ----------
    held
        (S,) expert in each slot, -1 empty, no expert twice in a unit; updated.
    """
    num_slots = held.shape[0]
    num_units = net.price.shape[0]
    num_members = net.load.shape[0]
    hosts = np.zeros((num_experts, num_units), np.int64)
    count = np.zeros(num_experts, np.int64)
    for slot in range(num_slots):
        put(hosts, held[slot], hosting.slot_unit[slot], 1)
        if held[slot] >= 0:
            count[held[slot]] += 1
    state = State(
        np.zeros(num_members, np.int64),
        np.zeros((net.weight.shape[0], num_units), np.int16),
        np.zeros(num_units, np.int64),
        np.zeros(num_members, np.int64),
        np.zeros((num_members, num_units), np.int64),
        np.zeros((0, 0), np.int64),
        np.zeros(num_units, np.float64),
        np.zeros(2, np.int64),
    )
    for c in range(hosting.class_unit.shape[0]):
        for e in range(num_experts):
            state.unit[c * num_experts + e] = route(hosting, hosts, e, c)
    fill(net, state)
    value = score_of(net, state, timed)
    above = excess(net, state)
    for _ in range(rounds):
        one = draw(rng, num_slots)
        other = draw(rng, num_slots)
        a = hosting.slot_unit[one]
        b = hosting.slot_unit[other]
        e = held[one]
        f = held[other]
        swap = draw(rng, 2) == 0
        if e == f or a == b:
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
        if e >= 0:
            reroute(net, state, hosting, hosts, e)
        if f >= 0:
            reroute(net, state, hosting, hosts, f)
        after = score_of(net, state, timed)
        over_cap = excess(net, state)
        if over_cap < above or (over_cap <= above and after <= value):
            value = after
            above = over_cap
            held[one] = f
            if swap:
                held[other] = e
            else:
                if e >= 0:
                    count[e] -= 1
                if f >= 0:
                    count[f] += 1
            continue
        put(hosts, e, a, 1)
        put(hosts, f, a, -1)
        if swap:
            put(hosts, f, b, 1)
            put(hosts, e, b, -1)
        if e >= 0:
            reroute(net, state, hosting, hosts, e)
        if f >= 0:
            reroute(net, state, hosting, hosts, f)
    return rounds
