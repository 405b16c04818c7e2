"""A plan under roles beside the best colocated replicas, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moeopt.report.mesh_words import per_second as rate

UNITS = {"price": "price unit", "GPU": "GPU"}


def beside(solution: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the best colocated replicas give for the money, and the ratio; nothing without roles.

    >>> best = {"pools": [["colocated TP8", 3]], "gpus": {"H20": 24}, "per_unit": 200.0, "most_per_unit": 200.0}
    >>> beside({"beside_colocated": {"unit": "GPU", "per_unit": 250.0, "colocated": best, "ratio": 1.25}})
    [('beside', '250 output tokens/s a GPU; the best colocated: 200, 3 x colocated TP8 on 24 H20; ratio 1.25')]
    """
    found = solution["beside_colocated"]
    if found is None:
        return []
    text = f"{rate(found['per_unit'])} output tokens/s a {UNITS[found['unit']]}; "
    best = found["colocated"]
    if best is None:
        return [("beside", f"{text}no colocated plan was found")]
    pools = " + ".join(f"{many:,} x {label}" for label, many in best["pools"])
    gpus = ", ".join(f"{many:,} {name}" for name, many in best["gpus"].items())
    most = best["most_per_unit"]
    what = "the best colocated"
    limit = ""
    if most is None or most > best["per_unit"] * (1 + 1e-9):
        what += " that was found"
        limit = "" if most is None else f" (none has more than {rate(most)})"
    text += f"{what}: {rate(best['per_unit'])}{limit}, {pools} on {gpus}"
    return [("beside", text + ("" if found["ratio"] is None else f"; ratio {found['ratio']:.3g}"))]
