"""When one kernel hides its communication."""

from __future__ import annotations

from moeopt.cost.megakernel import balance_flops_per_byte, communication_hides
from tests.reference import Inputs, reproduces


@reproduces("mm-2d")
def threshold(inputs: Inputs) -> object:
    return balance_flops_per_byte(inputs["d"])


@reproduces("mm-h800-hidden")
def hidden_on_h800(inputs: Inputs) -> object:
    return communication_hides(flops_per_s=inputs["F"], bytes_per_s=inputs["B"], intermediate=inputs["d"]).hidden
