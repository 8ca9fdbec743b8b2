"""Batches of products on a GPU against exact answers; bodies as in test_gpu_16bit.py.

By hand, on one GPU:

    python tests/python/test_gpu_batched.py layouts 0
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import deepgemm
import oracle
from gpu_place import Place, as_tests, main
from grouped_oracle import stack
from grouped_place import E4M3, PAIR, Guarded, after_the_sum, operand, poison

LAYOUTS = ("nt", "nn", "tn", "tt")
NONE = (None, None)
# How an operand serves a batch.
EACH, MATRIX, ONE, STILL = "its own", "rank 2", "extent 1", "stride 0"
FORMS = (EACH, MATRIX, ONE, STILL)


def put(place: Place, x: Any, form: str, extra: int = 0, gap: int = 0) -> Any:
    """A batch, or its first matrix for all; NaN bytes between rows and between matrices."""
    count, rows, columns = x.shape
    x = x if form == EACH else x[:1]
    pitch = columns + extra
    apart = rows * pitch + gap
    flat = np.zeros(len(x) * apart + 64, x.dtype)
    poison(flat, ...)
    lines = flat[: len(x) * apart].reshape(len(x), apart)[:, : rows * pitch]
    lines.reshape(len(x), rows, pitch)[..., :columns] = x
    shape, strides = (rows, columns), (pitch, 1)
    if form != MATRIX:
        shape = (count if form == STILL else len(x), *shape)
        strides = (0 if form == STILL else apart, *strides)
    return place.put(flat).strided(shape, strides)


def put_factors(place: Place, sf: Any, form: str, fast: bool) -> Any:
    """Row-major, or rows contiguous and padded to 16 bytes, as quantize gives them."""
    if not fast:
        return put(place, sf, form)
    padded = np.zeros((*sf.shape[:1], sf.shape[2], -(-sf.shape[1] // 4) * 4), np.float32)
    padded[..., : sf.shape[1]] = sf.swapaxes(1, 2)
    whole = put(place, padded, form)
    *batch, k_stride, row_stride = whole.strides
    shape = (*whole.shape[:-2], *sf.shape[1:])
    return whole.strided(shape, (*batch, row_stride, k_stride))


def side(
    place: Place, rng: Any, shape: Any, granularity: Any, dtype: str, form: str, turn: bool,
    extra: int, gap: int, fast: bool,
) -> Any:  # fmt: skip
    """(an operand as the call takes it, its real matrices)."""
    count, rows, k = shape
    x = stack([operand(rng, rows, k, granularity, dtype) for _ in range(max(count, 1))])
    values, sf = (y.swapaxes(1, 2).copy() if turn else y for y in (x.values, x.sf))
    given = put(place, values[:count], form, extra, gap)
    real = x.real if form == EACH else np.broadcast_to(x.real[0], x.real.shape)
    if granularity is None:
        return given, real
    return (given, put_factors(place, sf, form, fast and granularity[0] == 1)), real


def check(
    place: Place, rng: Any, shape: Any, *, layout: str = "nt", dtype: str = "bfloat16",
    out_dtype: str = "float32", granularity: Any = NONE, forms: Any = (EACH, EACH),
    extra: int = 0, gap: int = 0, out_extra: int = 0, out_gap: int = 0, fast: bool = True,
    steps: Any = (), c_form: str = EACH, in_place: bool = False, policy: Any = None,
) -> None:  # fmt: skip
    """One batch of exact products in guarded memory."""
    count, m, n, k = shape
    common = (extra, gap, fast)
    a, a_real = side(
        place, rng, (count, m, k), granularity[0], dtype, forms[0], layout[0] == "t", *common
    )
    b, b_real = side(
        place, rng, (count, n, k), granularity[1], dtype, forms[1], layout[1] == "n", *common
    )
    after = after_the_sum(rng, (count, m), 1, n, steps)
    after = {**after, "bias": after["bias"][0]} if "bias" in after else after
    if "c" in after:
        after["c"] = oracle.cast(after["c"], out_dtype)
        if c_form != EACH:
            after["c"][1:] = after["c"][:1]
    own = [{**after, "c": after["c"][i]} if "c" in after else after for i in range(count)]
    products = [oracle.product(a_real[i], b_real[i], **own[i]) for i in range(count)]
    want = oracle.cast(np.array(products).reshape(count, m, n), out_dtype)
    contents = after["c"] if in_place else None
    out = Guarded(place, (count, m, n), out_dtype, out_extra, contents, out_gap)
    given = dict(after)
    if "c" in given:
        given["c"] = out.array if in_place else put(place, given["c"], c_form, out_extra)
    if "bias" in given:
        given["bias"] = place.put(given["bias"])
    scales = None if granularity == NONE else granularity
    result = deepgemm.gemm(
        a, b, out.array, layout=layout, granularity=scales, policy=policy, **given
    )  # fmt: skip
    assert result is out.array
    out.check(want, np.ones((count, m), bool))


def layouts(place: Place) -> None:
    """Every layout and dtype of out: tails, tiles that are whole, few rows, rows with gaps."""
    rng = np.random.default_rng(1)
    shapes = (
        (3, 72, 136, 96),
        (2, 264, 200, 136),
        (5, 8, 8, 8),
        (4, 1, 264, 328),
        (2, 128, 128, 64),
    )
    outs = ("bfloat16", "float16", "float32")
    for i, (layout, shape, out_dtype) in enumerate(itertools.product(LAYOUTS, shapes, outs)):
        check(
            place,
            rng,
            shape,
            layout=layout,
            dtype=("bfloat16", "float16")[i % 2],
            out_dtype=out_dtype,
            extra=(0, 8)[i // 2 % 2],
            gap=(0, 64)[i % 5 % 2],
            out_extra=(0, 8, 24)[i % 3],
        )
    check(place, rng, (0, 8, 8, 8))
    check(place, rng, (3, 0, 8, 8))
    check(place, rng, (3, 17, 33, 0))


def broadcast(place: Place) -> None:
    """Either side, factors and c one for all, each way of saying so."""
    rng = np.random.default_rng(2)
    for i, forms in enumerate(itertools.product(FORMS, FORMS)):
        if EACH not in forms and STILL not in forms:
            continue
        for shape in ((3, 72, 136, 96), (4, 130, 64, 200)):
            check(place, rng, shape, layout=LAYOUTS[i % 4], forms=forms, out_dtype="bfloat16")
        check(place, rng, (3, 66, 136, 272), dtype=E4M3, granularity=PAIR, forms=forms)
    for form, out_dtype in itertools.product(FORMS, ("float32", "bfloat16")):
        for dtype, granularity in (("bfloat16", NONE), (E4M3, PAIR)):
            check(
                place,
                rng,
                (3, 66, 136, 144),
                dtype=dtype,
                granularity=granularity,
                out_dtype=out_dtype,
                steps=("c",),
                c_form=form,
            )


def float8(place: Place) -> None:
    """E4M3 with factors in the fast layout and row-major; what the decode kernel takes too."""
    rng = np.random.default_rng(3)
    shapes = ((3, 72, 136, 272), (2, 264, 200, 144), (4, 5, 136, 256), (3, 64, 64, 128))
    for i, (shape, fast) in enumerate(itertools.product(shapes, (True, False))):
        for b_granularity in ((128, 128), (1, 128)):
            for out_dtype in ("bfloat16", "float32"):
                check(
                    place,
                    rng,
                    shape,
                    dtype=E4M3,
                    granularity=((1, 128), b_granularity),
                    out_dtype=out_dtype,
                    extra=(0, 16)[i % 2],
                    gap=(0, 16, 1024)[i % 3],
                    out_extra=(0, 16)[i // 2 % 2],
                    fast=fast,
                )
    for layout in LAYOUTS:  # the general kernel
        check(place, rng, (3, 18, 34, 200), dtype=E4M3, granularity=PAIR, layout=layout)
    values = rng.standard_normal((2, 2, 130, 256)).astype(np.float32)
    a, b = (deepgemm.quantize(place.put(x), g) for x, g in zip(values, PAIR, strict=True))
    want = [deepgemm.dequantize(q).to_numpy().astype(np.float64) for q in (a, b)]
    found = deepgemm.gemm(a, b, out_dtype="float32").to_numpy()
    assert oracle.difference(found, want[0] @ want[1].swapaxes(1, 2)) < 1e-6


def epilogue(place: Place) -> None:
    """Bias for all, c of each or in place, alpha and relu."""
    rng = np.random.default_rng(4)
    every = (("bias",), ("c",), ("alpha",), ("bias", "c", "alpha", "activation"))
    kinds = (("bfloat16", NONE), (E4M3, PAIR))
    for steps, (dtype, granularity) in itertools.product(every, kinds):
        for shape, out_dtype in itertools.product(
            ((3, 66, 136, 144), (2, 130, 40, 512), (3, 8, 136, 256)), ("bfloat16", "float32")
        ):
            for in_place in (False, True) if "c" in steps else (False,):
                check(
                    place,
                    rng,
                    shape,
                    dtype=dtype,
                    granularity=granularity,
                    out_dtype=out_dtype,
                    steps=steps,
                    in_place=in_place,
                    out_extra=8,
                )
    for in_place in (False, True):  # long enough for C to be added by TMA
        check(place, rng, (2, 72, 136, 2048), steps=("c",), in_place=in_place)


def unaligned(place: Place) -> None:
    """Matrices that lie at other residues of 16 bytes than the first, and rows that do."""
    rng = np.random.default_rng(5)
    for i, gap in enumerate((1, 3, 4, 8)):
        for layout, shape in itertools.product(LAYOUTS, ((3, 72, 136, 96), (5, 17, 40, 64))):
            check(place, rng, shape, layout=layout, gap=gap, out_dtype="bfloat16")
            check(place, rng, shape, layout=layout, out_gap=gap)
            check(place, rng, shape, layout=layout, extra=gap, gap=i, out_extra=gap, out_gap=i)
        check(place, rng, (4, 66, 136, 272), dtype=E4M3, granularity=PAIR, gap=gap, out_gap=2 * gap)
        check(place, rng, (3, 72, 136, 96), steps=("c",), in_place=True, out_gap=gap)


BODIES = {body.__name__: body for body in (layouts, broadcast, float8, epilogue, unaligned)}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
