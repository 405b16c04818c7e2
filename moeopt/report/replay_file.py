"""A replay as a file: a page, a table, a picture or the document, by the ending of its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from moeopt.documents import write_file
from moeopt.replay.answer import Replay
from moeopt.report.as_csv import render_csv
from moeopt.report.as_html import render_html
from moeopt.report.as_markdown import render_markdown
from moeopt.report.as_tex import render_tex
from moeopt.report.block import Header
from moeopt.report.endings import of_ending
from moeopt.report.replay import sheet


def write_replay(path: str | Path, replay: Replay, header: Header | None = None, *, force: bool = False) -> None:
    """Write it, whole or not at all, in the format that the ending of `path` names.

    Raises
    ------
    InstanceError
        Unknown ending; the file exists and `force` is not set, or cannot be written.
    """
    render = of_ending(path, FORMATS, "format of a replay")
    write_file(path, render(replay, header or Header(seed=replay.seed)), force=force)


def _svg(replay: Replay, header: Header) -> str:
    from moeopt.report.plots.replay import replay_svg

    return replay_svg(replay)


def _png(replay: Replay, header: Header) -> bytes:
    from moeopt.report.plots.replay import replay_png

    return replay_png(replay)


FORMATS: dict[str, Callable[[Replay, Header], str | bytes]] = {
    ".html": lambda replay, header: render_html([sheet(replay)], header),
    ".md": lambda replay, header: render_markdown([sheet(replay)], header),
    ".csv": lambda replay, header: render_csv([sheet(replay)], header),
    ".tex": lambda replay, header: render_tex([sheet(replay)], header),
    ".json": lambda replay, header: replay.to_json() + "\n",
    ".svg": _svg,
    ".png": _png,
}
"""Endings of the files a replay is written to, and what makes them."""
