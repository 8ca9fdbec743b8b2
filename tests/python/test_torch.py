"""PyTorch tensors through the DLPack C exchange API."""

from __future__ import annotations

import numpy as np
import pytest

import deepgemm
import oracle
from deepgemm import _ext

pytestmark = pytest.mark.torch


def to_torch(torch, x):
    """Through bytes: torch reads neither float8 nor bfloat16 from NumPy."""
    raw = torch.from_numpy(np.ascontiguousarray(x).view(np.uint8))
    return raw.view(getattr(torch, str(x.dtype))).reshape(x.shape)


def to_numpy(torch, x):
    raw = x.contiguous().view(torch.uint8).numpy()
    return raw.view(oracle.DTYPES[str(x.dtype).removeprefix("torch.")]).reshape(x.shape)


def pair(torch, rng):
    a = oracle.exact_operand(rng, 6, 256, (1, 128))
    b = oracle.exact_operand(rng, 8, 256, (128, 128))
    tensors = [to_torch(torch, x) for x in (a.values, a.sf, b.values, b.sf)]
    return tuple(tensors[:2]), tuple(tensors[2:]), oracle.product(a.real, b.real)


def test_read_in_place(torch):
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "bfloat16", "int32"):
        x = torch.zeros(4, 6, dtype=getattr(torch, name))[1:, ::2]
        seen = _ext.inspect(x)
        assert (seen["pointer"], seen["dtype"], seen["shape"]) == (x.data_ptr(), name, (3, 3))
        assert seen["strides"] == x.stride()
        assert not seen["read_only"]


def test_gemm(torch, rng):
    a, b, want = pair(torch, rng)
    out = deepgemm.gemm(a, b)
    assert type(out) is torch.Tensor
    assert out.dtype == torch.bfloat16
    assert oracle.same_bits(to_numpy(torch, out), oracle.cast(want, "bfloat16"))
    for dtype in (torch.float32, "float16", torch.float8_e4m3fn):
        out = deepgemm.gemm(a, b, out_dtype=dtype)
        name = str(dtype).removeprefix("torch.")
        assert oracle.same_bits(to_numpy(torch, out), oracle.cast(want, name))
    base = torch.full((6, 20), 7.0)
    assert deepgemm.gemm(a, b, base[:, 5:13]) is not None
    assert np.array_equal(base[:, 5:13].numpy(), want.astype(np.float32))
    assert bool((base[:, :5] == 7).all())
    assert bool((base[:, 13:] == 7).all())


def test_quantize(torch, rng):
    x = rng.standard_normal((33, 300)).astype(np.float32)
    q = deepgemm.quantize(torch.from_numpy(x))
    values, sf = oracle.quantize(x, (1, 128))
    assert q.values.dtype == torch.float8_e4m3fn
    assert q.sf.stride() == (1, 36)
    assert oracle.same_bits(to_numpy(torch, q.values), values)
    assert np.array_equal(q.sf.numpy(), sf)
    assert deepgemm.dequantize(q).dtype == torch.float32


def test_requires_grad(torch, rng):
    x = torch.ones(4, 16, requires_grad=True)
    weight = torch.nn.Parameter(torch.ones(8, 16))
    out = deepgemm.gemm(x, weight)
    assert not out.requires_grad
    assert bool((out == 16).all())
    with pytest.raises(ValueError, match=r"out: found a tensor that requires grad.*detach"):
        deepgemm.gemm(x, weight, torch.zeros(4, 8, requires_grad=True))
    with torch.no_grad():
        deepgemm.gemm(x, weight, out)


def test_tensors_without_memory(torch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.ones(4, 16)
    with pytest.raises(TypeError, match=r"b: found torch.Tensor: .*meta, need a dense tensor"):
        deepgemm.gemm(x, torch.ones(8, 16, device="meta"))
    with pytest.raises(TypeError, match=r"b: found torch.Tensor: .*need a dense tensor") as caught:
        deepgemm.gemm(x, torch.ones(8, 16).to_sparse())
    assert len(str(caught.value)) < 300
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(8, 16))
    with pytest.raises(TypeError, match="b: found a fake or meta tensor"):
        deepgemm.gemm(x, fake)
    assert deepgemm.gemm(x, torch.ones(8, 16)).shape == (4, 8)


def test_elements_are_aligned(torch):
    bytes_of = bytearray(4 * 16 * 16 + 1)
    x = torch.frombuffer(bytes_of, dtype=torch.float32, offset=1, count=256).view(16, 16)
    with pytest.raises(ValueError, match="a: found an array whose elements are not aligned"):
        deepgemm.gemm(x, torch.ones(16, 16))


def test_the_negative_bit_is_refused(torch):
    x = torch.view_as_complex(torch.ones(4, 16, 2)).conj().imag
    assert x.is_neg()
    y = torch.ones(8, 16)
    text = r"found a tensor with the negative bit, need x.resolve_neg\(\)"
    with pytest.raises(TypeError, match="a: " + text):
        deepgemm.gemm(x, y)
    with pytest.raises(TypeError, match="out: " + text):
        deepgemm.gemm(y, y, x[:, :8])
    with pytest.raises(TypeError, match="a: found complex64"):
        deepgemm.gemm(torch.ones(4, 16, dtype=torch.complex64).conj(), y)

    class OldTensor(torch.Tensor):
        __dlpack_c_exchange_api__ = None

    with pytest.raises(TypeError, match="a: " + text):
        deepgemm.gemm(x.as_subclass(OldTensor), y)
    assert bool((deepgemm.gemm(x.resolve_neg(), y) == -16).all())


def test_packed_float4_is_refused(torch):
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no float4")
    x = torch.zeros(4, 16, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(TypeError, match="float4_e2m1fn x 2 lanes"):
        _ext.inspect(x)


def test_old_torch_without_the_exchange_api(torch, rng):
    class OldTensor(torch.Tensor):
        __dlpack_c_exchange_api__ = None

    x = torch.ones(4, 16).as_subclass(OldTensor)
    assert _ext.inspect(x)["shape"] == (4, 16)
    out = deepgemm.gemm(x, torch.ones(8, 16))
    assert isinstance(out, torch.Tensor)
    assert bool((out == 16).all())


def test_views(torch, rng):
    a, b, want = pair(torch, rng)
    stored = [deepgemm.view(x[0].view(torch.uint8), "float8_e4m3fn") for x in (a, b)]
    out = deepgemm.gemm((stored[0], a[1]), (stored[1], b[1]), out_dtype=torch.float32)
    assert np.array_equal(out.numpy(), want.astype(np.float32))
