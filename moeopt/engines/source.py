"""A plan or a map from a file, whoever wrote it: moeopt's two documents, and what the readers of engines know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from moeopt.documents import read_bytes, read_json
from moeopt.engines.base import ExpertMap
from moeopt.workload.readers import split_key

if TYPE_CHECKING:
    from moeopt.placement.plan_document import ResultDocument

PLAN, MAP, COLLOCATED = b"moeopt/placement-", b"moeopt/expert-map/", b"moeopt/collocation-result/"
"""How the schemas of moeopt's documents begin."""


def read_source(path: str) -> ResultDocument | ExpertMap:
    """Read a plan or a map.

    Parameters
    ----------
    path
        The file; ``-`` is standard input, for moeopt's own documents.

    Raises
    ------
    InstanceError
        It is neither, or broken; everything that is wrong, at once.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "map.json")
    ...     _ = file.write_text('{"physical_to_logical_map": [[0, 1, 1]]}')
    ...     read_source(str(file)).engine
    'sglang'
    """
    found = own_document(path)
    if found is not None:
        return found
    from moeopt.engines.reading import read_map

    return read_map(path)


def own_document(path: str) -> ResultDocument | ExpertMap | None:
    """A document with one of moeopt's schemas; ``None`` for any other file."""
    if path != "-" and not _is_json_object(path):
        return None
    data = read_bytes(path)
    if path != "-" and (b'"schema"' not in data or not any(one in data for one in (PLAN, MAP, COLLOCATED))):
        return None
    document = read_json(data, path)
    if isinstance(document, dict) and str(document.get("schema", "")).startswith(MAP.decode()):
        from moeopt.engines.own import read_own

        return read_own(document, path)
    if isinstance(document, dict) and str(document.get("schema", "")).startswith(COLLOCATED.decode()):
        from moeopt.engines.collocated import read_collocated

        return read_collocated(document, path)
    from moeopt.placement.plan_document import read_result

    return read_result(document, path)


def _is_json_object(path: str) -> bool:
    """Whether a file begins as a JSON object; recordings of gigabytes are not read for it."""
    if split_key(path)[1] is not None:
        return False
    place = Path(path)
    if not place.exists():
        return path.lstrip()[:1] != "{"  # a JSON text where an engine takes one; else reading says what is wrong
    if not place.is_file():
        return False
    with place.open("rb") as file:
        return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
