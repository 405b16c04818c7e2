"""Checks of the instance's fields: every bad one is named, with its place and the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from moeopt.errors import Violations
from moeopt.kinds import is_number, is_whole
from moeopt.microbatch.builders import PATTERNS, Pattern
from moeopt.microbatch.times import Constant, Linear, Table, TimeModel, Transfer

MOST_ITEMS = 200_000
"""Items (layers x micro-batches x stages) of a schedule: a second's work, and a timeline nobody reads."""
MOST_OF_A_LAYER = 20_000
"""Items of a layer up to which layers that are alike may be as many as there are."""
MOST_CANDIDATES = 20_000
MOST_PAIRS = 2_000_000
"""Pairs of m and batch, those that do not fit included."""
MOST_LISTED = 100_000
"""Numbers in a list of m or of batches."""
MOST_SAID = 5
"""Faults of one list that are said one by one."""
LARGEST_COUNT = 1_000_000


def plain(
    check: Violations, *, layers: object, pattern: object, micro_batch: object, uneven: object, latency: object
) -> None:
    """Fields that are checked one by one."""
    for name, value in (("layers", layers), ("micro_batch", micro_batch)):
        if not is_whole(value) or not 1 <= value <= LARGEST_COUNT:  # type: ignore[operator]
            check.refuse(name, value, rule=f"must be a whole number in 1..{LARGEST_COUNT:,}", fix=_nearest_count(value))
    if not isinstance(pattern, str) or pattern not in PATTERNS:
        check.add("pattern", pattern, rule="is not known", fix=f"Known: {', '.join(PATTERNS)}")
    if not isinstance(uneven, bool):
        check.add("uneven", uneven, rule="must be true or false", fix="Use false")
    if not isinstance(latency, str) or latency not in ("per-message", "amortised"):
        check.add("latency", latency, rule="must be per-message or amortised", fix="Use per-message")
    elif latency == "amortised" and pattern != "hop-b":
        check.add("latency", latency, rule="is for the pattern hop-b", fix="Leave it out")


def limits(
    check: Violations, slo: object, per_sequence: object, memory: object, objective: object, name: object
) -> None:
    """Limits on time and memory, and what is wanted."""
    for field, value, unit in (
        ("tbt_slo_s", slo, "seconds"),
        ("bytes_per_sequence", per_sequence, "bytes"),
        ("memory_bytes", memory, "bytes"),
    ):
        if value is not None and not (is_number(value) and value > 0):  # type: ignore[operator]
            check.refuse(field, value, rule=f"must be finite {unit} > 0", fix="Leave it out for no limit")
    if (per_sequence is None) != (memory is None):
        missing = "memory_bytes" if memory is None else "bytes_per_sequence"
        check.add(missing, None, rule="memory needs both bytes_per_sequence and memory_bytes", fix="Give both or none")
    if objective is not None and (not isinstance(objective, str) or objective not in ("time", "throughput")):
        check.add("objective", objective, rule="must be time or throughput", fix="Leave it out")
    if not isinstance(name, str):
        check.add("name", name, rule="must be text", fix="Leave it out")


def wholes(check: Violations, field: str, given: object) -> tuple[int, ...]:
    """One whole number or several, each once, in the order given."""
    listed: Any = [given] if is_whole(given) else _listed(given)
    if isinstance(listed, str) or not isinstance(listed, Sequence | range) or not listed:
        check.refuse(field, given, rule="must be a whole number or a list of them", fix="Write 4 or [1, 2, 3, 4]")
        return ()
    if _too_many(listed):
        few = f"{listed[0]!r}, {listed[1]!r}, ..."
        check.add(field, few, rule=f"must be at most {MOST_LISTED:,} numbers", fix="Leave some out")
        return ()
    wrong = [value for value in listed if not is_whole(value) or not 1 <= value <= LARGEST_COUNT]
    for value in wrong[:MOST_SAID]:
        check.refuse(field, value, rule=f"must be a whole number in 1..{LARGEST_COUNT:,}", fix=_nearest_count(value))
    if len(wrong) > MOST_SAID:
        check.add(field, f"{len(wrong) - MOST_SAID:,} more", rule="are no such numbers either")
    return () if wrong else tuple(dict.fromkeys(int(value) for value in listed))


def _nearest_count(value: object) -> str:
    return f"Use {LARGEST_COUNT}" if isinstance(value, int | float) and value > LARGEST_COUNT else "Use 1 or more"


def _too_many(listed: Sequence[Any] | range) -> bool:
    try:
        return len(listed) > MOST_LISTED
    except OverflowError:  # a range beyond what a machine can count
        return True


def models(check: Violations, times: object, pattern: Pattern | None) -> dict[str, Any]:
    """Time models by stage in the pattern's order; functions are passed on as they are."""
    if not isinstance(times, Mapping):
        check.add("times", times, rule="must map stages to seconds", fix='Write {"attention": 0.4e-3, ...}')
        return {}
    if pattern is None:
        return {}
    found: dict[str, Any] = {}
    for name in times:
        if name not in pattern.symbols:
            check.add(
                "times", name, rule=f"is not a stage of {pattern.name}", fix=f"Known: {', '.join(pattern.stages)}"
            )
    for stage, symbol in pattern.symbols.items():
        both = stage == "dispatch" and "combine" in pattern.symbols and "combine" not in times
        where = f"{stage}, {'T_c' if both else symbol}"
        if stage not in times:
            if stage not in pattern.optional:
                check.add("times", "missing", where=where, rule=f"{pattern.name} needs it", fix="Give its seconds")
            elif stage == "combine" and "dispatch" in found:
                found[stage] = found["dispatch"]
            continue
        before = len(check.found)
        model = _model(check, where, times[stage])
        if len(check.found) == before:
            found[stage] = model
    return found


def _model(check: Violations, where: str, given: Any) -> Any:
    """What was given for one stage as a time model, checked."""
    if isinstance(given, Constant | Linear | Transfer | Table):
        given.check(where, check)
        return given
    if isinstance(given, Mapping):
        try:
            table = Table.of(given)
        except TypeError:
            check.add("times", dict(given), where=where, rule="must map whole tokens to seconds")
            return None
        table.check(where, check)
        return table
    given = plain_number(given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        constant = Constant(given)
        constant.check(where, check)
        return constant
    if callable(given):
        return given
    rule = "must be seconds, a time model, sizes with seconds, or a function of tokens"
    check.add("times", given, where=where, rule=rule, fix="Write 0.4e-3")
    return None


def tabulated(check: Violations, given: Mapping[str, Any], needed: Mapping[str, list[int]]) -> dict[str, TimeModel]:
    """Functions as tables of the sizes that are needed; tables that do not reach a size are refused."""
    found: dict[str, TimeModel] = {}
    for stage, model in given.items():
        if isinstance(model, Constant | Linear | Transfer):
            found[stage] = model
            continue
        if not isinstance(model, Table):
            made = _asked(check, stage, model, needed[stage])
            if made is None:
                continue
            model = made
        outside = [size for size in needed[stage] if not model.covers(size)]
        if outside:
            rule = f"lies outside the measured sizes {model.tokens[0]} to {model.tokens[-1]}"
            fix = "Measure there, leave the size out, or say extend"
            check.add("times", f"{outside[0]} tokens", where=stage, rule=rule, fix=fix)
        found[stage] = model
        low = [size for size in needed[stage] if model.covers(size) and model.extend and model.at(size) < 0]
        if low:
            rule = "the straight line falls below 0 there"
            check.add("times", f"{low[0]} tokens", where=stage, rule=rule, fix="Measure there")
    return found


def _asked(check: Violations, stage: str, function: Any, sizes: list[int]) -> Table | None:
    """A function's values as a table; what it raises, or gives that is no time, is noted with the first such size."""
    found: dict[int, float] = {}
    for size in sizes:
        where = f"{stage}, the function's value at {size} tokens"
        try:
            value = plain_number(function(size))
        except Exception as error:  # somebody else's code: whatever it raises is said, not passed on
            rule = f"the function failed with {type(error).__name__}: {error}"
            check.add("times", "none", where=where, rule=rule, fix="Let it give seconds for every size")
            return None
        if isinstance(value, Fraction):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            check.refuse("times", value, where=where, rule="must be a number of seconds", fix="Let it give a number")
            return None
        found[size] = value
    table = Table.of(found)
    before = len(check.found)
    table.check(f"{stage}, the function's value at", check)
    return table if len(check.found) == before else None


def scale(
    check: Violations, given: Mapping[str, Sequence[float]] | None, pattern: Pattern, layers: int
) -> dict[str, tuple[float, ...]] | None:
    """Factors by stage, one per layer."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        check.add("layer_scale", given, rule="must map stages to factors, one per layer", fix="Leave it out")
        return None
    for stage, row in given.items():
        if stage not in pattern.symbols:
            known = ", ".join(pattern.stages)
            check.add("layer_scale", stage, rule=f"is not a stage of {pattern.name}", fix=f"Known: {known}")
        elif isinstance(row, str) or not isinstance(row, Sequence) or len(row) != layers:
            check.add("layer_scale", row, where=stage, rule=f"must have one factor per layer, {layers}")
        else:
            for layer, factor in enumerate(row):
                if not (is_number(factor) and factor >= 0):
                    where = f"{stage}, layer {layer}"
                    check.refuse("layer_scale", factor, where=where, rule="must be a finite factor >= 0", fix="Use 1")
    return None if check.found else {stage: tuple(row) for stage, row in given.items()}


def size(check: Violations, m: Sequence[int], layers: int, stages: int, candidates: int, *, alike: bool) -> None:
    """Whether every candidate can be timed in about a second, and all of them looked at.

    Layers that are `alike` repeat themselves and need not be gone through one by one.
    """
    top = max(m, default=0)
    if top * layers * stages > MOST_ITEMS and not (alike and top * stages <= MOST_OF_A_LAYER):
        rule = f"{top:,} micro-batches x {layers:,} layers x {stages} stages are more than {MOST_ITEMS:,} items"
        fewer = MOST_ITEMS // (layers * stages)
        if alike:
            fix = f"Use at most {max(fewer, MOST_OF_A_LAYER // stages):,}"
        else:
            fix = f"Use at most {MOST_ITEMS // (top * stages):,} layers at this m"
            fix += f", or m of at most {fewer:,}" if fewer else ""
        check.add("m", top, rule=rule, fix=fix)
    if candidates > MOST_CANDIDATES:
        rule = f"with m they are more than {MOST_CANDIDATES:,} candidates"
        check.add("batches", f"{candidates:,} pairs", rule=rule, fix="Leave some out")


def plain_number(value: Any) -> Any:
    """Numbers of numpy as Python's; everything else as it is."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def _listed(value: Any) -> Any:
    """Arrays as lists."""
    return value.tolist() if type(value).__module__ == "numpy" and getattr(value, "shape", None) != () else value
