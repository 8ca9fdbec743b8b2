"""BF16 and FP16 products on a GPU against exact answers, as in test_gpu_gemm.py.

By hand, on one GPU:

    python tests/python/test_gpu_16bit.py shapes 0
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import deepgemm
import oracle
from gpu_place import SENTINEL, Place, as_tests, main

LAYOUTS = ("nt", "nn", "tn", "tt")
DTYPES = ("bfloat16", "float16")


def whole(rng: np.random.Generator, rows: int, k: int, dtype: str) -> np.ndarray:
    """Integers of at most 2: every sum is exact."""
    return oracle.cast(rng.integers(-2, 3, (rows, k)).astype(np.float32), dtype)


def put(place: Place, x: np.ndarray, turned: bool, extra: int, offset: int) -> Any:
    """[rows, k], or [k, rows] if turned; NaN bytes between the lines."""
    x = np.ascontiguousarray(x.T) if turned else x
    return place.put_strided(x, x.shape[1] + extra, offset)


def check(
    place: Place,
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    *,
    layout: str = "nt",
    dtype: str = "bfloat16",
    out_dtype: str | None = None,
    extra: int = 0,
    offset: int = 0,
    out_extra: int = 0,
    **options: Any,
) -> None:
    """One exact product in guarded memory."""
    m, n, k = shape
    out_dtype = out_dtype or dtype
    a, b = whole(rng, m, k, dtype), whole(rng, n, k, dtype)
    base, out = place.guarded(m, n, out_dtype, n + out_extra)
    host = {name: options.pop(name) for name in ("c", "bias") if name in options}
    deepgemm.gemm(
        put(place, a, layout[0] == "t", extra, offset),
        put(place, b, layout[1] == "n", extra, offset),
        out,
        layout=layout,
        **{name: place.put(x) for name, x in host.items()},
        **options,
    )
    found = place.read_guarded(base, m, n, n + out_extra)
    options.pop("policy", None)
    want = oracle.cast(oracle.product(a, b, **host, **options), out_dtype)
    assert oracle.same_bits(found, want), (shape, layout, dtype, out_dtype, extra, offset)


def shapes(place: Place) -> None:
    """Every M, N, K; layout, dtypes and pitches vary from one to the next."""
    rng = np.random.default_rng(1)
    every = itertools.product((0, 1, 17, 64, 129, 300), (1, 8, 33, 136, 576), (0, 8, 40, 64, 200))
    for i, shape in enumerate((*every, (130, 136, 1024), (257, 392, 1160), (64, 64, 4480))):
        dtype = DTYPES[i // 4 % 2]
        check(
            place,
            rng,
            shape,
            layout=LAYOUTS[i % 4],
            dtype=dtype,
            out_dtype=(dtype, "float32", "bfloat16")[i % 3],
            extra=(0, 8, 64)[i % 5 % 3],
            out_extra=(0, 8, 24)[i % 7 % 3],
        )


def layouts(place: Place) -> None:
    """Every layout and dtype, where TMA takes all of it, and where it does not."""
    rng = np.random.default_rng(2)
    for layout, dtype in itertools.product(LAYOUTS, DTYPES):
        for shape in ((264, 200, 328), (72, 520, 96), (8, 8, 8), (120, 264, 77)):
            for out_dtype in ("bfloat16", "float16", "float32"):
                check(place, rng, shape, layout=layout, dtype=dtype, out_dtype=out_dtype)


def unaligned(place: Place) -> None:
    """Bases and pitches that TMA cannot take."""
    rng = np.random.default_rng(3)
    for offset, extra, out_extra in ((1, 0, 0), (4, 3, 1), (0, 5, 7), (8, 8, 3)):
        for layout, shape in itertools.product(LAYOUTS, ((17, 33, 72), (129, 136, 320), (1, 1, 8))):
            check(
                place,
                rng,
                shape,
                layout=layout,
                offset=offset,
                extra=extra,
                out_extra=out_extra,
                out_dtype=("bfloat16", "float32")[extra % 2],
            )


def epilogue(place: Place) -> None:
    """Steps that stay exact: relu, bias, c of out's dtype and FP32, a power of two as alpha."""
    rng = np.random.default_rng(4)
    for (m, n, k), layout in itertools.product(
        ((64, 136, 320), (129, 33, 72), (200, 576, 512)), LAYOUTS
    ):
        every = {
            "bias": rng.integers(-9, 9, n).astype(np.float32),
            "c": rng.integers(-9, 9, (m, n)).astype(np.float32),
            "alpha": 0.5,
            "activation": "relu",
        }
        for names in (("bias",), ("c",), ("alpha",), ("activation",), tuple(every)):
            for out_dtype in ("bfloat16", "float32"):
                options = {name: every[name] for name in names}
                check(place, rng, (m, n, k), layout=layout, out_dtype=out_dtype, **options)
        c = oracle.cast(every["c"], "bfloat16")
        check(place, rng, (m, n, k), layout=layout, c=c)


def accumulate(place: Place) -> None:
    """c is out: steps added in place, each rounded once."""
    rng = np.random.default_rng(5)
    for out_dtype, k, layout in itertools.product((*DTYPES, "float32"), (64, 2048), ("nt", "tn")):
        a, b = whole(rng, 136, k, "bfloat16"), whole(rng, 264, k, "bfloat16")
        left, right = put(place, a, layout[0] == "t", 0, 0), put(place, b, layout[1] == "n", 0, 0)
        want = oracle.cast(rng.integers(-99, 99, (136, 264)) / 4, out_dtype)
        out = place.put(want)
        for _ in range(5):
            deepgemm.gemm(left, right, out, c=out, layout=layout)
            want = oracle.cast(oracle.product(a, b) + want.astype(np.float64), out_dtype)
        assert oracle.same_bits(out.to_numpy(), want), (out_dtype, k, layout)


def every_candidate(place: Place) -> None:
    """Every config that the heuristics weigh, forced, on shapes with tails."""
    rng = np.random.default_rng(13)
    for shape, layout, out_dtype in itertools.product(
        ((8, 136, 256), (56, 576, 640), (128, 136, 1024), (304, 520, 200)),
        LAYOUTS,
        ("bfloat16", "float32"),
    ):
        report = deepgemm.explain(
            "gemm", *shape, a_dtype="bfloat16", b_dtype="bfloat16", granularity=None,
            layout=layout, out_dtype=out_dtype,
        )  # fmt: skip
        assert len(report.candidates) > 2
        for candidate in report.candidates:
            check(
                place, rng, shape, layout=layout, out_dtype=out_dtype, policy=candidate["policy"]
            )  # fmt: skip


def padding_is_not_read(place: Place) -> None:
    """K, M and N of every residue, NaN beside every line."""
    rng = np.random.default_rng(15)
    for layout, k, n in itertools.product(LAYOUTS, (65, 72, 76, 127), (33, 36, 40, 63)):
        for m, out_dtype in ((5, "bfloat16"), (130, "float32")):
            longest = max(k, n, m)
            check(
                place,
                rng,
                (m, n, k),
                layout=layout,
                out_dtype=out_dtype,
                extra=(-longest) % 8 + 8,
                out_extra=-(n % -8) or 8,
            )


def nan_stays(place: Place) -> None:
    """A NaN stays in its row and column."""
    rng = np.random.default_rng(10)
    for layout in LAYOUTS:
        a, b = whole(rng, 136, 328, "bfloat16"), whole(rng, 200, 328, "bfloat16")
        a[5, 3] = b[9, 300] = np.nan
        left, right = put(place, a, layout[0] == "t", 0, 0), put(place, b, layout[1] == "n", 0, 0)
        out = deepgemm.gemm(left, right, layout=layout, out_dtype="float32").to_numpy()
        nan = np.zeros(out.shape, bool)
        nan[5] = nan[:, 9] = True
        assert np.array_equal(np.isnan(out), nan), layout


def against_the_cpu(place: Place) -> None:
    """Random values against float64."""
    rng = np.random.default_rng(7)
    for dtype, layout in itertools.product(DTYPES, LAYOUTS):
        for m, n, k in ((300, 576, 1152), (64, 136, 4096), (17, 264, 136)):
            a, b = (oracle.cast(rng.standard_normal((r, k)), dtype) for r in (m, n))
            left, right = (
                put(place, a, layout[0] == "t", 0, 0),
                put(place, b, layout[1] == "n", 0, 0),
            )
            for out_dtype, limit in (("float32", 1e-10), (dtype, 1e-5)):
                out = deepgemm.gemm(left, right, layout=layout, out_dtype=out_dtype).to_numpy()
                assert oracle.difference(out, oracle.product(a, b)) < limit, (dtype, layout, m)


def few_sms(place: Place) -> None:
    """Any number of SMs gives the same bits."""
    rng = np.random.default_rng(17)
    for num_sms, layout in itertools.product((1, 7, 131), LAYOUTS):
        with deepgemm.options(num_sms=num_sms):
            for shape in ((16, 136, 320), (304, 576, 576)):
                check(place, rng, shape, layout=layout)


def many_columns(place: Place) -> None:
    """Few rows of a, and more columns than all CTAs of a GPU have at once."""
    rng = np.random.default_rng(21)
    for shape in ((20, 16896, 256), (3, 70016, 192)):
        check(place, rng, shape)
        check(place, rng, shape, bias=rng.integers(-9, 9, shape[1]).astype(np.float32))


def repeat(place: Place) -> None:
    """The same bits, every time."""
    rng = np.random.default_rng(6)
    times = 500 if place.device >= 0 else 3
    for (m, n, k), layout in zip(
        ((304, 576, 1152), (16, 136, 640), (1, 4096, 512)), LAYOUTS, strict=False
    ):
        a, b = (oracle.cast(rng.standard_normal((r, k)), "bfloat16") for r in (m, n))
        left, right = put(place, a, layout[0] == "t", 0, 0), put(place, b, layout[1] == "n", 0, 0)
        first = deepgemm.gemm(left, right, layout=layout).to_numpy()
        out = deepgemm.DeviceArray((m, n), "bfloat16", place.device)
        for _ in range(times):
            out.fill(SENTINEL)
            deepgemm.gemm(left, right, out, layout=layout)
            assert oracle.same_bits(out.to_numpy(), first)


def _bodies() -> Iterator[Callable[[Place], None]]:
    yield from (layouts, shapes, unaligned, epilogue, accumulate, every_candidate)
    yield from (padding_is_not_read, nan_stays, against_the_cpu, few_sms, many_columns, repeat)


BODIES = {body.__name__: body for body in _bodies()}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
