"""What every format shows of one block: a verdict, facts, a table, notes and figures, whatever the problem is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.report.block import Block
    from moeopt.report.plots.canvas import Plot

Text = Sequence[str]
"""A sentence in pieces; those of type `words.Name` are names."""


@dataclass(frozen=True)
class Head:
    """The head of a column of numbers; columns of one `group` stand together under its name."""

    group: str
    head: str = ""

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


@dataclass(frozen=True, eq=False)
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
    closing: str
    figures: Callable[[str], list[Plot]]
    spark_said: str
    spark_low: float
    spark: Sequence[tuple[str, Sequence[float]]]
    versions: Mapping[str, str]
    columns: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    document: Mapping[str, Any]
    common: Mapping[str, Any] = field(default_factory=dict)


def sheets_of(parts: Sequence[Block | Sheet]) -> list[Sheet]:
    """The sheets of a report, which is of one problem; what is a sheet already stays as it is.

    Raises
    ------
    InstanceError
        Blocks of several problems.
    """
    ready = [part for part in parts if isinstance(part, Sheet)]
    blocks = [part for part in parts if not isinstance(part, Sheet)]
    if ready and blocks:
        rule = "are several problems, and a report is of one"
        raise InstanceError([Violation("blocks", "", "sheets and blocks", rule, "Write a report of each")])
    if ready:
        return ready
    problems = list(dict.fromkeys(block.comparison.problem for block in blocks))
    if len(problems) > 1:
        rule = "are several problems, and a report is of one"
        raise InstanceError([Violation("blocks", "", ", ".join(problems), rule, "Write a report of each")])
    if problems == ["collocation"]:
        from moeopt.report.collocation import sheet as collocation_sheet

        return [collocation_sheet(block) for block in blocks]
    if problems == ["mesh"]:
        from moeopt.report.mesh import sheet as mesh_sheet

        return [mesh_sheet(block) for block in blocks]
    from moeopt.report.placement import sheet

    return [sheet(block) for block in blocks]
