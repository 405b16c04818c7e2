"""The shipped loads are what their provenance says they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from moeopt.workload import SHAPES, generate, loads_digest, read_loads

FOLDER = Path(__file__).parents[2] / "instances" / "published"
SHAPES_FILE = json.loads((FOLDER / "shapes.json").read_text())
ROWS, RECORDED = SHAPES_FILE["instances"], SHAPES_FILE["recorded"]
TOP_K = {"deepseek_v2_lite": 6, "olmoe": 8, "mixtral_8x7b": 2}


def tables() -> list[str]:
    arrays = [f"{path.name}:{key}" for path in sorted(FOLDER.glob("*.npz")) for key in np.load(path) if key != "layers"]
    return [path.name for path in sorted(FOLDER.glob("*.csv"))] + arrays


def test_every_table_is_shipped_and_its_digest_stands_in_the_provenance() -> None:
    digests = {loads_digest(read_loads(FOLDER / name).loads) for name in tables()}
    assert len(tables()) == len(digests) == 4 + 6 + 5
    assert digests == set(re.findall(r"`([0-9a-f]{16})`", (FOLDER / "PROVENANCE.md").read_text()))


@pytest.mark.parametrize("name", tables())
def test_rows_of_a_recorded_table_have_one_sum_and_no_expert_exceeds_the_tokens(name: str) -> None:
    table = read_loads(FOLDER / name)
    (top_k,) = (top_k for llm, top_k in TOP_K.items() if name.startswith(llm))
    (total,) = set(table.loads.sum(axis=1).tolist())
    assert total % top_k == 0 and table.loads.max() <= total // top_k
    assert f"{total:,}" in (FOLDER / "PROVENANCE.md").read_text()


def test_shapes_file_has_every_shape_under_every_distribution() -> None:
    assert len(ROWS) == len({row["name"] for row in ROWS}) == 66 + 12
    assert sum(row["groups"] is not None for row in ROWS) == 12
    for row in ROWS:
        shape = SHAPES[row["shape"]]
        for field in ("layers", "experts", "top_k", "slots", "gpus", "nodes"):
            assert row[field] == getattr(shape, field)
        assert row["groups"] in (None, shape.groups)


@pytest.mark.parametrize("row", ROWS[::9], ids=lambda row: row["name"])
def test_shapes_file_has_the_digests_of_the_loads_it_names(row: dict[str, object]) -> None:
    sizes = {field: row[field] for field in ("layers", "experts", "top_k", "tokens", "seed")}
    table = generate(row["generator"], **sizes, **row["parameters"])  # type: ignore[arg-type, dict-item]
    assert loads_digest(table.loads) == row["loads_digest"]


def test_shapes_file_has_the_digests_of_the_recorded_loads_it_names() -> None:
    assert len(RECORDED) == len({row["name"] for row in RECORDED}) == 29
    for row in RECORDED:
        table = read_loads(FOLDER / row["file"])
        assert loads_digest(table.loads) == row["loads_digest"]
        assert table.loads.shape == (row["layers"], row["experts"])


def test_recorded_tables_carry_the_layer_ids_of_the_llm() -> None:
    assert read_loads(FOLDER / "olmoe_counts.npz:github").layers == (0, 7, 15)
    assert read_loads(FOLDER / "mixtral_8x7b_counts.npz:github").layers == (0, 7, 15)
