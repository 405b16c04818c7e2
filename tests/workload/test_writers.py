"""What is written is read back the same, as far as the form can hold it, and never over another file unasked."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from moeopt.errors import InstanceError
from moeopt.workload import LoadTable, read_loads, write_loads

NAMES = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=' ,;"'), min_size=1).filter(
    lambda name: name == name.strip() and name.isprintable()
)


@st.composite
def tables(draw: st.DrawFn) -> LoadTable:
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 6)))
    whole = arrays.arrays(np.int64, shape, elements=st.integers(0, 2**63 - 1))
    floats = arrays.arrays(np.float64, shape, elements=st.floats(0, 1e300, allow_subnormal=False))
    ids = st.lists(st.integers(0, 2**40), min_size=shape[0], max_size=shape[0], unique=True)
    layers = draw(ids.map(tuple) | st.just(tuple(range(shape[0]))))
    names = st.lists(NAMES | st.sampled_from(["7", "nan", "Layer", "load"]), min_size=shape[1], max_size=shape[1])
    unique = names.filter(lambda found: len(set(found)) == len(found)).map(tuple)
    steps = draw(st.none() | st.integers(1, 2**40))
    return LoadTable(draw(whole | floats), layers, steps, draw(st.none() | unique))


def through(table: LoadTable, ending: str) -> tuple[LoadTable, tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"loads{ending}")
        lost = write_loads(path, table)
        return read_loads(path), lost


@settings(deadline=None, max_examples=60)
@given(tables(), st.sampled_from([".npz", ".json"]))
def test_npz_and_json_hold_everything(table: LoadTable, ending: str) -> None:
    again, lost = through(table, ending)
    assert lost == () and again.notes == ()
    assert again.loads.dtype == table.loads.dtype and again.loads.tolist() == table.loads.tolist()
    assert (again.layers, again.steps, again.names) == (table.layers, table.steps, table.names)


@settings(deadline=None, max_examples=80)
@given(tables())
@example(LoadTable(np.array([[1]]), (0,), None, ("a",)))
@example(LoadTable(np.array([[0.0]]), (3,), 1, ("layer",)))
def test_csv_and_npy_hold_the_loads_and_say_what_they_lose(table: LoadTable) -> None:
    for ending in (".csv", ".npy"):
        again, lost = through(table, ending)
        assert again.loads.dtype == table.loads.dtype and again.loads.tolist() == table.loads.tolist()
        for field in ("steps", "names"):
            kept = getattr(again, field) == getattr(table, field)
            assert kept != any(sentence.startswith(field) for sentence in lost)
        assert (again.layers == table.layers) != any(sentence.startswith("layer ids") for sentence in lost)


def test_write_keeps_a_file_that_exists_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "loads.csv"
    path.write_text("7\n")
    table = LoadTable(np.array([[1, 2]]), (0,))
    with pytest.raises(InstanceError, match="never overwritten unasked"):
        write_loads(path, table)
    assert path.read_text() == "7\n"
    write_loads(path, table, force=True)
    assert path.read_text() == "1,2\n" and [file.name for file in tmp_path.iterdir()] == ["loads.csv"]


def test_write_refuses_unknown_ending_and_malformed_table_together(tmp_path: Path) -> None:
    table = LoadTable(np.array([[1.0, np.nan]]), (0, 0), None, ("a b ", "c"))
    with pytest.raises(InstanceError) as caught:
        write_loads(tmp_path / "loads.xlsx", table)
    message = str(caught.value)
    assert ".xlsx" in message and "nan" in message and "twice" in message and "expert 0] = 'a b '" in message
    assert not list(tmp_path.iterdir())
