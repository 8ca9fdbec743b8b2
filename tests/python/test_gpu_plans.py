"""Plans and repeated calls on a GPU: the same bits as a first call, wherever the arrays lie.

By hand, on one GPU:

    python tests/python/test_gpu_plans.py dense 0
"""

from __future__ import annotations

from typing import Any

import numpy as np

import deepgemm
import oracle
from gpu_place import Place, as_tests, contents, main

F8, F32, BF16 = "float8_e4m3fn", "float32", "bfloat16"


def scaled(place: Place, rng: Any, rows: int, k: int, granularity: Any) -> Any:
    x = rng.standard_normal((rows, k), np.float32)
    return deepgemm.quantize(place.put(x), granularity)


def plain(place: Place, rng: Any, *shape: int) -> Any:
    x = rng.standard_normal(shape, np.float32).astype(oracle.DTYPES[BF16])
    return place.put(x)


def empty(place: Place, *shape: int, dtype: str = BF16) -> Any:
    return deepgemm.DeviceArray(shape, dtype, place.device)


def same(found: Any, want: Any) -> None:
    assert oracle.same_bits(contents(found), contents(want))


def dense(place: Place) -> None:
    """Of both kernels: a plan, and calls that find what an earlier one left, with new arrays."""
    rng = np.random.default_rng(1)
    for m, n, k in ((8, 256, 512), (200, 384, 256)):

        def arrays(m: int = m, n: int = n, k: int = k) -> tuple[Any, Any]:
            a = scaled(place, rng, m, k, (1, 128))
            return a, scaled(place, rng, n, k, (128, 128))

        plan = deepgemm.plan("gemm", *arrays())
        for _ in range(3):
            a, b = arrays()
            want = empty(place, m, n + 8).strided((m, n), (n + 8, 1))  # a call of its own kind
            deepgemm.gemm(a, b, want)
            out = empty(place, m, n)
            assert plan(a, b, out=out) is out
            same(out, np_rows(want))
            same(deepgemm.gemm(a, b), out)
            same(plan(a, b), out)


def np_rows(x: Any) -> Any:
    """The rows of an array with a pitch, as an array in host memory."""
    (m, n), pitch = x.shape, x.strides[0]
    flat = x.strided((m * pitch - 8,), (1,)).to_numpy()
    padded = np.concatenate([flat, flat[:8]]).reshape(m, pitch)
    return deepgemm.DeviceArray.from_numpy(np.ascontiguousarray(padded[:, :n]), device=-1)


def numbers(place: Place) -> None:
    """alpha, bias and c of a repeated call are its own."""
    rng = np.random.default_rng(2)
    a, b = plain(place, rng, 130, 128), plain(place, rng, 72, 128)
    product = deepgemm.gemm(a, b, out_dtype=F32).to_numpy()
    for alpha in (2.0, 4.0, -8.0):
        bias = rng.integers(-4, 4, 72).astype(np.float32)
        c = rng.integers(-4, 4, (130, 72)).astype(np.float32)
        found = deepgemm.gemm(
            a, b, alpha=alpha, bias=place.put(bias), c=place.put(c), out_dtype=F32
        )
        want = product * np.float32(alpha) + bias + c
        assert np.abs(found.to_numpy() - want).max() < 1e-3


def batches(place: Place) -> None:
    """One launch for all products, and one for each."""
    rng = np.random.default_rng(3)
    for columns in (64, 60):  # TMA does not take the second one's distances

        def arrays(columns: int = columns) -> tuple[Any, Any]:
            return plain(place, rng, 5, 72, columns), plain(place, rng, 5, 40, columns)

        plan = deepgemm.plan("gemm", *arrays())
        for _ in range(2):
            a, b = arrays()
            found = plan(a, b).to_numpy()
            same_as = deepgemm.gemm(a, b).to_numpy()
            assert oracle.same_bits(found, same_as)
            x, y = a.to_numpy(), b.to_numpy()
            for i in range(5):
                one = deepgemm.gemm(place.put(x[i]), place.put(y[i]))
                assert np.abs(one.to_numpy().astype(F32) - found[i].astype(F32)).max() < 0.25


def grouped(place: Place) -> None:
    """All three, with new arrays and new groups."""
    rng = np.random.default_rng(4)
    groups, m, n, k = 3, 90, 64, 192
    arrays: dict[str, Any] = {
        "grouped_gemm": lambda: (plain(place, rng, m, k), plain(place, rng, groups, n, k)),
        "masked_gemm": lambda: (plain(place, rng, groups, m, k), plain(place, rng, groups, n, k)),
        "k_grouped_gemm": lambda: (plain(place, rng, m, k), plain(place, rng, n, k)),
    }
    shapes = {
        "grouped_gemm": (m, n),
        "masked_gemm": (groups, m, n),
        "k_grouped_gemm": (groups, m, n),
    }
    for op, make in arrays.items():
        sizes = place.put(np.array([16, 0, 32], np.int32))
        plan = deepgemm.plan(op, *make(), sizes)
        dtype = F32 if op == "k_grouped_gemm" else BF16
        for values in ([16, 0, 64], [0, 48, 32]):
            sizes = place.put(np.array(values, np.int32))
            a, b = make()
            outs = [empty(place, *shapes[op], dtype=dtype) for _ in range(2)]
            for out in outs:
                out.fill(0)
            plan(a, b, sizes, out=outs[0])
            operation = getattr(deepgemm, op)
            operation(a, b, sizes, out=outs[1], policy={})  # a call of its own kind
            assert oracle.same_bits(outs[0].to_numpy(), outs[1].to_numpy())
            assert outs[0].to_numpy().astype(F32).any()


BODIES = {"dense": dense, "numbers": numbers, "batches": batches, "grouped": grouped}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
