"""Standard input, which can be read only once, as a file that every reader takes."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def spooled() -> Iterator[str]:
    """All of standard input in a file, with the ending of what it is where readers go by that; removed at the end."""
    with TemporaryDirectory(prefix="moeopt-") as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path.rename(path.with_suffix(_ending(path))))


def _ending(path: Path) -> str:
    """Of arrays of numpy and files of torch; nothing for texts."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return ""
    return ".npz" if any(name.endswith(".npy") for name in names) else ".pt"
