"""How fast configurations are at other batches than their own, many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from moeopt.mesh.config import Config
from moeopt.mesh.families.colocated import Mixed
from moeopt.mesh.families.context import Context
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.shape import ApartShape, Shape
from moeopt.mesh.step.apart import ApartTable, Node
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.prefill import Prefiller, portions
from moeopt.mesh.step.table import Floats, Ints, Setting, Table


def speeds(instance: MeshInstance, configs: Sequence[Config], batches: Ints) -> Floats:
    """Seconds per token, to the first one (0 where nothing is prefilled) and output tokens a second: (3, points).

    Parameters
    ----------
    configs, batches
        Configurations that families yielded and that decode, each with a batch; chunk, draft and overlap are theirs.

    Notes
    -----
    Strength: model; at the batch of a configuration these are its own figures, to rounding.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for point, config in enumerate(configs):
        other = config.shape.expert_gpu if isinstance(config.shape, ApartShape) else ""
        groups.setdefault((config.demand, config.family, config.shape.gpu, other, config.kv), []).append(point)
    found = np.zeros((3, len(configs)))
    for points in groups.values():
        some, batch = [configs[point] for point in points], batches[points]
        found[:, points] = _of_group(instance, some, batch)
    return found


def _of_group(instance: MeshInstance, configs: Sequence[Config], batch: Ints) -> Floats:
    """Of configurations of one family on the same GPUs.

    What shapes share is looked up once; each way to run some of them (chunk, draft, overlap) is worked out for all and
    taken for those, which is quicker than a table for each.
    """
    one = configs[0]
    context = Context(instance, one.demand, instance.demands[one.demand])
    shape, workload = one.shape, context.demand.workload
    far = shape.expert_gpu if isinstance(shape, ApartShape) else shape.gpu
    numerics = next(form for form in context.numerics(instance.gpu(far)) if form.kv == one.kv)
    setting = context.setting(instance.gpu(shape.gpu), numerics)
    if isinstance(shape, ApartShape):
        table = _apart(setting, instance, configs, workload.context_tokens)
        seconds = table.step(batch)[0]
        return np.stack([seconds, np.zeros_like(seconds), batch * table.n_a * table.m / seconds])
    rows = Table(setting, [config.shape for config in configs if isinstance(config.shape, Shape)])
    decoder = Decoder(rows, workload.context_tokens)
    mixed = Mixed(decoder, Prefiller(rows, workload), context) if one.family == "colocated" else None
    found = np.zeros((2, len(rows)))
    ways: dict[tuple[int, bool, int | None], list[int]] = {}
    for point, config in enumerate(configs):
        ways.setdefault((config.draft, config.overlap, config.chunk), []).append(point)
    for (draft, overlap, chunk), points in ways.items():
        mean, first = (1.0, *instance.drafts)[draft], np.zeros(len(rows))
        if one.family == "long":
            own = batch.astype(np.float64)
            seconds = decoder.seconds(own) - (decoder.hop_b(own) * (own - 1) / own if overlap else 0.0)
        elif mixed is not None:
            portion = next(some for some in portions(workload) if math.ceil(some.chunk) == chunk)
            seconds, first = mixed.times(batch, portion, mixed.beside(portion), draft, mean, overlap)
        else:
            seconds = decoder.tpot_s(batch, draft=draft, mean=mean, dual=overlap)
        found[0, points], found[1, points] = seconds[points], first[points]
    return np.stack([*found, batch * rows.dp / found[0]])


def _apart(setting: Setting, instance: MeshInstance, configs: Sequence[Config], tokens: float) -> ApartTable:
    nodes: dict[Node, int] = {}
    columns = []
    for config in configs:
        one = config.shape
        assert isinstance(one, ApartShape)
        node = nodes.setdefault(Node(one.tp_a, one.tp_e, one.n_e, one.redundant), len(nodes))
        columns.append((node, one.n_a, one.m))
    first = configs[0].shape
    assert isinstance(first, ApartShape)
    far = setting.gpu if first.expert_gpu == first.gpu else instance.gpu(first.expert_gpu)
    node, n_a, m = np.array(columns, dtype=np.int64).T
    return ApartTable(setting, far, list(nodes), node, n_a, m, tokens)
