"""Hints of the library in the words of the command line: beside a field's name, the option that sets it."""

from __future__ import annotations

import re
from dataclasses import replace

from moeopt.errors import Violation

OPTIONS = {
    r"\buneven_slots\b": "--uneven-slots",
    r"\bgroup_rule (?:auto|hierarchical)\b": "--group-rule",
    r"\bdistinct ?= ?[Ff]alse\b": "--allow-doubles",
    r"\bfill ?= ?'?(?:all|at_most)'?": "--fill",
    r"^Give current$": "--current",
    r"\bc_tok$": "--c-tok",
    r"\bwhole=True$": "--integer",
    r"\bbytes_per_s\b": "--bandwidth",
    r"\bin lost$": "--lost",
    r"\bexpert_bytes$": "--expert-bytes",
    r"\bstep_s\b": "--step",
    r"\bname the machine\b": "--machine",
    r"\bmax_imbalance\b(?! =)": "--max-imbalance",
    r"\bhidden and batch_tokens\b": "--hidden, --batch-tokens",
    r"\bleave whole out\b": "--integer",
    r"\bgpus=\d+ and nodes\b": "--gpus, --nodes",
    r"\bnodes=4, gpus=32\b": "--nodes 4 --gpus 32, or --cluster",
}
"""What the library says, and the option that says the same."""


FIELDS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "max_moves",
        "max_moves_per_layer",
        "move_cost",
        "step_seconds",
        "top_k",
        "num_shared",
        "batch_tokens",
        "c_slot",
        "c_tok",
        "token_bytes",
        "recv_bytes_per_s",
        "min_replicas",
        "survive_nodes",
    )
} | {
    "step_seconds": "--step-time",
    "stall_seconds": "--stall",
    "current_gpu": "--current",
    "bytes_per_s": "--bandwidth",
    "limits.time_s": "--time-limit",
    "limits.gap": "--gap",
    "limits.iterations": "--iterations",
    "limits.threads": "--threads",
}
"""Fields whose option has another look, or is easily missed."""


def spoken(text: str) -> str:
    """A hint with the options named.

    >>> spoken("Use 8; or set uneven_slots")
    'Use 8; or set uneven_slots (--uneven-slots)'
    >>> spoken("Use 2 nodes, or group_rule auto for a global placement")
    'Use 2 nodes, or group_rule auto (--group-rule auto) for a global placement'
    """
    for pattern, option in OPTIONS.items():
        text = re.sub(pattern, lambda match: f"{match[0]} ({_written(option, match[0])})", text)  # noqa: B023
    return text


def spoken_violation(violation: Violation) -> Violation:
    """The same for what is wrong with a field; names of files are left alone.

    >>> print(spoken_violation(Violation("layers", "", "...", "field required", "")))
    layers = missing: is needed. Add it to the document.
    """
    if violation.rule == "field required":
        violation = replace(violation, value="missing", rule="is needed", fix="Add it to the document")
    option = FIELDS.get(violation.field)
    if violation.field == "bytes_per_s" and violation.where:
        option = None  # that of a link in a file, which no option sets
    field = violation.field if option is None else f"{violation.field} ({option})"
    return replace(violation, field=field, rule=spoken(violation.rule), fix=spoken(violation.fix))


def _written(option: str, said: str) -> str:
    word = re.split(r"[ =]+", said)[-1].strip("'")
    return f"{option} {word}" if option in ("--group-rule", "--fill") else option
