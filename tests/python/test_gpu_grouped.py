"""Grouped products on a GPU against exact answers, each body in a child process with a time limit.

As test_gpu_gemm.py: a body takes a Place, and -1 is the CPU reference. By hand, on one GPU:

    python tests/python/test_gpu_grouped.py every_form 0
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import deepgemm
import oracle
from gpu_place import Place, as_tests, main
from grouped_oracle import labels_of, skewed, slices
from grouped_place import (
    E4M3,
    GENERAL,
    Guarded,
    check_k,
    check_masked,
    check_rows,
    operand,
    put_apart,
    put_vector,
)

SIZES = [5, 0, 1, 130, 0, 17]
NONE = (None, None)
STEPS = ((), ("bias",), ("c",), ("alpha",), ("activation",), ("bias", "c", "alpha", "activation"))
Forms = Iterator[tuple[dict[str, Any], np.ndarray]]


def forms(place: Place, sizes: Any, rest: int, dtype: Any = np.int32, step: int = 1) -> Forms:
    """(arguments, labels) of every form with these sizes; then `rest` rows of no group."""
    labels, ends = labels_of(sizes, sum(sizes) + rest), np.cumsum(sizes)

    def vector(values: Any) -> Any:
        return put_vector(place, values, dtype, step)

    yield {"group_sizes": vector(sizes)}, labels
    yield {"group_offsets": vector([0, *ends])}, labels
    yield {"group_ends": vector(ends)}, labels
    yield {"labels": vector(labels)}, labels
    lead = np.concatenate([np.full(7, -1), labels])
    yield {"group_offsets": vector([7, *(ends + 7)])}, lead
    yield aligned(vector, sizes, rest, 128)


def aligned(vector: Any, sizes: Any, rest: int, alignment: int) -> Any:
    """group_ends of groups that start at multiples of `alignment`."""
    labels: list[int] = []
    ends = []
    for g, size in enumerate(sizes):
        labels += [-1] * (-len(labels) % alignment) + [g] * int(size)
        ends.append(len(labels))
    return {"group_ends": vector(ends), "alignment": alignment}, np.array(labels + [-1] * rest)


def every_form(place: Place) -> None:
    """int32 and int64, side by side and strided; dtypes of out, pitches and layouts vary."""
    rng = np.random.default_rng(1)
    count = 0
    for dtype, step in ((np.int32, 1), (np.int64, 1), (np.int32, 3), (np.int64, 2)):
        for form, labels in forms(place, SIZES, 3, dtype, step):
            check_rows(
                place, rng, labels, len(SIZES), (133, 64, 8)[count % 3], (288, 40)[count % 2], form,
                out_dtype=("float32", "bfloat16", "float16")[count % 3],
                layout=("nt", "nn")[count % 2], extra=(0, 5, 16)[count % 3],
            )  # fmt: skip
            count += 1


def any_order(place: Place) -> None:
    """Labels that change from row to row, and short runs across the edges of tiles."""
    rng = np.random.default_rng(2)
    for labels in (
        rng.integers(-1, 5, 150),
        np.repeat(rng.integers(-1, 5, 40), rng.integers(1, 9, 40)),
        np.array([3] * 64 + [-1] * 64 + [0, 4] * 32),
        np.full(70, -1),
    ):
        for dtype in (np.int32, np.int64):
            form = {"labels": put_vector(place, labels, dtype)}
            check_rows(place, rng, labels, 5, 70, 160, form)


def edges(place: Place) -> None:
    """No group, no row, one row, N of 1, K of 1 and 0; tiles that a group just fills."""
    rng = np.random.default_rng(3)
    for sizes in ([1], [0], [0, 0, 1], [64, 64], [63, 65], [1] * 70, [0, 128, 0], [200]):
        for n, k in ((1, 1), (64, 32), (65, 33), (8, 0)):
            form = {"group_sizes": put_vector(place, sizes)}
            granularity = NONE if k == 0 else ((1, 128), (128, 128))
            labels = labels_of(sizes, sum(sizes) + 1)
            check_rows(place, rng, labels, len(sizes), n, k, form, granularity=granularity)
    vector = put_vector(place, [])
    out = Guarded(place, (9, 8), "float32")
    left, right = (place.put(np.ones(shape, np.float32)) for shape in ((9, 16), (0, 8, 16)))
    assert deepgemm.grouped_gemm(left, right, vector, out.array) is out.array
    out.check(np.zeros((9, 8)), np.zeros(9, bool))


def granularities(place: Place) -> None:
    """Every pair that rows which share a matrix can have."""
    rng = np.random.default_rng(4)
    rows, blocks = ((1, 128), (1, 32), (1, 0), (0, 0)), ((128, 128), (1, 128), (1, 32), (0, 0))
    for pair in itertools.product(rows, blocks):
        form = {"group_sizes": put_vector(place, SIZES)}
        check_rows(place, rng, labels_of(SIZES, 155), len(SIZES), 133, 288, form, granularity=pair)


def dtypes(place: Place) -> None:
    """BF16, FP16, FP32, E5M2 and mixes, with factors and without."""
    rng = np.random.default_rng(5)
    names = ("bfloat16", "float16", "float32", "float8_e5m2", E4M3)
    pairs = [(name, name) for name in names] + [(E4M3, "bfloat16"), ("float8_e5m2", E4M3)]
    for pair, granularity in itertools.product(pairs, (NONE, ((1, 128), (128, 128)))):
        for out_dtype in ("bfloat16", "float16", "float32"):
            form = {"group_ends": put_vector(place, np.cumsum(SIZES), np.int64)}
            check_rows(
                place, rng, labels_of(SIZES, 154), len(SIZES), 24, 144, form,
                granularity=granularity, dtypes=pair, out_dtype=out_dtype,
            )  # fmt: skip
            check_masked(
                place, rng, [3, 0, 9], 9, 24, 144,
                granularity=granularity, dtypes=pair, out_dtype=out_dtype,
            )  # fmt: skip
    for name, granularity in itertools.product(names, (None, (1, 128))):
        for out_dtype in ("bfloat16", "float32"):
            sizes = [16, 0, 144, 32]
            check_k(place, rng, sizes, 9, 24, granularity=granularity, dtype=name,
                    out_dtype=out_dtype)  # fmt: skip


def after_the_sum(place: Place) -> None:
    """Bias per group, c of its own and in place, alpha, relu: steps that stay exact."""
    rng = np.random.default_rng(6)
    for steps, out_dtype in itertools.product(STEPS, ("bfloat16", "float32")):
        for in_place in (False, True) if "c" in steps else (False,):
            options = {"steps": steps, "out_dtype": out_dtype, "in_place": in_place, "extra": 3}
            for form in (
                {"group_sizes": put_vector(place, SIZES)},
                {"labels": put_vector(place, labels_of(SIZES, 156))},
            ):
                check_rows(place, rng, labels_of(SIZES, 156), len(SIZES), 65, 96, form, **options)
            check_masked(place, rng, [5, 0, 66], 70, 65, 96, **options)
            if not set(steps) & {"bias", "activation"}:
                check_k(place, rng, [16, 0, 160], 66, 65, **options)


def masks(place: Place) -> None:
    """Every count of rows, factors in blocks too, gaps between the groups."""
    rng = np.random.default_rng(7)
    pairs = (((1, 128), (128, 128)), ((128, 128), (128, 128)), ((1, 32), (1, 32)),
             ((0, 0), (0, 0)), NONE)  # fmt: skip
    for i, (most, pair) in enumerate(itertools.product((1, 17, 130), pairs)):
        for rows in ([0, most, 1, most // 2, 0], [0] * 5, [most] * 5):
            check_masked(
                place, rng, rows, most, (9, 70)[i % 2], 288, granularity=pair,
                vector=put_vector(place, rows, (np.int32, np.int64)[i % 2], 1 + i % 3),
                layout=("nt", "nn")[i % 2], extra=(0, 5)[i % 2],
                out_dtype=("float32", "bfloat16")[i % 2],
            )  # fmt: skip
    rows = [-(-count // 64) for count in (4001, 1425, 0, 0, 0, 571, 503, 0, 26, 12, 1232, 0, 224)]
    check_masked(place, rng, rows, 64, 8, 32)


def along_k(place: Place) -> None:
    """Every layout; groups of no K, of less than a block, of several; NaN after the last one."""
    rng = np.random.default_rng(8)
    every = ([144, 0, 16, 256], [128, 384], [0, 0], [32] * 9, [16], [0, 0, 16])
    for i, (sizes, layout) in enumerate(itertools.product(every, ("nt", "nn", "tn", "tt"))):
        steps = ((), ("c",), ("c", "alpha"))[i % 3]
        check_k(
            place, rng, sizes, (13, 70)[i % 2], (21, 65, 8)[i % 3], rest=(0, 48)[i % 2],
            vector=put_vector(place, sizes, (np.int32, np.int64)[i % 2], 1 + i % 3),
            layout=layout, steps=steps, in_place=bool(steps and i % 2), extra=(0, 16)[i // 2 % 2],
            out_dtype=("float32", "bfloat16")[i // 4 % 2],
        )  # fmt: skip
    for sizes in ([5, 0, 130, 1, 77], [1] * 40):
        for layout in ("nt", "tn"):
            check_k(place, rng, sizes, 7, 10, rest=3, granularity=None, dtype="bfloat16",
                    layout=layout)  # fmt: skip


def many_groups(place: Place) -> None:
    """More groups than a warp has lanes, many times over."""
    rng = np.random.default_rng(9)
    for groups in (33, 256, 1024):
        sizes = rng.multinomial(groups, np.full(groups, 1 / groups))
        for form, labels in itertools.islice(forms(place, sizes, 2), 4):
            check_rows(place, rng, labels, groups, 4, 16, form, granularity=NONE)
        rows = rng.integers(0, 3, groups)
        check_masked(place, rng, rows, 2, 4, 16, granularity=NONE)
        k_sizes = rng.integers(0, 3, groups)
        check_k(place, rng, k_sizes, 3, 4, granularity=None, dtype="float32")
    check_k(place, rng, 16 * rng.integers(0, 12, 100), 3, 4)


def random_groups(place: Place) -> None:
    """Uniform, everything in one group, mostly empty, halving."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        groups, total = int(rng.integers(1, 40)), int(rng.integers(0, 300))
        n, k = int(rng.integers(1, 140)), int(rng.integers(1, 200))
        sizes = skewed(rng, groups, total)
        for form, labels in forms(place, sizes, int(rng.integers(0, 9))):
            if len(labels):
                check_rows(place, rng, labels, groups, n, k, form)
        rows = skewed(rng, groups, 60)
        check_masked(place, rng, rows, max(1, *rows), n, k)
        check_k(place, rng, 16 * skewed(rng, groups, 40), 65, n, rest=16)


def few_sms(place: Place) -> None:
    """Any number of SMs gives the same bits."""
    rng = np.random.default_rng(10)
    for num_sms in (1, 7, 66, 131, 132):
        with deepgemm.options(num_sms=num_sms):
            for form, labels in forms(place, SIZES, 3):
                check_rows(place, rng, labels, len(SIZES), 133, 40, form)
            check_masked(place, rng, [3, 0, 70, 1], 70, 133, 40)
            check_k(place, rng, [16, 0, 144], 65, 133)


def as_dense(place: Place) -> None:
    """The bits of the general kernel's dense products, and the same ones every time."""
    rng = np.random.default_rng(11)
    a = oracle.random_operand(rng, 154, 512, (1, 128))
    b = [oracle.random_operand(rng, 70, 512, (128, 128)) for _ in SIZES]
    left = place.put(a.values), place.put(a.sf)
    right = tuple(place.put(np.stack(x)) for x in ([y.values for y in b], [y.sf for y in b]))
    vector = put_vector(place, SIZES)
    first = deepgemm.grouped_gemm(left, right, vector, policy=GENERAL).to_numpy()
    for _ in range(20 if place.device >= 0 else 2):
        again = deepgemm.grouped_gemm(left, right, vector, policy=GENERAL).to_numpy()
        assert oracle.same_bits(first[: sum(SIZES)], again[: sum(SIZES)])
    for g, rows in enumerate(slices(SIZES)):
        dense = deepgemm.gemm(
            (place.put(a.values[rows]), place.put(a.sf[rows])),
            (place.put(b[g].values), place.put(b[g].sf)),
            granularity=((1, 128), (128, 128)),
            policy=GENERAL,
        )
        assert oracle.same_bits(first[rows], dense.to_numpy())


BIG, WIDE = 2**31 - 1, 2**62
WRONG_ROWS = (
    *(("group_sizes", x) for x in ([60, 60, 60, -5, BIG], [-1] * 5, [BIG] * 5, [0, 0, 0, 0, 101])),
    *(("group_sizes", x) for x in ([WIDE] * 5, [-WIDE, 3, WIDE, 90, 90])),
    *(("group_offsets", x) for x in ([50, 20, 300, -7, 10, BIG], [-9, 0, 0, 0, 0, 0])),
    *(("group_offsets", x) for x in ([0, WIDE, 5, -WIDE, 100, 101], [100, 0, 100, 0, 100, 0])),
    *(("group_ends", x) for x in ([500, 3, -1, BIG, 7], [-1] * 5, [WIDE, -WIDE, 7, 7, 7])),
    *(("labels", x) for x in ([5, -2, BIG, -BIG] * 25, [WIDE, -WIDE, 3, 4] * 25)),
)


def wrong_calls(place: Place) -> Iterator[tuple[Callable[..., Any], Guarded]]:
    """Calls that lack an out, each with a group vector that is wrong; and an out for each."""
    rng = np.random.default_rng(12)
    a, b = (place.put(np.ones(shape, np.float32)) for shape in ((100, 40), (5, 70, 40)))
    stack, vectors = place.put(np.ones((5, 20, 40), np.float32)), WRONG_ROWS
    for (name, values), alignment in itertools.product(vectors, (1, 128)):
        if alignment > 1 and name != "group_ends":
            continue
        wide = max(map(abs, values)) > BIG
        form = {name: put_vector(place, values, np.int64 if wide else np.int32)}
        call = partial(deepgemm.grouped_gemm, a, b, alignment=alignment, **form)
        yield call, Guarded(place, (100, 70), "bfloat16", 5)
    for values in ([-3, 10**9, 21, BIG, 0], [-1] * 5, [WIDE] * 5):
        vector = put_vector(place, values, np.int64)
        call = partial(deepgemm.masked_gemm, stack, b, vector)
        yield call, Guarded(place, (5, 20, 70), "float32", 5)
    # Factors for 2 blocks, NaN behind them; the sizes that need more are cut.
    left, right = (operand(rng, rows, 144, (1, 128), E4M3) for rows in (70, 30))
    operands = [(place.put(x.values), put_apart(place, x.sf, 16)) for x in (left, right)]
    for values in ([16] * 9, [BIG] * 3, [-1, 160, 5], [5, 11, 128], [WIDE, -WIDE, 144]):
        vector = put_vector(place, values, np.int64)
        call = partial(deepgemm.k_grouped_gemm, *operands, vector)
        yield call, Guarded(place, (len(values), 70, 30), "float32", 5)


def refused(call: Callable[..., Any], out: Guarded) -> str:
    """The words in which a call is refused that then has written nothing."""
    with pytest.raises(ValueError, match="found") as caught:
        call(out=out.array)
    out.check(np.zeros(out.shape), np.zeros(out.shape[:-1], bool))
    return str(caught.value)


def wrong_vectors(place: Place) -> None:
    """In host memory a ValueError; on a device wrong numbers, and nothing outside is written."""
    for call, out in wrong_calls(place):
        if place.device < 0:
            refused(call, out)
            continue
        call(out=out.array)
        found = out.check_around()
        assert call.func is not deepgemm.k_grouped_gemm or np.isfinite(found).all()


def checked_vectors(place: Place) -> None:
    """With DEEPGEMM_CHECK_GROUPS a device's vectors are refused too, in the words of the host's."""
    rng = np.random.default_rng(13)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEEPGEMM_CHECK_GROUPS", "1")
        for here, on_the_host in zip(wrong_calls(place), wrong_calls(Place(-1)), strict=True):
            assert refused(*here) == refused(*on_the_host)
        for dtype, step in ((np.int32, 3), (np.int64, 1)):
            for form, labels in forms(place, SIZES, 3, dtype, step):
                check_rows(place, rng, labels, len(SIZES), 33, 40, form)
            vector = put_vector(place, [3, 0, 9], dtype, step)
            check_masked(place, rng, [3, 0, 9], 9, 24, 144, vector=vector)
            vector = put_vector(place, [16, 0, 144], dtype, step)
            check_k(place, rng, [16, 0, 144], 9, 24, vector=vector)


def policies(place: Place) -> None:
    """FP32: the general kernel is what there is; in host memory a policy says nothing."""
    a, b = (place.put(np.ones(shape, np.float32)) for shape in ((9, 128), (2, 8, 128)))
    vector = put_vector(place, [4, 5])
    for policy in (GENERAL, {"num_sms": 1}, {"num_sms": 3, **GENERAL}):
        out = deepgemm.grouped_gemm(a, b, vector, policy=policy)
        assert (out.to_numpy() == 128).all()
    for policy in ({"kernel": "persistent"}, {"tile_m": 128}, {"kernel": "decode"}):
        if place.device >= 0:
            with pytest.raises(ValueError, match="policy"):
                deepgemm.grouped_gemm(a, b, vector, policy=policy)


def _bodies() -> Iterator[Callable[[Place], None]]:
    yield from (every_form, any_order, edges, granularities, dtypes, after_the_sum, masks)
    yield from (along_k, many_groups, random_groups, few_sms, as_dense, wrong_vectors)
    yield from (checked_vectors, policies)


BODIES = {body.__name__: body for body in _bodies()}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
