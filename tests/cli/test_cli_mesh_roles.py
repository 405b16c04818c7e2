"""``moeopt mesh --roles``: what is looked at, what stands beside it, and what is refused."""

import json

import pytest

from moeopt.mesh.roles import FAMILY_OF

SMALL = ("--llm", "mixtral-8x7b", "--input-tokens", 1024, "--output-tokens", 128, "--most-pp", 1)
STOCK = ("--gpu", "h800:8", "--gpu", "h20:8")
PRICED = ("--gpu", "h800:8:2.5", "--gpu", "h20:8:1.2")


@pytest.mark.parametrize(
    ("roles", "families", "gpus"),
    [
        ("prefill=h800,decode=h20", {"prefill", "decode"}, PRICED),
        ("Attention=H20, experts=h800", {"prefill", "apart"}, STOCK),
    ],
)
def test_roles_leave_their_families_and_show_the_best_colocated(moeopt, tmp_path, roles, families, gpus):
    plan = tmp_path / "plan.json"
    run = moeopt("mesh", *SMALL, *gpus, "--rate", 5, "--roles", roles, "-o", plan)
    assert run.code == 0
    document = json.loads(plan.read_text())
    sides, pools = document["instance"]["document"]["sides"], document["solution"]["pools"]
    assert {pool["config"]["family"] for pool in pools} == families
    for pool in pools:
        shape, family = pool["config"]["shape"], pool["config"]["family"]
        wanted = [(role, gpu) for role, gpu in sides.items() if FAMILY_OF[role] == family]
        assert all(shape["expert_gpu" if role == "experts" else "gpu"] == gpu for role, gpu in wanted)
    out = " ".join(run.out.split())
    assert f"output tokens/s a {'GPU' if gpus is STOCK else 'price unit'}; the best colocated" in out
    assert "; ratio " in out and "leave the families" in run.err
    assert moeopt("verify", plan).code == 0
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps(document["instance"]["document"]))
    said = ", ".join(f"{role} on {gpu}" for role, gpu in sides.items())
    assert f"roles {said}" in " ".join(moeopt("inspect", asked).out.split())


def test_what_contradicts_itself_or_is_unknown_is_refused(moeopt):
    run = moeopt("mesh", *SMALL, *STOCK, "--roles", "prefill=h800,decode=h20", "--families", "colocated")
    assert run.code == 2
    assert "--families = colocated: contradict the roles prefill=H800,decode=H20" in run.err
    run = moeopt("mesh", *SMALL, *STOCK, "--roles", "prefil=h2000,decode=h800,decode=h20")
    assert run.code == 2
    assert "--roles = h2000: is not one of" in run.err and "Did you mean H200" in run.err
    assert "decode has a role already" in run.err
    run = moeopt("mesh", *SMALL, *STOCK, "--roles", "prefil=h800")
    assert "--roles = prefil: is not one of prefill, decode, attention, experts, colocated, long." in run.err
    assert "Did you mean prefill?" in run.err
    run = moeopt("mesh", *SMALL, "--gpu", "h1000:8")
    assert run.code == 2 and "Did you mean H100, H800 or H200?" in run.err
