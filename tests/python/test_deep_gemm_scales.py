"""`deep_gemm`: layouts of scale factors and quantisers, bit for bit against NumPy."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import oracle
from test_torch import to_numpy

torch = pytest.importorskip("torch")
deep_gemm = importlib.import_module("deep_gemm")
MATH = importlib.import_module("deep_gemm.utils.math")
LAYOUT = importlib.import_module("deep_gemm.utils.layout")
STATE = importlib.import_module("deep_gemm._state")

pytestmark = pytest.mark.torch


def padded(rows):
    return -(-rows // 4) * 4


def powers(rng, *shape):
    return torch.from_numpy((2.0 ** rng.integers(-100, 100, shape)).astype(np.float32))


def words(sf):
    """FP32 [.., mn, k] packed by fours along k, byte by byte: int32 [.., mn, ceil(k / 4)]."""
    *outer, k = sf.shape
    codes = np.zeros((*outer, padded(k)), np.uint8)
    codes[..., :k] = np.log2(sf.numpy().astype(np.float64)).astype(np.int64) + 127
    return np.ascontiguousarray(codes).view("<i4")


def test_small_integers():
    assert [deep_gemm.get_tma_aligned_size(*p) for p in ((1, 4), (4, 4), (5, 4), (9, 1))] == [
        4, 4, 8, 16,
    ]  # fmt: skip
    assert [deep_gemm.ceil_div(x, 128) for x in (0, 1, 128, 129)] == [0, 1, 1, 2]
    assert [deep_gemm.align(x, 128) for x in (0, 1, 128, 129)] == [0, 128, 128, 256]


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (8, 5), (130, 56), (3, 5, 2), (1, 12, 7)])
@pytest.mark.parametrize("order", ["row-major", "turned", "every other"])
def test_mn_major(shape, order, rng):
    sf = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
    if order == "turned":
        sf = sf.transpose(-1, -2).contiguous().transpose(-1, -2)
    elif order == "every other":
        sf = sf.repeat_interleave(2, dim=-1)[..., ::2]
    out = deep_gemm.get_mn_major_tma_aligned_tensor(sf)
    mn, k = shape[-2:]
    assert out.stride() == (padded(mn) * k, 1, padded(mn))[3 - len(shape) :]
    assert out.shape == sf.shape
    assert torch.equal(out, sf)
    # TMA reads whole padded columns: they are inside the memory.
    need = out.storage_offset() + out[..., 0, 0].numel() * k * padded(mn)
    assert out.untyped_storage().nbytes() >= 4 * need
    assert deep_gemm.get_mn_major_tma_aligned_tensor(out) is out
    assert deep_gemm.get_col_major_tma_aligned_tensor(out) is out


def test_mn_major_refusals():
    with pytest.raises(TypeError, match=r"sf: found torch.int32"):
        deep_gemm.get_mn_major_tma_aligned_tensor(torch.zeros(4, 4, dtype=torch.int32))
    with pytest.raises(ValueError, match="sf: found rank 1"):
        deep_gemm.get_mn_major_tma_aligned_tensor(torch.zeros(4))


@pytest.mark.parametrize("shape", [(1, 1), (6, 4), (9, 5), (130, 14), (3, 5, 7)])
def test_packed(shape, rng):
    sf = powers(rng, *shape)
    out = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(sf)
    mn, columns = shape[-2], -(-shape[-1] // 4)
    assert out.dtype == torch.int32
    assert out.shape == (*shape[:-1], columns)
    assert out.stride() == (padded(mn) * columns, 1, padded(mn))[3 - len(shape) :]
    assert np.array_equal(out.numpy(), words(sf))
    turned = sf.transpose(-1, -2).contiguous().transpose(-1, -2)
    again = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(turned)
    assert torch.equal(again, out)


@pytest.mark.parametrize("alignment", [4, 128])
def test_packed_psum(alignment, rng, monkeypatch):
    monkeypatch.setattr(STATE.state, "mk_alignment", alignment)
    ends, valid, row = [], [], 0
    for size in (3, 0, 130, 1):
        row += -row % alignment
        valid += range(row, row + size)
        row += size
        ends.append(row)
    sf = powers(rng, row + 5, 6)
    want = np.zeros((row + 5, 2), np.int32)
    want[valid] = words(sf)[valid]
    gaps = np.setdiff1d(np.arange(row + 5), valid)
    sf[gaps] = float("nan")  # whatever they hold
    out = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(
        sf, torch.tensor(ends, dtype=torch.int32)
    )
    assert np.array_equal(out.numpy(), want)
    assert out.stride() == (1, padded(row + 5))


def test_packed_k_grouped(rng):
    ks, mn = [128, 640, 0, 512], 12
    blocks = [k // 128 for k in ks]
    sf = powers(rng, sum(blocks), mn)
    layout = torch.tensor(ks, dtype=torch.int32)
    call = deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor
    out = call(sf, layout, ks, 128, 128)
    want = np.concatenate([words(group.t()).T for group in sf.split(blocks)])
    assert np.array_equal(out.numpy(), want)
    assert torch.equal(call(sf, None, ks, 128, 128), out)
    assert out.shape == (4, mn)
    assert out.is_contiguous()
    with pytest.raises(ValueError, match="sf: found 10 columns, need 54"):
        call(sf, layout[:3] * 9, ks, 128, 128)
    with pytest.raises(ValueError, match=r"sf: found \(10, 12\), need 9 K blocks"):
        call(sf, layout, [*ks[:3], 384], 128, 128)
    with pytest.raises(NotImplementedError, match="use_psum_layout"):
        call(sf, layout, ks, 128, 128, True)


@pytest.mark.parametrize("bad", [3.0, -2.0, float("nan")])
def test_packing_takes_powers_of_two_only(bad):
    sf = torch.ones(4, 4)
    sf[2, 1] = bad
    layout = torch.tensor([512])
    for pack in (
        deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor,
        deep_gemm.pack_ue8m0_to_int,
        lambda x: deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(
            x, layout, [512], 128, 128
        ),
    ):
        with pytest.raises(ValueError, match="no power of two"):
            pack(sf)


def test_transform(rng):
    mn, k = 200, 600
    call = deep_gemm.transform_sf_into_required_layout
    rows = torch.from_numpy(rng.standard_normal((mn, 5)).astype(np.float32))
    blocks = torch.from_numpy(rng.standard_normal((2, 2, 5)).astype(np.float32))
    for recipe in ((1, 128), (1, 128, 128), (7, 1, 128)):
        is_sfa = None if len(recipe) == 2 else recipe[0] == 1
        out = call(rows, mn, k, recipe, None, is_sfa)
        assert out.stride() == (1, 200)
        assert torch.equal(out, rows)
        assert call(out, mn, k, recipe, None, is_sfa) is out
    assert call(blocks, mn, k, (1, 128, 128), 2, False) is blocks
    assert call(sf=blocks, mn=mn, k=k, recipe=(128, 128), num_groups=2) is blocks
    packed = torch.zeros(mn, 2, dtype=torch.int32)
    assert call(packed, mn, k, (1, 128)) is packed


@pytest.mark.parametrize(
    ("shape", "recipe", "groups", "is_sfa", "text"),
    [
        ((200, 5), (1, 128, 128), None, None, "recipe"),
        ((200, 5), (1, 128), None, True, "recipe"),
        ((200, 4), (1, 128), None, None, r"need \(200, 5\)"),
        ((200, 5), (128, 128), None, None, r"need \(2, 5\)"),
        ((200, 5), (1, 128), 3, None, r"need \(3, 200, 5\)"),
    ],
)
def test_transform_refusals(shape, recipe, groups, is_sfa, text):
    with pytest.raises(ValueError, match=text):
        deep_gemm.transform_sf_into_required_layout(
            torch.zeros(shape), 200, 600, recipe, groups, is_sfa
        )


# ---- Quantisers -------------------------------------------------------------------------------

GRANULARITIES = {
    "per_token_cast_to_fp8": lambda gran: (1, gran),
    "per_block_cast_to_fp8": lambda gran: (gran, gran),
    "per_channel_cast_to_fp8": lambda gran: (gran, 1),
}


def spread(rng, m, n):
    """Normal numbers of many scales, zeros and exact powers of two among them."""
    x = rng.standard_normal((m, n)) * np.exp(rng.uniform(-30, 20, (m, 1)))
    x[: m // 4, :40] = 0
    x[-1] = 448.0 * 2.0 ** rng.integers(-3, 3, n)
    return x.astype(np.float32)


def by_numpy(x, granularity, use_ue8m0):
    return oracle.quantize(x, granularity, power_of_two=use_ue8m0)


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("use_ue8m0", [False, True])
@pytest.mark.parametrize("gran", [128, 32])
def test_casts(name, dtype, use_ue8m0, gran, rng):
    x = torch.from_numpy(spread(rng, 128 if "channel" in name else 131, 300)).to(dtype)
    granularity = GRANULARITIES[name](gran)
    values, sf = by_numpy(x.float().numpy(), granularity, use_ue8m0)
    x8, found = getattr(deep_gemm, name)(x, use_ue8m0, gran)
    assert oracle.same_bits(to_numpy(torch, x8), values)
    assert np.array_equal(found.numpy(), sf)
    assert x8.is_contiguous()
    assert found.is_contiguous()
    # What a GPU's tensors take, here on the CPU: the same bits in the same memory.
    for mine, other in zip((x8, found), MATH._kernel_cast(x, *granularity, use_ue8m0), strict=True):
        assert other.is_contiguous()
        assert oracle.same_bits(to_numpy(torch, other), to_numpy(torch, mine))


def test_cast_refusals():
    with pytest.raises(ValueError, match="x: found 130 rows, need a multiple of 128"):
        deep_gemm.per_channel_cast_to_fp8(torch.zeros(130, 8), False)
    with pytest.raises(ValueError, match="x: found rank 3"):
        deep_gemm.per_token_cast_to_fp8(torch.zeros(2, 2, 8), False)


def test_per_token_packed(rng):
    x = torch.from_numpy(spread(rng, 5, 1000))
    plain = deep_gemm.per_token_cast_to_fp8(x, True)
    packed = deep_gemm.per_token_cast_to_fp8(x, True, use_packed_ue8m0=True)
    assert oracle.same_bits(*(to_numpy(torch, each[0]) for each in (plain, packed)))
    assert np.array_equal(packed[1].numpy(), words(plain[1]))
    assert torch.equal(deep_gemm.unpack_ue8m0_from_int(packed[1]), plain[1])
    with pytest.raises(ValueError, match="found 1 in the last dimension"):
        deep_gemm.per_token_cast_to_fp8(x[:, :99], True, use_packed_ue8m0=True)


@pytest.mark.parametrize(("dims", "shape"), [((0,), (3,)), ((0, 2), (3, 5)), ((-1,), (5,))])
@pytest.mark.parametrize("use_ue8m0", [False, True])
def test_custom_dims(dims, shape, use_ue8m0, rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    x8, sf = deep_gemm.per_custom_dims_cast_to_fp8(torch.from_numpy(x), dims, use_ue8m0)
    order = [dim % 3 for dim in dims]
    rest = [dim for dim in range(3) if dim not in order]
    rows = x.transpose(*order, *rest).reshape(int(np.prod(shape)), -1)
    values, factors = by_numpy(rows, (1, 0), use_ue8m0)
    found = np.ascontiguousarray(to_numpy(torch, x8).transpose(*order, *rest)).reshape(rows.shape)
    assert sf.shape == shape
    assert np.array_equal(sf.numpy().ravel(), factors.ravel())
    assert oracle.same_bits(found, values)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("use_ue8m0", [False, True])
def test_leading_dims_by_the_kernel(count, use_ue8m0, rng):
    """What a GPU's tensors take, here on the CPU: the same bits."""
    x = torch.from_numpy(rng.standard_normal((3, 4, 5)).astype(np.float32))
    want = deep_gemm.per_custom_dims_cast_to_fp8(x, tuple(range(count)), use_ue8m0)
    for ours, theirs in zip(MATH._kernel_cast_of_leading(x, count, use_ue8m0), want, strict=True):
        assert ours.shape == theirs.shape
        deep_gemm.testing.assert_bitwise_equal(ours, theirs)


def test_ceil_to_ue8m0():
    x = np.array([1.0, 1.0000001, 3.0, 0.25, 2.0**-126, 1e-45, 0.0, 3.4e38, np.inf], np.float32)
    want = [1.0, 2.0, 4.0, 0.25, 2.0**-126, 2.0**-126, 2.0**-126, 2.0**127, 2.0**127]
    found = deep_gemm.ceil_to_ue8m0(torch.from_numpy(x))
    assert found.tolist() == want


def test_pack_and_unpack(rng):
    x = powers(rng, 3, 4, 8)
    packed = deep_gemm.pack_ue8m0_to_int(x)
    assert packed.shape == (3, 4, 2)
    assert np.array_equal(packed.numpy(), words(x))
    assert torch.equal(deep_gemm.unpack_ue8m0_from_int(packed), x)
    # What a GPU's tensors take, here on the CPU.
    assert torch.equal(MATH._pack_by_kernel(x), packed)
    turned = x.transpose(0, 1)
    assert torch.equal(MATH._pack_by_kernel(turned), deep_gemm.pack_ue8m0_to_int(turned))
    assert torch.equal(MATH._unpack_by_kernel(packed), x)
    with pytest.raises(TypeError, match=r"found torch.float64"):
        deep_gemm.pack_ue8m0_to_int(x.double())


@pytest.mark.gpu
def test_a_gpu_gives_the_same_bits_and_strides(rng):
    x = torch.from_numpy(spread(rng, 128, 520))
    ends, sizes = torch.tensor([100, 128], dtype=torch.int32), [512, 128]
    on_device = torch.tensor(sizes, dtype=torch.int32)
    sf = powers(rng, 2, 130, 5)
    calls = [
        (deep_gemm.per_token_cast_to_fp8, x, True),
        (deep_gemm.per_token_cast_to_fp8, x[:, :512].bfloat16(), True, 128, True),
        (deep_gemm.per_block_cast_to_fp8, x, False),
        (deep_gemm.per_channel_cast_to_fp8, x, False, 32),
        (deep_gemm.per_custom_dims_cast_to_fp8, x, (0,), False),
        (deep_gemm.per_custom_dims_cast_to_fp8, x.view(2, 64, 520), (1, 2), True),
        (deep_gemm.per_token_cast_to_fp4, x, True, 32),
        (deep_gemm.get_mn_major_tma_aligned_tensor, sf),
        (deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor, sf),
        (deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor, sf[0], ends),
        (
            deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor,
            sf[0].t()[:5].contiguous(), on_device, sizes, 128, 128,
        ),
    ]  # fmt: skip
    for call, *given in calls:
        want = call(*given)
        found = call(*(g.cuda() if isinstance(g, torch.Tensor) else g for g in given))
        pairs = zip(want, found, strict=True) if isinstance(want, tuple) else [(want, found)]
        for cpu, gpu in pairs:
            assert gpu.stride() == cpu.stride()
            deep_gemm.testing.assert_bitwise_equal(gpu.cpu(), cpu)


# ---- FP4 --------------------------------------------------------------------------------------


def nibbles(packed):
    raw = packed.numpy().view(np.uint8)
    return np.stack((raw & 15, raw >> 4), axis=-1).reshape(raw.shape[0], -1)


def decoded(codes):
    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    return magnitudes[codes & 7] * np.where(codes >= 8, -1, 1)


@pytest.mark.parametrize("use_ue8m0", [False, True])
@pytest.mark.parametrize("gran", [128, 32])
def test_fp4(use_ue8m0, gran, rng):
    x = spread(rng, 9, 300)
    packed, sf = deep_gemm.per_token_cast_to_fp4(torch.from_numpy(x), use_ue8m0, gran)
    assert (packed.dtype, packed.shape) == (torch.int8, (9, 150))
    for i in range(9):
        for block, begin in enumerate(range(0, 300, gran)):
            part = x[i, begin : begin + gran]
            factor = np.maximum(np.abs(part).max(), np.float32(1e-4)) / np.float32(6)
            if use_ue8m0:
                factor = np.float32(2.0 ** np.ceil(np.log2(np.float64(factor))))
            assert sf[i, block] == factor
            scaled = part * (np.float32(1) / factor)
            steps = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32)
            code = (np.abs(scaled)[:, None] > steps).sum(axis=1)
            code |= np.where((scaled < 0) & (code > 0), 8, 0)
            assert np.array_equal(nibbles(packed)[i, begin : begin + gran], code)
    back = deep_gemm.cast_back_from_fp4(packed, sf, gran).numpy()
    factors = np.repeat(sf.numpy(), gran, axis=1)[:, :300]
    assert np.array_equal(back, (decoded(nibbles(packed)) * factors).astype(np.float32))


def test_fp4_packed_factors_and_transpose(rng):
    x = torch.from_numpy(spread(rng, 6, 512))
    packed, sf = deep_gemm.per_token_cast_to_fp4(x, True, use_packed_ue8m0=True)
    assert (sf.dtype, sf.shape) == (torch.int32, (6, 1))
    plain = deep_gemm.per_token_cast_to_fp4(x, True)
    assert torch.equal(
        deep_gemm.cast_back_from_fp4(packed, sf, use_packed_ue8m0=True),
        deep_gemm.cast_back_from_fp4(*plain),
    )
    turned = deep_gemm.transpose_packed_fp4(packed)
    assert (turned.dtype, turned.shape) == (torch.int8, (512, 3))
    assert np.array_equal(nibbles(turned), nibbles(packed).T)
    assert torch.equal(deep_gemm.transpose_packed_fp4(turned), packed)
    with pytest.raises(ValueError, match="x: found 7 columns"):
        deep_gemm.per_token_cast_to_fp4(x[:, :7], True)
    with pytest.raises(ValueError, match="a: found 5 rows"):
        deep_gemm.transpose_packed_fp4(packed[:5])
