"""What the answers to usual questions say: waiting without a TTFT, what binds, and who is compared with whom."""

from typing import Any

import pytest

from moeopt import mesh
from moeopt.llm import find
from moeopt.mesh.families.queue import MOST_BUSY
from moeopt.mesh.market import configs_of


def mixtral(objective: str = "goodput", tokens: tuple[int, int] = (4000, 1000), **slo: float) -> mesh.MeshInstance:
    demand = mesh.demand_of(find("mixtral-8x7b"), tokens, slo=mesh.Slo(**slo))
    return mesh.MeshInstance((demand,), (mesh.GpuType.of("H100", stock=8),), objective)


def solved(instance: mesh.MeshInstance) -> dict[str, Any]:
    solution = mesh.solve(instance).solution
    assert solution is not None
    return solution


@pytest.mark.parametrize("tokens", [(4000, 1000), (2048, 512), (128, 128)])
def test_without_a_ttft_prefill_beside_decoding_is_never_busier_than_in_a_pool(tokens: tuple[int, int]) -> None:
    wanted = tokens[0]
    for config in configs_of(mixtral(tokens=tokens, tpot_s=0.05)):
        if config.family == "colocated" and config.usable:
            assert config.chunk is not None and config.tpot_s is not None
            steps = config.shape.pp / config.tpot_s  # of a stage in a second
            computed = config.decode_per_s / config.shape.dp * wanted
            assert computed / steps / config.chunk < MOST_BUSY * (1 + 1e-9)
            assert config.binds != "tpot" or config.tpot_s > 0.9 * 0.05


def test_a_ttft_that_is_asked_for_may_keep_prefill_busier() -> None:
    free, asked = solved(mixtral(tpot_s=0.05)), solved(mixtral(tpot_s=0.05, ttft_s=60.0))
    assert free["demands"][0]["ttft_s"] < 1 < asked["demands"][0]["ttft_s"] <= 60
    assert free["rate_per_s"] <= asked["rate_per_s"] <= 1.01 * free["rate_per_s"]


def test_the_shortest_time_of_a_token_is_ranked_by_time() -> None:
    solution = solved(mixtral("time"))
    assert solution["pools"][0]["label"] == "colocated TP8 = MoE-TP8"
    rows = [row for row in solution["ranking"] if row["behind"] is not None]
    decoding = [row for row in rows if row["tpot_s"] is not None]
    assert rows[: len(decoding)] == decoding
    assert [row["tpot_s"] for row in decoding] == sorted(row["tpot_s"] for row in decoding)
    slower = next(row for row in decoding if row["label"] == "decode TP4 = MoE-TP4")
    assert slower["why_not"] == "3.52 ms a token, 4.98 % more"


def test_a_reason_names_all_that_serves_a_request_at_least() -> None:
    rows = [row for row in solved(mixtral(tpot_s=0.05))["ranking"] if " than with " in row["why_not"]]
    assert {row["why_not"].partition(" than with ")[2] for row in rows} == {
        "prefill PP2 x TP1 and decode TP2 x DP4 = EP8"
    }
