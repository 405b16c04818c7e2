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
from moeopt.kernels.common import copy_into, draw
from moeopt.kernels.units import over, packed, put

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
    counts; ``cap`` (U,) most load of a unit. ``room`` (G,) slots of each GPU, unit by unit, those of unit u from
    ``seat[u]`` on, and ``top`` (1,) most load of a GPU: where ``room`` is empty, loads within units do not count.
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
    room: Ints
    seat: Ints
    top: Floats


class State(NamedTuple):
    """What the search changes.

    ``unit`` (E,) where an expert is; ``inside`` (M, U) experts of a row in a unit; ``inflow`` (U,) copies a unit gets;
    ``ben`` (E,), ``pen`` (E, U), ``both`` (E, E) as above; ``total`` (U,) loads; ``height`` (U,) load of the
    busiest GPU of a unit, where GPUs are capped; ``move`` the pair found last.
    """

    unit: Ints
    inside: NDArray[np.int16]
    inflow: Ints
    ben: Ints
    pen: Ints
    both: Ints
    total: Floats
    height: Floats
    move: Ints


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
def height_of(net: Net, unit: Ints, u: int, out: int, into: int) -> float:
    """`packed` of a unit after one expert has left it and another has come; -1 for none."""
    items = np.zeros(unit.shape[0], np.float64)
    number = 0
    for e in range(unit.shape[0]):
        if (unit[e] == u and e != out) or e == into:
            items[number] = net.load[e]
            number += 1
    return packed(net.seat, net.room, u, items[:number])


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
            if net.room.shape[0] > 0:
                most = max(net.top[0], state.height[a], state.height[b])
                if grow > 0.0:  # first the unit that gets heavier, which is the likelier to be too high
                    if height_of(net, unit, a, e, f) > most or height_of(net, unit, b, f, e) > most:
                        continue
                elif height_of(net, unit, b, f, e) > most or height_of(net, unit, a, e, f) > most:
                    continue
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
        if net.room.shape[0] > 0 and state.height[u] > net.top[0]:
            total += state.height[u] - net.top[0]
    return total


@jit
def measure(net: Net, state: State) -> None:
    """The heights of all units, where GPUs are capped and experts have no replicas."""
    if net.room.shape[0] > 0:
        for u in range(state.height.shape[0]):
            state.height[u] = height_of(net, state.unit, u, -1, -1)


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
        np.zeros(num_units, np.float64),
        np.zeros(2, np.int64),
    )
    fill(net, state)
    measure(net, state)
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
            if net.room.shape[0] > 0:
                state.height[a] = height_of(net, state.unit, a, -1, -1)
                state.height[b] = height_of(net, state.unit, b, -1, -1)
            tenure = 2 + num_experts // 20
            tabu[e] = done + tenure + draw(rng, tenure)
            tabu[f] = done + tenure + draw(rng, tenure)
            value = score_of(net, state, timed)
            above = excess(net, state)
            if above < least_excess or (above <= least_excess and value < least - EPSILON * abs(least)):
                least = value
                least_excess = above
                copy_into(best, state.unit)
                vain = 0
                continue
        vain += 1
        if vain >= PATIENCE:
            vain = 0
            copy_into(state.unit, best)
            fill(net, state)
            measure(net, state)
            tabu[:] = 0
            for _ in range(2 + draw(rng, 2 + num_experts // 3)):
                e = draw(rng, num_experts)
                f = draw(rng, num_experts)
                a = state.unit[e]
                b = state.unit[f]
                grow = net.load[f] - net.load[e]
                if a != b and state.total[a] + grow <= net.cap[a] and state.total[b] - grow <= net.cap[b]:
                    if net.room.shape[0] > 0:
                        most = max(net.top[0], state.height[a], state.height[b])
                        if height_of(net, state.unit, a, e, f) > most or height_of(net, state.unit, b, f, e) > most:
                            continue
                    shift(net, state, e, b)
                    shift(net, state, f, a)
                    if net.room.shape[0] > 0:
                        state.height[a] = height_of(net, state.unit, a, -1, -1)
                        state.height[b] = height_of(net, state.unit, b, -1, -1)
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
def settled(net: Net, hosting: Hosting, hosts: Ints) -> State:
    """The state of replicas, every class sent where the rule says."""
    num_experts, num_units = hosts.shape
    num_members = net.load.shape[0]
    state = State(
        np.zeros(num_members, np.int64),
        np.zeros((net.weight.shape[0], num_units), np.int16),
        np.zeros(num_units, np.int64),
        np.zeros(num_members, np.int64),
        np.zeros((num_members, num_units), np.int64),
        np.zeros((0, 0), np.int64),
        np.zeros(num_units, np.float64),
        np.zeros(num_units, np.float64),
        np.zeros(2, np.int64),
    )
    for c in range(hosting.class_unit.shape[0]):
        for e in range(num_experts):
            state.unit[c * num_experts + e] = route(hosting, hosts, e, c)
    fill(net, state)
    weigh(net, state, hosts)
    return state


@jit
def weigh(net: Net, state: State, hosts: Ints) -> None:
    """The heights of all units, where GPUs are capped: a replica has the load of the classes that are sent to it."""
    if net.room.shape[0] == 0:
        return
    num_experts, num_units = hosts.shape
    at = np.zeros((num_units, num_experts), np.float64)
    for member in range(net.load.shape[0]):
        at[state.unit[member], member % num_experts] += net.load[member]
    for u in range(num_units):
        state.height[u] = packed(net.seat, net.room, u, at[u][hosts[:, u] > 0])


@jit
def hosts_of(hosting: Hosting, held: Ints, num_experts: int) -> Ints:
    """(E, U) replicas of each expert in each unit."""
    hosts = np.zeros((num_experts, hosting.group.shape[0]), np.int64)
    for slot in range(held.shape[0]):
        put(hosts, held[slot], hosting.slot_unit[slot], 1)
    return hosts


@jit
def grow(
    net: Net, hosting: Hosting, held: Ints, num_experts: int, timed: bool, part: float, must: bool, most: int
) -> int:
    """Put replicas into empty slots, each time where it spares most; the number put.

    Copies of a row to a unit end only when all its experts there are had nearer: an expert is credited with `part` of
    its share of them, besides what it spares by itself. What each spares is kept up to date, not worked out anew.

    Parameters
    ----------
    held
        (S,) expert in each slot, -1 empty, no expert twice in a unit; updated.
    part
        From 0, only what a replica spares alone, to 1.
    must
        Whether slots are filled where nothing is spared, or more is sent.
    most
        Replicas that are put.
    """
    hosts = hosts_of(hosting, held, num_experts)
    num_units = hosts.shape[1]
    num_classes = hosting.class_unit.shape[0]
    state = settled(net, hosting, hosts)
    credit = np.zeros(net.load.shape[0], np.float64)
    stale = np.ones(net.load.shape[0], np.bool_)
    free = np.zeros(num_units, np.int64)
    for slot in range(held.shape[0]):
        if held[slot] < 0:
            free[hosting.slot_unit[slot]] += 1
    price = net.price.copy()
    done = 0
    while done < most:
        for member in range(net.load.shape[0]):
            if stale[member]:
                stale[member] = False
                credit[member] = shared(net, state, member)
        if timed:
            for u in range(num_units):
                price[u] = net.price[u] + 8.0 * over(state.inflow[u], net.rate[u]) / max(state.inflow[u], 1)
        best = -1e300 if must else 0.0
        found, where = -1, -1
        above = excess(net, state)
        for e in range(num_experts):
            for u in range(num_units):
                if free[u] == 0 or hosts[e, u] > 0:
                    continue
                hosts[e, u] += 1
                gain = 0.0
                for c in range(num_classes):
                    member = c * num_experts + e
                    out = state.unit[member]
                    to = u
                    if hosting.rule == 2 or u != hosting.class_unit[c]:
                        to = route(hosting, hosts, e, c)
                    if to != out:
                        alone = float(state.ben[member])
                        gain += price[out] * (alone + part * (credit[member] - alone))
                        gain -= price[to] * state.pen[member, to]
                hosts[e, u] -= 1
                if gain > best + EPSILON * abs(best) + EPSILON or (must and found < 0):
                    if net.cap[u] < np.inf and beyond(net, state, hosting, hosts, e, u) > above:
                        continue
                    best, found, where = gain, e, u
        if found < 0:
            break
        hosts[found, where] += 1
        reroute_and_mark(net, state, hosting, hosts, found, stale)
        weigh(net, state, hosts)
        free[where] -= 1
        for slot in range(held.shape[0]):
            if held[slot] < 0 and hosting.slot_unit[slot] == where:
                held[slot] = found
                break
        done += 1
    return done


@jit
def shared(net: Net, state: State, member: int) -> float:
    """Copies to the unit of a member, each divided by the members it is sent for."""
    u = state.unit[member]
    total = 0.0
    for place in range(net.first[member], net.first[member + 1]):
        row = net.rows[place]
        if net.home[row] != u:
            total += net.weight[row] / state.inside[row, u]
    return total


@jit
def beyond(net: Net, state: State, hosting: Hosting, hosts: Ints, e: int, u: int) -> float:
    """`excess` with one more replica of `e` in `u`."""
    hosts[e, u] += 1
    reroute(net, state, hosting, hosts, e)
    weigh(net, state, hosts)
    found = excess(net, state)
    hosts[e, u] -= 1
    reroute(net, state, hosting, hosts, e)
    weigh(net, state, hosts)
    return found


@jit
def reroute_and_mark(net: Net, state: State, hosting: Hosting, hosts: Ints, e: int, stale: NDArray[np.bool_]) -> None:
    """`reroute`, and which members have other shares by it."""
    num_experts = hosts.shape[0]
    for c in range(hosting.class_unit.shape[0]):
        member = c * num_experts + e
        to = route(hosting, hosts, e, c)
        if state.unit[member] != to:
            shift(net, state, member, to)
            for place in range(net.first[member], net.first[member + 1]):
                row = net.rows[place]
                for i in range(net.start[row], net.start[row + 1]):
                    stale[net.member[i]] = True
