"""deepgemm.view: a logical dtype over integers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import deepgemm
import oracle


@pytest.mark.parametrize("storage", [np.uint8, np.int8])
def test_gemm_of_views(rng, storage):
    a = oracle.exact_operand(rng, 6, 256, (1, 128))
    b = oracle.exact_operand(rng, 8, 256, (128, 128))
    want = oracle.product(a.real, b.real)
    x = deepgemm.view(a.values.view(storage), "float8_e4m3fn")
    y = deepgemm.view(b.values.view(storage), ml_dtypes.float8_e4m3fn)
    assert oracle.same_bits(
        deepgemm.gemm((x, a.sf), (y, b.sf), out_dtype="float32"), oracle.cast(want, "float32")
    )
    out = deepgemm.view(np.zeros((6, 8), np.uint16), "bfloat16")
    assert deepgemm.gemm((x, a.sf), (y, b.sf), out) is out
    assert oracle.same_bits(out.array.view(ml_dtypes.bfloat16), oracle.cast(want, "bfloat16"))


def test_attributes():
    stored = np.zeros((2, 3), np.uint8)
    x = deepgemm.view(stored, "float8_e5m2")
    assert x.array is stored
    assert x.dtype == "float8_e5m2"
    assert x.shape == (2, 3)
    assert "float8_e5m2" in repr(x)
    assert isinstance(x, deepgemm.View)
    again = deepgemm.view(x, "float8_e4m3fn")
    assert again.array is stored


def test_bytes_must_be_named():
    x = np.zeros((2, 16), np.uint8)
    with pytest.raises(TypeError, match=r"a: found uint8.*deepgemm.view"):
        deepgemm.gemm(x, x)


def test_errors():
    with pytest.raises(TypeError, match="array: found float32, need elements of the size of"):
        deepgemm.view(np.zeros(3, np.float32), "float8_e4m3fn")
    with pytest.raises(TypeError, match="dtype: found dtype float9, need one of"):
        deepgemm.view(np.zeros(3, np.uint8), "float9")
    with pytest.raises(TypeError, match="array: found an object of type list"):
        deepgemm.view([1, 2], "float8_e4m3fn")
