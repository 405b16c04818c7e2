"""What is changed, and which tests have to notice: fast ones of the room itself, in this process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Modules of a room, by their file names, and the tests that have to notice; `skipped` are left out by name."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    skipped: str = ""


SEARCHES: dict[str, tuple[str, ...]] = {
    "moeopt/placement/pigeonhole.py": ("search", "_refuting_set", "_refuted_until"),
}
"""Functions that only choose in floating point what to certify, by module. What they find is a bound once `proves`, a
part of the bounds, shows it exactly, so that a fault in them makes a bound weak and none wrong. Tests hold them to how
much they find, which small faults hardly change. Nothing else is left out; their mutants are counted beside the others.
"""
PLACEMENT = "moeopt/placement"
MICROBATCH = "moeopt/microbatch"
ROOMS: dict[str, dict[str, Part]] = {
    "placement": {
        "referee": Part(
            tuple(f"{PLACEMENT}/{name}.py" for name in ("verify", "broken_rules", "moves", "combined")),
            tuple(f"tests/placement/test_{name}.py" for name in ("verify", "worked_costs", "rules")),
        ),
        "bounds": Part(
            tuple(
                f"{PLACEMENT}/{name}.py"
                for name in ("bounds", "simple_bounds", "pigeonhole", "deal_bounds", "window_bounds")
            ),
            tuple(
                f"tests/placement/test_{name}.py"
                for name in (
                    "bounds",
                    "worked_bounds",
                    "worked_pigeonhole",
                    "worked_blends",
                    "worked_proofs",
                    "worked_deals",
                    "worked_windows",
                )
            ),
        ),
    },
    "microbatch": {
        "referee": Part(
            (f"{MICROBATCH}/verify.py",),
            tuple(f"tests/microbatch/test_{name}.py" for name in ("worked_steps", "cases", "large", "limits")),
            "fresh_process or back_ends or exact_equals",
        ),
        "bounds": Part(
            tuple(f"{MICROBATCH}/{name}.py" for name in ("bounds", "cycle_ratio")),
            tuple(f"tests/microbatch/test_{name}.py" for name in ("worked_bounds", "cases", "limits")),
            "fresh_process or back_ends or exact_equals",
        ),
    },
}
