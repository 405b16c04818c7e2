"""Routing traces: counted as they are, with their steps and dummy rows, and refused with every fault named."""

import json
import tracemalloc

import numpy as np
import pytest

from moeopt.errors import InstanceError
from moeopt.workload.dummies import dummy_loads, least_run, without_dummies
from moeopt.workload.laws import findings
from moeopt.workload.traces import fold_ids, is_trace, read_trace


def routed(tokens, *, layers=3, experts=16, top_k=4, seed=0, skew=0.0):
    """(L, T, k) ids of independent tokens."""
    rng = np.random.default_rng(seed)
    keys = rng.gumbel(size=(layers, tokens, experts)) - skew * np.log(np.arange(1, experts + 1))
    return (-keys).argpartition(top_k, axis=2)[:, :, :top_k].astype(np.int16)


def logged_by_an_engine(seed=0):
    """A look-alike of a log of an engine: a profiling pass, a short warm-up, a prefill step, and decoding."""
    sizes = [8192, 256, 700, *[25] * 60]
    ids = routed(sum(sizes), layers=2, experts=60, seed=seed, skew=0.3)
    ids[0, :8448], ids[1, :8448] = (43, 5, 58, 7), (13, 15, 56, 34)
    token_idx = np.concatenate([np.arange(size) for size in sizes]).astype(np.int32)
    return ids, token_idx


def lines(ids, token_idx=None, layers=None, meta=None):
    entries = [] if meta is None else [{"type": "meta", **meta}]
    for token in range(ids.shape[1]):
        for place in range(len(ids)):
            entry = {"type": "route", "req_id": "r1", "layer": place if layers is None else layers[place]}
            if token_idx is not None:
                entry["token_idx"] = int(token_idx[token])
            entries.append(entry | {"topk_ids": ids[place, token].tolist(), "topk_weights": [0.25] * ids.shape[2]})
    return "\n".join(map(json.dumps, entries)) + "\n"


def counts(ids, experts):
    return [np.bincount(layer.ravel(), minlength=experts).tolist() for layer in ids]


def refused(call):
    with pytest.raises(InstanceError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_trace_in_an_npz_is_counted_by_layer_and_step(tmp_path, turned, order):
    ids, token_idx = routed(500), np.arange(500) % 50
    stored = np.asarray(ids.transpose(1, 0, 2) if turned else ids, order=order)
    np.savez_compressed(tmp_path / "t.npz", topk_ids=stored, layers=[3, 7, 9], token_idx=token_idx)
    table = read_trace(tmp_path / "t.npz", experts=16)
    assert table.loads.tolist() == counts(ids, 16)
    assert (table.layers, table.top_k, table.steps, table.dummies) == ((3, 7, 9), 4, 10, None)
    assert table.per_step[3].tolist() == counts(ids[:, 150:200], 16)


def test_trace_in_lines_equals_the_same_in_an_npz(tmp_path):
    ids, token_idx = routed(300), np.arange(300) % 30
    (tmp_path / "t.jsonl").write_text(lines(ids, token_idx, [3, 7, 9], {"top_k": 4, "num_experts": 16}))
    np.savez(tmp_path / "t.npz", topk_ids=ids, layers=[3, 7, 9], token_idx=token_idx, num_experts=16)
    one, other = read_trace(tmp_path / "t.jsonl"), read_trace(tmp_path / "t.npz")
    assert (one.loads == other.loads).all() and (one.per_step == other.per_step).all()
    assert (one.layers, one.steps, one.top_k, one.notes) == (other.layers, other.steps, other.top_k, other.notes)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8])
def test_small_and_unsigned_ids_are_read_as_they_are(tmp_path, dtype):
    """Ids of one byte were called a file that is not whole."""
    ids = routed(50)
    np.savez(tmp_path / "trace.npz", topk_ids=ids.astype(dtype), layers=np.arange(3))
    assert (read_trace(tmp_path / "trace.npz").loads == fold_ids(ids).loads).all()


def test_trace_without_steps_has_no_counts_of_them():
    table = fold_ids(routed(100), experts=16)
    assert table.per_step is None and table.steps is None


def test_trace_says_that_the_number_of_experts_is_a_guess():
    assert "experts are taken to be 16" in fold_ids(routed(500)).notes[0]


def test_trace_may_begin_inside_a_step():
    table = fold_ids(routed(10), experts=16, token_idx=np.array([5, 6, 0, 1, 2, 0, 1, 2, 3, 4]))
    assert table.steps == 3 and table.per_step.sum(axis=(1, 2)).tolist() == [24, 36, 60]


@pytest.mark.parametrize("rows", [17, 16_384, 40_000])
def test_steps_and_runs_do_not_depend_on_chunks(rows, monkeypatch):
    ids, token_idx = logged_by_an_engine()
    monkeypatch.setattr("moeopt.workload.trace_fold.CHUNK_ROWS", rows)
    table = fold_ids(ids, experts=60, token_idx=token_idx)
    assert [(run.first, run.rows) for run in table.dummies.runs] == [(0, 8448)]
    assert table.steps == 63 and (table.per_step.sum(axis=0) == table.loads).all()


def test_dummy_rows_are_found_and_can_be_dropped():
    ids, token_idx = logged_by_an_engine()
    table = fold_ids(ids, experts=60, token_idx=token_idx)
    assert table.dummies.runs[0].experts == ((5, 7, 43, 58), (13, 15, 34, 56))
    clean = without_dummies(table)
    assert clean.loads.tolist() == counts(ids[:, 8448:], 60)
    assert clean.steps == 61 and (clean.per_step.sum(axis=0) == clean.loads).all()
    assert clean.notes[-1] == "8,448 of 10,648 rows dropped as dummy rows"
    assert without_dummies(clean) is clean
    said = next(one for one in findings(table) if one.name == "dummy-rows")
    assert said.severity == "matters" and "8,448 of 10,648 rows" in said.text
    assert "dummy-rows" not in {one.name for one in findings(clean)}


def test_dummy_rows_in_the_middle_and_at_the_end_are_found():
    ids = routed(3_000)
    ids[:, 1_000:1_200] = (1, 2, 3, 4)
    ids[:, 2_800:] = (1, 2, 3, 4)
    table = fold_ids(ids, experts=16)
    assert [(run.first, run.rows) for run in table.dummies.runs] == [(1_000, 200), (2_800, 200)]
    assert without_dummies(table).loads.tolist() == counts(np.delete(ids, np.r_[1_000:1_200, 2_800:3_000], 1), 16)
    assert dummy_loads(table.dummies, (3, 16)).sum() == 3 * 4 * 400


def test_a_run_in_one_layer_alone_is_no_dummy():
    ids = routed(3_000)
    ids[1, 500:1_500] = (1, 2, 3, 4)
    assert fold_ids(ids, experts=16).dummies is None


def test_a_hot_expert_makes_no_dummy_rows():
    """One of two experts takes 98 % of the tokens: runs of 64 rows are everywhere, and by chance."""
    rng = np.random.default_rng(0)
    ids = (rng.random((1, 20_000, 1)) < 0.02).astype(np.int16)
    assert fold_ids(ids, experts=2).dummies is None
    assert least_run(20_000, 19_000, 19_999) > 64


def test_padding_rows_and_columns_are_left_out_with_a_note():
    ids = np.full((2, 120, 6), -1)
    ids[:, :100, :4] = routed(100, layers=2)
    table = fold_ids(ids, experts=16)
    assert table.loads.tolist() == counts(routed(100, layers=2), 16) and table.top_k == 4
    assert table.notes == ("20 padding rows (-1) left out in a layer", "2 of 6 columns are padding (-1)")


def test_a_layer_of_zeros_is_an_unfilled_buffer():
    ids = routed(100)
    ids[0] = 0
    table = fold_ids(ids, experts=16)
    assert table.loads[0].sum() == 0 and "layer 0 with expert 0 alone" in table.notes[0]


def test_trace_names_every_fault_with_its_place():
    ids = routed(50).astype(np.int64)
    ids[0, 3, 1] = 16
    ids[1, 4, 2] = -7
    ids[2, 5, 1] = ids[2, 5, 0]
    ids[2, 6, 3] = -1
    text = refused(lambda: fold_ids(ids, experts=16, layers=[3, 5, 8]))
    assert "topk_ids[layer 3, row 3] = 16: expert ids run from 0 to 15." in text
    assert "topk_ids[layer 5, row 4] = -7: expert ids run from 0 to 15; -1 is padding." in text
    assert f"topk_ids[layer 8, row 5] = expert {ids[2, 5, 0]}: stands twice in one token" in text
    assert "topk_ids[layer 8, row 6] = 3 experts: every token must have top_k = 4 experts." in text


def test_trace_counts_faults_that_it_does_not_list():
    ids = np.full((1, 5_000, 2), 9)
    text = refused(lambda: fold_ids(ids, experts=4))
    assert "and 181 more" in text or "more of this kind" in text


def test_top_k_above_experts_is_refused():
    text = refused(lambda: fold_ids(np.array([[[0, 1, 2]]]), experts=2))
    assert "top_k = 3: must be at most experts = 2" in text


def test_rows_of_zeros_among_others_are_refused():
    ids = routed(50)
    ids[1, 7:9] = 0
    assert "topk_ids[layer 1, from row 7] = 2 rows: rows are expert 0 alone" in refused(lambda: fold_ids(ids))


def test_axes_that_cannot_be_told_are_refused(tmp_path):
    np.savez(tmp_path / "t.npz", topk_ids=routed(50))
    text = refused(lambda: read_trace(tmp_path / "t.npz"))
    assert "which are layers cannot be told" in text
    assert "Store `layers` beside it, the id of each layer: it tells, and nothing else is needed." in text
    np.savez(tmp_path / "t.npz", topk_ids=routed(50), layers=[1, 2])
    text = refused(lambda: read_trace(tmp_path / "t.npz"))
    assert "of axes of 3 and 50, none has one row a layer and a token: `layers` has 2." in text
    np.savez(tmp_path / "t.npz", topk_ids=routed(50)[:, :3], layers=[1, 2, 4])
    assert "Leave out one token, so that the axes differ." in refused(lambda: read_trace(tmp_path / "t.npz"))
    np.savez(tmp_path / "t.npz", topk_ids=routed(50))
    assert read_trace(tmp_path / "t.npz", layers=[1, 2, 4]).layers == (1, 2, 4)


@pytest.mark.parametrize("kind", ["float32", "object"])
def test_ids_that_are_no_whole_numbers_are_refused(tmp_path, kind):
    np.savez(tmp_path / "t.npz", topk_ids=routed(20).astype(kind), layers=[1, 2, 3])
    text = refused(lambda: read_trace(tmp_path / "t.npz"))
    assert "must be whole numbers" in text or "Python objects, which are not read" in text


@pytest.mark.parametrize("cut", [10, 200, 3_000])
def test_a_file_that_is_cut_short_is_refused(tmp_path, cut):
    np.savez(tmp_path / "t.npz", topk_ids=routed(500), layers=[1, 2, 3])
    whole = (tmp_path / "t.npz").read_bytes()
    (tmp_path / "t.npz").write_bytes(whole[:-cut])
    assert "not whole" in refused(lambda: read_trace(tmp_path / "t.npz"))
    (tmp_path / "t.jsonl").write_text(lines(routed(20))[:-20])
    assert "[60] = " in refused(lambda: read_trace(tmp_path / "t.jsonl"))


def test_an_array_shorter_than_its_header_is_refused(tmp_path):
    import zipfile

    np.savez(tmp_path / "t.npz", topk_ids=routed(500), layers=[1, 2, 3])
    with zipfile.ZipFile(tmp_path / "t.npz") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "u.npz", "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data[:-100] if name == "topk_ids.npy" else data)
    assert "the array ends early" in refused(lambda: read_trace(tmp_path / "u.npz"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"type": "route", "layer": 0, "topk_ids": ["1", 2]}', "must be whole numbers"),
        ('{"type": "route", "layer": -1, "topk_ids": [1, 2]}', "layer[line 2] = -1"),
        ('{"type": "route", "layer": 0, "layer": 1, "topk_ids": [1, 2]}', "key 'layer' stands twice"),
        ('{"type": "route", "layer": 0, "topk_ids": [1, true]}', "must be whole numbers"),
        ('{"type": "route", "layer": 0, "topk_ids": [3, 3]}', "line 2] = expert 3: stands twice"),
        ('{"type": "route", "layer": 0, "topk_ids": [3]}', "line 2] = 1 experts: every token must have top_k = 2"),
        ('{"type": "step"}', "must be an object of type meta or route"),
        ('{"type": "meta", "top_k": 4}', "top_k[line 2] = 4: was 2 before"),
        ("[1, 2]", "must be an object of type meta or route"),
    ],
)
def test_lines_with_faults_are_refused_by_number(tmp_path, line, said):
    (tmp_path / "t.jsonl").write_text('\ufeff{"type": "meta", "top_k": 2}\n' + line + "\n", encoding="utf-8")
    assert said in refused(lambda: read_trace(tmp_path / "t.jsonl"))


def test_traces_are_told_from_loads(tmp_path):
    np.savez(tmp_path / "trace.npz", topk_ids=routed(20))
    np.savez(tmp_path / "loads.npz", loads=[[1, 2]])
    (tmp_path / "log.txt").write_text(lines(routed(3)))
    (tmp_path / "loads.json").write_text('{"loads": [[1, 2]]}')
    assert [is_trace(tmp_path / name) for name in ("trace.npz", "loads.npz", "log.txt", "loads.json", "none")] == [
        True, False, True, False, False,
    ]  # fmt: skip


def test_an_empty_trace_is_refused(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"type": "meta"}\n')
    assert "the trace has no routed tokens" in refused(lambda: read_trace(tmp_path / "t.jsonl"))
    assert "does not exist" in refused(lambda: read_trace(tmp_path / "none.npz"))


def test_memory_stays_small_whatever_the_length_of_the_trace(tmp_path):
    tokens = 1_000_000
    ids = (np.arange(tokens * 8, dtype=np.int64).reshape(2, tokens, 4) * 7 % 61).astype(np.int16)
    ids[..., 1:] = (ids[..., :1] + np.arange(1, 4)) % 61
    np.savez(tmp_path / "t.npz", topk_ids=ids, layers=[0, 1])  # 16 MB
    del ids
    tracemalloc.start()
    table = read_trace(tmp_path / "t.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.loads.sum() == tokens * 8 and peak < 6e6


def test_a_file_for_each_layer_is_one_trace(tmp_path):
    ids, token_idx = logged_by_an_engine()
    for place, layer in enumerate((12, 3)):
        text = lines(ids[place : place + 1, 8_000:], token_idx[8_000:], [layer], {"top_k": 4})
        (tmp_path / f"{layer}.jsonl").write_text(text)
    table = read_trace([tmp_path / "12.jsonl", tmp_path / "3.jsonl"])
    assert table.layers == (3, 12) and table.loads.tolist() == counts(ids[::-1, 8_000:], 60)
    assert [(run.first, run.rows) for run in table.dummies.runs] == [(0, 448)]
    assert without_dummies(table).steps == 61
    text = refused(lambda: read_trace([tmp_path / "3.jsonl", tmp_path / "3.jsonl"]))
    assert "3.jsonl: layer = 3: the layer is in a file before this one too" in text


def test_dummy_steps_of_counts_can_be_dropped():
    ids, token_idx = logged_by_an_engine()
    table = fold_ids(ids, experts=60, token_idx=token_idx)
    from dataclasses import replace

    clean = without_dummies(replace(table, dummies=None))
    assert clean.loads.tolist() == counts(ids[:, 8448:], 60)
    assert clean.notes[-1] == "2 of 63 steps dropped, all of dummy rows" and clean.steps == 61


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_ids_of_any_width_are_read(tmp_path, kind):
    """The guard against wrapping compared narrow ids with a number that they cannot hold."""
    from moeopt.workload.token_ids import read_token_ids

    ids = np.array([[[0, 2], [1, 3], [2, 0]]])
    np.savez(tmp_path / "trace.npz", topk_ids=ids.astype(kind), layers=[0])
    assert read_token_ids(str(tmp_path / "trace.npz"), experts=4).ids.tolist() == ids.tolist()
