"""Grouped products on the modelled SM90, for sm90_cases.py: the general kernel and the FP8 one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import deepgemm
from gpu_place import Place
from grouped_oracle import labels_of, skewed
from grouped_place import (
    E4M3,
    GENERAL,
    Guarded,
    check_k,
    check_masked,
    check_rows,
    operand,
    put_vector,
)
from sm90_policies import has_two_units

Case = Callable[[Place, np.random.Generator, int], None]
GRANULARITIES = (((1, 128), (128, 128)), ((1, 32), (0, 0)), (None, None))


def general_rows(place: Place, rng: np.random.Generator, seed: int) -> None:
    """Few CTAs, so that each has tiles of several groups; every form but labels."""
    sizes = skewed(rng, (3, 6, 40)[seed % 3], 140)
    ends = np.cumsum(sizes)
    name, values = (
        ("group_sizes", sizes),
        ("group_offsets", np.array([0, *ends])),
        ("group_ends", ends),
    )[seed % 3]
    form = {name: put_vector(place, values, (np.int32, np.int64)[seed % 2], 1 + seed % 2)}
    with deepgemm.options(num_sms=(1, 3, 0)[seed // 2 % 3]):
        check_rows(
            place, rng, labels_of(sizes, 143), len(sizes), (65, 8)[seed % 2], (144, 33)[seed % 2],
            form, granularity=GRANULARITIES[seed // 3 % 3],
            layout=("nt", "nn")[seed % 2], steps=((), ("bias", "c", "alpha"))[seed % 2], extra=5,
            policy=GENERAL,
        )  # fmt: skip


def general_labels(place: Place, rng: np.random.Generator, seed: int) -> None:
    labels = np.repeat(rng.integers(-1, 4, 40), rng.integers(1, (3, 12, 30)[seed % 3], 40))[:150]
    form = {"labels": put_vector(place, labels, (np.int32, np.int64)[seed % 2])}
    with deepgemm.options(num_sms=(1, 3, 0)[seed // 2 % 3]):
        check_rows(place, rng, labels, 4, (70, 8)[seed % 2], 48, form,
                   granularity=GRANULARITIES[seed // 3 % 3], steps=((), ("c",))[seed % 2],
                   in_place=seed % 2 == 1, policy=GENERAL)  # fmt: skip


def general_masked(place: Place, rng: np.random.Generator, seed: int) -> None:
    most, groups = (70, 3)[seed % 2], (4, 40)[seed % 2]
    rows = rng.integers(0, most + 1, groups)
    with deepgemm.options(num_sms=(1, 3, 0)[seed // 2 % 3]):
        check_masked(place, rng, rows, most, (70, 8)[seed % 2], 48, extra=3, policy=GENERAL,
                     granularity=GRANULARITIES[seed // 3 % 3],
                     steps=((), ("bias", "c"))[seed // 2 % 2], in_place=seed % 4 == 2)  # fmt: skip


def general_k(place: Place, rng: np.random.Generator, seed: int) -> None:
    sizes = 16 * skewed(rng, (3, 40)[seed % 2], (30, 60)[seed % 2])
    with deepgemm.options(num_sms=(1, 3, 0)[seed // 2 % 3]):
        check_k(place, rng, sizes, (70, 3)[seed % 2], (65, 9)[seed % 2], rest=16, extra=seed % 3,
                layout=("nt", "tn", "nn", "tt")[seed % 4],
                steps=((), ("c", "alpha"))[seed // 2 % 2], in_place=seed % 4 == 3,
                policy=GENERAL)  # fmt: skip


GROUP_TILES = {
    "64x64": {"tile_m": 64, "tile_n": 64, "consumers": 1},
    "128x128": {"tile_m": 128, "tile_n": 128, "consumers": 2},
    "256x128 ordered": {"tile_m": 256, "tile_n": 128, "consumers": 2, "stages": 3, "ordered": True},
    "256x128, D in parts": {"tile_m": 256, "tile_n": 128, "consumers": 2, "stages": 4,
                            "ordered": True},
    "128x256, side by side": {"tile_m": 128, "tile_n": 256, "consumers": 2, "consumers_n": 2,
                              "ordered": True},
}  # fmt: skip


def fp8_rows(tile_fields: dict[str, Any], labelled: bool) -> Case:
    """Few CTAs, so that each has tiles of several groups."""

    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        sizes = skewed(rng, (3, 6, 40)[seed % 3], (300, 70)[seed % 2])
        ends, kind = np.cumsum(sizes), np.int32 if seed % 2 else np.int64
        labels = labels_of(sizes, sum(sizes) + 3)
        if labelled:
            form = {"labels": put_vector(place, labels, kind)}
        elif seed % 2:
            form = {"group_sizes": put_vector(place, sizes, kind, 2)}
        else:
            form = {"group_offsets": put_vector(place, [0, *ends], kind)}
        wide = has_two_units(tile_fields)
        check_rows(
            place, rng, labels, len(sizes), (136, 72)[seed % 2], (144, 640)[seed // 2 % 2], form,
            granularity=((1, 128), (1, 128) if seed % 3 == 2 and not wide else (128, 128)),
            out_dtype=("bfloat16", "float32")[seed // 3 % 2], fast=wide or seed % 4 > 0,
            policy={"kernel": "persistent", "num_sms": (1, 3, 4)[seed % 3], **tile_fields},
            extra=16,
        )  # fmt: skip

    return body


def fp8_masked(tile_fields: dict[str, Any]) -> Case:
    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        most, groups = ((70, 4), (3, 9), (200, 2))[seed % 3]
        rows = rng.integers(0, most + 1, groups)
        wide = has_two_units(tile_fields)
        check_masked(
            place, rng, rows, most, (72, 8)[seed % 2], (144, 512)[seed // 2 % 2],
            fast=wide or seed % 4 > 0,
            granularity=((1, 128), (1, 128) if seed // 3 % 2 and not wide else (128, 128)),
            steps=((), ("bias", "c"))[seed % 2 * (not wide)],
            policy={"kernel": "persistent", "num_sms": (1, 3, 4)[seed % 3], **tile_fields},
        )  # fmt: skip

    return body


def fp8_k(tile_fields: dict[str, Any]) -> Case:
    def body(place: Place, rng: np.random.Generator, seed: int) -> None:
        sizes = 16 * skewed(rng, (3, 7, 40)[seed % 3], (30, 60)[seed // 2 % 2])
        steps = ((), ("c",), ("c", "alpha"))[seed % 3]
        check_k(
            place, rng, sizes, (70, 200)[seed % 2], (64, 136)[seed // 2 % 2], rest=16,
            fast=seed % 4 > 0, steps=steps, in_place=bool(steps) and seed % 4 == 1,
            policy={"kernel": "persistent", "num_sms": (1, 3, 4)[seed % 3], **tile_fields},
        )  # fmt: skip

    return body


def lying_k(place: Place, rng: np.random.Generator, seed: int) -> None:
    """Sizes that are no multiples of 16: wrong numbers, but the kernel ends and stays inside."""
    a, b = (operand(rng, rows, 256, (1, 128), E4M3) for rows in (70, 24))
    operands = [(place.put(x.values), place.put(x.sf)) for x in (a, b)]
    sizes = put_vector(place, rng.integers(-3, 100, 4))
    out = Guarded(place, (4, 70, 24), "float32", 5)
    deepgemm.k_grouped_gemm(*operands, sizes, out.array, policy={"kernel": "persistent"})
    out.check_around()


def dependent_launch(place: Place, rng: np.random.Generator, seed: int) -> None:
    """Sizes, operands and C that a kernel before has not yet written when this one begins."""
    tokens = rng.integers(-2, 3, (133, 272)).astype(np.float32)
    experts = rng.integers(-2, 3, (3, 72, 272)).astype(np.float32)
    sizes = np.array([100, 1, 32])
    rows, weights = place.put(tokens), place.put(experts)
    labels = put_vector(place, np.repeat([2, 0, 1], [33, 60, 40]))
    powers = place.put(np.ldexp(np.float32(1), sizes[:, None] - 127))  # whose exponents are sizes
    fp8 = {"out_dtype": "float32", "policy": {"kernel": "persistent"}}
    with deepgemm.options(pdl=True, constant_b=seed % 2 == 1):
        b = deepgemm.quantize(weights, (128, 128), power_of_two=True)
        if seed % 2:
            b.values.to_numpy()  # complete, as constant_b promises
        a = deepgemm.quantize(rows, (1, 128), power_of_two=True)
        vector = deepgemm.layout.pack_ue8m0(powers).strided((3,), (1,))
        first = deepgemm.grouped_gemm(a, b, vector, **fp8)
        second = deepgemm.grouped_gemm(a, b, labels=labels, c=first, **fp8)
    product = np.einsum("mk,gnk->gmn", tokens, experts)
    want = product[labels_of(sizes, 133), np.arange(133)]
    np.testing.assert_array_equal(first.to_numpy(), want)
    want = want + product[np.repeat([2, 0, 1], [33, 60, 40]), np.arange(133)]
    np.testing.assert_array_equal(second.to_numpy(), want)


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {
        "k grouped, sizes that lie": lying_k,
        "grouped, dependent launch": dependent_launch,
        "grouped, general": general_rows,
        "labels, general": general_labels,
        "masked, general": general_masked,
        "k grouped, general": general_k,
    }
    for name, fields in GROUP_TILES.items():
        cases[f"grouped, {name}"] = fp8_rows(fields, False)
        cases[f"labels, {name}"] = fp8_rows(fields, True)
        cases[f"masked, {name}"] = fp8_masked(fields)
        if not has_two_units(fields):
            cases[f"k grouped, {name}"] = fp8_k(fields)
    return cases


GROUPED_CASES = _cases()
