"""Zips that are one file and no more: what stands before the first entry or behind the end belongs to another."""

from __future__ import annotations

import zipfile

END = b"PK\x05\x06"
SEVERAL = "Give each file by itself"
"""What to do about it."""


def joined(archive: zipfile.ZipFile) -> str:
    """Why a zip is not one whole file, such as two that were put one behind the other; empty where it is.

    Readers of zips begin at the end, and take the last of several for all.

    >>> import io
    >>> one = io.BytesIO()
    >>> with zipfile.ZipFile(one, "w") as archive:
    ...     archive.writestr("a", b"1")
    >>> joined(zipfile.ZipFile(one))
    ''
    >>> joined(zipfile.ZipFile(io.BytesIO(2 * one.getvalue())))
    'holds several files one behind the other: its last zip begins at byte 101'
    >>> joined(zipfile.ZipFile(io.BytesIO(one.getvalue() + b"1,2")))
    'holds several files one behind the other: something follows the end of its zip'
    """
    start = min((info.header_offset for info in archive.infolist()), default=0)
    if start:
        return f"holds several files one behind the other: its last zip begins at byte {start:,}"
    assert archive.fp is not None
    tail = len(END) + 18 + len(archive.comment)
    archive.fp.seek(-tail, 2)
    if archive.fp.read(len(END)) != END:
        return "holds several files one behind the other: something follows the end of its zip"
    return ""
