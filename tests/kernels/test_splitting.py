"""The split kernels: compiled and interpreted they give the same numbers, and flows end at the best cut."""

from __future__ import annotations

from hypothesis import given

from moeopt.routing import RoutingInstance
from moeopt.routing.fractional import optimum
from moeopt.routing.integral import whole_optimum
from tests.routing.strategies import instances


@given(instances() | instances(whole=True))
def test_compiled_and_interpreted_give_the_same_numbers(instance: RoutingInstance) -> None:
    for hosting, task in zip(instance.hostings, instance.tasks, strict=True):
        ours, plain = (optimum(hosting, task, compiled=how) for how in (True, False))
        assert (ours.value, ours.gpus, ours.of, ours.cuts) == (plain.value, plain.gpus, plain.of, plain.cuts)
        assert ours.part.tolist() == plain.part.tolist()
        if instance.whole:
            whole = [whole_optimum(hosting, task, ours, compiled=how) for how in (True, False)]
            assert whole[0].value == whole[1].value and whole[0].part.tolist() == whole[1].part.tolist()


def test_a_long_chain_is_balanced_from_end_to_end() -> None:
    """Expert i on GPUs i and i + 1, all load at one end: water-filling alone would take hundreds of rounds."""
    gpus = 60
    loads = [600 * gpus] + [1] * (gpus - 2)
    rows = [expert for expert in range(gpus - 1) for _ in range(2)]
    places = [gpu for expert in range(gpus - 1) for gpu in (expert, expert + 1)]
    instance = RoutingInstance([loads], [rows], gpus=gpus, gpu_of_slot=places)
    found = optimum(instance.hostings[0], instance.tasks[0])
    assert found.value == 600 * gpus // 2
    wide = RoutingInstance([[600] + [600] * (gpus - 2)], [rows], gpus=gpus, gpu_of_slot=places)
    found = optimum(wide.hostings[0], wide.tasks[0])
    assert found.value * gpus == 600 * (gpus - 1)
