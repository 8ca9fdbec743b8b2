"""`deep_gemm`: products in groups against FP64, by every layout of groups, on the CPU."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import deepgemm
import grouped_oracle
import oracle
from grouped_oracle import SENTINEL
from test_torch import to_numpy, to_torch

torch = pytest.importorskip("torch")
deep_gemm = importlib.import_module("deep_gemm")
STATE = importlib.import_module("deep_gemm._state")

pytestmark = pytest.mark.torch

SIZES = [5, 0, 130, 17]
N, K = 144, 256


def unset(*shape, dtype=None):
    return torch.full(shape, SENTINEL, dtype=dtype or torch.bfloat16)


def exactly(d, want):
    return oracle.same_bits(to_numpy(torch, d), oracle.cast(want, str(d.dtype)[6:]))


def int32(values):
    return torch.tensor(np.asarray(values), dtype=torch.int32)


def rows_and_experts(rng, m, groups, dtype="float8_e4m3fn", turned=False):
    """a [m, K] and b [groups, N, K] (or [groups, K, N]) for torch, and both in FP64."""
    a = oracle.exact_operand(rng, m, K, (1, 128))
    b = grouped_oracle.experts(rng, groups, N, K)
    if dtype == "bfloat16":
        values = [oracle.cast(x.values.astype(np.float32), dtype) for x in (a, b)]
        real = [x.astype(np.float64) for x in values]
        if turned:
            values[1] = values[1].transpose(0, 2, 1)
        return (*(to_torch(torch, x) for x in values), *real)
    turn = (lambda x: x.transpose(0, 2, 1)) if turned else lambda x: x
    b_pair = to_torch(torch, turn(b.values)), to_torch(torch, turn(b.sf))
    return (to_torch(torch, a.values), to_torch(torch, a.sf)), b_pair, a.real, b.real


def psum(sizes, alignment):
    """Ends of the groups, the row after the last, and each row's label."""
    ends, labels = [], []
    for g, size in enumerate(sizes):
        labels += [-1] * (-len(labels) % alignment) + [g] * size
        ends.append(len(labels))
    return ends, len(labels) + 3, labels + [-1] * 3


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16"])
@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize("order", ["padded", "tight", "shuffled"])
def test_contiguous_by_labels(dtype, layout, order, rng):
    if order == "padded":  # as callers of DeepGEMM make them, to 128
        labels = psum(SIZES, 128)[2]
    else:
        labels = grouped_oracle.labels_of(SIZES, sum(SIZES) + 9)
    if order == "shuffled":
        labels = rng.permutation(labels)
    a, b, a_real, b_real = rows_and_experts(rng, len(labels), 4, dtype, layout == "nn")
    d = unset(len(labels), N)
    kind = "fp8" if dtype.startswith("float8") else "bf16"
    call = getattr(deep_gemm, f"m_grouped_{kind}_gemm_{layout}_contiguous")
    assert call(a, b, d, int32(labels)) is None
    assert exactly(d, grouped_oracle.want_rows(a_real, b_real, labels, "bfloat16"))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16"])
@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize("alignment", [128, 64, 1])
def test_contiguous_by_prefix_sums(dtype, layout, alignment, rng, monkeypatch):
    monkeypatch.setattr(STATE.state, "mk_alignment", 128)
    deep_gemm.set_mk_alignment_for_contiguous_layout(alignment)
    ends, m, labels = psum(SIZES, alignment)
    a, b, a_real, b_real = rows_and_experts(rng, m, 4, dtype, layout == "nn")
    d = unset(m, N)
    kind = "fp8" if dtype.startswith("float8") else "bf16"
    call = getattr(deep_gemm, f"m_grouped_{kind}_gemm_{layout}_contiguous")
    more = {"expected_m_for_psum_layout": 38} if layout == "nt" else {}
    call(a, b, d, int32(ends), use_psum_layout=True, **more)
    assert exactly(d, grouped_oracle.want_rows(a_real, b_real, labels, "bfloat16"))


def test_contiguous_recipes(rng):
    labels = grouped_oracle.labels_of(SIZES, sum(SIZES))
    a, _, a_real, _ = rows_and_experts(rng, len(labels), 4)
    b = grouped_oracle.experts(rng, 4, N, K, (1, 128))
    pair = to_torch(torch, b.values), to_torch(torch, b.sf)
    want = grouped_oracle.want_rows(a_real, b.real, labels, "bfloat16")
    for recipe in ({"recipe": (1, 1, 128)}, {"recipe_a": (1, 128), "recipe_b": (1, 128)}):
        d = unset(len(labels), N)
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, pair, d, int32(labels), **recipe)
        assert exactly(d, want)
    with pytest.raises(ValueError, match=r"sfb\[g\]: found shape \[144, 2\], need shape \[2, 2\]"):
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, pair, unset(len(labels), N), int32(labels))


@pytest.mark.parametrize("layout", ["nt", "nn"])
def test_contiguous_with_packed_factors(layout, rng):
    labels = grouped_oracle.labels_of(SIZES, sum(SIZES))
    a, _, a_real, _ = rows_and_experts(rng, len(labels), 4)
    b = grouped_oracle.experts(rng, 4, N, K, (1, 128))
    pack = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor
    values, sf = to_torch(torch, b.values), pack(to_torch(torch, b.sf))
    pair = (values, sf) if layout == "nt" else (values.transpose(1, 2), sf.transpose(1, 2))
    d = unset(len(labels), N)
    call = getattr(deep_gemm, f"m_grouped_fp8_gemm_{layout}_contiguous")
    call((a[0], pack(a[1])), pair, d, int32(labels))
    assert exactly(d, grouped_oracle.want_rows(a_real, b.real, labels, "bfloat16"))


def test_wrong_labels_are_refused(rng):
    a, b, *_ = rows_and_experts(rng, 6, 2)
    d = unset(6, N)
    with pytest.raises(ValueError, match="labels: found 2"):
        deep_gemm.m_grouped_gemm_fp8_fp8_bf16_nt_contiguous(a, b, d, int32([0, 0, 1, 1, 2, -1]))
    assert bool((d == SENTINEL).all())


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16"])
@pytest.mark.parametrize("most", [16, 130])
@pytest.mark.parametrize("name", ["m_grouped_%s_gemm_nt_masked", "%s_m_grouped_gemm_nt_masked"])
def test_masked(dtype, most, name, rng):
    sizes = [most, 0, 7]
    operands = [rows_and_experts(rng, most, 3, dtype) for _ in range(3)]
    b, b_real = operands[0][1], operands[0][3]
    if dtype == "bfloat16":
        a, kind = torch.stack([o[0] for o in operands]), "bf16"
    else:
        values = torch.stack([o[0][0].view(torch.uint8) for o in operands])
        a, kind = (
            (values.view(torch.float8_e4m3fn), torch.stack([o[0][1] for o in operands])),
            "fp8",
        )
    d = unset(3, most, N)
    assert getattr(deep_gemm, name % kind)(a, b, d, int32(sizes), most // 2 + 1) is None
    for g, (size, (_, _, a_real, _)) in enumerate(zip(sizes, operands, strict=True)):
        want = np.full((most, N), SENTINEL)
        want[:size] = oracle.product(a_real[:size], b_real[g])
        assert exactly(d[g], want)


def test_masked_by_the_older_name_passes_what_is_expected(rng, monkeypatch):
    a, b, *_ = rows_and_experts(rng, 8, 1)
    a = tuple(x.unsqueeze(0) for x in a)
    seen, real = [], deepgemm.masked_gemm

    def spy(*args, **kwargs):
        seen.append((kwargs["expected_rows"], kwargs["granularity"]))
        return real(*args, **kwargs)

    monkeypatch.setattr(deepgemm, "masked_gemm", spy)
    rows = int32([5])
    deep_gemm.m_grouped_gemm_fp8_fp8_bf16_nt_masked(a, b, unset(1, 8, N), rows, 6)
    assert seen == [(6, ((1, 128), (128, 128)))]


# ---- Along K ----------------------------------------------------------------------------------

KS = [128, 0, 160, 256]


def k_operand(rng, rows, ks, granularity=(1, 128)):
    """Each group's exact matrix [rows, k]."""
    return [oracle.exact_operand(rng, rows, k, granularity) for k in ks]


def flat(groups):
    values = np.concatenate([g.values.ravel() for g in groups])
    sf = np.concatenate([g.sf for g in groups], axis=1)
    # As per_channel_cast's output is handed on: [rows, blocks] with strides (1, rows).
    return to_torch(torch, values), to_torch(torch, sf.T).t()


def k_want(a, b, c):
    products = [oracle.product(x.real, y.real) for x, y in zip(a, b, strict=True)]
    return np.stack(products) + (0 if c is None else c)


@pytest.mark.parametrize("place", ["none", "in place", "another"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_k_grouped_fp8_nt(place, dtype, rng):
    m, n = 40, 56
    a, b = k_operand(rng, m, KS), k_operand(rng, n, KS)
    d = torch.from_numpy(rng.integers(-9, 10, (4, m, n)).astype(np.float32)).to(dtype)
    c = {"none": None, "in place": d, "another": d.clone()}[place]
    want = k_want(a, b, None if c is None else c.double().numpy())
    call = deep_gemm.k_grouped_fp8_gemm_nt_contiguous
    assert call(flat(a), flat(b), d, KS, int32(KS), c) is None
    assert exactly(d, want)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
def test_k_grouped_fp8_tn(accumulate, packed, rng):
    m, n = 40, 56
    a, b = k_operand(rng, m, KS), k_operand(rng, n, KS)

    def by_tokens(groups):
        values = np.concatenate([g.values.T for g in groups])
        sf = to_torch(torch, np.concatenate([g.sf.T for g in groups]))
        if packed:
            pack = deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor
            sf = pack(sf, int32(KS), KS, 128, 128)
            assert sf.shape[0] == 3  # each group starts a word of four
        return to_torch(torch, values), sf

    d = torch.from_numpy(rng.integers(-9, 10, (4, m, n)).astype(np.float32))
    want = k_want(a, b, d.double().numpy() if accumulate else None)
    deep_gemm.k_grouped_fp8_gemm_tn_contiguous(
        by_tokens(a), by_tokens(b), d, KS, int32(KS), d if accumulate else None
    )
    assert exactly(d, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("ks", [[128, 0, 256], [5, 1, 90]])
def test_k_grouped_bf16_tn(dtype, accumulate, ks, rng):
    m, n = 24, 48
    a, b = (rng.integers(-3, 4, (sum(ks), rows)).astype(np.float32) for rows in (m, n))
    stored = [to_torch(torch, oracle.cast(x, "bfloat16")) for x in (a, b)]
    d = torch.from_numpy(rng.integers(-9, 10, (3, m, n)).astype(np.float32)).to(dtype)
    parts = grouped_oracle.slices(ks)
    want = np.stack([oracle.product(a[part].T, b[part].T) for part in parts])
    if accumulate:
        want += d.double().numpy()
    call = deep_gemm.k_grouped_bf16_gemm_tn_contiguous
    assert call(*stored, d, ks, int32(ks), d if accumulate else None) is None
    assert exactly(d, want)


def test_k_grouped_refusals(rng):
    a, b = k_operand(rng, 8, KS), k_operand(rng, 8, KS)
    d = unset(4, 8, 8, dtype=torch.float32)
    call = deep_gemm.k_grouped_fp8_gemm_nt_contiguous
    with pytest.raises(ValueError, match="a: found 4352 elements"):
        call(flat(a), flat(b), d, [*KS[:3], 32], int32(KS))
    with pytest.raises(ValueError, match="the 3 groups of d"):
        call(flat(a), flat(b), d[:3], KS, int32(KS))
    with pytest.raises(NotImplementedError, match="use_psum_layout"):
        call(flat(a), flat(b), d, KS, int32(KS), use_psum_layout=True)
    x = torch.zeros(16, 8, dtype=torch.bfloat16)
    with pytest.raises(NotImplementedError, match="use_psum_layout"):
        deep_gemm.k_grouped_bf16_gemm_tn_contiguous(
            x, x, d, None, int32([4] * 4), use_psum_layout=True
        )
    pair = x.to(torch.float8_e4m3fn), torch.ones(1, 8)
    with pytest.raises(ValueError, match=r"recipe: found \(1, 1, 32\)"):
        deep_gemm.k_grouped_fp8_gemm_tn_contiguous(
            pair, pair, d, None, int32([16, 0, 0, 0]), recipe=(1, 1, 32)
        )
    assert bool((d == SENTINEL).all())
