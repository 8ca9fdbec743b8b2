"""quantize and dequantize on a GPU: against NumPy and against the CPU backend, bit for bit.

By hand, on one GPU: python tests/python/test_gpu_quantize.py quantizers 0
"""

from __future__ import annotations

import itertools

import numpy as np

import deepgemm
import oracle
from gpu_place import Place, as_tests, contents, main


def quantizers(place: Place) -> None:
    """Bit for bit what NumPy computes, and back."""
    rng = np.random.default_rng(11)
    for granularity, shape, power_of_two in itertools.product(
        ((1, 128), (128, 128), (1, 32), (1, 0)), ((1, 128), (33, 300), (129, 577)), (False, True)
    ):
        x = rng.standard_normal(shape).astype(np.float32) * 10.0 ** rng.integers(
            -3, 4, (shape[0], 1)
        )
        x = x.astype(np.float32)
        q = deepgemm.quantize(place.put(x), granularity, power_of_two=power_of_two)
        values, sf = oracle.quantize(x, granularity, power_of_two=power_of_two)
        assert oracle.same_bits(q.values.to_numpy(), values), (granularity, shape)
        real = values.astype(np.float64) * oracle.expand(sf, granularity, shape)
        back = deepgemm.dequantize(q).to_numpy()
        assert oracle.same_bits(back, real.astype(np.float32)), (granularity, shape)


def quantizers_of_other_types(place: Place) -> None:
    """BF16 and FP16 x, E5M2, E8M0 factors, per tensor, NaN and Inf; against the CPU backend."""
    rng = np.random.default_rng(14)
    host = Place(-1)
    x = rng.standard_normal((65, 300)).astype(np.float32)
    x[3, 7], x[9, 200], x[20] = np.nan, np.inf, 0
    for granularity, x_dtype, dtype, sf_dtype in itertools.product(
        ((1, 128), (128, 128), (1, 32), (0, 0)),
        ("float32", "bfloat16", "float16"),
        ("float8_e4m3fn", "float8_e5m2"),
        ("float32", "float8_e8m0fnu"),
    ):
        options = {"power_of_two": True} if sf_dtype == "float8_e8m0fnu" else {}
        source = oracle.cast(x, x_dtype)
        found, want = (
            deepgemm.quantize(where.put(source), granularity, dtype, **options)
            for where in (place, host)
        )
        for one, two in zip(found[:2], want[:2], strict=True):
            assert oracle.same_bits(contents(one), contents(two)), (granularity, x_dtype, dtype)
        for out_dtype in ("float32", "bfloat16", "float16"):
            one, two = (deepgemm.dequantize(q, out_dtype=out_dtype) for q in (found, want))
            assert oracle.same_bits(one.to_numpy(), two.to_numpy()), (granularity, out_dtype)


BODIES = {body.__name__: body for body in (quantizers, quantizers_of_other_types)}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
