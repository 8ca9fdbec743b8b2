"""Grouped products of BF16 and FP16 against exact answers; bodies as in test_gpu_grouped.py.

python tests/python/test_gpu_grouped_16bit.py tiles 0
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import deepgemm
import oracle
from gpu_place import Place, as_tests, main
from grouped_oracle import labels_of
from grouped_place import check_k, check_masked, check_rows, put_vector
from test_gpu_grouped import SIZES, STEPS, forms

NONE = (None, None)
PERSISTENT = {"kernel": "persistent"}
TILES = (
    {"tile_m": 64, "tile_n": 64, "consumers": 1},
    {"tile_m": 64, "tile_n": 128, "consumers": 1},
    {"tile_m": 128, "tile_n": 128, "consumers": 2},
    {"tile_m": 256, "tile_n": 128, "consumers": 2},
    {"tile_m": 128, "tile_n": 256, "consumers": 2},
)


def of(dtype: str, **more: Any) -> dict[str, Any]:
    return {"granularity": NONE, "dtypes": (dtype, dtype), **more}


def tiles(place: Place) -> None:
    """Every tile and form, b in either major: groups that fill a tile, straddle, have one row."""
    rng = np.random.default_rng(13)
    shapes = (([5, 0, 1, 130, 0, 17], 136, 328), ([64, 256, 1, 63, 300], 64, 72), ([0, 0], 8, 64))
    for i, ((sizes, n, k), tile) in enumerate(itertools.product(shapes, TILES)):
        dtype = ("bfloat16", "float16")[i % 2]
        options = of(
            dtype,
            out_dtype=(dtype, "float32", "bfloat16")[i % 3],
            layout=("nt", "nn")[i // 2 % 2],
            extra=(0, 16)[i // 3 % 2],
            policy={**PERSISTENT, **tile, "num_sms": (4, 132, 7)[i % 3]},
        )
        for form, labels in forms(place, sizes, 3):
            check_rows(place, rng, labels, len(sizes), n, k, form, **options)
        most = (70, 300)[i % 2]
        check_masked(place, rng, [min(most, size) for size in sizes], most, n, k, **options)


def after_the_sum(place: Place) -> None:
    """Bias of the group, c, alpha and relu."""
    rng = np.random.default_rng(14)
    for steps, layout in itertools.product(STEPS[1:], ("nt", "nn")):
        options = of("bfloat16", steps=steps, layout=layout, policy=PERSISTENT)
        form = {"group_ends": put_vector(place, np.cumsum(SIZES))}
        check_rows(place, rng, labels_of(SIZES, 156), len(SIZES), 72, 144, form, **options)
        check_masked(place, rng, [5, 0, 66], 70, 72, 144, **options)


def along_k(place: Place) -> None:
    """Every layout; groups of any K, that begin and end anywhere; empty ones; NaN at the end."""
    rng = np.random.default_rng(15)
    every = ([145, 0, 7, 256, 80], [128, 384], [0, 0], [33] * 9, [1], [0, 0, 16], [1043, 109])
    tiles = ({"tile_m": 64, "tile_n": 64, "consumers": 1},
             {"tile_m": 256, "tile_n": 128, "consumers": 2})  # fmt: skip
    for i, (sizes, layout, tile) in enumerate(
        itertools.product(every, ("nt", "nn", "tn", "tt"), tiles)
    ):
        steps = ((), ("c",), ("c", "alpha"))[i % 3]
        check_k(
            place, rng, sizes, (16, 200)[i % 2], (24, 136, 8)[i % 3], rest=-sum(sizes) % 8 + 8,
            vector=put_vector(place, sizes, (np.int32, np.int64)[i % 2], 1 + i % 3),
            granularity=None, dtype=("bfloat16", "float16")[i // 8 % 2], layout=layout,
            steps=steps, in_place=bool(steps and i % 2), extra=(0, 16)[i // 2 % 2],
            out_dtype=("float32", "bfloat16")[i // 4 % 2], policy={**PERSISTENT, **tile},
        )  # fmt: skip


def chosen(place: Place) -> None:
    """Without a policy, any shape and pitch: what the persistent kernel cannot take as well."""
    rng = np.random.default_rng(17)
    for i, (n, k) in enumerate(itertools.product((1, 33, 72, 520), (3, 8, 72, 200))):
        options = of(("bfloat16", "float16")[i % 2], layout=("nt", "nn")[i // 2 % 2], extra=i % 3)
        form = {"group_sizes": put_vector(place, SIZES)}
        check_rows(place, rng, labels_of(SIZES, 155), len(SIZES), n, k, form, **options)
        check_masked(place, rng, [3, 0, 17, 130], 130, n, k, **options)
        for layout in ("nt", "tn"):
            check_k(place, rng, [k, 0, 5], n, 40, rest=3, granularity=None, dtype="bfloat16",
                    layout=layout, extra=i % 3)  # fmt: skip


def turned(place: Place) -> None:
    """A whose rows are contiguous, and not K: no tensor-core kernel takes it, and it is right."""
    rng = np.random.default_rng(18)
    for dtype, layout in itertools.product(("bfloat16", "float16"), ("nt", "nn")):
        options = of(dtype, layout=layout, turn_a=True)
        for form, labels in forms(place, SIZES, 7):
            check_rows(place, rng, labels, len(SIZES), 72, 64, form, **options)
        check_masked(place, rng, [3, 0, 17, 64], 64, 72, 64, **options)


def repeat(place: Place) -> None:
    """The same bits every time, on any number of SMs."""
    rng = np.random.default_rng(16)
    a = oracle.cast(rng.standard_normal((400, 1024)), "bfloat16")
    b = oracle.cast(rng.standard_normal((len(SIZES), 264, 1024)), "bfloat16")
    left, right = place.put(a), place.put(b)
    vector = put_vector(place, [100, 0, 1, 200, 30, 69])
    first = deepgemm.grouped_gemm(left, right, vector).to_numpy()
    for i in range(2000 if place.device >= 0 else 3):
        with deepgemm.options(num_sms=(0, 1, 7, 66, 131)[i % 5]):
            again = deepgemm.grouped_gemm(left, right, vector)
        if i % 50 < 5:
            assert oracle.same_bits(first, again.to_numpy())


BODIES = {body.__name__: body for body in (tiles, after_the_sum, along_k, chosen, turned, repeat)}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
