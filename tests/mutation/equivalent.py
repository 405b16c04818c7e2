"""Mutants that change nothing anybody could see, each with the reason; they are not counted."""

from __future__ import annotations

from tests.mutation.mutate import Mutant

KNOWN: dict[tuple[str, str, str], str] = {
    (
        "verify.py",
        "",
        "if len(set(instance.speed)) == 1: never",
    ): "the general sum gives the same fractions, more slowly",
    ("verify.py", "if len(set(instance.speed))", "1 is 0"): "the same: the general sum is taken",
    ("verify.py", "if sums[expert] == unit", "if sums[expert] == unit: never"): "the same fractions, more slowly",
    ("verify.py", "float(even) or 1.0", "1.0 is 2.0"): "an idle window costs nothing on any GPU",
    ("verify.py", "max(instance.min_replicas) > 1", "max(instance.min_replicas) > 1: Gt is GtE"): (
        "every expert has one replica, or lacks it already"
    ),
    ("verify.py", "2**1023", "max(denominators) >= 2 ** 1023: GtE is Gt"): "2**1023 is a double either way",
    ("verify.py", "2**1023", "1023 is 1022"): "whole numbers are divided one by one earlier: the same ratios",
    (
        "verify.py",
        "if instance.constrained",
        "if instance.constrained: always",
    ): "without pins and prohibitions none is broken",
    (
        "moves.py",
        "asked[source] += 1",
        "1 is 2",
    ): "every source is asked by twos: the order of who is asked least is the same",
    ("verify.py", "", "if int(replicas.max()) <= FITTING: never"): "numbers of any size give the same multiples",
    ("verify.py", "", "int(replicas.max()) <= FITTING: LtE is Lt"): "numbers of any size give the same multiples",
    (
        "simple_bounds.py",
        "near = ",
        "1 is 0",
    ): "all pieces are compared exactly, not the largest alone: the same largest",
    ("simple_bounds.py", "near = ", "1e-12 is 1.000000000001"): "the same: all pieces are compared exactly",
    ("simple_bounds.py", "needed = ", "load * top.denominator // top.numerator + 1: Add is Sub"): (
        "fewer are needed, so that the exact greedy rule is asked more often: it gives the same value"
    ),
    ("simple_bounds.py", "needed = ", "1 is 0"): "the same: the exact greedy rule is asked more often",
    ("simple_bounds.py", "max(needed)", "max is min"): "the same: the exact greedy rule is asked more often",
    ("simple_bounds.py", "max(needed)", "sum(needed) <= instance.num_slots and max(needed) <= most: And is Or"): (
        "the same: the exact greedy rule is asked more often"
    ),
    ("simple_bounds.py", "max(needed)", "if sum(needed) <= instance.num_slots and max(needed) <= most: always"): (
        "the same: the exact greedy rule is asked every time"
    ),
    ("bounds.py", "instance.weights / counts", "instance.weights / counts: Div is Mult"): (
        "counts are 1 or more: more layers have their largest replica looked at exactly, with the same outcome"
    ),
    ("bounds.py", "instance.loads / counts", "instance.loads / counts: Div is Mult"): "the same: pieces are no smaller",
    ("bounds.py", 'floor_rule == "per_expert"', "if instance.floor_rule == 'per_expert': never"): (
        "max(a / r, K) is max(a, K) / r or more: more layers are looked at exactly, with the same outcome"
    ),
    ("bounds.py", "average[row]", "if single[row] <= average[row] * (1 - 1e-12): never"): (
        "all layers are looked at exactly, and of equal bounds the mean comes first"
    ),
    ("bounds.py", "fastest = ", "max is min"): "more layers are looked at exactly, with the same outcome",
    ("bounds.py", "average[row]", "1 is 0"): "all layers above 0 are looked at exactly, with the same outcome",
    ("bounds.py", "average[row]", "1e-12 is 1.000000000001"): "the same: all layers are looked at exactly",
    ("bounds.py", "instance.speed[0]", "0 is -1"): "speeds and slots are all alike there, the last as the first",
    ("bounds.py", "instance.slots[0]", "0 is -1"): "speeds and slots are all alike there, the last as the first",
    ("window_bounds.py", "loads / counts", "loads / counts: Div is Mult"): (
        "more rows are looked at exactly, with the same outcome"
    ),
    ("window_bounds.py", "float(value) or 1.0", "1.0 is 2.0"): "nothing of an idle window goes into a blend",
    ("window_bounds.py", "max(instance.speed)", "max is min"): "more rows are looked at exactly, with the same outcome",
    ("window_bounds.py", "largest > known", "1e-09 is 1.000000001"): "every row is looked at exactly",
    ("window_bounds.py", "largest > known", "1 is 0"): "every row is looked at exactly",
    (
        "window_bounds.py",
        "bounds.proved(",
        "0 is -1",
    ): "of one layer, as a blend and an envelope have, it is the last too",
    ("window_bounds.py", "bounds.tighten(blended", "0 is -1"): "a blend has one layer, the last as well as the first",
    ("bounds.py", "[:2]", "2 is 3"): "the third of the least heads is never looked at",
    ("bounds.py", "before = 0", "0 is -1"): "heads and ends are shifted alike, and only their difference is used",
    ("bounds.py", "before = 0", "0 is 1"): "heads and ends are shifted alike, and only their difference is used",
    ("bounds.py", "m = len(first[0])", "0 is -1"): "all rows are of the same length",
    ("bounds.py", "[[0] * m", "0 is 1"): "written over by every item; where a rest has one item, only that is read",
    ("bounds.py", "[[0] * m", "0 is -1"): "written over by every item; where a rest has one item, only that is read",
    (
        "cycle_ratio.py",
        "value, items = max(",
        "max is min",
    ): "from any cycle's ratio on, the largest is reached all the same",
    (
        "cycle_ratio.py",
        "value, items = max(",
        "0 is 1",
    ): "from any cycle's ratio on, the largest is reached all the same",
    (
        "cycle_ratio.py",
        "value, items = max(",
        "0 is -1",
    ): "from any cycle's ratio on, the largest is reached all the same",
    ("cycle_ratio.py", "[0] * size", "0 is -1"): "all lengths are shifted alike, and only compared",
    ("cycle_ratio.py", "[0] * size", "0 is 1"): "all lengths are shifted alike, and only compared",
    ("cycle_ratio.py", "[-1] * size", "1 is 2"): "any number below 0 is no item",
    ("cycle_ratio.py", "tokens < known", "tokens < known[1]: Lt is LtE"): (
        "edges between the same two items have the weight of the first: with as many tokens they are one edge"
    ),
}
"""File name, text on the line, and what is changed there -> why no test can notice."""


def reason(file: str, mutant: Mutant) -> str:
    """Why a mutant changes nothing; empty where it does."""
    line = mutant.source.splitlines()[mutant.first - 1]
    found = (
        why
        for (name, text, what), why in KNOWN.items()
        if file.endswith(f"/{name}") and text in line and what == mutant.what
    )
    return next(found, "")
