"""Reference machines: names, figures, and what is refused for want of a source."""

from __future__ import annotations

import pytest

from moeopt.cluster import machines, reference
from moeopt.errors import InstanceError
from moeopt.llm import gpus


@pytest.mark.parametrize("name", machines())
def test_machine_is_built_or_refused_for_want_of_a_source(name: str) -> None:
    machine = machines()[name]
    assert machine.source
    if machine.scale_up != "none" and machine.scale_up_bytes_per_s is None:
        with pytest.raises(InstanceError, match="no source confirms what its GPUs send each other"):
            reference(name)
        return
    cluster = reference(name)
    assert cluster.num_gpus == machine.gpus * machine.servers
    assert cluster.num_nodes == machine.servers
    assert cluster.notes[0].startswith(f"{name}: ")


@pytest.mark.parametrize("name", machines())
def test_nvlink_agrees_with_the_catalogue_of_gpus(name: str) -> None:
    machine = machines()[name]
    known = gpus().get(machine.gpu)
    if known is not None and machine.scale_up == "nvswitch":
        assert machine.scale_up_bytes_per_s == known.scale_up_bytes_per_s


@pytest.mark.parametrize(("name", "gpus", "nodes", "tiers"), [
    ("4x8-h100", 32, 4, [(450e9, 8), (50e9, 32)]),
    ("2x4-h100", 8, 2, [(450e9, 4), (50e9, 8)]),
    ("gb200-nvl72", 72, 18, [(900e9, 72)]),
    ("2xgb200-nvl72", 144, 36, [(900e9, 72), (50e9, 144)]),
    ("6-GB200-NVL72", 6, 2, [(900e9, 6)]),
    ("4x8-a100", 32, 4, [(300e9, 8), (25e9, 32)]),
    ("16x8-h800", 128, 16, [(200e9, 8), (50e9, 128)]),
    ("dgx1-v100", 8, 1, [(150e9, 8)]),
    ("azure-ncv4", 4, 1, [(300e9, 2), (8e9, 4)]),
])  # fmt: skip
def test_names_give_clusters(name: str, gpus: int, nodes: int, tiers: list[tuple[float, int]]) -> None:
    cluster = reference(name)
    assert (cluster.num_gpus, cluster.num_nodes) == (gpus, nodes)
    assert [(tier.bytes_per_s, max(tier.sizes)) for tier in cluster.tiers()] == tiers


@pytest.mark.parametrize(("name", "text"), [
    ("9-h100", "a h100 has 8 GPUs, not 9"),
    (4, "must be a name"),
    ("0x8-h100", "0 machines are not between 1 and"),
    ("99999x8-h100", "99999 machines are not between"),
    ("4x8-gtx", "is not one of h100"),
    ("", "is no name of a cluster"),
    ("h100x4", "is not one of"),
    ("2xpcie-gen4", "no source confirms the speed of its ports"),
    ("2xazure-ncv4", "it has no network port"),
])  # fmt: skip
def test_names_that_cannot_be_are_refused(name: str, text: str) -> None:
    with pytest.raises(InstanceError, match=text):
        reference(name)


def test_port_speed_and_oversubscription_are_ours_to_give() -> None:
    boxes = reference("2xpcie-gen5", nic_bytes_per_s=25e9)
    assert boxes.tiers()[-1].bytes_per_s == 6.25e9  # four GPUs a port
    thin = reference("2x8-h100", oversubscription=4.0)
    assert thin.link(0, 9).bytes_per_s == 25e9
    assert thin.link(0, 8).bytes_per_s == 50e9
    with pytest.raises(InstanceError, match="oversubscription = 0: must be above 0"):
        reference("2x8-h100", oversubscription=0)


def test_rails_join_ports_of_the_same_number() -> None:
    cluster = reference("4x8-h100")
    leaf = {one for one in cluster.graph["leaf3"] if one.startswith("nic")}
    assert leaf == {f"nic{node}.3" for node in range(4)}
    assert cluster.graph["leaf3"]["spine0"]["bytes_per_s"] == 200e9
