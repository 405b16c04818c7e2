"""Small questions answered by trying everything: all shapes that break no rule, and all ways to buy them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from moeopt.llm.facts import Attention, LlmFacts
from moeopt.mesh.families import context
from moeopt.mesh.families.every import configs as enumerate_all
from moeopt.mesh.market import refusals
from moeopt.mesh.public import Config, GpuType, MeshInstance, Shape, Slo, Workload, demand_of, solve
from moeopt.mesh.rules import faults

SMALL = LlmFacts(
    "small", "qwen3_moe", 6, (0,), (1, 2, 3, 4, 5), 8, 2, hidden=4096, expert_width=8192, dense_width=8192,
    vocab=32_000, dispatch_width=4096, weight_format="bf16", expert_format="bf16",
    attention=Attention("gqa", heads=16, kv_heads=4, head_dim=128),
)  # fmt: skip
WAYS: list[tuple[Any, ...]] = [("colocated",), ("prefill", "decode"), ("colocated", "prefill", "decode")]
Budget = tuple[int, ...]


def question(stocks: dict[str, int | None], families: tuple[Any, ...], **more: Any) -> MeshInstance:
    demand = demand_of(SMALL, Workload(1024, 128, rate_per_s=more.pop("rate", None)), slo=Slo(ttft_s=1.0, tpot_s=0.02))
    types = tuple(GpuType.of(name, stock=stock) for name, stock in stocks.items())
    return MeshInstance((demand,), types, more.pop("objective", "goodput"), families, most_pp=more.pop("most_pp", 2))


def every_shape(instance: MeshInstance, demand: Any, gpu: GpuType, role: Any) -> tuple[list[Shape], list[Any]]:
    """All degrees up to the stock that break no rule; dense layers cut as attention is, or not at all."""
    most = gpu.stock or 8
    found = []
    for pp, tp, dp, cp in product(range(1, instance.most_pp + 1), *[range(1, most + 1)] * 3):
        stage = tp * dp * cp
        if pp * stage > most or (cp > 1 and role != "prefill"):
            continue
        for ep, dense_tp in product(range(1, stage + 1), {1, tp}):
            if stage % ep:
                continue
            for redundant in {-8 % ep, -8 % ep + ep}:
                shape = Shape(role, gpu.name, pp, tp, dp, cp, 1, ep, stage // ep, dense_tp, redundant)
                if not faults(shape, demand.llm, gpu, demand.numerics):
                    found.append(shape)
    return found, []


def usable(instance: MeshInstance) -> list[Config]:
    listed = enumerate_all(instance)
    instance.memo["configs"] = tuple(listed)
    return [one for place, one in enumerate(listed) if not refusals(instance, place)]


def most_served(instance: MeshInstance, offers: list[Config]) -> Fraction:
    """The highest rate within the stock, by budgets: what each phase, and whole requests, get from so many GPUs."""
    names = [gpu.name for gpu in instance.gpus]
    budgets = list(product(*(range((gpu.stock or 0) + 1) for gpu in instance.gpus)))

    def table(rates: dict[Budget, Fraction]) -> dict[Budget, Fraction]:
        found: dict[Budget, Fraction] = {}
        for budget in budgets:
            best = Fraction(0)
            for need, rate in rates.items():
                left = tuple(have - one for have, one in zip(budget, need, strict=True))
                if min(left) >= 0:
                    best = max(best, rate + found[left])
            found[budget] = best
        return found

    rates: dict[str, dict[Budget, Fraction]] = {"colocated": {}, "prefill": {}, "decode": {}}
    for one in offers:
        need = tuple(one.gpus.get(name, 0) for name in names)
        rate = Fraction(str(max(one.prefill_per_s, one.decode_per_s)))
        rates[one.family][need] = max(rates[one.family].get(need, Fraction(0)), rate)
    whole, first, then = (table(rates[family]) for family in ("colocated", "prefill", "decode"))

    def minus(one: Budget, other: Budget) -> Budget:
        return tuple(a - b for a, b in zip(one, other, strict=True))

    inside = {one: [other for other in budgets if min(minus(one, other)) >= 0] for one in budgets}
    pairs = {one: max(min(first[other], then[minus(one, other)]) for other in inside[one]) for one in budgets}
    return max(whole[one] + pairs[minus(budgets[-1], one)] for one in budgets)


@pytest.mark.parametrize("families", WAYS)
@pytest.mark.parametrize("stocks", [{"H100": 2}, {"H100": 6}, {"H100": 8}, {"H100": 3, "H20": 2}])
def test_the_plan_is_the_best_of_all_shapes_and_purchases(
    monkeypatch: pytest.MonkeyPatch, stocks: dict[str, int | None], families: tuple[Any, ...]
) -> None:
    result = solve(question(stocks, families))
    monkeypatch.setattr(context, "ways", every_shape)
    tried = question(stocks, families)
    best = most_served(tried, usable(tried))
    assert best and result.status == "OPTIMAL" and result.objective is not None
    assert 1 / result.objective == pytest.approx(float(best), rel=1e-9)


@pytest.mark.parametrize("families", WAYS[1:])
@pytest.mark.parametrize("rate", [7.0, 50.0])
def test_gpus_for_a_rate_and_the_rate_of_gpus_agree(families: tuple[Any, ...], rate: float) -> None:
    bought = solve(question({"H100": None}, families, rate=rate, objective="gpus"))
    assert bought.status == "OPTIMAL" and bought.objective is not None
    gpus = int(bought.objective)
    enough = solve(question({"H100": gpus}, families))
    assert enough.objective is not None and 1 / enough.objective >= rate * (1 - 1e-12)
    fewer = solve(question({"H100": gpus - 1}, families)) if gpus > 1 else None
    assert fewer is None or fewer.objective is None or 1 / fewer.objective < rate
    again = replace(question({"H100": gpus}, families, rate=rate, objective="gpus"))
    assert solve(again).objective == gpus
    if gpus > 1:
        assert solve(question({"H100": gpus - 1}, families, rate=rate, objective="gpus")).status == "INFEASIBLE"
