"""BF16 and FP16 products on the modelled SM90: the cases that sm90_cases.py runs beside its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import deepgemm
import oracle
from gpu_place import Place
from grouped_oracle import labels_of, skewed
from grouped_place import Guarded, check_k, check_masked, check_rows, put_vector
from sm90_policies import shape_of, tile
from test_gpu_16bit import LAYOUTS, check, put, whole

Case = Callable[[Place, np.random.Generator, int], None]
TILES = {
    "256x128": tile(256, 128),
    "128x256": tile(128, 256),
    "192x176": tile(192, 176, 3),
    "128x144": tile(128, 144),
    "128x256, side by side": tile(128, 256, consumers_n=2),
    "128x128": tile(128, 128),
    "64x64": tile(64, 64, 1),
    "64x32": tile(64, 32, 1),
    "64x64 K split in 2": tile(64, 64, 1, cluster_k=2),
    "192x96": tile(192, 96, 3),
    "128x176": tile(128, 176),
}
DECODES = {
    "8 tokens": (8, {"stage_blocks": 2, "stages": 3, "cluster_k": 1}),
    "16 tokens, K split in 4": (16, {"stage_blocks": 4, "stages": 2, "cluster_k": 4}),
    "8 tokens, one block": (8, {"stage_blocks": 1, "stages": 5, "ctas_per_sm": 4}),
    "64 tokens, 2 warpgroups": (64, {"consumers": 2, "stage_blocks": 1, "stages": 3}),
    "32 tokens, 2 stages": (32, {"stage_blocks": 2, "stages": 2, "cluster_k": 1}),
}


def layout_of(seed: int) -> str:
    return LAYOUTS[seed // 5 % 4]


def shape_for(policy: dict[str, Any], seed: int) -> tuple[int, int, int]:
    """Like shape_of(), but of one tile where K is split."""
    if policy["cluster_k"] == 1:
        return shape_of(policy, seed)
    return policy["tile_m"] - seed % 2 * 8, policy["tile_n"] - seed % 3 * 8, 328


def tiled(policy: dict[str, Any], dtype: str) -> Case:
    """Exact products in every layout."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        shape = shape_for(policy, seed)
        m, n, k = (-(-extent // 8) * 8 for extent in shape)
        layout = layout_of(seed)
        if layout == "nt":
            m = shape[0]
        out_dtype = (dtype, "float32")[seed % 2]
        check(
            place, rng, (m, n, k), layout=layout, dtype=dtype, out_dtype=out_dtype, policy=policy
        )  # fmt: skip

    return body


def decode(tokens: int, policy: dict[str, Any], dtype: str) -> Case:
    """The decode kernel, its own epilogue and the general one."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        m, n = max(1, tokens - seed % 7), (8, 136, 201)[seed % 3]
        options: dict[str, Any] = {}
        if seed % 4 == 0:
            options["bias"] = rng.integers(-9, 9, n).astype(np.float32)
        shape = (m, n, (576, 1024, 2048)[seed // 3 % 3])
        out_dtype = (dtype, "float32")[seed % 2]
        check(
            place, rng, shape, dtype=dtype, out_dtype=out_dtype, out_extra=-n % 8,
            policy={"kernel": "decode", **policy}, **options,
        )  # fmt: skip

    return body


def accumulated(policy: dict[str, Any], dtype: str, in_place: bool) -> Case:
    """out = c + A B, where c moves by TMA."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        m, n, k = (-(-extent // 8) * 8 for extent in shape_for(policy, seed))
        if in_place and dtype == "float32":
            k += 1536  # so that TMA's reduction is taken
        layout = layout_of(seed)
        a, b = whole(rng, m, k, "bfloat16"), whole(rng, n, k, "bfloat16")
        before = oracle.cast(rng.integers(-99, 99, (m, n)) / 4, dtype)
        c = place.put(before)
        out = c if in_place else place.put(np.zeros_like(before))
        left, right = put(place, a, layout[0] == "t", 0, 0), put(place, b, layout[1] == "n", 0, 0)
        deepgemm.gemm(left, right, out, c=c, layout=layout, policy=policy)
        want = oracle.cast(oracle.product(a, b) + before.astype(np.float64), dtype)
        assert oracle.same_bits(out.to_numpy(), want)

    return body


def batched(policy: dict[str, Any]) -> Case:
    """Stacks of products by one launch; one operand may be the same for all."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        m, n, k = (-(-extent // 8) * 8 for extent in shape_of(policy, seed))
        layout, count = layout_of(seed), 2 + seed % 2
        sides = []
        for rows, turned, alone in (
            (m, layout[0] == "t", seed % 3 == 1),
            (n, layout[1] == "n", seed % 3 == 2),
        ):
            x = np.stack([whole(rng, rows, k, "bfloat16") for _ in range(1 if alone else count)])
            x = x.swapaxes(1, 2) if turned else x
            sides.append((x, place.put(x[0] if alone else x)))
        (a, left), (b, right) = sides
        a, b = (
            x.swapaxes(1, 2) if t else x for x, t in ((a, layout[0] == "t"), (b, layout[1] == "n"))
        )
        want = a.astype(np.float64) @ b.astype(np.float64).swapaxes(1, 2)
        dtype = ("bfloat16", "float32")[seed // 2 % 2]
        options: dict[str, Any] = {}
        out = Guarded(place, (count, m, n), dtype, 8 * (seed % 2))
        if seed % 4 > 1:
            c = oracle.cast(rng.integers(-9, 9, (count, m, n)), dtype)
            out = Guarded(place, (count, m, n), dtype, 8 * (seed % 2), c)
            options["c"], want = out.array, want + c.astype(np.float64)
        deepgemm.gemm(left, right, out.array, layout=layout, policy=policy, **options)
        out.check(oracle.cast(want, dtype), np.ones((count, m), bool))

    return body


def policy_of(tile_fields: dict[str, Any], seed: int) -> dict[str, Any]:
    """Few CTAs, so that each has tiles of several groups."""
    return {"kernel": "persistent", "num_sms": (1, 3, 4)[seed % 3], **tile_fields}


def grouped(tile_fields: dict[str, Any], labelled: bool) -> Case:
    """Rows by sizes or by labels, b in either major."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        sizes = skewed(rng, (3, 6, 40)[seed % 3], (300, 70)[seed % 2])
        labels = labels_of(sizes, sum(sizes) + 3)
        form = {"labels": labels} if labelled else {"group_sizes": sizes}
        check_rows(
            place, rng, labels, len(sizes), (136, 72)[seed % 2], (72, 328)[seed // 2 % 2],
            {name: put_vector(place, values, np.int64) for name, values in form.items()},
            granularity=(None, None), dtypes=("bfloat16", "bfloat16"),
            out_dtype=("bfloat16", "float32")[seed // 3 % 2], layout=("nt", "nn")[seed // 2 % 2],
            steps=((), ("bias", "c"))[seed % 4 == 0 and tile_fields["tile_m"] < 256],
            policy=policy_of(tile_fields, seed), extra=16,
        )  # fmt: skip

    return body


def masked(tile_fields: dict[str, Any]) -> Case:
    """Stacks of matrices whose first rows count."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        most, groups = ((70, 4), (3, 9), (200, 2))[seed % 3]
        check_masked(
            place, rng, rng.integers(0, most + 1, groups), most, (72, 8)[seed % 2],
            (72, 264)[seed // 2 % 2], granularity=(None, None), dtypes=("bfloat16", "bfloat16"),
            out_dtype="bfloat16", layout=("nt", "nn")[seed // 3 % 2],
            policy=policy_of(tile_fields, seed),
        )  # fmt: skip

    return body


def along_k(tile_fields: dict[str, Any]) -> Case:
    """Groups of any K, in every layout."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        sizes = skewed(rng, (3, 7, 40)[seed % 3], (200, 700)[seed // 2 % 2])
        steps = ((), ("c",), ("c", "alpha"))[seed % 3]
        check_k(
            place, rng, sizes, (72, 200)[seed % 2], (64, 136)[seed // 2 % 2],
            rest=-int(sum(sizes)) % 8 + 8, granularity=None, dtype="bfloat16",
            layout=LAYOUTS[seed % 4], steps=steps, in_place=bool(steps) and seed % 4 == 1,
            policy=policy_of(tile_fields, seed),
        )  # fmt: skip

    return body


GROUP_TILES = {
    "64x64": {"tile_m": 64, "tile_n": 64, "consumers": 1},
    "256x128": {"tile_m": 256, "tile_n": 128, "consumers": 2},
}


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for i, (name, policy) in enumerate(TILES.items()):
        dtype = ("bfloat16", "float16")[i % 2]
        cases[f"{dtype} {name}"] = tiled(policy, dtype)
    for name, (tokens, policy) in DECODES.items():
        cases[f"bfloat16 decode {name}"] = decode(tokens, policy, "bfloat16")
    for dtype in ("bfloat16", "float32"):
        cases[f"bfloat16 128x128 adds {dtype} C"] = accumulated(TILES["128x128"], dtype, False)
        cases[f"bfloat16 256x128 in place, {dtype}"] = accumulated(TILES["256x128"], dtype, True)
        cases[f"bfloat16 192x176 adds {dtype} C"] = accumulated(TILES["192x176"], dtype, False)
    name = "64x64 K split in 2"
    cases[f"bfloat16 {name}, adds C"] = accumulated(TILES[name], "bfloat16", True)
    cases["bfloat16 64x64, batch"] = batched(TILES["64x64"])
    cases["bfloat16 256x128, batch"] = batched(TILES["256x128"])
    for name, fields in GROUP_TILES.items():
        cases[f"bfloat16 grouped, {name}"] = grouped(fields, False)
        cases[f"bfloat16 labels, {name}"] = grouped(fields, True)
        cases[f"bfloat16 masked, {name}"] = masked(fields)
        cases[f"bfloat16 k grouped, {name}"] = along_k(fields)
    return cases


CASES_16BIT = _cases()
