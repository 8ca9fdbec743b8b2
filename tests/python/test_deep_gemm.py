"""`deep_gemm`: names, signatures and dense products of the torch-only library, on the CPU."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import oracle
from test_torch import to_numpy, to_torch

torch = pytest.importorskip("torch")
deep_gemm = importlib.import_module("deep_gemm")
STATE = importlib.import_module("deep_gemm._state")

pytestmark = pytest.mark.torch

_RECIPES = "recipe=None, recipe_a=None, recipe_b=None"
_DENSE = f"a, b, d, c=None, {_RECIPES}, compiled_dims='%s', disable_ue8m0_cast=False"
_CONTIGUOUS = f"a, b, d, grouped_layout, {_RECIPES}, compiled_dims='nk', disable_ue8m0_cast=False"
_PSUM = "use_psum_layout=False, ensure_zero_padding=True"
_EXPECTED = "expected_m_for_psum_layout=None"
_MASKED = f"a, b, d, masked_m, expected_m, {_RECIPES}, compiled_dims='nk', disable_ue8m0_cast=False"
_K_GROUPED = "a, b, d, ks_cpu, grouped_layout, c=None, "
_K_FP8 = _K_GROUPED + "recipe=(1, 1, 128), compiled_dims='mn', use_psum_layout=False"
_BF16 = "a, b, d, c=None, compiled_dims='%s'"
_BF16_GROUPED = f"a, b, d, grouped_layout, compiled_dims='nk', {_PSUM}"
SIGNATURES = {
    "fp8_gemm_nt fp8_gemm_nn fp8_fp4_gemm_nt fp8_fp4_gemm_nn": _DENSE % "nk",
    "fp8_gemm_tn fp8_gemm_tt fp8_fp4_gemm_tn fp8_fp4_gemm_tt": _DENSE % "mn",
    "m_grouped_fp8_gemm_nt_contiguous m_grouped_fp8_fp4_gemm_nt_contiguous": (
        f"{_CONTIGUOUS}, {_PSUM}, {_EXPECTED}"
    ),
    "m_grouped_fp8_gemm_nn_contiguous m_grouped_fp8_fp4_gemm_nn_contiguous": (
        f"{_CONTIGUOUS}, {_PSUM}"
    ),
    "m_grouped_fp8_gemm_nt_masked m_grouped_fp8_fp4_gemm_nt_masked": _MASKED,
    "fp8_m_grouped_gemm_nt_masked": _MASKED,
    "k_grouped_fp8_gemm_nt_contiguous k_grouped_fp8_gemm_tn_contiguous": _K_FP8,
    "bf16_gemm_nt bf16_gemm_nn": _BF16 % "nk",
    "bf16_gemm_tn bf16_gemm_tt": _BF16 % "mn",
    "m_grouped_bf16_gemm_nt_contiguous": f"{_BF16_GROUPED}, {_EXPECTED}",
    "m_grouped_bf16_gemm_nn_contiguous": _BF16_GROUPED,
    "m_grouped_bf16_gemm_nt_masked bf16_m_grouped_gemm_nt_masked": (
        "a, b, d, masked_m, expected_m, compiled_dims='nk'"
    ),
    "k_grouped_bf16_gemm_tn_contiguous": _K_GROUPED + "compiled_dims='mn', use_psum_layout=False",
    "cublaslt_gemm_nt cublaslt_gemm_nn cublaslt_gemm_tn cublaslt_gemm_tt": "a, b, d, c=None",
    "fp8_gemm_nt_skip_head_mid": (
        "a, b, d, head_splits, recipe=None, compiled_dims='nk', disable_ue8m0_cast=False"
    ),
    "transform_sf_into_required_layout": (
        "sf, mn, k, recipe, num_groups=None, is_sfa=None, disable_ue8m0_cast=False, "
        "psum_layout=None"
    ),
    "get_mn_major_tma_aligned_tensor get_col_major_tma_aligned_tensor": "sf",
    "get_mn_major_tma_aligned_packed_ue8m0_tensor": "sf, psum_layout=None",
    "get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor": (
        "sf, grouped_layout, ks_cpu, gran_k, k_alignment, use_psum_layout=False"
    ),
    "get_tma_aligned_size": "x, element_size",
    "get_theoretical_mk_alignment_for_contiguous_layout": "expected_m=None",
    "get_mk_alignment_for_contiguous_layout get_m_alignment_for_contiguous_layout": "",
    "get_k_alignment_for_contiguous_layout get_num_sms get_pdl get_tc_util": "",
    "per_token_cast_to_fp8 per_token_cast_to_fp4": (
        "x, use_ue8m0, gran_k=128, use_packed_ue8m0=False"
    ),
    "per_block_cast_to_fp8 per_channel_cast_to_fp8": "x, use_ue8m0, gran_k=128",
    "per_custom_dims_cast_to_fp8": "x, dims, use_ue8m0",
    "cast_back_from_fp4": "packed, sf, gran_k=128, use_packed_ue8m0=False",
    "ceil_to_ue8m0 pack_ue8m0_to_int": "x",
    "ceil_div align": "x, y",
    "transpose_packed_fp4": "a",
    "uneven_all_gather": "tensor, dim=0, group=None",
    "init_dist": "local_rank, num_local_ranks",
    "gemm_fp8_fp8_bf16_nt": "lhs, rhs, out",
    "m_grouped_gemm_fp8_fp8_bf16_nt_contiguous": "lhs, rhs, out, m_indices",
    "m_grouped_gemm_fp8_fp8_bf16_nt_masked": "lhs, rhs, out, masked_m, expected_m",
    "testing.bench": "fn, num_warmups=5, num_tests=10, high_precision=False",
    "testing.bench_kineto": (
        "fn, kernel_names, num_tests=30, suppress_kineto_output=False, trace_path=None, "
        "flush_l2=True, with_multiple_kernels=False, barrier=None"
    ),
}
MISSING = [
    "einsum",
    "fp8_einsum",
    "fp8_mqa_logits",
    "fp8_fp4_mqa_logits",
    "get_paged_mqa_logits_metadata",
    "fp8_paged_mqa_logits",
    "fp8_fp4_paged_mqa_logits",
    "tf32_hc_prenorm_gemm",
    "SymmBuffer",
    "get_symm_buffer_for_mega_moe",
    "transform_weights_for_mega_moe",
    "fp8_fp4_mega_moe",
    "bf16_mega_moe",
    "legacy.m_grouped_bf16_gemm_nt_contiguous_tl",
    "legacy.m_grouped_bf16_gemm_nn_contiguous_tl",
    "legacy.a_fused_m_grouped_bf16_gemm_nt_contiguous_tl",
    "legacy.a_fused_m_grouped_bf16_gemm_nn_contiguous_tl",
    "legacy.a_fused_k_grouped_bf16_gemm_tn_contiguous_tl",
    "legacy.b_fused_k_grouped_bf16_gemm_tn_contiguous_tl",
]


def named(path):
    found = deep_gemm
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    """Settings are of the process: each test begins with none."""
    monkeypatch.setattr(STATE.state, "num_sms", None)
    monkeypatch.setattr(STATE.state, "pdl", None)


def operand(rng, rows, k, granularity, turned=False):
    """A scaled pair of exact numbers as it lies in memory, and the matrix [rows, k] in FP64."""
    exact = oracle.exact_operand(rng, rows, k, granularity)
    values, sf = exact.values, exact.sf
    if turned:
        values, sf = values.T, sf.T
    return (to_torch(torch, values), to_torch(torch, sf)), exact.real


def poisoned(*shape, dtype=None):
    return torch.full(shape, float("nan"), dtype=dtype or torch.bfloat16)


def exactly(d, want):
    """The same bits as FP64 rounded once."""
    return oracle.same_bits(to_numpy(torch, d), oracle.cast(want, str(d.dtype)[6:]))


@pytest.mark.parametrize(
    ("name", "need"), [(n, need) for names, need in SIGNATURES.items() for n in names.split()]
)
def test_signature(name, need):
    parameters = inspect.signature(named(name)).parameters.values()
    found = (p.replace(annotation=inspect.Parameter.empty) for p in parameters)
    assert ", ".join(map(str, found)) == need
    assert named(name).__doc__


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_says_so(name):
    with pytest.raises(NotImplementedError, match=f"^{name.removeprefix('legacy.')}: .*(not)"):
        named(name)(1, 2, kv=3)


def test_every_name_is_exported():
    for name in deep_gemm.__all__:
        assert getattr(deep_gemm, name) is not None
    assert {name for name in MISSING if "." not in name} <= set(deep_gemm.__all__)
    assert deep_gemm.__version__.startswith("2.")
    for path in ("utils.math", "utils.layout", "testing"):
        assert importlib.import_module(f"deep_gemm.{path}").__doc__


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_fp8(layout, dtype, rng):
    a, a_real = operand(rng, 33, 320, (1, 128), layout[0] == "t")
    b, b_real = operand(rng, 200, 320, (128, 128), layout[1] == "n")
    d = poisoned(33, 200, dtype=dtype)
    assert named(f"fp8_gemm_{layout}")(a, b, d) is None
    assert exactly(d, oracle.product(a_real, b_real))


def test_pitch_of_d_is_kept(rng):
    a, a_real = operand(rng, 6, 256, (1, 128))
    b, b_real = operand(rng, 16, 256, (128, 128))
    base = torch.full((6, 40), 7.0)
    deep_gemm.gemm_fp8_fp8_bf16_nt(a, b, base[:, 8:24])
    assert exactly(base[:, 8:24].contiguous(), oracle.product(a_real, b_real))
    assert bool((base[:, :8] == 7).all())
    assert bool((base[:, 24:] == 7).all())


@pytest.mark.parametrize(
    "recipe",
    [
        {"recipe": (1, 1, 128)},
        {"recipe_a": (1, 128), "recipe_b": (1, 128)},
        {"recipe": (1, 128, 128)},
        {"recipe_a": (128, 128), "recipe_b": (1, 32)},
        {},
    ],
    ids=str,
)
def test_recipes(recipe, rng):
    triple = recipe.get("recipe", (1, 128, 128))
    a, a_real = operand(rng, 130, 256, recipe.get("recipe_a", (triple[0], triple[2])))
    b, b_real = operand(rng, 260, 256, recipe.get("recipe_b", (triple[1], triple[2])))
    c = torch.from_numpy(rng.integers(-8, 9, (130, 260)).astype(np.float32))
    d = c.clone()
    deep_gemm.fp8_gemm_nt(a, b, d, d, **recipe)
    assert exactly(d, oracle.product(a_real, b_real, c=c.numpy()))


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"recipe": (1, 128, 128), "recipe_a": (1, 128), "recipe_b": (1, 128)}, "need one form"),
        ({"recipe_a": (1, 128)}, "need both or neither"),
        ({"recipe": (1, 128)}, r"need \(rows of a"),
        ({"recipe": (1, 1, 128)}, r"sfb: found shape \[2, 2\], need shape \[200, 2\]"),
    ],
)
def test_wrong_recipes(recipe, words, rng):
    a, _ = operand(rng, 6, 256, (1, 128))
    b, _ = operand(rng, 200, 256, (128, 128))
    d = poisoned(6, 200)
    with pytest.raises(ValueError, match=words):
        deep_gemm.fp8_gemm_nt(a, b, d, **recipe)
    assert bool(d.isnan().all())


@pytest.mark.parametrize("place", ["in place", "a view of d", "another", "float32 beside bf16"])
def test_c(place, rng):
    a, a_real = operand(rng, 10, 256, (1, 128))
    b, b_real = operand(rng, 24, 256, (1, 128))
    dtype = torch.bfloat16 if "bf16" in place else torch.float32
    c = torch.from_numpy(rng.integers(-8, 9, (10, 24)).astype(np.float32))
    d = poisoned(10, 24, dtype=dtype)
    given = c
    if place in ("in place", "a view of d"):
        d = c.clone()
        given = d if place == "in place" else d[:]
    before = c.clone()
    deep_gemm.fp8_gemm_nt(a, b, d, given, recipe=(1, 1, 128))
    assert exactly(d, oracle.product(a_real, b_real, c=before.numpy()))
    assert torch.equal(c, before)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_packed_factors(layout, rng):
    a, a_real = operand(rng, 9, 640, (1, 128))
    b, b_real = operand(rng, 20, 640, (1, 128))
    pack = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor
    packed = [
        tuple(x.t() for x in (values, pack(sf))) if turned else (values, pack(sf))
        for (values, sf), turned in ((a, layout[0] == "t"), (b, layout[1] == "n"))
    ]
    d = poisoned(9, 20)
    named(f"fp8_gemm_{layout}")(*packed, d)
    assert exactly(d, oracle.product(a_real, b_real))


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("library", ["bf16", "cublaslt"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_bf16(layout, dtype, library, accumulate, rng):
    a, b = (rng.integers(-4, 5, (rows, 72)).astype(np.float32) for rows in (17, 40))
    stored = [
        to_torch(torch, oracle.cast(x.T if turned else x, "bfloat16"))
        for x, turned in ((a, layout[0] == "t"), (b, layout[1] == "n"))
    ]
    d = torch.from_numpy(rng.integers(-4, 5, (17, 40)).astype(np.float32)).to(dtype)
    c = d.float().numpy().copy() if accumulate else None
    assert named(f"{library}_gemm_{layout}")(*stored, d, d if accumulate else None) is None
    assert exactly(d, oracle.product(a, b, c=c))


def test_cublaslt_of_float8_and_another_c(rng):
    a, b = (rng.integers(-4, 5, (rows, 64)).astype(np.float32) for rows in (16, 32))
    stored = [to_torch(torch, oracle.cast(x, "float8_e4m3fn")) for x in (a, b)]
    d, c = poisoned(16, 32, dtype=torch.float32), torch.full((16, 32), 3.0)
    deep_gemm.cublaslt_gemm_nt(*stored, d, c)
    assert exactly(d, oracle.product(a, b) + 3)
    with pytest.raises(ValueError, match="c: found shape"):
        deep_gemm.cublaslt_gemm_nt(*stored, d, c[:1])


def test_random_operands_are_close(rng):
    a, b = (
        oracle.random_operand(rng, rows, 512, g) for rows, g in ((65, (1, 128)), (96, (128,) * 2))
    )
    d = poisoned(65, 96)
    pairs = [(to_torch(torch, x.values), to_torch(torch, x.sf)) for x in (a, b)]
    deep_gemm.fp8_gemm_nt(*pairs, d)
    assert oracle.difference(to_numpy(torch, d), oracle.product(a.real, b.real)) < 1e-5


@pytest.mark.parametrize("splits", [(128, 64, 64), (6, 3, 2), (8, 4, 0)])
def test_skip_head_mid(splits, rng):
    left, mid, right = splits
    a, a_real = operand(rng, 7, 256, (1, 128))
    b, b_real = operand(rng, 2 * (left + right), 256, (128, 128))
    d = torch.full((7, 2 * sum(splits)), 5.0, dtype=torch.bfloat16)
    deep_gemm.fp8_gemm_nt_skip_head_mid(a, b, d, splits)
    want = np.full((7, 2, sum(splits)), 5.0)
    heads = oracle.product(a_real, b_real).reshape(7, 2, left + right)
    want[..., :left], want[..., left + mid :] = heads[..., :left], heads[..., left:]
    assert exactly(d, want.reshape(7, -1))
    with pytest.raises(ValueError, match="head_splits"):
        deep_gemm.fp8_gemm_nt_skip_head_mid(a, b, d[:, 1:], splits)


def test_empty_problems(rng):
    b, _ = operand(rng, 8, 256, (128, 128))
    a = (torch.empty(0, 256, dtype=torch.float8_e4m3fn), torch.empty(0, 2))
    d = poisoned(0, 8)
    assert deep_gemm.fp8_gemm_nt(a, b, d) is None
    c, d = torch.full((3, 4), 2.0), poisoned(3, 4, dtype=torch.float32)
    none = torch.empty(3, 0, dtype=torch.bfloat16), torch.empty(4, 0, dtype=torch.bfloat16)
    deep_gemm.bf16_gemm_nt(*none, d, c)
    assert torch.equal(d, c)
    deep_gemm.bf16_gemm_nt(*none, d)
    assert bool((d == 0).all())
