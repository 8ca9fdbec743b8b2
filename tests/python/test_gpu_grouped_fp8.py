"""Grouped products on the FP8 kernel against exact answers; bodies as in test_gpu_grouped.py.

python tests/python/test_gpu_grouped_fp8.py tiles 0
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
from sm90_policies import has_two_units
from test_gpu_grouped import SIZES, STEPS, forms

TILES = (
    {"tile_m": 64, "tile_n": 64, "consumers": 1},
    {"tile_m": 64, "tile_n": 32, "consumers": 1},
    {"tile_m": 128, "tile_n": 128, "consumers": 2},
    {"tile_m": 256, "tile_n": 128, "consumers": 2, "stages": 4, "ordered": True},
    {"tile_m": 128, "tile_n": 256, "consumers": 2, "consumers_n": 2, "ordered": True},
)


def tiles(place: Place) -> None:
    """The FP8 kernel's tiles: groups that fill a tile, that straddle, of one row; every form."""
    rng = np.random.default_rng(13)
    shapes = (([5, 0, 1, 130, 0, 17], 136, 640), ([64, 256, 1, 63, 300], 64, 144), ([0, 0], 8, 128))
    for i, ((sizes, n, k), tile) in enumerate(itertools.product(shapes, TILES)):
        wide = has_two_units(tile)  # row-major factors have other tiles
        options: dict[str, Any] = {
            "out_dtype": ("bfloat16", "float32", "float16")[i % 3],
            "fast": wide or i % 2 == 0, "extra": (0, 16)[i // 2 % 2],
        }  # fmt: skip
        if not wide:
            options["granularity"] = ((1, 128), ((128, 128), (1, 128))[i // 2 % 2])
        policy = {"kernel": "persistent", **tile, "num_sms": (4, 132, 7)[i % 3]}
        for form, labels in forms(place, sizes, 3):
            check_rows(place, rng, labels, len(sizes), n, k, form, policy=policy, **options)
        most = (70, 300)[i % 2]
        rows = [min(most, size) for size in sizes]
        check_masked(place, rng, rows, most, n, k, policy=policy, **options)


def after_the_sum(place: Place) -> None:
    """Bias of the group, c, alpha and relu in the FP8 kernel."""
    rng = np.random.default_rng(14)
    for steps, fast in itertools.product(STEPS[1:], (True, False)):
        options: dict[str, Any] = {"steps": steps, "fast": fast, "policy": {"kernel": "persistent"}}
        form = {"group_ends": put_vector(place, np.cumsum(SIZES))}
        check_rows(place, rng, labels_of(SIZES, 156), len(SIZES), 72, 144, form, **options)
        check_masked(place, rng, [5, 0, 66], 70, 72, 144, **options)


def along_k(place: Place) -> None:
    """Groups of K that end inside a block, inside 32 of it; empty ones; NaN after the last."""
    rng = np.random.default_rng(15)
    every = ([144, 0, 16, 256], [128, 384], [0, 0], [32] * 9, [16], [0, 0, 16], [1040, 112])
    tiles = ({"tile_m": 64, "tile_n": 64, "consumers": 1},
             {"tile_m": 128, "tile_n": 128, "consumers": 2})  # fmt: skip
    for i, (sizes, tile) in enumerate(itertools.product(every, tiles)):
        steps = ((), ("c",), ("c", "alpha"))[i % 3]
        check_k(
            place, rng, sizes, (13, 200)[i % 2], (24, 136, 8, 1)[i % 4], rest=(16, 48)[i % 2],
            vector=put_vector(place, sizes, (np.int32, np.int64)[i % 2], 1 + i % 3),
            steps=steps, in_place=bool(steps and i % 2), fast=i % 4 < 2, extra=(0, 16)[i // 2 % 2],
            out_dtype=("float32", "bfloat16")[i // 4 % 2], policy={"kernel": "persistent", **tile},
        )  # fmt: skip


def repeat(place: Place) -> None:
    """The same bits every time, on any number of SMs."""
    rng = np.random.default_rng(16)
    a = oracle.random_operand(rng, 400, 1024, (1, 128))
    b = [oracle.random_operand(rng, 264, 1024, (128, 128)) for _ in SIZES]
    left = place.put(a.values), place.put_fast_scales(a.sf)
    right = tuple(place.put(np.stack(x)) for x in ([y.values for y in b], [y.sf for y in b]))
    vector = put_vector(place, [100, 0, 1, 200, 30, 69])
    first = deepgemm.grouped_gemm(left, right, vector).to_numpy()
    for i in range(2000 if place.device >= 0 else 3):
        with deepgemm.options(num_sms=(0, 1, 7, 66, 131)[i % 5]):
            again = deepgemm.grouped_gemm(left, right, vector)
        if i % 50 < 5:
            assert oracle.same_bits(first, again.to_numpy())


BODIES = {body.__name__: body for body in (tiles, after_the_sum, along_k, repeat)}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
