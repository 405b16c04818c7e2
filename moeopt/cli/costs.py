"""What a plan costs beyond its busiest GPU, in lines for people: windows, seconds, the noise of single passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.percent import percent, percent_up

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.result import Result

LABEL = 12


WORDS = {"keep": "keep", "any": "any plan does"}
"""What advice says, in words."""


def cost_lines(instance: PlacementInstance, result: Result) -> list[str]:
    """Lines under the figures of a plan; none where the instance has no such rules."""
    solution = result.solution
    if solution is None:
        return []
    lines = [*_windows(instance, solution), *_seconds(instance, solution), *_per_step(instance, result, solution)]
    if solution.get("advice"):
        lines.append(("advice", f"{WORDS[solution['advice']['action']]}: {solution['advice']['reason']}"))
    return [f"{name:<{LABEL}} {text}" for name, text in lines]


def _windows(instance: PlacementInstance, solution: Any) -> list[tuple[str, str]]:
    if not instance.windows:
        return []
    how = {
        "worst": "the worst window",
        "mean": "the mean of the windows",
        "cvar": f"the mean of the worst {percent(1 - instance.alpha)} of the windows (CVaR)",
    }[instance.combine]
    ratios = [layer["windows"] for layer in solution["layers"]]
    means = [sum(column) / len(column) for column in zip(*ratios, strict=True)]
    shown = ", ".join(f"{mean:.4f}" for mean in means[:8]) + (", ..." if len(means) > 8 else "")
    return [("windows", f"{len(means)}, a layer counts as {how}; mean imbalance of each: {shown}")]


def _seconds(instance: PlacementInstance, solution: Any) -> list[tuple[str, str]]:
    prices = solution.get("seconds")
    if not prices:
        return []
    after, ideal = _time(prices["after"]), _time(prices["ideal"])
    said = f"{after} a pass on the busiest GPUs of all layers, {ideal} in perfect balance"
    if prices["now"] is not None:
        said = f"{_time(prices['now'])} a pass now, {after} after, {ideal} in perfect balance"
    if len({count for count in instance.slots if count}) == 1 and not instance.windows:
        said += "; with equal slots the plan that is best in tokens is best in seconds"
    return [("seconds", said)]


def _time(seconds: float) -> str:
    """A short time in the unit that suits it.

    >>> _time(0.0000123), _time(0.00123), _time(1.5)
    ('12.3 us', '1.23 ms', '1.5 s')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _per_step(instance: PlacementInstance, result: Result, solution: Any) -> list[tuple[str, str]]:
    from moeopt.placement.per_step import FAR_BELOW

    found = [layer["per_step_imbalance"] for layer in solution["layers"] if "per_step_imbalance" in layer]
    if not found:
        return []
    mean, worst = sum(found) / len(found), max(found)
    measured = solution.get("per_step")
    if measured:
        said = f"{mean:.4f} in the mean, {worst:.4f} on the worst layer, measured on {measured['steps']:,} passes"
    else:
        batch = f"{instance.batch_tokens:,} tokens a GPU with top-{instance.top_k}"
        said = f"about {mean:.4f} in a pass of {batch}, by the noise of counting alone, whatever the plan"
    lines = [("per step", said)]
    gap, noise = result.gap_worst_layer, min(found) - 1
    if gap is not None and result.bound_kind == "certified" and gap <= FAR_BELOW * noise:
        lines.append(
            (
                "",
                f"the gap of at most {percent_up(gap)} is far below the {percent(noise)} that single passes scatter",
            )
        )
    return lines
