"""Around every call: bad input and errors give a full map too, one line is logged, and nothing reaches the engine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from moeopt.engines.policies.arrays import as_numpy
from moeopt.engines.policies.case import Asked, Case, experts_of, given_map, read
from moeopt.engines.policies.cover import complete, covered
from moeopt.engines.policies.last import NoRoom, fits, size, warn, why
from moeopt.engines.policies.layers import whole, with_idle_layers
from moeopt.engines.policies.line import Line
from moeopt.engines.policies.options import Options
from moeopt.engines.policies.plan import Plan
from moeopt.engines.policies.planning import TimeIsUp
from moeopt.engines.policies.shape import Ints, Refused, new_pairs, start_up
from moeopt.errors import MoeoptError
from moeopt.limits import Deadline


@dataclass(frozen=True)
class Answer:
    """A map (L, S) of int64, the plan behind it, and why there is none."""

    held: Ints
    plan: Plan | None = None
    reason: str = ""
    mended: list[str] = field(default_factory=list)
    """What had to be put right in the map before it could leave."""


def answer(asked: Asked, options: Options) -> Answer:
    """A map for the engine, whatever it asked: of the shape asked for, and with every expert that it has room for.

    Raises
    ------
    NoRoom
        The map asked for is too large for the memory, and no map runs.
    """
    deadline = Deadline(options.time_limit_s)
    case = Case()
    try:
        case = read(asked, options.max_moves)
        found = _planned(case, options, deadline)
    except Exception as error:  # reading the input failed
        found = Answer(np.zeros((0, 0), dtype=np.int64), None, why(error))
    found = _full(found, asked, case, options)
    if options.agree is not None:
        found = _full(_agreed(found, options), asked, case, options)
    with suppress(Exception):  # a broken handler must not cost the map
        Line(asked, case, found.held, found.plan, found.reason, found.mended).say(options, deadline)
    return found


def _planned(case: Case, options: Options, deadline: Deadline) -> Answer:
    """A plan, or the map to fall back on and why."""
    reason = case.fault
    if not reason:
        assert case.loads is not None and case.shape is not None
        try:
            plan = with_idle_layers(whole(case.loads), case.shape, case.running, options, deadline)
            plan.notes.extend([case.shape.note] if case.shape.note else [])
            return Answer(plan.held, plan)
        except TimeIsUp as error:
            reason = str(error) or f"{options.time_limit_s:g} s were up"
        except MoeoptError as error:
            reason = str(error)
        except Exception as error:
            reason = why(error)
            with suppress(Exception):
                options.log.debug("traceback of the failure", exc_info=True)
    if case.shape is None:
        return Answer(np.zeros((0, 0), dtype=np.int64), None, reason)
    return Answer(start_up(case.shape) if case.running is None else case.running.held, None, reason)


def _full(found: Answer, asked: Asked, case: Case, options: Options) -> Answer:
    """What every map passes before it leaves: its shape, known experts, each of them, doubles as few as can be.

    A map that fails is made full by few moves, within the budget as far as it can be, and ``mended`` says so.
    """
    shape, held = case.shape, found.held
    if shape is None:
        return replace(found, held=_without_shape(asked, case))
    if held.shape != (shape.num_layers, shape.num_slots):  # no plan of ours
        held = start_up(shape) if case.running is None else case.running.held
        return replace(found, held=held, plan=None)
    left = None
    if options.max_moves is not None and case.running is not None:
        moves = new_pairs(shape, case.running.old, np.clip(held, 0, shape.num_experts - 1))
        left = max(options.max_moves - int(moves.max()), 0)
    full = covered(shape, held.astype(np.int64), None, left)
    if np.array_equal(full.held, held):
        return replace(found, held=full.held)
    what = "had second replicas on a GPU" if complete(shape, held) else "lacked experts or had unknown ones"
    said = f"the map found {what}, which took {int(full.moves.sum()):,} more moves to mend"
    return replace(found, held=full.held, plan=None, mended=[*found.mended, said])


def _without_shape(asked: Asked, case: Case) -> Ints:
    """Where no map of slots on GPUs can be: the map that runs if it has what was asked for, else experts in order."""
    slots = size(asked.slots)
    given = () if case.loads is None else case.loads.shape
    layers, experts = (given[-2] if len(given) > 1 else 1), (given[-1] if given else slots)
    raw = case.raw
    if raw is not None and raw.ndim == 2 and raw.size and raw.dtype.kind in "iu":
        if len(given) < 2:
            layers, experts = len(raw), experts_of(raw) or experts
        known = raw.shape == (layers, slots) and int(raw.min()) >= 0 and int(raw.max()) < experts
        if known and all(len(np.unique(row)) >= min(experts, slots) for row in raw):
            return raw.astype(np.int64)
        if not fits(layers, slots) and int(raw.min()) >= 0 and experts_of(raw):
            return raw.astype(np.int64)  # what was asked for cannot be, so nothing changes
    if not fits(layers, slots):
        raise NoRoom(f"a map of {layers:,} x {slots:,} slots has no room in memory, and no map runs that could stay")
    return np.tile(np.arange(slots, dtype=np.int64) % max(experts, 1), (layers, 1))


def in_order(weight: Any, slots: Any, current: Any = None) -> Ints:
    """The last resort, after a bug of ours: what `_without_shape` gives for what can still be read."""
    loads = None
    with suppress(Exception):
        loads = as_numpy(weight)
    raw = given_map(current)[0]
    return _without_shape(Asked("", None, slots, None, None, None), Case(loads, raw=raw))


def _agreed(found: Answer, options: Options) -> Answer:
    """What the first rank has found."""
    assert options.agree is not None
    try:
        shared = as_numpy(options.agree(found.held.copy())).astype(np.int64)
        if shared.shape != found.held.shape:
            raise Refused(f"agree gave a map of shape {shared.shape}, not {found.held.shape}")
    except Exception as error:
        warn(options, "moeopt: agree failed, ranks may differ: %s", why(error))
        return found
    if np.array_equal(shared, found.held):
        return found
    return Answer(shared, None, "the first rank's map")
