"""Sentences of a replay."""

from __future__ import annotations

from moeopt.percent import percent
from moeopt.replay.answer import Replay, Row
from moeopt.replay.over import over
from moeopt.replay.policies import KEEP
from moeopt.report import words
from moeopt.report.sheet import Text

FOOTNOTES = [
    (
        "Imbalance of a window",
        "mean over layers of max over GPUs of C(l,g) / ideal(l), as in a comparison of placements, under the plan that "
        "serves the window and was made before it began.",
    ),
    ("Imbalance, mean", "over all scored windows alike; worst window: the largest of them."),
    ("Worst layer", "the largest imbalance of any layer in any scored window."),
    (
        "Total",
        "(sum over windows and layers of max over g of C(l,g)) / (sum of ideals): windows with more tokens count more.",
    ),
    ("Moves", "(expert, GPU) pairs that a plan has and the one before lacks; a re-plan: the mean, of all slots."),
    (
        "Over the budget",
        "a policy that moved more than it was allowed at any re-plan; it is scored like the others, and never best.",
    ),
    (
        "Bound",
        "the certified lower bound of every window by itself: no plan is below it there. One plan for several windows "
        "may have to be above.",
    ),
]
"""What the columns mean."""

PRICED = [
    (
        "Seconds",
        "experts: of all layers in all scored windows, in proportion to the imbalance; stall: of all moves together; "
        "saved: against keeping the first placement, the stall taken off. Less than 0 is a loss.",
    ),
]
"""The same of seconds."""


def verdict(replay: Replay) -> list[Text]:
    """Who is best, by how much, and what the others do."""
    best = next((row for row in replay.rows if row.policy == replay.best), None)
    if best is None or best.figures is None:
        if any(row.figures is not None for row in replay.rows):
            return [["No policy held its budget of moves to the end; the table says by how much."]]
        return [["No policy came to the end; the table has the reasons."]]
    windows = words.count(len(replay.scored), "window")
    mean = words.ratio(best.figures.imbalance_mean)
    if len(replay.rows) > 1:
        within = " of those within their budgets" if any(row.budget_held is False for row in replay.rows) else ""
        most = f" is the most even{within}: {mean} on"
        pieces = ["Over ", windows, " that it had not seen, ", words.Name(best.policy), most]
    else:
        pieces = [
            "Over ",
            windows,
            " that it had not seen, ",
            words.Name(best.policy),
            f" has an imbalance of {mean} on",
        ]
    moved = f", moving {percent(best.figures.moves_part)} of all slots a re-plan" if best.figures.replans else ""
    said: list[Text] = [[*pieces, f" average{moved}."]]
    for row in replay.rows:
        if row is best or row.figures is None:
            continue
        rest = [words.Name(row.policy), f" has {words.ratio(row.figures.imbalance_mean)}"]
        if row.method != KEEP:
            rest.append(f" with {percent(row.figures.moves_part)}")
        if row.budget_held is False:
            rest.append(", over the budget")
        said.append([*rest, "."])
    return said


def facts(replay: Replay) -> list[tuple[str, str]]:
    """Name, digest, shape and rules, and how it was played."""
    history = replay.history
    alone = history.windows[0]
    own = dict(words.facts(alone))
    own["SHA-256"] = history.sha256
    seen = "window" if replay.lookback == 1 else f"{replay.lookback} windows"
    if replay.lookback > 1:
        seen += ", added up" if replay.combine == "sum" else f", of which the {replay.combine} counts"
    times = "before every window" if replay.every == 1 else f"every {replay.every} windows"
    played = f"{words.count(len(history.windows), 'window')}; plans are made {times} from the last {seen}"
    if replay.played:
        played += f"; windows {replay.scored.start} to {replay.scored.stop - 1} are scored"
    first = "given" if replay.first_method == "current" else f"by {replay.first_method}, from the first {seen}"
    return [
        *own.items(),
        ("History", played),
        ("First placement", f"{first}; the same for all"),
        ("Budget", budget(replay)),
    ]


def budget(replay: Replay) -> str:
    """Moves that a re-plan may have."""
    slots = replay.history.num_slots * replay.history.num_layers
    parts = []
    if replay.max_moves is not None:
        parts.append(f"{replay.max_moves:,} of {slots:,} slots ({percent(replay.max_moves / slots)})")
    if replay.max_moves_per_layer is not None:
        parts.append(f"{words.count(replay.max_moves_per_layer, 'move')} in a layer")
    said = " and ".join(parts) or "none"
    if any(row.max_moves != replay.max_moves for row in replay.rows):
        said += ", but where a policy names its own,"
    return f"{said} at a re-plan" + (
        "; a plan is taken only where it pays by what was seen" if replay.if_it_pays else ""
    )


def remark(replay: Replay, row: Row) -> str:
    """What sets a policy apart."""
    parts = []
    if said := over(row, replay.max_moves_per_layer):
        parts.append(f"over the budget: {said}")
    elif row.method != KEEP and row.max_moves != replay.max_moves:
        parts.append("no budget" if row.max_moves is None else f"budget {words.count(row.max_moves, 'move')}")
    stayed = sum(replan.plan is None for replan in row.replans)
    if stayed:
        parts.append(f"stayed {words.count(stayed, 'time')}")
    return ", ".join(parts)


def size(count: float | None) -> str:
    """Bytes in a unit that fits.

    >>> size(44_050_944), size(1670 * 44_050_944)
    ('44.1 MB', '73.6 GB')
    """
    if count is None:
        return words.NONE
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= power:
            return f"{count / power:,.3g} {unit}" if count < 1000 * power else f"{count / power:,.0f} {unit}"
    return f"{count:.0f} bytes"
