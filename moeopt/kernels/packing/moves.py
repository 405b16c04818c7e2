"""The best swap and the best transfer that relieve a GPU."""

from __future__ import annotations

from moeopt.kernels._jit import jit
from moeopt.kernels.packing.state import EPSILON, Layer, State, least_gain, may_change, may_swap, over, piece


@jit
def best_swap(layer: Layer, state: State, hot: int, threshold: float) -> float:
    """Most that one swap with the hot GPU takes off the cost; the two slots are left in `move`."""
    least = least_gain(threshold)
    best = least
    gpu_load, pace, held, unit = state.total, layer.pace, state.held, state.unit
    height = gpu_load[hot] * pace[hot]
    hot_cost = over(gpu_load[hot], pace[hot], threshold)
    for other in range(pace.shape[0]):
        if gpu_load[other] * pace[other] >= height:
            continue
        before = hot_cost + over(gpu_load[other], pace[other], threshold)
        for first in range(layer.start[hot], layer.start[hot + 1]):
            size = unit[held[first]]
            for second in range(layer.start[other], layer.start[other + 1]):
                shift = size - unit[held[second]]
                if shift <= 0.0:
                    continue
                gain = (
                    before
                    - over(gpu_load[hot] - shift, pace[hot], threshold)
                    - over(gpu_load[other] + shift, pace[other], threshold)
                )
                if gain > best and may_swap(layer, state, first, second):
                    best = gain
                    state.move[0] = first
                    state.move[1] = second
                    if best >= hot_cost * (1.0 - EPSILON):
                        return best  # the hot GPU comes down to the threshold, and no other one rises above it
    return best if best > least else 0.0


@jit
def transfer_gain(layer: Layer, state: State, slot: int, to: int, threshold: float) -> float:
    """What it takes off the cost if `slot` changes over to expert `to`."""
    out = state.held[slot]
    home = layer.gpu[slot]
    shift = state.shift
    shift[home] -= state.unit[out]
    if out != layer.empty:
        change_out = piece(layer.loads[out], state.counts[out] - 1, layer.floor) - state.unit[out]
        for copy in range(state.counts[out]):
            if state.where[out, copy] != slot:
                shift[layer.gpu[state.where[out, copy]]] += change_out
    if to != layer.empty:
        after = piece(layer.loads[to], state.counts[to] + 1, layer.floor)
        shift[home] += after
        for copy in range(state.counts[to]):
            shift[layer.gpu[state.where[to, copy]]] += after - state.unit[to]
    gain = over(state.total[home], layer.pace[home], threshold)
    gain -= over(state.total[home] + shift[home], layer.pace[home], threshold)
    shift[home] = 0.0
    for turn in range(2):
        expert = out if turn == 0 else to
        if expert == layer.empty:
            continue
        for copy in range(state.counts[expert]):
            at = layer.gpu[state.where[expert, copy]]
            if shift[at] != 0.0:
                gain += over(state.total[at], layer.pace[at], threshold)
                gain -= over(state.total[at] + shift[at], layer.pace[at], threshold)
                shift[at] = 0.0
    return gain


@jit
def weigh_counts(layer: Layer, state: State, threshold: float) -> None:
    """What one copy more of an expert would take off the cost of its GPUs (`relief`), and one less add (`strain`)."""
    for g in range(layer.pace.shape[0]):
        state.height[g] = over(state.total[g], layer.pace[g], threshold)
    for expert in range(state.counts.shape[0]):
        state.relief[expert] = 0.0
        state.strain[expert] = 0.0
        state.grown[expert] = piece(layer.loads[expert], state.counts[expert] + 1, layer.floor)
        state.shrunk[expert] = piece(layer.loads[expert], state.counts[expert] - 1, layer.floor)
    for slot in range(state.held.shape[0]):
        expert = state.held[slot]
        if expert == layer.empty:
            continue
        at = layer.gpu[slot]
        if state.height[at] > 0.0:
            less = state.total[at] + state.grown[expert] - state.unit[expert]
            state.relief[expert] += state.height[at] - over(less, layer.pace[at], threshold)
        if state.counts[expert] > 1:
            more = state.total[at] + state.shrunk[expert] - state.unit[expert]
            state.strain[expert] += over(more, layer.pace[at], threshold) - state.height[at]


@jit
def best_transfer(layer: Layer, state: State, hot: int, threshold: float) -> float:
    """Most that one transfer touching the hot GPU takes off the cost; slot and expert are left in `move`.

    `weigh_counts` gives a guess that is exact unless replicas of both experts share a GPU; only a guess that beats
    the best so far is computed in full.
    """
    weigh_counts(layer, state, threshold)
    least = least_gain(threshold)
    best = least
    for first in range(layer.start[hot], layer.start[hot + 1]):
        inside = state.held[first]
        for turn in range(2):
            # turn 0: one more copy of `inside` elsewhere relieves the hot GPU; turn 1: it gives its slot away
            if inside == layer.empty or (state.counts[inside] >= layer.most and turn == 0):
                continue
            if state.counts[inside] < 2 and turn == 1:
                continue
            for other in range(state.held.shape[0] if turn == 0 else state.counts.shape[0]):
                slot = other if turn == 0 else first
                to = inside if turn == 0 else other
                out = state.held[slot]
                home = layer.gpu[slot]
                if (turn == 0 and home == hot) or (out != layer.empty and state.counts[out] < 2):
                    continue
                now = state.total[home]
                guess = state.height[home] + state.relief[to] - state.strain[out]
                if state.strain[out] > 0.0:  # the strain counts this slot's own GPU, where nothing is left to strain
                    more = now + state.shrunk[out] - state.unit[out]
                    guess += over(more, layer.pace[home], threshold) - state.height[home]
                if guess <= best:
                    continue
                guess -= over(now - state.unit[out] + state.grown[to], layer.pace[home], threshold)
                if guess <= best or not may_change(layer, state, slot, to):
                    continue
                gain = transfer_gain(layer, state, slot, to, threshold)
                if gain > best:
                    best = gain
                    state.move[0] = slot
                    state.move[1] = to
    return best if best > least else 0.0
