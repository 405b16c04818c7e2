"""Tables of whole numbers as text, against the standard library."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.documents import sha256
from moeopt.kernels.json_rows import json_rows


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 62), st.integers(0, 2**32))
def test_it_is_what_the_standard_library_writes(rows: int, columns: int, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(-(2**bits), 2**bits, (rows, columns)) >> rng.integers(0, bits + 1, (rows, columns))
    for one in (table, np.abs(table), np.asfortranarray(table), table[::2]):
        assert json_rows(one) == json.dumps(one.tolist(), separators=(",", ":"))


@pytest.mark.parametrize("value", [0, -1, 9, 10, 2**31 - 1, 2**31, -(2**63), 2**63 - 1])
def test_rows_of_one_number(value: int) -> None:
    table = np.full((9, 9), value)
    assert json_rows(table) == json.dumps(table.tolist(), separators=(",", ":"))


def test_a_digest_is_the_same_from_lists_and_tables() -> None:
    table = np.arange(100, dtype=np.int32).reshape(10, 10)
    assert sha256({"b": 1, "a": "ü"}, rows=table) == sha256({"a": "ü", "b": 1.0, "rows": table.tolist()})
