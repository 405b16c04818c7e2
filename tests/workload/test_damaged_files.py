"""Whatever bytes a file holds, reading it ends in a table or in an `InstanceError`."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from moeopt.errors import InstanceError
from moeopt.workload import LoadTable, read_loads


def whole_files() -> dict[str, list[bytes]]:
    array = np.arange(6).reshape(2, 3)
    npy, npz, packed, csr = (io.BytesIO() for _ in range(4))
    np.save(npy, array)
    np.savez(npz, loads=array, layers=np.array([1, 2]))
    np.savez_compressed(packed, loads=array)
    sparse.save_npz(csr, sparse.csr_matrix(array), compressed=False)
    return {
        ".npy": [npy.getvalue()],
        ".npz": [npz.getvalue(), packed.getvalue(), csr.getvalue()],
        ".csv": [
            b"1,2\n3,4\n",
            b'layer;"a";b\r\n1;2;3\r\n',
            b"layer,expert,count\n0,0,5\n3,1,6.5\n",
            b"# x\n,e1,e0\n0,1,2\n,,\n",
        ],
        ".json": [b"[[1, 2.5], [3, 4]]", b'{"loads": [[1, 2]], "layers": [3], "steps": 4, "names": ["a", "b"]}'],
    }


WHOLE = whole_files()


@st.composite
def damaged(draw: st.DrawFn, ending: str) -> bytes:
    data = bytearray(draw(st.sampled_from(WHOLE[ending])))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        if draw(st.booleans()):
            data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
        else:
            del data[at : at + draw(st.integers(0, 40))]
    return bytes(data)


@pytest.mark.filterwarnings("default")  # what numpy and zipfile warn of on such bytes is theirs
@pytest.mark.parametrize("ending", sorted(WHOLE))
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_damaged_file_is_read_or_refused(ending: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"loads{ending}")
        path.write_bytes(data.draw(damaged(ending)))
        try:
            table = read_loads(path)
        except InstanceError as error:
            assert error.source == str(path)
        else:
            assert isinstance(table, LoadTable) and table.loads.min() >= 0
