"""Parts of a step, and the stage that sets the pace."""

from __future__ import annotations

import numpy as np

from moeopt.mesh.step.table import Floats

PARTS = ("attention", "experts", "communication", "overhead", "head", "hidden")
"""Parts of a step, as `moeopt.mesh.config.Config.parts_s` names them; ``hidden`` is what overlap takes off."""


def total_s(parts: Floats) -> Floats:
    """Seconds of all parts, what is hidden taken off."""
    result: Floats = parts[0] + parts[1] + parts[2] + parts[3] + parts[4] - parts[5]
    return result


def longest(seconds: Floats) -> Floats:
    """Of the few stages on the last axis, one after another: quicker than a maximum over so short an axis."""
    found: Floats = seconds[..., 0]
    for stage in range(1, seconds.shape[-1]):
        found = np.maximum(found, seconds[..., stage])
    return found


def slowest(parts: Floats) -> Floats:
    """Parts of the stage that takes longest, (6, S) of (6, S, stages)."""
    if parts.shape[2] == 1:
        return parts[:, :, 0]
    place = total_s(parts).argmax(axis=1)
    return np.take_along_axis(parts, place[None, :, None], axis=2)[:, :, 0]
