"""Volumes of TP, SP, CP and EP: limits, sums, and the shapes that are refused."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import activation_bytes, collective_bytes, cp_gather_volume, cp_volume, ep_volume, sp_volume, tp_volume
from moeopt.cost.exact import plain, times
from tests.cost.faults import names_all

counts = st.integers(1, 64)
whole_bytes = st.integers(0, 2**50)


@given(st.lists(st.one_of(st.integers(-99, 99), st.fractions(-9, 9)), max_size=5), st.floats(-9, 9))
def test_products_are_exact_until_a_float_comes(factors: list[int | Fraction], last: float) -> None:
    exact = Fraction(1)
    for factor in factors:
        exact *= factor
    assert times(*factors) == exact and not isinstance(times(*factors), float)
    assert isinstance(times(*factors, last), float)
    assert plain(exact) == exact


@given(whole_bytes, counts)
def test_tensor_parallelism_is_two_all_reduces_each_way(size: int, tp: int) -> None:
    volume = tp_volume(size, tp=tp)
    assert volume.forward_bytes == volume.backward_bytes == 2 * collective_bytes("all_reduce", size, ranks=tp)
    assert tp_volume(size, tp=1).total_bytes == 0


@given(whole_bytes, counts)
def test_sequence_parallelism_adds_a_quarter_only_when_it_gathers_again(size: int, tp: int) -> None:
    plain_tp = Fraction(tp_volume(size, tp=tp).total_bytes)
    assert sp_volume(size, tp=tp, regather=False).total_bytes == plain_tp
    assert sp_volume(size, tp=tp).total_bytes == plain_tp * Fraction(5, 4)
    assert sp_volume(size, tp=tp).forward_bytes == tp_volume(size, tp=tp).forward_bytes


@given(whole_bytes, whole_bytes, counts, counts)
def test_context_parallelism_at_its_ends(query: int, kv: int, ring: int, ulysses: int) -> None:
    around = cp_volume(query_bytes=query, kv_bytes=kv, ring=ring)
    assert around.sent_bytes == cp_gather_volume(kv, ranks=ring).sent_bytes == Fraction(kv * (ring - 1), ring)
    assert around.rounds == ring - 1
    turned = cp_volume(query_bytes=query, kv_bytes=kv, ulysses=ulysses)
    assert turned.sent_bytes == Fraction((2 * query + kv) * (ulysses - 1), ulysses**2)
    alone = cp_volume(query_bytes=query, kv_bytes=kv)
    assert (alone.sent_bytes, alone.rounds, alone.kv_peak_bytes) == (0, 0, kv)


@given(whole_bytes, whole_bytes, counts, counts)
def test_both_schemes_together_never_hold_more_than_gathering(query: int, kv: int, ring: int, ulysses: int) -> None:
    both = cp_volume(query_bytes=query, kv_bytes=kv, ring=ring, ulysses=ulysses)
    assert both.kv_peak_bytes <= cp_gather_volume(kv, ranks=ring * ulysses).kv_peak_bytes
    turned = Fraction((2 * query + kv) * (ulysses - 1), ulysses * ulysses * ring)
    assert both.sent_bytes - turned == Fraction(kv * (ring - 1), ring * ulysses)


@given(whole_bytes, counts, counts, counts)
def test_expert_parallelism_adds_up(tokens: int, top_k: int, hidden: int, ranks: int) -> None:
    volume = ep_volume(tokens, top_k=top_k, hidden=hidden, ranks=ranks)
    assert volume.logical_bytes == 3 * tokens * top_k * hidden  # FP8 out, BF16 back
    assert volume.rank_bytes * ranks == volume.remote_bytes
    assert volume.peer_dispatch_bytes * ranks * (ranks - 1) == volume.remote_dispatch_bytes
    assert ep_volume(tokens, top_k=top_k, hidden=hidden, ranks=1).remote_bytes == 0
    twice = ep_volume(2 * tokens, top_k=top_k, hidden=hidden, ranks=ranks)
    assert twice.remote_bytes == 2 * volume.remote_bytes


def test_directions_have_their_own_formats() -> None:
    volume = ep_volume(1, top_k=1, hidden=2, ranks=2, dispatch_bytes=0.5, combine_bytes=2)
    assert (volume.dispatch_bytes, volume.combine_bytes) == (1.0, 4)
    assert activation_bytes(3, hidden=4, bytes_per_element=0.5) == 6.0


def test_bad_input_is_named_all_at_once() -> None:
    names_all(lambda: tp_volume(-1, tp=0), "boundary_bytes", "tp")
    names_all(lambda: sp_volume(float("nan"), tp=True), "boundary_bytes", "tp")
    message = names_all(
        lambda: cp_volume(query_bytes=-1, kv_bytes=float("inf"), ring=0, ulysses=6, heads=32, kv_heads=8),
        *("query_bytes", "kv_bytes", "ring", "ulysses"),
    )
    assert "must divide heads = 32" in message and "must divide kv_heads = 8" in message
    names_all(lambda: cp_gather_volume(-1, ranks=0), "kv_bytes", "ranks")
    names_all(
        lambda: ep_volume(-1, top_k=0, hidden=1.5, ranks=0, dispatch_bytes=0, combine_bytes=-2),  # type: ignore[arg-type]
        *("tokens", "top_k", "hidden", "ranks", "dispatch_bytes", "combine_bytes"),
    )
    names_all(lambda: activation_bytes(-1, hidden=0, bytes_per_element=0), "tokens", "hidden", "bytes_per_element")
