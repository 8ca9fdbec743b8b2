"""Policies and shapes of the cases on the modelled SM90."""

from __future__ import annotations

from typing import Any


def tile(m: int, n: int, consumers: int = 2, **fields: Any) -> dict[str, Any]:
    """A policy of the persistent kernel, on few SMs: a CTA then has several tiles."""
    base = {"tile_m": m, "tile_n": n, "consumers": consumers, "cluster_k": 1, "num_sms": 4}
    return {**base, **fields}


def shape_of(policy: dict[str, Any], seed: int) -> tuple[int, int, int]:
    """An edge shape of at most a few tiles; K of one block, of less, of several rounds."""
    m, n = policy["tile_m"], policy["tile_n"]
    return (
        (1, 8, 16),
        (m + 1, n + 24, 896),
        (m * 2, n, 1168),
        (m * 2 + 63, n * 2 + 8, 640),
        (m - 1, n * 3, 128),
    )[seed % 5]


def has_two_units(policy: dict[str, Any]) -> bool:
    """Whether a warpgroup has two units, and so no registers for factors per column or a bias."""
    return bool(policy["tile_m"] * policy.get("consumers_n", 1) > 64 * policy["consumers"])
