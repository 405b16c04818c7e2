"""Times modelled from an LLM: dense layers are part of the TBT, and memory is that of the GPU."""

from __future__ import annotations

V3 = (
    "microbatch",
    "--llm",
    "deepseek-v3",
    "--gpu",
    "H100",
    "--context",
    4096,
    "--pattern",
    "dual",
    "--ep",
    64,
    "--m",
    3,
)


def test_dense_layers_count_against_the_tbt(moeopt):
    """58 layers with experts take 96.4 ms in any order, and 3 dense layers 3.9 ms more: 100 ms cannot be kept."""
    run = moeopt(*V3, "--batch", 384, "--tbt", "100ms", "--memory", "1TB")
    assert (run.code, run.out) == (3, "")
    assert "--tbt 100ms is below the best possible, 100.276 ms: 96.4057 ms in 58 layers with experts" in run.err
    assert "3.8702 ms in 3 dense layers" in run.err


def test_the_step_is_that_of_all_layers(moeopt):
    run = moeopt(*V3, "--batch", 384, "--tbt", "102ms", "--memory", "1TB", "--method", "simulate")
    assert run.code == 0
    assert "97.9922 ms in 58 layers with experts + 3.8702 ms in 3 dense layers = 101.862 ms a step" in " ".join(
        run.out.split()
    )
    assert f"{384 / 0.1018624:,.1f} tokens/s" in run.out
    assert "3 dense layers take 3.8702 ms for a batch of 384, outside the pipeline" in run.err


def test_a_step_of_the_parts_is_that_of_decoding(moeopt):
    """Without overlap the model of a whole step, ``ep_decode``, has the same parts."""
    from moeopt.cost import BF16, Link, Machine, ep_decode
    from moeopt.llm import find

    words = [*V3[:-1], 1, "--batch", 32, "--memory", "1TB", "--port", "40GB/s"]
    document = moeopt(*words, "--json").document
    note = next(note for note in document["notes"] if "outside the pipeline" in note)
    port = Link(5e-6, 40e9)
    whole = ep_decode(find("deepseek-v3"), Machine.of("H100"), sequences=32, context_tokens=4096, ep=64, link=port,
                      numerics=BF16).total_s  # fmt: skip
    assert f"so the TBT, is {whole * 1e3:.6g} ms" in note


def test_larger_batches_are_judged_with_their_own_dense_layers(moeopt):
    run = moeopt(*V3, "--batch", "48,96,384", "--weights", "fp8", "--tbt", "50ms", "--memory", "1TB", "--json")
    solution = run.document["solution"]
    assert solution["batch"] == 96 and {row["batch"] for row in solution["sweep"]} == {48, 96}
    assert any("batches from 384 on are left out" in note for note in run.document["notes"])


def test_layers_given_are_all_layers_with_experts(moeopt):
    run = moeopt(*V3, "--batch", 30, "--layers", 61, "--json")
    assert any("the 3 dense layers of the LLM are left out" in note for note in run.document["notes"])


def test_memory_is_that_of_the_gpu_unless_it_is_given(moeopt):
    run = moeopt(*V3, "--batch", 384)
    assert run.code == 3
    assert "needs 110.5 GB, the room beside the weights is 17.33 GB: room for 60 sequences" in run.err
    assert "H100 has 0.9 x 80 GB, weights take 54.67 GB of it" in run.err
    assert "a batch of at most 60 fits; --memory and --kv-bytes say otherwise" in run.err
    assert moeopt(*V3, "--batch", 60).code == 0 and moeopt(*V3, "--batch", 63).code == 3
    assert moeopt(*V3, "--batch", 384, "--kv-bytes", "1MB").code == 0


def test_weights_must_fit(moeopt):
    run = moeopt(*V3, "--batch", 3, "--ep", 1)
    assert (run.code, "--gpu = H100: its weights take" in run.err) == (2, True)


def test_memory_of_attention_nodes_is_counted_together(moeopt):
    words = ("--llm", "dbrx", "--gpu", "A800", "--context", 651, "--attention-nodes", 3, "--tp-a", 2)
    run = moeopt("microbatch", *words, "--batch", 3852, "--m", 3)
    assert (run.code, "room for 3782 sequences" in run.err) == (3, True)
    assert "weights take 4.764 GB of it on each of 6 GPUs" in run.err
