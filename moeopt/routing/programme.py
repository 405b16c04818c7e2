"""`lp`: the programme of every layer by a back end; what it says is judged and bounded like any other answer."""

from __future__ import annotations

from dataclasses import replace

from moeopt.registry import Context, Outcome
from moeopt.result import Status, Stop
from moeopt.routing import exact, splits
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.plan import Routing


def lp(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
    """Layer by layer; where the time is up, or a back end gives nothing, a layer is split evenly."""
    from moeopt.backends import LinearModel, Worker, solve_model
    from moeopt.backends import read_back as values_of

    shares, claims, notes = [], [], list[str]()
    versions: dict[str, str] = {}
    stop, nothing = Stop.FINISHED, 0
    with Worker() as worker:
        for row, hosting in enumerate(instance.hostings):
            parts = splits.even(hosting)
            if stop is Stop.FINISHED and context.deadline.passed():
                stop = Stop.TIME
            if stop is not Stop.FINISHED:
                nothing += 1
                shares.append(parts)
                continue
            model = exact.build(instance, layer=row, scaled=True)
            linear = LinearModel.from_pulp(model.problem)
            left = max(context.deadline.remaining_s(), 1e-3) if context.deadline.limited else None
            limits = replace(context.limits, time_s=left, gap=0.0)
            answer = solve_model(linear, limits=limits, seed=context.seed % 2**31, worker=worker)
            notes += answer.notes
            versions["solver"] = answer.backend
            if answer.status is not Status.OPTIMAL:
                stop = answer.stop
            if answer.values is None:
                nothing += 1
            else:
                parts = exact.read_back(instance, model, values_of(linear, answer.values))
                claims.append((answer.bound or 0.0) * model.scale)
            shares.append(parts)
            context.report(row + 1, instance.num_layers)
    if nothing:
        notes.append(f"the solver gave no answer for {nothing} of {instance.num_layers} layers: they are split evenly")
    details = {"solver_bound": sum(claims) if len(claims) == instance.num_layers else None}
    return Outcome(splits.plan_of(instance, shares), stop, notes=notes, versions=versions, details=details)


def whole(instance: RoutingInstance) -> str | None:
    """Why a linear programme does not answer."""
    return "it cuts tokens; integer has whole ones" if instance.whole else None
