"""A configuration as a document: there and back, and every fault by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from moeopt import mesh
from moeopt.errors import InstanceError
from moeopt.mesh.config_document import read_config, write_config
from moeopt.mesh.document import load_instance

TINY = Path(__file__).parents[2] / "instances" / "tiny" / "mesh"


def test_what_is_written_is_read_and_faults_come_all_at_once() -> None:
    pools = mesh.solve(load_instance(TINY / "pair.json")).plan.pools
    for pool in pools:
        assert read_config(write_config(pool.config)) == pool.config
    broken = {**write_config(pools[0].config), "batch": "many", "colour": "red"}
    del broken["shape"]
    with pytest.raises(InstanceError) as caught:
        read_config(broken)
    assert {fault.field for fault in caught.value.violations} == {"batch", "colour", "shape"}
    assert "'many'" in str(caught.value)
