"""What real callers of `deep_gemm` do, in their order, on the CPU and on a GPU if there is one.

The sequences are those of the DeepGEMM layers of vLLM and SGLang: probe, import, preparation of
weights, forward of a linear layer and of experts by labels and by masks, warm-up, and fewer SMs
while communication overlaps.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os

import numpy as np
import pytest

import deepgemm

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

HIDDEN, INTER, EXPERTS, TOP_K = 256, 128, 4, 2


def load(monkeypatch, tmp_path):
    """Probe and import lazily, with the cache directory set by the caller before."""
    assert importlib.util.find_spec("deep_gemm") is not None
    monkeypatch.setenv("DG_JIT_CACHE_DIR", str(tmp_path / "deep_gemm"))
    library = importlib.import_module("deep_gemm")
    state = importlib.import_module("deep_gemm._state").state
    monkeypatch.setattr(state, "num_sms", None)
    return library


@pytest.fixture
def deep_gemm(monkeypatch, tmp_path):
    yield load(monkeypatch, tmp_path)
    monkeypatch.delenv("DG_JIT_CACHE_DIR")  # and what followed from it, for the tests after
    importlib.import_module("deep_gemm._state").follow_environment()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Where every tensor of the test is made."""
    with torch.device(request.param):
        yield request.param


@pytest.fixture
def generator(device):
    return torch.Generator(device).manual_seed(7)


def quantized_experts(deep_gemm, count, n, k, generator, use_ue8m0=False):
    """Weights as checkpoints hold them, prepared once: values, factors, and FP64."""
    weights = torch.randn(count, n, k, generator=generator)
    pairs = [deep_gemm.per_block_cast_to_fp8(w, use_ue8m0) for w in weights]
    values = torch.stack([p[0].view(torch.uint8) for p in pairs]).view(torch.float8_e4m3fn)
    sf = torch.stack([p[1] for p in pairs])
    ready = deep_gemm.transform_sf_into_required_layout(
        sf=sf, mn=n, k=k, recipe=(1, 128, 128), num_groups=count, is_sfa=False,
        disable_ue8m0_cast=not use_ue8m0,
    )  # fmt: skip
    full = sf.repeat_interleave(128, 1)[:, :n].repeat_interleave(128, 2)[..., :k]
    return (values, ready), values.double() * full.double()


def quantized_rows(deep_gemm, x, use_ue8m0=False):
    """Activations with factors rows first, as fused quantisers write them: pair and FP64."""
    values, sf = deep_gemm.per_token_cast_to_fp8(x, use_ue8m0)
    real = values.double() * sf.double().repeat_interleave(128, 1)[:, : x.shape[1]]
    return (values, deep_gemm.get_mn_major_tma_aligned_tensor(sf)), real


def silu_and_mul(x):
    gate, up = x.float().chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


def close(deep_gemm, found, want, limit=1e-5):
    assert not bool(found.isnan().any())
    assert float(deep_gemm.testing.calc_diff(found, want)) < limit


def test_probe(deep_gemm):
    for name in (
        "fp8_gemm_nt",
        "m_grouped_fp8_gemm_nt_contiguous",
        "fp8_m_grouped_gemm_nt_masked",
        "fp8_mqa_logits",
        "get_paged_mqa_logits_metadata",
        "fp8_paged_mqa_logits",
        "transform_sf_into_required_layout",
    ):
        assert callable(getattr(deep_gemm, name, None))
    assert getattr(deep_gemm, "no_such_kernel", None) is None
    assert deep_gemm.get_mk_alignment_for_contiguous_layout() == 128
    from deep_gemm.utils.layout import get_mn_major_tma_aligned_tensor
    from deep_gemm.utils.math import per_token_cast_to_fp8

    assert get_mn_major_tma_aligned_tensor is deep_gemm.get_mn_major_tma_aligned_tensor
    assert per_token_cast_to_fp8 is deep_gemm.per_token_cast_to_fp8
    star = {}
    exec("from deep_gemm import *", star)
    assert star["fp8_gemm_nt"] is deep_gemm.fp8_gemm_nt


@pytest.mark.parametrize("use_ue8m0", [False, True])
def test_linear_layer(deep_gemm, generator, use_ue8m0):
    (values, sf), w_real = quantized_experts(deep_gemm, 1, 192, HIDDEN, generator, use_ue8m0)
    for tokens in (1, 7, 64, 130):
        x = torch.randn(tokens, HIDDEN, generator=generator).bfloat16()
        a, a_real = quantized_rows(deep_gemm, x, use_ue8m0)
        out = torch.empty(tokens, 192, dtype=torch.bfloat16)
        deep_gemm.fp8_gemm_nt(a, (values[0], sf[0]), out, disable_ue8m0_cast=not use_ue8m0)
        close(deep_gemm, out, a_real @ w_real[0].T)


def routed(tokens, alignment, generator):
    """Rows of the experts' padded input: their token (-1: padding), and their label."""
    chosen = torch.rand(tokens, EXPERTS, generator=generator).topk(TOP_K).indices
    sources, labels = [], []
    for expert in range(EXPERTS):
        mine = (chosen == expert).any(dim=1).nonzero().flatten().tolist()
        mine += [-1] * (-len(mine) % alignment)
        sources += mine
        labels += [expert if row >= 0 else -1 for row in mine]
    return torch.tensor(sources), torch.tensor(labels, dtype=torch.int32)


@pytest.mark.parametrize("labelled", ["padding is -1", "padding has its expert's label"])
def test_contiguous_experts(deep_gemm, generator, labelled):
    alignment = deep_gemm.get_mk_alignment_for_contiguous_layout()
    w1, w1_real = quantized_experts(deep_gemm, EXPERTS, 2 * INTER, HIDDEN, generator)
    w2, w2_real = quantized_experts(deep_gemm, EXPERTS, HIDDEN, INTER, generator)
    x = torch.randn(50, HIDDEN, generator=generator).bfloat16()
    sources, labels = routed(50, alignment, generator)
    real = labels >= 0
    rows = torch.where(real[:, None], x[sources.clamp(min=0)].float(), torch.zeros(()))
    if labelled != "padding is -1":
        labels = torch.arange(EXPERTS, dtype=torch.int32).repeat_interleave(alignment)
    assert len(labels) == EXPERTS * alignment
    a, a_real = quantized_rows(deep_gemm, rows)
    hidden = torch.full((len(labels), 2 * INTER), float("nan"), dtype=torch.bfloat16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, w1, hidden, labels)
    expert = torch.arange(EXPERTS).repeat_interleave(alignment)
    want = torch.einsum("mk,mnk->mn", a_real[real], w1_real[expert[real]])
    close(deep_gemm, hidden[real], want)
    # Rows of no expert hold what they held, here NaN: they reach nobody's row.
    b, b_real = quantized_rows(deep_gemm, silu_and_mul(hidden))
    out = torch.full((len(labels), HIDDEN), float("nan"), dtype=torch.bfloat16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(b, w2, out, labels)
    want = torch.einsum("mk,mnk->mn", b_real[real], w2_real[expert[real]])
    close(deep_gemm, out[real], want)
    untouched = bool(out[~real].isnan().all())
    assert untouched == (labelled == "padding is -1")


def test_masked_experts_with_changing_masks(deep_gemm, generator):
    most = 24
    w1, w1_real = quantized_experts(deep_gemm, EXPERTS, 2 * INTER, HIDDEN, generator)
    w2, w2_real = quantized_experts(deep_gemm, EXPERTS, HIDDEN, INTER, generator)
    masked_m = torch.zeros(EXPERTS, dtype=torch.int32)  # its memory stays, as in a graph
    hidden = torch.empty(EXPERTS, most, 2 * INTER, dtype=torch.bfloat16)
    out = torch.empty(EXPERTS, most, HIDDEN, dtype=torch.bfloat16)

    def rows_of(x):
        pairs = [quantized_rows(deep_gemm, group) for group in x]
        values = torch.stack([p[0][0].view(torch.uint8) for p in pairs])
        sf = torch.stack([p[0][1] for p in pairs])
        real = torch.stack([p[1] for p in pairs])
        layout = deep_gemm.get_mn_major_tma_aligned_tensor(sf)
        return (values.view(torch.float8_e4m3fn), layout), real

    for counts in ([24, 0, 3, 17], [0, 0, 1, 0], [24, 24, 24, 24]):
        masked_m.copy_(torch.tensor(counts))
        a, a_real = rows_of(torch.randn(EXPERTS, most, HIDDEN, generator=generator).bfloat16())
        hidden.fill_(0)
        deep_gemm.fp8_m_grouped_gemm_nt_masked(a, w1, hidden, masked_m, 8)
        b, b_real = rows_of(silu_and_mul(hidden))
        out.fill_(9)
        deep_gemm.m_grouped_fp8_gemm_nt_masked(b, w2, out, masked_m, 8, recipe=(1, 128, 128))
        for g, count in enumerate(counts):
            if count:
                close(deep_gemm, hidden[g, :count], a_real[g, :count] @ w1_real[g].T)
                close(deep_gemm, out[g, :count], b_real[g, :count] @ w2_real[g].T)
            assert bool((out[g, count:] == 9).all())


def test_warm_up_sweep(deep_gemm, device, tmp_path):
    """Every M up to the largest on one set of buffers; the caller's cache directory counts."""
    most, n = 64, 128
    a = torch.ones(most, HIDDEN).to(torch.float8_e4m3fn)
    sf = deep_gemm.get_mn_major_tma_aligned_tensor(torch.full((most, HIDDEN // 128), 0.5))
    b = torch.ones(n, HIDDEN).to(torch.float8_e4m3fn), torch.ones(1, HIDDEN // 128)
    out = torch.empty(most, n, dtype=torch.bfloat16)
    for m in range(1, most + 1):
        out.zero_()
        deep_gemm.fp8_gemm_nt((a[:m], sf[:m]), b, out[:m])
        assert bool((out[:m] == HIDDEN / 2).all())
        assert bool((out[m:] == 0).all())
    assert deepgemm.info()["cache_directory"] == str(tmp_path / "deep_gemm")
    assert os.environ["DG_JIT_CACHE_DIR"] == str(tmp_path / "deep_gemm")


def warm_up_operands(most, n, groups):
    """Operands of ones as SGLang's warm-up makes them: factors row-major, one buffer for all M."""
    rows = (groups, most) if groups > 1 else (most,)
    a = torch.ones(*rows, HIDDEN).to(torch.float8_e4m3fn), torch.ones(*rows, HIDDEN // 128)
    b = torch.ones(EXPERTS, n, HIDDEN).to(torch.float8_e4m3fn)
    return a, (b, torch.ones(EXPERTS, -(-n // 128), HIDDEN // 128))


@pytest.mark.parametrize("kind", ["normal", "contiguous", "masked"])
def test_warm_up_sweep_with_row_major_factors(deep_gemm, device, kind):
    most, n = 40, 192
    (a, sfa), (b, sfb) = warm_up_operands(most, n, EXPERTS if kind == "masked" else 1)
    labels = torch.zeros(most, dtype=torch.int32)
    masked_m = torch.zeros(EXPERTS, dtype=torch.int32)
    out = torch.empty(*a.shape[:-1], n, dtype=torch.bfloat16)
    for m in (1, 2, 3, 16, 39, 40):
        out.zero_()
        if kind == "normal":
            deep_gemm.fp8_gemm_nt((a[:m], sfa[:m]), (b[0], sfb[0]), out[:m])
        elif kind == "contiguous":
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
                (a[:m], sfa[:m]), (b, sfb), out[:m], m_indices=labels[:m]
            )
        else:
            deep_gemm.fp8_m_grouped_gemm_nt_masked(
                (a, sfa), (b, sfb), out, masked_m=masked_m, expected_m=m
            )
        written = 0 if kind == "masked" else m
        assert bool((out[:written] == HIDDEN).all())
        assert bool((out[written:] == 0).all())


@pytest.mark.gpu
def test_masked_experts_in_a_graph(deep_gemm):
    """Both layers with what lies between them, captured once; the counts change at each replay."""
    most, generator = 64, torch.Generator("cuda").manual_seed(7)
    with torch.device("cuda"):
        w1, w1_real = quantized_experts(deep_gemm, EXPERTS, 2 * INTER, HIDDEN, generator)
        w2, w2_real = quantized_experts(deep_gemm, EXPERTS, HIDDEN, INTER, generator)
        x = torch.zeros(EXPERTS, most, HIDDEN, dtype=torch.bfloat16)
        hidden = torch.zeros(EXPERTS, most, 2 * INTER, dtype=torch.bfloat16)
        out = torch.zeros(EXPERTS, most, HIDDEN, dtype=torch.bfloat16)
        masked_m = torch.full((EXPERTS,), most, dtype=torch.int32)

    def quantized(rows):
        values, sf = deep_gemm.per_token_cast_to_fp8(rows.reshape(EXPERTS * most, -1), False)
        shape = (EXPERTS, most, -1)
        sf = deep_gemm.get_mn_major_tma_aligned_tensor(sf.view(shape))
        return values.view(shape), sf

    def step():
        a = quantized(x)
        deep_gemm.fp8_m_grouped_gemm_nt_masked(a, w1, hidden, masked_m, 16)
        b = quantized(silu_and_mul(hidden))
        deep_gemm.fp8_m_grouped_gemm_nt_masked(b, w2, out, masked_m, 16)
        return a, b

    def real(pair):
        return pair[0].double() * pair[1].double().repeat_interleave(128, 2)

    step()  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        a, b = step()
    for counts in ([64, 0, 3, 17], [0, 0, 0, 0], [1, 64, 63, 64]):
        masked_m.copy_(torch.tensor(counts))
        x.normal_(generator=generator)
        hidden.fill_(0)
        out.fill_(9)
        graph.replay()
        for g, count in enumerate(counts):
            if count:
                close(deep_gemm, hidden[g, :count], real(a)[g, :count] @ w1_real[g].T)
                close(deep_gemm, out[g, :count], real(b)[g, :count] @ w2_real[g].T)
            assert bool((hidden[g, count:] == 0).all())
            assert bool((out[g, count:] == 9).all())


def test_fewer_sms_while_communication_overlaps(deep_gemm, generator, monkeypatch):
    @contextlib.contextmanager
    def configured(num_sms):
        before = deep_gemm.get_num_sms()
        deep_gemm.set_num_sms(num_sms)
        try:
            yield
        finally:
            deep_gemm.set_num_sms(before)

    seen, real = [], deepgemm.grouped_gemm

    def spy(*args, **kwargs):
        seen.append(deepgemm.get_options()["num_sms"])
        return real(*args, **kwargs)

    monkeypatch.setattr(deepgemm, "grouped_gemm", spy)
    w, w_real = quantized_experts(deep_gemm, 1, 64, HIDDEN, generator)
    a, a_real = quantized_rows(deep_gemm, torch.randn(8, HIDDEN, generator=generator))
    labels = torch.zeros(8, dtype=torch.int32)
    outs = [torch.empty(8, 64, dtype=torch.bfloat16) for _ in range(3)]
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, w, outs[0], labels)
    with configured(109):  # odd numbers too
        assert deep_gemm.get_num_sms() == 109
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, w, outs[1], labels)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, w, outs[2], labels)
    whole = deep_gemm.get_num_sms()
    assert [n or whole for n in seen] == [whole, 109, whole]
    for out in outs:
        close(deep_gemm, out, a_real @ w_real[0].T)


def test_gradients_of_experts(deep_gemm, generator):
    """A training step's weight gradients, accumulated in FP32, by both forms."""
    ks = [128, 256, 0]
    tokens = torch.randn(sum(ks), 96, generator=generator)
    gradients = torch.randn(sum(ks), 80, generator=generator)
    main = torch.randn(3, 96, 80, generator=generator)
    sizes = torch.tensor(ks, dtype=torch.int32)
    parts = np.split(np.arange(sum(ks)), np.cumsum(ks)[:-1])

    flat, real = [], []
    for x in (tokens, gradients):
        values, sf = deep_gemm.per_channel_cast_to_fp8(x, False)
        real.append(values.double() * sf.double().repeat_interleave(128, 0))
        turned = [values.view(torch.uint8)[part].t().reshape(-1) for part in parts]
        flat.append((torch.cat(turned).view(torch.float8_e4m3fn), sf.t()))
    want = [main[g].double() + real[0][part].T @ real[1][part] for g, part in enumerate(parts)]
    found = main.clone()
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*flat, found, ks, sizes, found)
    close(deep_gemm, found, torch.stack(want), 1e-6)
    assert torch.equal(found[2], main[2])

    half = [x.bfloat16() for x in (tokens, gradients)]
    want = [
        main[g].double() + half[0][p].double().T @ half[1][p].double() for g, p in enumerate(parts)
    ]
    found = main.clone()
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(*half, found, ks, sizes, found)
    close(deep_gemm, found, torch.stack(want), 1e-6)
