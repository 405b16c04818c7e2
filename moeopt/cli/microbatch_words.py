"""The answer of ``moeopt microbatch`` in words: the choice, what it rests on, the second best, the sweep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moeopt.cli.say import count
from moeopt.cli.stage_times import SECONDS
from moeopt.microbatch.second_best import because, longer
from moeopt.percent import percent
from moeopt.report.timeline import NOUNS, plural

if TYPE_CHECKING:
    from rich.table import Table

    from moeopt.cli.modelled_rest import Dense
    from moeopt.result import Result

FEW_ROWS = 8
MOST_SHOWN = 1e6
"""Of one unit of time."""
EXPLAINED = ("transfers", "layer", "token", "ends")
"""Kinds of reason for the second best that have a sentence of their own."""
WHY_NOT = {"memory": "does not fit", "tbt": "too slow"}
BOUNDS = {
    "chain": "one micro-batch alone takes as long",
    "load": "{where} has that much to do",
    "first-visits": "the last micro-batch to come to {where} takes as long",
    "layers": "each layer waits for the one before",
}
"""The argument behind a lower bound."""


def spell(seconds: float, unit: str, *, glued: bool = False) -> str:
    """Six digits at most, in the unit asked for; what has a million of them, in a larger one.

    >>> spell(0.0605, "ms"), spell(0.0605, "ms", glued=True), spell(7200, "ms")
    ('60.5 ms', '60.5ms', '120 min')
    """
    if seconds / float(SECONDS[unit]) >= MOST_SHOWN:
        unit = next((name for name in ("s", "min") if seconds / float(SECONDS[name]) < 1000), "h")
    return f"{seconds / float(SECONDS[unit]):.6g}{'' if glued else ' '}{unit}"


def paced(per_second: float | None) -> str:
    """Tokens a second: five digits, whole thousands with commas, powers of ten where nobody counts digits.

    >>> paced(16.6666), paced(49382.71), paced(1.2345e300), paced(None)
    ('16.667', '49,382.7', '1.23e300', '-')
    """
    if per_second is None:
        return "-"
    if per_second >= 1e12:
        return f"{per_second:.2e}".replace("e+", "e")
    return f"{per_second:,.1f}" if per_second >= 1000 else f"{per_second:.5g}"


def singular(text: str) -> str:
    """One thing is not several.

    >>> singular("with 3 parts of 1 tokens, not 31 tokens")
    'with 3 parts of 1 token, not 31 tokens'
    """
    return re.sub(r"(?<![\d.,])1 (token|sequence|micro-batch)(?:e?s)\b", r"1 \1", text)


class Words:
    """Times in one unit, and the sentences made of them; `dense` layers come on top of every step."""

    def __init__(self, result: Result, unit: str, dense: Dense | None = None) -> None:
        assert result.solution is not None
        self.result, self.solution, self.unit = result, result.solution, unit
        document = result.instance["document"]
        self.named = document["batches"] is not None or document["micro_batch"] > 1
        self.by_tokens = document["objective"] == "throughput"
        self.dense = dense
        self.noun = NOUNS.get(self.solution["pattern"], "micro-batch")

    def time(self, seconds: float | None) -> str:
        """Six digits at most, in the unit asked for."""
        if seconds is None:
            return "-"
        return spell(seconds, self.unit)

    def rate(self, per_second: float | None) -> str:
        """Tokens a second, or where nobody said how many tokens there are, micro-batches."""
        if per_second is None:
            return "-"
        what = "tokens/s" if self.named else f"{plural(self.noun, 2)}/s"
        return f"{paced(per_second)} {what}"

    def choice(self, m: int, batch: int) -> str:
        """m, and the tokens where they are known."""
        return f"m = {m}, batch {batch:,}" if self.named else f"m = {m}"

    def lines(self) -> list[tuple[str, str]]:
        """The answer, a line each."""
        result = self.result
        assert result.lower_bound is not None
        floor = f"{self.worth(result.lower_bound)}, {result.bound_kind}"
        floor += f": {self._bound()}" if result.lower_bound else ""
        found = [
            ("method", result.method),
            ("answer", self._answer()),
            ("time", self._time()),
            ("busy", self._busy()),
            ("cycle", self._cycle()),
            ("overlap", self._overlap()),
            ("fewest m", self._fewest()),
            ("published", self._published()),
            ("second best", self._second()),
            ("why second", self._why_second()),
            ("lower bound", floor),
            ("gap", f"{percent(result.gap or 0.0)}; {result.status}, stopped by {result.stop}"),
        ]
        return [(name, text) for name, text in found if text]

    def worth(self, value: float) -> str:
        """The objective: a time, or a time per token as its inverse too."""
        if not self.by_tokens:
            return self.time(value)
        each = "token" if self.named else self.noun
        return f"{self.time(value)} a {each}"

    def step(self, row: Mapping[str, Any]) -> float:
        """Seconds of a whole step, dense layers included."""
        pipeline: float = row["time_s"]
        return pipeline if self.dense is None else pipeline + self.dense.seconds(row["batch"])

    def throughput(self, row: Mapping[str, Any]) -> float | None:
        """Tokens a second of a whole step."""
        step = self.step(row)
        return row["batch"] / step if step else None

    def _time(self) -> str:
        parts = ""
        if self.dense is not None:
            rest = self.dense.seconds(self.solution["batch"])
            parts = f"{self.time(self.solution['time_s'])} in {self.dense.moe} layers with experts"
            parts += f" + {self.time(rest)} in {self.dense.said} = "
        whole = f"{self.time(self.step(self.solution))} a step, which is the TBT"
        return f"{parts}{whole}; {self.rate(self.throughput(self.solution))}"

    def _answer(self) -> str:
        solution = self.solution
        m, parts = solution["m"], solution["micro_batches"]
        sizes = f"{parts[-1]:,}" if parts[0] == parts[-1] else f"{parts[-1]:,} to {parts[0]:,}"
        of = f" of {sizes} {'token' if sizes == '1' else 'tokens'}" if self.named else ""
        whole = f", batch {solution['batch']:,}" if self.named else ""
        order = "" if solution["sequences"] is None else "; in an order of its own, not first come first served"
        return f"m = {m}: {m} {plural(self.noun, m)}{of}{whole}{order}"

    def _busy(self) -> str:
        sides = self.solution["sides"]
        known = self.solution["utilisation"]
        names = [*sides, *(name for name in known if name not in sides)]
        return ", ".join(f"{name} {percent(known[name])}" for name in names if known[name])

    def _cycle(self) -> str:
        solution = self.solution
        if solution["cycle_s"] is None:
            return ""
        said = f"{self.time(solution['cycle_s'])} for one more layer"
        if solution["round_trip_s"] is None:
            return said
        alone, top = self.time(solution["round_trip_s"]), self.time(solution["busiest_s"])
        return f"{said}; a {self.noun} alone takes {alone}, {top} of it on the busiest resource"

    def _overlap(self) -> str:
        found = self.solution.get("overlap")
        if found is None:
            reason = self.solution.get("overlap_reason")
            return "" if reason is None else f"not known: {reason}"
        more = percent(abs(found["gain"]))
        if self.solution["m"] == 1:
            said = "does not pay"
        else:
            said = f"{more} {'more' if found['gain'] >= 0 else 'less'} throughput than m = 1"
        from_batch = found["pays_from"]
        return said + (f"; pays from a batch of {from_batch:,} on" if from_batch is not None else "")

    def _fewest(self) -> str:
        found = self.solution["fewest_m"]
        if found is None:
            return ""
        theirs = "no m at all" if found["published"] is None else found["published"]
        return f"{found['ours']} keep the busiest resource busy; the published rule says {theirs}"

    def _published(self) -> str:
        found = self.solution["published"]
        if found is None:
            return ""
        value = self.time(found["time_s"])
        if found["valid"]:
            return f"{value} by {found['source']}: valid here"
        error = found["error"]
        off = "" if error is None else f", {percent(abs(error))} too {'low' if error < 0 else 'high'}"
        return f"{value} by {found['source']}: not valid here{off}"

    def _second(self) -> str:
        found = self.solution["runner_up"]
        if found is None:
            return ""
        which = f"{self.choice(found['m'], found['batch'])}: {self.time(self.step(found))}"
        objective = "throughput" if self.by_tokens else "time"
        said = longer(found["behind"], objective) if found["why"]["kind"] in EXPLAINED else singular(found["reason"])
        return f"{which}, {self.rate(self.throughput(found))}; {said}"

    def _why_second(self) -> str:
        found = self.solution["runner_up"]
        if found is None or found["why"]["kind"] not in EXPLAINED:
            return ""
        return because(found["m"], found["why"], self.time)

    def _bound(self) -> str:
        found = self.solution["bound"]
        where = found["where"] or "the busiest resource"
        text: str = BOUNDS.get(found["kind"], found["kind"]).format(where=where)
        return text.replace("micro-batch", self.noun)

    def sweep(self, everything: bool, width: int) -> tuple[Table, int]:
        """The sweep, and how many rows are left out: all that are few, else the best batch of each m.

        Where there is no room for all columns, the cycle goes first, then parts, rates and remarks.
        """
        from moeopt.cli.tables import table

        rows = self.solution["sweep"]
        shown = rows if everything or len(rows) <= FEW_ROWS else self._best_of_each(rows)
        size = float(SECONDS[self.unit])
        cells: dict[str, list[str]] = {"m": [str(row["m"]) for row in shown]}
        if self.named:
            cells["batch"] = [f"{row['batch']:,}" for row in shown]
            cells["a part"] = [f"{row['micro_batch']:,}" for row in shown]
        cells[f"time, {self.unit}"] = [f"{self.step(row) / size:.6g}" for row in shown]
        cells[self._rate_head()] = [paced(self.throughput(row)) for row in shown]
        cycles = [row["cycle_s"] for row in shown]
        cells[f"cycle, {self.unit}"] = ["-" if one is None else f"{one / size:.6g}" for one in cycles]
        cells["remark"] = [self._remark(row) for row in shown]
        for head in (f"cycle, {self.unit}", "a part", self._rate_head(), "remark"):
            if sum(max(map(len, (name, *column))) + 2 for name, column in cells.items()) > width:
                cells.pop(head, None)
        made = table("", *cells)
        if "remark" in cells:
            made.columns[-1].justify = "left"
        for row, line in zip(shown, zip(*cells.values(), strict=True), strict=True):
            made.add_row(*line, style="bold green" if self._remark(row) == "best" else None)
        return made, len(rows) - len(shown)

    def _remark(self, row: Mapping[str, Any]) -> str:
        """Why a row is not taken, or that it is the best or the second."""
        if row["why_not"]:
            return str(WHY_NOT.get(row["why_not"], row["why_not"]))
        key, runner_up = (row["m"], row["batch"]), self.solution["runner_up"] or {}
        if key == (self.solution["m"], self.solution["batch"]):
            return "best"
        return "second best" if key == (runner_up.get("m"), runner_up.get("batch")) else ""

    def _rate_head(self) -> str:
        return "tokens/s" if self.named else f"{plural(self.noun, 2)}/s"

    def _best_of_each(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Of every m the best batch that may be taken, or where none may the fastest; the second best in any case."""
        found = []
        runner_up = self.solution["runner_up"] or {}
        named = {(one.get("m"), one.get("batch")) for one in (self.solution, runner_up)}
        for m in sorted({row["m"] for row in rows}):
            mine = [row for row in rows if row["m"] == m]
            free = [row for row in mine if not row["why_not"]]
            best = min(free or mine, key=self._worth_of if free else lambda row: row["time_s"])
            found += [row for row in mine if row is best or (m, row["batch"]) in named]
        return found[: 4 * FEW_ROWS]

    def _worth_of(self, row: Mapping[str, Any]) -> float:
        value: float = row["time_s"] / row["batch"] if self.by_tokens else row["time_s"]
        return value


def left_out(rows: int) -> str:
    """What is said of rows that are not shown."""
    return f"{count(rows, 'more row')}, -v shows {'it' if rows == 1 else 'them'}"
