"""What the kernels compute on the modelled SM90 (docs/sm90-model.md), case by case.

By hand, with the model's libraries from build/cpp, seeds 7 to 26 of one case:

    DEEPGEMM_CUDA_DRIVER_PATH=build/cpp/libsm90_driver.so \\
    DEEPGEMM_NVRTC_PATH=build/cpp/libsm90_nvrtc.so \\
    python tests/python/sm90_cases.py "256x128 cluster 1x2 ordered" 7 20
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import deepgemm
import oracle
from gpu_place import Place, contents
from sm90_16bit_cases import CASES_16BIT
from sm90_grouped_cases import GROUPED_CASES
from sm90_policies import shape_of, tile
from test_gpu_gemm import check, operands

MODES = (
    *("random", "lazy", "eager", "starve:stores", "random", "starve:loads", "starve:wgmma"),
    *("starve:0", "starve:3", "starve:4", "starve:8"),
)
COLUMNS = ((1, 128), (1, 128))
Case = Callable[[Place, np.random.Generator, int], None]


TILES = {
    "256x128 cluster 1x2 ordered": tile(256, 128, cluster_n=2, cluster_m=1, ordered=True),
    "256x128 cluster 1x2": tile(256, 128, cluster_n=2, cluster_m=1, ordered=False),
    "128x192 cluster 2x1": tile(128, 192, cluster_m=2, cluster_n=1),
    "192x128 cluster 1x2": tile(192, 128, 3, cluster_n=2, cluster_m=1),
    "192x96 cluster 1x2": tile(192, 96, 3, cluster_n=2, cluster_m=1),
    "128x128": tile(128, 128, cluster_m=1, cluster_n=1),
    "128x128 cluster 2x1": tile(128, 128, cluster_m=2, cluster_n=1),
    "128x64": tile(128, 64, cluster_m=1, cluster_n=1),
    "64x128": tile(64, 128, 1, cluster_m=1, cluster_n=1),
    "64x64": tile(64, 64, 1, cluster_m=1, cluster_n=1),
    "64x64 cluster 2x1": tile(64, 64, 1, cluster_m=2, cluster_n=1),
    "64x32": tile(64, 32, 1, cluster_m=1, cluster_n=1),
    "64x32 cluster 2x1": tile(64, 32, 1, cluster_m=2, cluster_n=1),
    "256x128 ordered": tile(256, 128, cluster_n=1, cluster_m=1, ordered=True),
    "192x96": tile(192, 96, 3, cluster_n=1, cluster_m=1),
    "256x128, D in parts": tile(256, 128, stages=4, ordered=True),
}
SPLITS = {
    "64x64 K split in 2": tile(64, 64, 1, cluster_k=2),
    "64x64 K split in 4": tile(64, 64, 1, cluster_k=4, num_sms=6),
    "64x128 K split in 2": tile(64, 128, 1, cluster_k=2),
    "128x128 K split in 2": tile(128, 128, 2, cluster_k=2),
}
WIDE_SHAPES = {  # what the shapes of shape_of() are too small for
    "64x64, K of 35 blocks": (tile(64, 64, 1, cluster_m=1, cluster_n=1), (60, 64, 4480)),
    "64x64, 143 tiles": (tile(64, 64, 1, cluster_m=1, cluster_n=1), (700, 820, 128)),
    "128x192, side by side": (tile(128, 192, consumers_n=2, cluster_m=1, cluster_n=1),
                              (130, 400, 640)),
}  # fmt: skip
DECODES = {
    f"decode {tokens} tokens, {fields}": (tokens, dict(zip(NAMES, fields, strict=True)))
    for NAMES in (("consumers", "stage_blocks", "stages", "cluster_k", "ctas_per_sm"),)
    for tokens, fields in (
        (8, (1, 2, 3, 1, 3)),
        (8, (1, 4, 2, 8, 2)),
        (8, (2, 2, 3, 4, 2)),
        (16, (1, 2, 5, 2, 2)),
        (16, (2, 2, 2, 1, 2)),
        (32, (1, 2, 4, 4, 2)),
        (64, (2, 2, 3, 2, 1)),
        (128, (2, 1, 4, 4, 1)),
    )
}


def tiled(policy: dict[str, Any], **options: Any) -> Case:
    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        check(place, rng, shape_of(policy, seed), policy=policy, **options)

    return body


def fixed(policy: dict[str, Any], shape: tuple[int, int, int]) -> Case:
    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        check(place, rng, shape, policy=policy, out_dtype=("bfloat16", "float32")[seed % 2])

    return body


def rastered(policy: dict[str, Any]) -> Case:
    """11 x 13 tiles in every order: groups that fit and do not, wider than D, along M and N."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        m, n = 11 * policy["tile_m"] - 3, 13 * policy["tile_n"] - 8
        order = {
            "group": (1, 3, 8, 11, 13, 100)[seed % 6],
            "raster_along_n": seed // 6 % 2 == 1,
            "num_sms": (132, 10)[seed % 2],
        }
        check(place, rng, (m, n, 128), policy=policy | order)

    return body


def accumulated(policy: dict[str, Any], in_place: bool) -> Case:
    """FP32 out += a @ b, factors of b per column."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        m, n, k = shape_of(policy, seed)
        n = -(-n // 4) * 4
        if in_place:
            k += 1536  # so that TMA's reduction is taken
        a, b = (oracle.exact_operand(rng, rows, k, (1, 128)) for rows in (m, n))
        left, right = operands(place, a, b, True, 0, 0)
        before = rng.integers(-9, 9, (m, n)).astype(np.float32)
        c = place.put(before)
        out = c if in_place else place.put(np.zeros((m, n), np.float32))
        deepgemm.gemm(left, right, out, c=c, granularity=(1, 128), policy=policy)
        want = oracle.product(a.real, b.real) + before
        assert oracle.same_bits(out.to_numpy(), oracle.cast(want, "float32"))

    return body


def split(policy: dict[str, Any]) -> Case:
    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        m, n = policy["tile_m"] - seed % 2 * 7, policy["tile_n"] - seed % 3 * 8
        check(place, rng, (m, n, (640, 1168, 2064)[seed % 3]), policy=policy)

    return body


def decode(tokens: int, policy: dict[str, Any]) -> Case:
    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        m = max(1, tokens - seed % 7)
        n = (8, 136, 201)[seed % 3]
        out = ("bfloat16", "float32")[seed % 2]
        options: dict[str, Any] = {}
        if seed % 4 != 0:
            options["bias"] = rng.integers(-9, 9, n).astype(np.float32)
        check(
            place,
            rng,
            (m, n, (1152, 2048, 4096)[seed // 3 % 3]),
            policy={"kernel": "decode", **policy},
            out_dtype=out,
            out_extra=-n % 8,
            **options,
        )

    return body


def dependent(m: int, k: int = 640) -> Case:
    """Under dependent launches, behind the kernel that makes a, or behind the one that makes b."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        constant = seed % 2 == 1
        with deepgemm.options(pdl=True, constant_b=constant):
            for _ in range(3):
                x, w = (rng.integers(-2, 3, (rows, k)).astype(np.float32) for rows in (m, 136))
                # Why by name: freeing memory would wait for the kernels.
                wide, weights = place.put(x), place.put(w)
                made = {}
                for name in ("left", "right") if seed % 4 == 0 else ("right", "left"):
                    source, rows = (wide, 1) if name == "left" else (weights, 128)
                    made[name] = deepgemm.quantize(source, (rows, 128), power_of_two=True)
                    if constant and name == "right":
                        made[name].values.to_numpy()  # nothing in the stream still writes it
                left, right = made["left"], made["right"]
                out = deepgemm.gemm(left, right, out_dtype="float32")
                again = deepgemm.gemm(left, right, out_dtype="float32")
                assert oracle.same_bits(out.to_numpy(), x @ w.T)
                assert oracle.same_bits(again.to_numpy(), x @ w.T)
                del left, right, made, wide, weights

    return body


def general(place: Place, rng: np.random.Generator, seed: int) -> None:
    shape = ((65, 33, 47), (3, 130, 100), (64, 64, 33))[seed % 3]
    check(place, rng, shape, granularity=((1, 32), (0, 0)), policy={"kernel": "general"})


def quantized(place: Place, rng: np.random.Generator, seed: int) -> None:
    x = rng.standard_normal((67, 300)).astype(np.float32)
    for granularity in ((1, 128), (128, 128), (1, 0), (0, 0)):
        with deepgemm.options(num_sms=seed % 3):  # few: several blocks for a CTA
            found = deepgemm.quantize(place.put(x), granularity, power_of_two=seed % 2 == 0)
        want = deepgemm.quantize(Place(-1).put(x), granularity, power_of_two=seed % 2 == 0)
        for ours, theirs in zip(found[:2], want[:2], strict=True):
            assert oracle.same_bits(contents(ours), contents(theirs)), granularity


def scale_layouts(place: Place, rng: np.random.Generator, seed: int) -> None:
    """Copied, packed and unpacked in groups of both kinds, several tiles for a CTA."""
    host, sizes = Place(-1), [300, 0, 1000, 128, 4000]
    sf = (2.0 ** rng.integers(-9, 9, (150, 45))).astype(np.float32)
    ends, k_sizes = np.array([40, 50, 129], np.int32), np.array(sizes, np.int32)
    found = []
    for where in (place, host):
        given = where.put_strided(sf, 47) if seed % 2 else where.put_fast_scales(sf)
        groups = {"k_sizes": where.put(k_sizes), "k_per_scale": 128}
        out = deepgemm.DeviceArray((150, 45), "float32", where.device)
        with deepgemm.options(num_sms=seed % 3):
            packed = deepgemm.layout.pack_ue8m0(given, host_k_sizes=sizes, **groups)
            found.append(
                (
                    contents(deepgemm.layout.sf_fast(given, out)),
                    contents(
                        deepgemm.layout.pack_ue8m0(given, group_ends=where.put(ends), alignment=8)
                    ),
                    contents(packed),
                    contents(deepgemm.layout.unpack_ue8m0(packed, k_blocks=45, **groups)),
                )
            )
    assert np.array_equal(found[1][0], sf)
    assert all(oracle.same_bits(ours, theirs) for ours, theirs in zip(*found, strict=True))


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for i, (name, policy) in enumerate(TILES.items()):
        out = ("bfloat16", "float16", "float32")[i % 3]
        cases[name] = tiled(policy, out_dtype=out)
        if policy["tile_n"] % 32 == 0:
            cases[f"{name}, factors per column"] = tiled(
                policy, granularity=COLUMNS, out_dtype="float32"
            )
    for name in ("256x128 cluster 1x2 ordered", "128x128", "64x64"):
        cases[f"{name}, strided factors"] = tiled(TILES[name], fast_sfa=False)
        cases[f"{name}, alpha and relu"] = tiled(TILES[name], alpha=0.5, activation="relu")
        cases[f"{name}, adds to D"] = accumulated(TILES[name], True)
        cases[f"{name}, adds C"] = accumulated(TILES[name], False)
    cases["192x128, adds C"] = accumulated(tile(192, 128, 3, stages=3), False)
    cases["192x128, D in parts, adds C"] = accumulated(tile(192, 128, 3, stages=4), False)
    for name, (policy, shape) in WIDE_SHAPES.items():
        cases[name] = fixed(policy, shape)
    for name in ("64x32", "64x32 cluster 2x1"):
        cases[f"{name}, rasters"] = rastered(TILES[name])
    cases["64x32, strided factors per column"] = tiled(
        TILES["64x32"], granularity=COLUMNS, out_dtype="float32", fast_sfa=False
    )
    cases |= {name: split(policy) for name, policy in SPLITS.items()}
    cases |= {name: decode(tokens, policy) for name, (tokens, policy) in DECODES.items()}
    cases |= {"decode, dependent launch": dependent(8), "tiles, dependent launch": dependent(300)}
    cases["tiles, dependent launch, more K than stages"] = dependent(300, 4480)
    cases |= {"general": general, "quantize": quantized, "scale layouts": scale_layouts}
    return cases | CASES_16BIT | GROUPED_CASES


CASES = _cases()


def run(name: str, first: int, count: int) -> None:
    """The case with each seed; the mode goes round with it."""
    for seed in range(first, first + count):
        os.environ["SM90_MODEL_SEED"] = str(seed)
        os.environ["SM90_MODEL_MODE"] = MODES[seed % len(MODES)]
        CASES[name](Place(0), np.random.default_rng(seed), seed)


def soak(minutes: float) -> int:
    """Every case with ever new seeds; prints what failed, with the seed that repeats it."""
    until, seed, failed = time.monotonic() + 60 * minutes, 1000, 0
    while time.monotonic() < until:
        for name in CASES:
            try:
                run(name, seed, 1)
            except Exception as error:
                failed += 1
                print(f"FAILED {name!r} seed {seed}: {error}", flush=True)
        seed += 1
        print(f"{seed - 1000} seeds of {len(CASES)} cases, {failed} failures", flush=True)
    return failed


def main() -> int:
    """Arguments: case, first seed (0), how many (1); or --soak and minutes (10)."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("case", nargs="?", choices=CASES, metavar="case")
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("count", nargs="?", type=int, default=1)
    parser.add_argument("--soak", nargs="?", type=float, const=10.0, metavar="MINUTES")
    arguments = parser.parse_args()
    if arguments.soak is not None:
        return 1 if soak(arguments.soak) else 0
    if arguments.case is None:
        parser.error("which case? One of:\n  " + "\n  ".join(CASES))
    run(arguments.case, arguments.first, arguments.count)
    print(f"{arguments.case}: right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
