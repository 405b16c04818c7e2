"""Speculative decoding: tokens of a round, and what replaces a rejected one."""

from __future__ import annotations

from moeopt.cost.accepted import accepted_length
from moeopt.cost.lossless import residual_distribution
from tests.reference import Inputs, reproduces


@reproduces("sd-EL")
def tokens_of_a_round(inputs: Inputs) -> object:
    return [accepted_length(chance, length=inputs["k"]) for chance in inputs["alpha"]]


@reproduces("sd-limit")
def tokens_of_a_perfect_round(inputs: Inputs) -> object:
    return accepted_length(inputs["alpha"], length=inputs["k"])


@reproduces("sd-residual")
def what_replaces_a_rejected_token(inputs: Inputs) -> object:
    return residual_distribution(inputs["p"], inputs["q"])
