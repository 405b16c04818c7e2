"""The ping-pong pipeline of attention and experts on GPUs of their own, by formula, by simulation and as published."""

import random

from moeopt import microbatch
from moeopt.cost import balanced_nodes
from moeopt.microbatch import MicrobatchInstance, closed_forms, published
from moeopt.microbatch.builders import ping_pong
from moeopt.microbatch.graph import StageGraph
from moeopt.microbatch.simulate import simulate
from moeopt.result import Result
from tests.reference.table import Inputs, reproduces


def four(inputs: Inputs) -> tuple[float, float, float, float]:
    return inputs["Ta"], inputs["Tc"], inputs["Te"], inputs["Tc"]


def solved(inputs: Inputs, m: int | list[int]) -> Result:
    """Times in the source's unit; the unit does not matter."""
    times = {"attention": inputs["Ta"], "dispatch": inputs["Tc"], "experts": inputs["Te"]}
    return microbatch.solve(MicrobatchInstance(times, layers=inputs["L"], m=m))


@reproduces("pp-m1")
def time_and_use(inputs: Inputs) -> list[float]:
    solution = solved(inputs, inputs["m"]).solution
    assert solution is not None
    return [solution["time_s"], solution["utilisation"]["attention"]]


@reproduces("pp-min-m")
def published_rule(inputs: Inputs) -> list[int | None]:
    return [published.fewest_m(1.0, ratio, 1.0, ratio) for ratio in inputs["ratio"]]


@reproduces("pp-f5-wrong")
def published_and_true(inputs: Inputs) -> list[float]:
    solution = solved(inputs, inputs["m"]).solution
    assert solution is not None and not solution["published"]["valid"]
    return [solution["published"]["time_s"], solution["time_s"]]


@reproduces("pp-ex4-minm")
def condition_three(inputs: Inputs) -> list[object]:
    return [published.asked_m(*four(inputs)), published.fewest_m(*four(inputs))]


@reproduces("pp-ex4-R")
def round_trip(inputs: Inputs) -> object:
    return closed_forms.ping_pong(1, 1, *four(inputs)).round_trip


@reproduces("pp-ex4-T")
def three_times(inputs: Inputs) -> list[float]:
    solution = solved(inputs, [2, 3, 4]).solution
    assert solution is not None
    return [row["time_s"] for row in solution["sweep"]]


@reproduces("pp-ex4-conservative")
def what_is_enough(inputs: Inputs) -> list[object]:
    """What the published rule wants hidden, the round trip, and the least m that hides it."""
    form = closed_forms.ping_pong(1, 1, *four(inputs))
    pace = max(inputs["Ta"], inputs["Te"])
    return [published.asked_m(*four(inputs)) * pace, form.round_trip, closed_forms.fewest_m(four(inputs))]  # type: ignore[operator]


@reproduces("pp-des-agree")
def largest_difference(inputs: Inputs) -> float:
    chance, worst = random.Random(0), 0.0
    for _ in range(inputs["cases"]):
        times = [chance.uniform(0.0, 1.0) for _ in range(4)]
        m, layers = chance.randint(1, 6), chance.randint(1, 12)
        simulated = simulate(StageGraph(ping_pong.lap(*[[time] * m for time in times]), layers)).makespan
        worst = max(worst, abs(float(simulated - closed_forms.ping_pong(m, layers, *times).time)))
    return worst


@reproduces("pp-derived-2")
def one_time(inputs: Inputs) -> object:
    return closed_forms.ping_pong(inputs["m"], inputs["L"], *four(inputs)).time


@reproduces("pp-na-balance")
def attention_nodes(inputs: Inputs) -> float:
    slopes = {"attention_slope_s": inputs["k1"], "expert_slope_s": inputs["k3"]}
    return balanced_nodes(**slopes, experts=inputs["E"], top_k=inputs["K"])
