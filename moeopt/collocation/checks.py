"""The checks of a collocation instance; each notes violations and returns a normal form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations

Ints = NDArray[np.int64]

LEAST, LARGEST = 1e-15, 1e15
"""Of any number given: what is made of them, such as seconds, stays far within the range of a double."""
NAMED = 5
"""Violations of one kind that are named one by one."""
MOST_PAIRS = 2**50
"""Of a layer: times GPUs they are counted in 64 bits."""
MAX_GPUS = 4_096
"""More is surely a slip of the keyboard: tables of copies are GPUs x GPUs."""


def token_ids(given: Any, experts: int | None, check: Violations) -> Ints | None:
    """(L, T, k) ids without repetitions, -1 for padding."""
    try:
        ids = np.asarray(given)
    except ValueError:
        ids = np.zeros(0, dtype=object)
    if ids.ndim == 2:
        ids = ids[None]
    if ids.ndim != 3 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        seen = f"{ids.dtype} of shape {ids.shape}"
        check.add(
            "ids", seen, rule="must be whole numbers, layers x tokens x top_k", fix="Give expert ids, -1 for none"
        )
        return None
    found = ids.astype(np.int64)
    before = len(check.found)
    wrong = np.argwhere((found < -1) | (found >= (experts if experts is not None else np.iinfo(np.int32).max)))
    for layer, token, slot in wrong[:NAMED]:
        rule = (
            f"must be -1 or an expert below experts = {experts}" if experts is not None else "must be -1 or an expert"
        )
        where = f"layer {layer}, token {token}"
        check.add("ids", found[layer, token, slot], rule=rule, fix="Drop the token or give more experts", where=where)
    _more("ids", len(wrong), check)
    ordered = np.sort(found, axis=2)
    double = np.argwhere(((ordered[:, :, 1:] == ordered[:, :, :-1]) & (ordered[:, :, 1:] >= 0)).any(axis=2))
    for layer, token in double[:NAMED]:
        where = f"layer {layer}, token {token}"
        rule = "a token selects an expert once"
        check.add("ids", found[layer, token].tolist(), rule=rule, fix="Drop the double", where=where)
    _more("ids", len(double), check)
    if experts is not None and found.shape[2] > experts and (found >= 0).sum(axis=2).max() > experts:
        rule = f"a token cannot select more than experts = {experts}"
        check.add("ids", f"top_k {found.shape[2]}", rule=rule, fix="Give the experts of a layer")
    for layer in np.flatnonzero(~(found >= 0).any(axis=(1, 2))):
        check.add("ids", "padding alone", rule="a layer must have a token", fix="Leave it out", where=f"layer {layer}")
    return None if len(check.found) > before else found


def _more(field: str, count: int, check: Violations) -> None:
    if count > NAMED:
        check.add(field, f"{count:,} places", rule="have this fault in all", fix="See above")


def either_side(ids: Ints, cut: int, layers: tuple[int, ...], check: Violations) -> None:
    """Refuse layers whose tokens before or after the cut are padding alone."""
    chosen: NDArray[np.bool_] = np.any(ids >= 0, axis=2)
    for part, what in ((chosen[:, :cut], "plans are made for"), (chosen[:, cut:], "are held out")):
        for layer in np.flatnonzero(~part.any(axis=1)):
            rule = f"of the tokens that {what}, the layer has none but padding"
            where, fix = f"layer {layers[layer]}", "Use another share, or leave the layer out"
            check.add("held_out", f"{cut:,} tokens before it", rule=rule, fix=fix, where=where)


def pair_counts(given: Any, check: Violations) -> Ints | None:
    """(L, E, E) symmetric counts, with the loads on the diagonal."""
    try:
        table = np.asarray(given)
    except ValueError:
        table = np.zeros(0, dtype=object)
    if table.ndim == 2:
        table = table[None]
    if table.ndim != 3 or table.shape[1] != table.shape[2] or table.dtype.kind not in "iuf" or not table.size:
        seen = f"{table.dtype} of shape {table.shape}"
        check.add("pairs", seen, rule="must be layers x experts x experts", fix="Count tokens that select both")
        return None
    before = len(check.found)
    for layer, one, other in np.argwhere(~(np.isfinite(table) & (table >= 0)))[:NAMED]:
        value, where = table[layer, one, other], f"layer {layer}, experts {one}, {other}"
        check.add("pairs", value, rule="must be finite counts >= 0", fix="Count again", where=where)
    if len(check.found) > before:
        return None
    if (table != np.rint(table)).any():
        check.add("pairs", "fractions", rule="must be whole counts", fix="Give counts of tokens, not shares")
        return None
    for layer, rows in enumerate(table):
        total = float(rows.sum(dtype=np.float64))
        if total > MOST_PAIRS:
            rule = f"are counted up to {MOST_PAIRS:,} in all"
            check.add("pairs", f"{total:.4g} in all", rule=rule, fix="Divide the counts", where=f"layer {layer}")
        elif total == float(np.trace(rows.astype(np.float64))):
            rule = "has no two experts that are selected together, so no plan matters"
            check.add("pairs", "none", rule=rule, fix="Leave the layer out", where=f"layer {layer}")
    if len(check.found) > before:
        return None
    found: Ints = np.rint(table).astype(np.int64)
    for layer, one, other in np.argwhere(found != found.transpose(0, 2, 1))[:1]:
        where = f"layer {layer}, experts {one}, {other}"
        value = f"{found[layer, one, other]} and {found[layer, other, one]}"
        check.add(
            "pairs", value, rule="must be symmetric", fix="Add the transpose, or count unordered pairs", where=where
        )
    return found


def whole(field: str, value: Any, least: int, check: Violations) -> int:
    """A whole number from `least` on."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        check.refuse(field, value, rule=f"must be a whole number >= {least}", fix=f"Use {least}")
        return least
    if value > LARGEST:
        check.add(field, value, rule=f"must be at most {LARGEST:.0e}", fix="Look for a slip of the keyboard")
        return least
    return int(value)


def number(field: str, value: Any, check: Violations, *, least: float = 0.0) -> float:
    """A finite number above `least`, or `least` itself where that is 1."""
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < least or (least == 0 and value == 0):
        rule = "must be a finite number above 0" if least == 0 else f"must be a finite number >= {least:g}"
        check.refuse(field, value, rule=rule, fix="Leave it out if it is not known")
        return 1.0
    if not LEAST <= value <= LARGEST:
        rule = f"must be between {LEAST:.0e} and {LARGEST:.0e}"
        check.add(field, value, rule=rule, fix="Look for a slip of the keyboard")
        return 1.0
    return float(value)


def choice(field: str, value: Any, allowed: tuple[str, ...], check: Violations) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        check.add(field, value, rule=f"must be one of {', '.join(allowed)}", fix=f"Use {allowed[0]}")
        return allowed[0]
    return value


def array(given: Any) -> NDArray[Any]:
    """What numpy makes of a list; of rows of several lengths, one of objects."""
    try:
        return np.asarray(given)
    except ValueError:
        return np.empty(len(given), dtype=object)


def slots(given: Any, experts: int, gpus: int, check: Violations) -> Ints:
    """(G,) slots of each GPU."""
    each = -(-experts // gpus)
    if given is None:
        return np.full(gpus, each, dtype=np.int64)
    before = len(check.found)
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        given = whole("slots", given, 1, check)
        if given % gpus:
            low = max(given // gpus * gpus, each * gpus)
            rule = f"slots of all GPUs must be a multiple of gpus = {gpus}"
            check.add("slots", int(given), rule=rule, fix=f"Use {low} or {low + gpus}")
        found = np.full(gpus, max(int(given) // gpus, 0), dtype=np.int64)
    else:
        found = array(given)
        if found.shape != (gpus,) or found.dtype.kind not in "iu" or (found < 0).any():
            rule = f"must be one whole number, or {gpus} of them, one a GPU"
            check.add("slots", f"{found.dtype} of shape {found.shape}", rule=rule, fix="Give the slots of each GPU")
            return np.full(gpus, each, dtype=np.int64)
        found = found.astype(np.int64)
    if len(check.found) == before and found.sum() < experts:
        rule = f"must hold all experts = {experts}"
        check.add("slots", int(found.sum()), rule=rule, fix=f"Use {each * gpus} or more")
    if (found > experts).any():
        rule = f"a GPU cannot hold more than experts = {experts} different ones"
        check.add("slots", int(found.max()), rule=rule, fix=f"Use at most {experts} a GPU")
    return found


def node_of(given: Any, gpus: int, check: Violations) -> Ints:
    """(G,) node of each GPU, numbered from 0."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if given < 1 or gpus % given:
            rule = f"must divide gpus = {gpus}"
            check.add("nodes", int(given), rule=rule, fix="Give the node of each GPU, if nodes differ")
            return np.zeros(gpus, dtype=np.int64)
        return np.arange(gpus) // (gpus // int(given))
    found = array(given)
    if found.shape != (gpus,) or found.dtype.kind not in "iu":
        rule = f"must be one whole number, or {gpus} of them, one a GPU"
        check.add("nodes", f"{found.dtype} of shape {found.shape}", rule=rule, fix="Give the node of each GPU")
        return np.zeros(gpus, dtype=np.int64)
    return np.unique(found, return_inverse=True)[1].reshape(-1).astype(np.int64)


def sources(given: Any, tokens: int, gpus: int, check: Violations) -> Ints | None:
    """(T,) GPU of each token."""
    if given is None:
        return None
    found = array(given)
    if found.shape != (tokens,) or found.dtype.kind not in "iu":
        rule = f"must be {tokens} GPUs, one a token"
        check.add("source", f"{found.dtype} of shape {found.shape}", rule=rule, fix="Leave it out if it is not known")
        return None
    wrong = np.flatnonzero((found < 0) | (found >= gpus))
    for token in wrong[:NAMED]:
        rule = f"must be a GPU from 0 to {gpus - 1}"
        check.add("source", found[token], rule=rule, fix="Number GPUs from 0", where=f"token {token}")
    return found.astype(np.int64)


def layer_ids(given: Any, layers: int, check: Violations) -> tuple[int, ...]:
    """L different layer ids."""
    if given is None:
        return tuple(range(layers))
    found = list(given) if isinstance(given, Sequence | np.ndarray) and np.shape(array(given)) else []
    good = all(isinstance(one, int | np.integer) and one >= 0 for one in found)
    if len(found) != layers or not good or len(set(found)) < len(found):
        rule = f"must be {layers} different whole numbers >= 0, one a layer"
        check.add("layers", given, rule=rule, fix="Give the id of each layer")
        return tuple(range(layers))
    return tuple(int(one) for one in found)


def limited(ids: Ints, experts: int, groups: Any, top_groups: Any, check: Violations) -> tuple[int, int] | None:
    """Groups and how many of them a token may use, kept by every token."""
    if groups is None and top_groups is None:
        return None
    if groups is None or top_groups is None:
        rule = "groups and top_groups belong together"
        check.add("groups, top_groups", (groups, top_groups), rule=rule, fix="Give both or neither")
        return None
    before = len(check.found)
    groups, top_groups = whole("groups", groups, 1, check), whole("top_groups", top_groups, 1, check)
    if len(check.found) == before and experts % groups:
        check.add("groups", groups, rule=f"must divide experts = {experts}", fix="Use a divisor")
    if len(check.found) == before and top_groups > groups:
        check.add("top_groups", top_groups, rule=f"there are only groups = {groups}", fix=f"Use at most {groups}")
    if len(check.found) > before:
        return None
    size = experts // groups
    used = np.zeros((*ids.shape[:2], groups), dtype=bool)
    layer, token, _ = np.nonzero(ids >= 0)
    used[layer, token, ids[ids >= 0] // size] = True
    count = used.sum(axis=2)
    wrong = np.argwhere(count > top_groups)
    for layer_at, token_at in wrong[:NAMED]:
        rule = f"a token's experts come from at most top_groups = {top_groups}"
        where = f"layer {layer_at}, token {token_at}"
        fix = "Are groups runs of consecutive experts here, and is the limit right?"
        check.add("ids", f"{count[layer_at, token_at]} groups", rule=rule, fix=fix, where=where)
    _more("ids", len(wrong), check)
    return groups, top_groups
