"""One door for every format: the ending of the file chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from moeopt import kinds
from moeopt.documents import write_file
from moeopt.errors import InstanceError, Violation
from moeopt.report.as_csv import render_csv
from moeopt.report.as_html import render_html
from moeopt.report.as_json import render_json
from moeopt.report.as_markdown import render_markdown
from moeopt.report.as_tex import render_tex
from moeopt.report.block import Block, Header
from moeopt.report.endings import of_ending

Render = Callable[[Sequence[Block], Header], str]

FORMATS: dict[str, Render] = {
    ".html": render_html,
    ".md": render_markdown,
    ".csv": render_csv,
    ".tex": render_tex,
    ".json": render_json,
}
"""Endings of report files and what makes them; a new format is one line here."""


def format_of(path: str | Path) -> Render:
    """What makes a file of that name; for those who want to know before a long computation.

    Raises
    ------
    InstanceError
        The ending is of no known format.

    >>> format_of("a/table.MD").__name__
    'render_markdown'
    """
    return of_ending(path, FORMATS, "report format")


@kinds.expects(
    path=kinds.path,
    blocks=kinds.each("moeopt.report.block:Block|moeopt.report.sheet:Sheet"),
    header="moeopt.report.block:Header",
    force=bool,
)
def write_report(
    path: str | Path, blocks: Sequence[Block], header: Header | None = None, *, force: bool = False
) -> None:
    """Write the report, whole or not at all, in the format that the ending of `path` names.

    `blocks` and `header` are as those of `render_html`.

    >>> import tempfile
    >>> from moeopt import placement
    >>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="four experts")
    >>> comparison = placement.compare(instance, ["contiguous", "lpt"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Path(folder, "report.md"), [Block(instance, comparison)])

    Raises
    ------
    InstanceError
        Unknown ending; no block; the file exists and `force` is not set, or cannot be written.
    """
    render = format_of(path)
    if not blocks:
        raise InstanceError([Violation("blocks", "", "()", "a report needs an instance", "Give at least one")])
    write_file(path, render(blocks, header or Header()), force=force)
