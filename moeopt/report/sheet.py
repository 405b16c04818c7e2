"""What every format shows of one block: a verdict, facts, a table, notes and figures, whatever the problem is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moeopt.report.block import Block
    from moeopt.report.plots.canvas import Plot

Text = Sequence[str]
"""A sentence in pieces; those of type `words.Name` are names."""


@dataclass(frozen=True)
class Head:
    """The head of a column of numbers; columns of one `group` stand together under its name.

    Those that are `aside` are left out where a table has no room for everything, as in a paper.
    """

    group: str
    head: str = ""
    aside: bool = field(default=False, kw_only=True)

    @property
    def title(self) -> str:
        """Group and head in one line."""
        return f"{self.group}, {self.head}" if self.group and self.head else self.group or self.head


@dataclass(frozen=True)
class Line:
    """One line of the table: ``best``, ``plan``, ``broken`` (a rule), ``none`` (no plan) or ``bound``.

    Parameters
    ----------
    cells
        One a column; empty for a line without a plan, whose `remark` says why.
    """

    kind: str
    method: str
    cells: tuple[str, ...]
    remark: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sheet:
    """One instance and its methods, ready for any format.

    Parameters
    ----------
    topic
        What is compared, as a title begins: ``Expert placement``.
    notes
        Each with the methods it is of; none: of all.
    footnotes, closing
        What the columns mean, and a sentence below.
    first, caption
        Head of the column of names, and what stands above the table.
    figures
        Draws the plots; ids of their parts begin with what it is given.
    spark_said, spark_low, spark
        Where there are no plots: what the lines of blocks show, with places for the sign of the least number and of
        the largest; the least number; numbers by method.
    versions
        Packages that the methods name.
    records, columns
        Rows of the CSV and their columns.
    document, common
        The block in JSON, and what stands beside all blocks.
    """

    topic: str
    name: str
    verdict: Sequence[Text]
    facts: Sequence[tuple[str, str]]
    heads: Sequence[Head]
    lines: Sequence[Line]
    notes: Sequence[tuple[str, list[str]]]
    footnotes: Sequence[tuple[str, str]]
    closing: str = ""
    first: str = "Method"
    caption: str = ""
    figures: Callable[[str], list[Plot]]
    spark_said: str = ""
    spark_low: float = 0.0
    spark: Sequence[tuple[str, Sequence[float]]] = ()
    versions: Mapping[str, str]
    columns: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    document: Mapping[str, Any]
    common: Mapping[str, Any] = field(default_factory=dict)


def sheets_of(parts: Sequence[Block | Sheet]) -> list[Sheet]:
    """The sheet of every part, in their order; blocks may be of several problems, and a sheet stays as it is."""
    return [
        part if isinstance(part, Sheet) else import_module(f"moeopt.report.{part.comparison.problem}").sheet(part)
        for part in parts
    ]
