"""JAX arrays: inputs anywhere, results as new arrays."""

from __future__ import annotations

import numpy as np
import pytest

import deepgemm
import oracle
from deepgemm import _ext

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float32"])
def test_inspect(jnp, dtype):
    seen = _ext.inspect(jnp.zeros((3, 5), dtype))
    assert (seen["dtype"], seen["shape"], seen["strides"]) == (dtype, (3, 5), (5, 1))
    assert seen["read_only"]


def test_gemm(jnp, rng):
    a = oracle.exact_operand(rng, 6, 256, (1, 128))
    b = oracle.exact_operand(rng, 8, 256, (128, 128))
    args = [jnp.asarray(x) for x in (a.values, a.sf, b.values, b.sf)]
    want = oracle.product(a.real, b.real)
    for dtype in (None, jnp.float32, "float16", jnp.float8_e4m3fn):
        out = deepgemm.gemm(tuple(args[:2]), tuple(args[2:]), out_dtype=dtype)
        assert type(out) is type(args[0])
        name = str(out.dtype)
        assert oracle.same_bits(np.asarray(out), oracle.cast(want, name))


def test_quantize(jnp, rng):
    x = rng.standard_normal((33, 300)).astype(np.float32)
    q = deepgemm.quantize(jnp.asarray(x))
    values, sf = oracle.quantize(x, (1, 128))
    assert oracle.same_bits(np.asarray(q.values), values)
    assert np.array_equal(np.asarray(q.sf), sf)
    back = deepgemm.dequantize(q)
    assert type(back) is type(q.values)


def test_out_is_refused(jnp):
    x = jnp.ones((4, 16))
    with pytest.raises(TypeError, match="out: found a jax array, which is immutable"):
        deepgemm.gemm(x, x, jnp.zeros((4, 4)))
    assert bool((deepgemm.gemm(x, x) == 16).all())


def test_tracers_are_refused(jnp):
    import jax

    for transform in (jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())):
        with pytest.raises(TypeError, match=r"a: found a jax tracer.*outside jax.jit"):
            transform(lambda x: deepgemm.gemm(x, x))(jnp.ones((4, 16)))
