"""Around every call: bad input and errors give a map too, one line is logged, and nothing is raised into the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.arrays import as_numpy
from moeopt.engines.policies.layers import whole, with_idle_layers
from moeopt.engines.policies.options import Options
from moeopt.engines.policies.planning import Plan, TimeIsUp
from moeopt.engines.policies.shape import Ints, Refused, Shape, new_pairs, shape_of, start_up
from moeopt.errors import MoeoptError
from moeopt.limits import Deadline


@dataclass(frozen=True)
class Asked:
    """What an engine asked for, as it gave it: loads (L, E), numbers, and the map (L, S) that runs, if it said so."""

    engine: str
    loads: Any
    slots: Any
    groups: Any
    nodes: Any
    gpus: Any
    old: Any = None


@dataclass(frozen=True)
class Answer:
    """A map (L, S) of int64, the plan behind it, and why there is none."""

    held: Ints
    plan: Plan | None = None
    reason: str = ""


def answer(asked: Asked, options: Options) -> Answer:
    """A map for the engine, whatever it asked."""
    deadline = Deadline(options.time_limit_s)
    try:
        found = _answer(asked, options, deadline)
    except Exception as error:  # reading the input for the fallback failed too
        found = Answer(_last_resort(asked), None, f"{type(error).__name__}: {error}")
    if options.agree is not None:
        found = _agreed(found, options)
    _log(asked, found, options, deadline)
    return found


def _answer(asked: Asked, options: Options, deadline: Deadline) -> Answer:
    old: Ints | None = None
    shape: Shape | None = None
    try:
        loads = as_numpy(asked.loads)
        if loads.ndim != 2:
            raise Refused(f"loads have shape {loads.shape}, not (layers, experts)")
        num_layers, num_experts = loads.shape
        shape = shape_of(num_layers, num_experts, asked.slots, asked.groups, asked.nodes, asked.gpus)
        if asked.old is not None:
            old = _running(as_numpy(asked.old), shape)
        _check(loads)
        plan = with_idle_layers(whole(loads), shape, old, options, deadline)
        plan.notes.extend([shape.note] if shape.note else [])
        return Answer(plan.held, plan)
    except TimeIsUp:
        reason = f"{options.time_limit_s:g} s were up"
    except (Refused, MoeoptError) as error:
        reason = str(error)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        options.log.debug("traceback of the failure", exc_info=True)
    if old is not None and (old >= 0).all():
        return Answer(old, None, reason)
    return Answer(_last_resort(asked) if shape is None else start_up(shape), None, reason)


def _check(loads: NDArray[Any]) -> None:
    if loads.dtype.kind not in "iubf":
        raise Refused(f"loads are {loads.dtype}, not numbers")
    if loads.dtype.kind == "f":
        for name, wrong in (("NaN", np.isnan(loads)), ("infinite", np.isinf(loads))):
            if wrong.any():
                layer, expert = np.argwhere(wrong)[0].tolist()
                raise Refused(f"{int(wrong.sum())} loads are {name}, the first in layer {layer}, expert {expert}")
    if loads.dtype.kind in "if" and (loads < 0).any():
        layer, expert = np.argwhere(loads < 0)[0].tolist()
        raise Refused(f"loads are negative, the first in layer {layer}, expert {expert}")


def _running(old: NDArray[Any], shape: Shape) -> Ints | None:
    """(L, S) what runs; with new GPUs empty and those that went cut off; ``None`` where it is no such map."""
    if old.ndim != 2 or len(old) != shape.num_layers or old.dtype.kind not in "iu" or old.shape[1] % shape.per_gpu:
        return None
    table = old.astype(np.int64)
    if old.shape[1] < shape.num_slots:
        table = np.pad(table, ((0, 0), (0, shape.num_slots - old.shape[1])), constant_values=-1)
    return table[:, : shape.num_slots].copy()


def _last_resort(asked: Asked) -> Ints:
    """The map that runs if it has the length asked for, else experts in order; of what can be told of the shape."""
    slots = _number(asked.slots)
    try:
        old = as_numpy(asked.old)
        if old.ndim == 2 and old.dtype.kind in "iu" and (not slots or old.shape[1] == slots):
            return old.astype(np.int64)
    except Exception:
        pass
    try:
        size = as_numpy(asked.loads).shape
    except Exception:
        size = ()
    layers, experts = (size[-2] if len(size) > 1 else 1), (size[-1] if size else slots)
    return np.tile(np.arange(slots, dtype=np.int64) % max(experts, 1), (layers, 1))


def _number(value: Any) -> int:
    try:
        return max(int(value), 0)
    except Exception:
        return 0


def _agreed(found: Answer, options: Options) -> Answer:
    """What the first rank has found."""
    assert options.agree is not None
    try:
        shared = as_numpy(options.agree(found.held.copy())).astype(np.int64)
        if shared.shape != found.held.shape:
            raise Refused(f"agree gave a map of shape {shared.shape}, not {found.held.shape}")
    except Exception as error:
        options.log.warning("moeopt: agree failed, ranks may differ: %s: %s", type(error).__name__, error)
        return found
    if np.array_equal(shared, found.held):
        return found
    return Answer(shared, None, "the first rank's map")


def _log(asked: Asked, found: Answer, options: Options, deadline: Deadline) -> None:
    """One line; a broken handler must not cost the map."""
    try:
        spent = f"{1e3 * deadline.elapsed_s():.0f} ms"
        if found.plan is None:
            kept = "kept what runs" if asked.old is not None else "the start-up map"
            text = found.reason if found.reason == "the first rank's map" else f"{kept}: {found.reason}"
            options.log.warning("moeopt %s: %s, %s", asked.engine, text, spent)
            return
        before, after, bound = found.plan.figures()
        was = "" if before is None else f"{before:.4f} -> "
        parts = [f"imbalance {was}{after:.4f} (bound {bound:.4f})"]
        parts.append("nothing runs yet" if asked.old is None else f"{_moves(asked, found):,} moves")
        if found.plan.open:
            parts.append(f"{found.plan.open} layers worth planning, {found.plan.searched} searched")
        options.log.info("moeopt %s: %s", asked.engine, ", ".join([*parts, spent, *found.plan.notes]))
    except Exception:
        pass


def _moves(asked: Asked, found: Answer) -> int:
    num_layers, num_experts = as_numpy(asked.loads).shape
    shape = Shape(num_layers, num_experts, found.held.shape[1], int(asked.gpus))
    old = _running(as_numpy(asked.old), shape)
    return int(found.held.size) if old is None else int(new_pairs(shape, old, found.held).sum())
