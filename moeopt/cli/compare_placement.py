"""Methods, plans and maps of engines compared on loads: as windows of one placement, and on loads held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moeopt.cli.compare_options import options_of
from moeopt.cli.compare_room import Answer, Asked, Room, show_errors
from moeopt.cli.options import Shape
from moeopt.cli.say import Say
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.limits import Limits
    from moeopt.placement import PlacementInstance
    from moeopt.registry import Comparison, Row

METHODS = ("contiguous", "eplb", "lpt", "search")
SEARCHES = frozenset({"search", "auto", "exact", "replan", "repair"})


class PlacementRoom(Room):
    """Loads, or an instance."""

    name = "placement"
    what = "a placement"
    rival = "eplb"
    takes = (*options_of(Shape), "--apart", "--fit", "--score")
    every_plan = False  # of several tables of loads a plan may have the layers of some

    def answer(self, asked: Asked, say: Say) -> Answer:
        """Ready-made plans give their shape where none is typed and no plan runs."""
        from moeopt.cli.ready_plans import shaped_by

        return super().answer(shaped_by(asked, say), say)

    def read(self, asked: Asked, say: Say) -> tuple[PlacementInstance, Sequence[str]]:
        """Several files are windows; what was seen in them is told at the end."""
        from moeopt.cli.windows import read_inputs

        instance = read_inputs(asked.inputs, asked.shape, say, asked.label)
        if (asked.apart or asked.label is not None) and len(instance.windows) > 1:
            windows = f"{', '.join(asked.inputs)}: its {len(instance.windows)} windows stay one comparison"
            say.keep(
                f"{windows}, as --apart takes inputs one by one; a file a window, or FILE.npz:KEY, takes them apart"
            )
        return instance, ()

    def default(self, instance: Any, asked: Asked, say: Say) -> list[str]:
        """What people compare with, and the search."""
        return list(METHODS)

    def running(self, instance: Any) -> Any:
        """That of ``--current``, or of the instance."""
        from moeopt.placement.replanning.report import running_plan

        return None if instance.current is None else running_plan(instance)

    def plan(self, path: str, instance: Any) -> Any:
        """Its document or map as it is; whether it fits is for all of them together."""
        from moeopt.cli.ready_plans import read_plan

        return read_plan(path)

    def plans(self, asked: Asked, instance: Any, taken: Sequence[str]) -> tuple[dict[str, Any], tuple[Row, ...]]:
        """Plans and maps by the names of their rows, those of other layers with the reason."""
        from moeopt.cli.inputs import layer_facts
        from moeopt.cli.ready_plans import fit_plans

        documents, _ = super().plans(asked, instance, taken)
        return fit_plans(documents, instance, layer_facts(asked.shape))

    def prepare(self, instance: Any, names: Sequence[str], limits: Limits) -> None:
        """Compiled code is loaded."""
        from moeopt.limits import Deadline
        from moeopt.placement.heuristics.deep import engine

        if limits.time_s is None and SEARCHES & set(names):
            engine(Deadline(None))

    def scored(self, comparison: Comparison, asked: Asked, say: Say) -> Comparison:
        """On loads held out."""
        from moeopt.cli.ready_plans import scored_on

        return scored_on(comparison, asked.score, asked.shape, say) if asked.score else comparison

    def show(self, answer: Answer, say: Say) -> None:
        """The table, and the notes of every method."""
        from moeopt.cli.tables import comparison_table

        say.show(comparison_table(answer.comparison, everything=say.verbose))
        for note in answer.comparison.notes:
            say.note(note)
        for row in answer.comparison.rows:
            for note in row.result.notes if row.result is not None else ():
                say.note(f"{row.method}: {note}")
        show_errors(answer.comparison, say)

    def document(self, answer: Answer) -> Mapping[str, Any]:
        """The block in JSON."""
        from moeopt.cli.tables import figures

        comparison = answer.comparison
        floors = comparison.floors()
        rows = []
        for row in comparison.rows:
            result = row.result
            known: dict[str, Any] = {"method": row.method, "reason": row.reason or None, "remark": row.remark or None}
            if result is not None:
                known |= {"status": str(result.status), "stop": str(result.stop), "notes": list(result.notes)}
                known["conflicts"] = [dict(conflict) for conflict in result.conflicts]
                if result.solution is not None:
                    known |= figures(result, floors)
                if row.held_out is not None:
                    known["held_out"] = dict(row.held_out)
            rows.append(known)
        return {
            "problem": self.name,
            "instance": {"name": answer.instance.name, "sha256": answer.instance.sha256},
            "interrupted": comparison.interrupted,
            "not_run": list(comparison.not_run),
            "best": comparison.best,
            "lower_bound": comparison.lower_bound,
            "rows": rows,
        }


def held_out_files(inputs: list[str], fit: list[str], score: list[str], apart: bool) -> tuple[list[str], list[str]]:
    """The files to plan on and the files to score on; either is empty with plain inputs."""
    from moeopt.cli.windows import files_of

    check = Violations()
    if inputs and (fit or score):
        rule = "cannot be given beside --fit and --score, which say what is planned on"
        check.add("input", ", ".join(inputs), rule=rule, fix="Leave the inputs out")
    elif apart and (fit or score):
        check.add("--apart", "", rule="is for inputs; the files of --fit are windows", fix="Leave it out")
    elif not inputs and not (fit and score):
        missing = "INPUT" if not (fit or score) else "--score" if fit else "--fit"
        check.add(missing, "missing", rule="is needed", fix="Give inputs, or --fit and --score")
    fitted, scored = files_of("--fit", fit, check), files_of("--score", score, check)
    for path in [path for path in scored if path in fitted]:
        rule = "is fitted to already, and would flatter every plan"
        check.add("--score", path, rule=rule, fix="Leave it out of --fit or of --score")
    check.raise_if_any()
    return fitted, scored
