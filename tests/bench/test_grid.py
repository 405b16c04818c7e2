"""Grids in documents and files: everything that is wrong, at once and by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.bench import Grid, read_grid
from moeopt.errors import InstanceError

GOOD: dict[str, Any] = {
    "policies": ["lpt", "my.own:policy"],
    "shapes": {"g2": {"gpus": 2, "slots": 8, "split": "even"}},
    "loads": {
        "drawn": {"generator": "zipf", "layers": 1, "experts": 4, "top_k": 2, "alpha": 1.1},
        "own": {"file": "x.csv"},
    },
    "seeds": [0, 7],
    "limits": {"iterations": 10},
    "plans": True,
}


def test_a_good_grid_has_all_cells_each_with_a_name_of_its_own() -> None:
    grid = Grid.from_dict(GOOD)
    cells = list(grid.cells())
    assert len(cells) == len(grid) == 8
    assert len({cell.file_name for cell in cells}) == len({cell.fingerprint for cell in cells}) == 8


@pytest.mark.parametrize(("change", "said"), [
    ({"polices": []}, "grid.polices = []: is no field of a grid. Did you mean policies?"),
    ({"policies": "lpt"}, "grid.policies = lpt: must be a list"),
    ({"policies": ["lpt", "lpt"]}, "grid.policies[1] = lpt: stands twice"),
    ({"policies": ["serch"]}, "is not a method of placement. Did you mean search?"),
    ({"policies": [3]}, "grid.policies = 3: must be the name of a method"),
    ({"shapes": {"g": {"gpu": 2, "slots": 4}}}, "grid.shapes.g.gpu = 2: is no rule of a shape. Did you mean gpus?"),
    ({"shapes": {"g": {"gpus": 2}}}, "grid.shapes.g.slots = missing: must be given"),
    ({"shapes": ["dsv3_288_g33"]}, "is no known deployment. Did you mean dsv3_288_g32?"),
    ({"shapes": {"g": 3}}, "grid.shapes.g = 3: must be a mapping"),
    ({"shapes": [{"gpus": 3}]}, "in a list must be a name"),
    ({"loads": ["zip"]}, "is not a generator. Did you mean zipf?"),
    ({"loads": ["zipf"]}, "needs layers, experts, top_k, which shape g2 does not bring"),
    ({"loads": {"own": {"file": "x", "alpha": 1}}}, "grid.loads.own.alpha = 1: does not belong here"),
    ({"loads": {"own": {}}}, "needs either a generator or a file"),
    ({"seeds": [-1]}, "grid.seeds = -1: must be whole numbers >= 0"),
    ({"seeds": [True]}, "grid.seeds = True: must be whole numbers >= 0"),
    ({"limits": {"time": 3}}, "grid.limits.time = 3: is no limit. Did you mean time_s?"),
    ({"limits": {"time_s": -3}}, "limits.time_s = -3: must be finite seconds > 0"),
    ({"plans": 1}, "grid.plans = 1: must be true or false"),
    ({"shapes": {f"g{at}": {"gpus": 2, "slots": 4} for at in range(500)}, "seeds": list(range(501))},
     "has more than 1,000,000 cells"),
])  # fmt: skip
def test_what_is_wrong_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InstanceError) as caught:
        Grid.from_dict({**GOOD, **change})
    assert said in str(caught.value)


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(InstanceError) as caught:
        Grid.from_dict({"policies": ["nobody"], "seeds": [-1], "limits": {"x": 1}})
    assert len(caught.value.violations) == 5


JUNK = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=4), st.sampled_from(["lpt", "zipf"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["gpus", "slots", "file", "generator", "layers", "a"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(st.one_of(JUNK, st.fixed_dictionaries({key: st.one_of(st.just(value), JUNK) for key, value in GOOD.items()})))
def test_whatever_is_given_is_a_grid_or_one_error(document: Any) -> None:
    try:
        grid = Grid.from_dict(document)
    except InstanceError:
        return
    assert len(grid) >= 1


@pytest.mark.parametrize(("name", "content", "said"), [
    ("grid.yaml", "policies: [lpt]\npolicies: [search]\n", "grid[line 2] = policies: the key stands twice"),
    ("grid.yaml", "policies: [lpt\n", "is no YAML"),
    ("grid.yaml", "!!python/object/apply:os.system ['true']\n", "is no YAML"),
    ("grid.yaml", "", "must be a mapping of axes"),
    ("grid.yaml", "a: &a [*a]\n", "grid.a"),
    ("grid.yaml", "[" * 1000, "is no YAML"),
    ("grid.yaml", "? [1, 2]\n: 3\n", "is no YAML"),
    ("grid.toml", "policies = [\n", "is no TOML"),
    ("grid.json", "{", "grid.json"),
    ("grid.txt", "{}", ".yaml, .yml, .json, .toml are read"),
])  # fmt: skip
def test_files_that_are_no_grid_say_so(tmp_path: Path, name: str, content: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InstanceError) as caught:
        read_grid(path)
    assert said in str(caught.value)


def test_yaml_json_and_toml_say_the_same(tmp_path: Path) -> None:
    texts = {
        "g.yaml": "policies: [lpt]\nshapes:\n  g: {gpus: 2, slots: 4}\nloads:\n  own: {file: x.csv}\n",
        "g.json": '{"policies": ["lpt"], "shapes": {"g": {"gpus": 2, "slots": 4}},"loads": {"own": {"file": "x.csv"}}}',
        "g.toml": 'policies = ["lpt"]\n[shapes.g]\ngpus = 2\nslots = 4\n[loads.own]\nfile = "x.csv"\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    grids = [read_grid(tmp_path / name) for name in texts]
    assert grids[0] == grids[1] == grids[2]
    assert grids[0].loads["own"]["file"] == str(tmp_path / "x.csv")
