"""Routing traces: the experts that every token selected, read in bounded memory and folded to counts.

Read are arrays of numpy (`.npz` with ``topk_ids``) and the JSON lines of loggers in vLLM's MoE layers. Whatever a trace
holds besides ids, such as weights, is left aside.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from moeopt import kinds
from moeopt.errors import InstanceError, Violations
from moeopt.workload.table import LoadTable
from moeopt.workload.trace_arrays import ARRAY, first_of, read_npz
from moeopt.workload.trace_fold import EXPERTS_MAX, Folding
from moeopt.workload.trace_lines import is_logged, read_lines


def is_trace(path: str | Path) -> bool:
    """Whether a file is a routing trace, by its first bytes or the names of its arrays; never raises.

    >>> is_trace("loads.csv")
    False
    """
    try:
        if str(path).lower().endswith(".npz"):
            with zipfile.ZipFile(path) as archive:
                return f"{ARRAY}.npy" in archive.namelist()
        if str(path).lower().endswith((".jsonl", ".ndjson")):
            return True
        with Path(path).open("rb") as file:
            return is_logged(file.read(4096))
    except Exception:  # as below
        return False


@kinds.expects(path=kinds.paths, experts=kinds.whole, top_k=kinds.whole)
def read_trace(
    path: str | Path | Sequence[str | Path],
    *,
    experts: int | None = None,
    top_k: int | None = None,
    layers: Sequence[int] | None = None,
) -> LoadTable:
    """Read a routing trace, of one file or of a file for each of its layers, and count its selections.

    Parameters
    ----------
    path
        An `.npz` with ``topk_ids`` (L, T, k) or (T, L, k), or (T, k) of one layer, whole numbers, -1 for padding;
        beside it optional ``layers`` (L), ``token_idx`` (T), ``num_experts``. Or JSON lines: objects of type ``meta``
        with optional ``top_k`` and ``num_experts``, and of type ``route`` with ``layer``, ``topk_ids`` and optional
        ``token_idx``. Several files are of different layers of one recording.
    experts, top_k
        Experts of a layer, and of a token, where they are known.
    layers
        Ids of the layers of an array, where the file has none.

    Returns
    -------
    LoadTable
        Counts of all rows, dummy rows among them; ``top_k``; ``per_step`` and ``steps`` where ``token_idx`` is known,
        as a step begins where it is 0; ``dummies`` where there are dummy rows. See `dummies.without_dummies`.

    Raises
    ------
    InstanceError
        The file is missing, broken or ambiguous, ids are out of range, an expert stands twice in a token, or tokens
        have different numbers of experts; all violations in one message.

    Notes
    -----
    A row whose ids are all 0, in a layer where no row is different, is an unfilled buffer: the layer is idle. Memory
    stays that of some thousand rows and of the counts.

    Examples
    --------
    >>> import tempfile
    >>> lines = ['{"type": "meta", "top_k": 2}', '{"type": "route", "token_idx": 0, "layer": 3, "topk_ids": [4, 1]}']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "log.jsonl")
    ...     _ = file.write_text("\\n".join(lines))
    ...     table = read_trace(file)
    >>> table.loads.tolist(), table.layers, table.steps
    ([[0, 1, 0, 0, 1]], (3,), 1)
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    given = Violations()
    for name, value in (("experts", experts), ("top_k", top_k)):
        if value is not None and not 1 <= value <= EXPERTS_MAX:
            rule = f"must be a whole number from 1 to {EXPERTS_MAX:,}"
            given.add(name, value, rule=rule, fix="Leave it out where it is not known")
    given.raise_if_any()
    folding = Folding(given, experts=experts, top_k=top_k)
    order: list[int] | None = None
    for one in paths:
        check = Violations(str(one))
        folding.check = check
        order = _read_file(one, folding, check, layers)
        if len(paths) > 1:
            check.raise_if_any()
        folding.close()
    folding.check.source = ", ".join(map(str, paths))
    return folding.table(order if len(paths) == 1 else None, folding.check.source)


def _read_file(path: str | Path, folding: Folding, check: Violations, layers: Sequence[int] | None) -> list[int] | None:
    """Fold one file; the order of its layers, where it has one."""
    if not Path(path).is_file():
        what = "is a folder" if Path(path).is_dir() else "does not exist"
        check.add("input", str(path), rule=f"the file {what}", fix="Check the path")
        check.raise_if_any()
    if not Path(path).stat().st_size:
        check.add("input", "''", rule="the file is empty", fix="Record again, or check that the copy finished")
        check.raise_if_any()
    try:
        if str(path).lower().endswith(".npz"):
            return read_npz(path, check, folding, layers)
        with Path(path).open("rb") as file:
            read_lines(file, check, folding)
    except InstanceError:
        raise
    except Exception as error:  # bytes from anywhere: zipfile, zlib and numpy fail in more ways than they document
        check.add("input", "...", rule=f"the file is not whole ({error})", fix="Was it cut short?")
        check.raise_if_any()
    return None


@kinds.expects(experts=kinds.whole, layers=kinds.some)
def fold_ids(
    ids: NDArray[Any],
    *,
    layers: Sequence[int] | None = None,
    experts: int | None = None,
    token_idx: NDArray[Any] | None = None,
    source: str = "",
) -> LoadTable:
    """The same for an array in memory.

    `source` is what messages call it. Ids that are no expert's, or of ragged rows, are refused (`InstanceError`), all
    named.

    Parameters
    ----------
    ids
        (L, T, k) whole numbers; -1 is padding.
    layers
        L ids of layers, 0 to L-1 by default.
    experts
        Experts of a layer, where known.
    token_idx
        (T,) place of a token in its step.

    >>> import numpy as np
    >>> fold_ids(np.array([[[0, 2], [1, 2]]]), token_idx=np.array([0, 0])).per_step.tolist()
    [[[1, 0, 1]], [[0, 1, 1]]]
    """
    check = Violations(source)
    if ids.ndim != 3 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        seen = f"{ids.dtype} of shape {ids.shape}"
        check.add(ARRAY, seen, rule="must be whole numbers, layers x tokens x top_k", fix="Check the array")
        check.raise_if_any()
    names = list(range(len(ids))) if layers is None else list(layers)
    first = None if token_idx is None else first_of(token_idx, ids.shape[1], check)
    if len(names) != len(ids):
        check.add(
            "layers", f"{len(names)} ids", rule=f"must be as many as layers, {len(ids)}", fix="Give one per layer"
        )
        check.raise_if_any()
    folding = Folding(check, experts=experts)
    for layer, rows in zip(names, ids, strict=True):
        folding.add(layer, rows, first)
    return folding.table(names, source)
