"""Recipes and scale factors, as `deepgemm` takes them."""

from __future__ import annotations

import torch

import deepgemm
from deep_gemm._state import call
from deep_gemm.utils.math import ceil_div

Scaled = tuple[torch.Tensor, torch.Tensor]
Recipe = tuple[int, int, int]
Pair = tuple[int, int]
Granularities = tuple[Pair, Pair]

_BLOCKS: Recipe = (1, 128, 128)
_ROWS: Recipe = (1, 1, 128)


def granularities(
    recipe: Recipe | None, recipe_a: Pair | None, recipe_b: Pair | None, sfb: torch.Tensor
) -> Granularities:
    """Return (rows, k) of one factor of a and of b.

    Without a recipe: (1, 128) of a and (128, 128) of b, or (1, 128) of both if b's are packed.

    Raises:
        ValueError: both forms of recipe are given, or half of the pair form.
    """
    if (recipe_a is None) != (recipe_b is None):
        raise ValueError(
            f"recipe_a, recipe_b: found {recipe_a} and {recipe_b}, need both or neither"
        )
    if recipe_a is not None and recipe_b is not None:
        if recipe is not None:
            raise ValueError(f"recipe: found {recipe} beside recipe_a and recipe_b, need one form")
        return (recipe_a[0], recipe_a[1]), (recipe_b[0], recipe_b[1])
    if recipe is None:
        recipe = _ROWS if sfb.dtype == torch.int32 else _BLOCKS
    if len(recipe) != 3:
        raise ValueError(f"recipe: found {recipe}, need (rows of a, rows of b, k)")
    return (recipe[0], recipe[2]), (recipe[1], recipe[2])


def scaled(operand: Scaled, gran_k: int, k_last: bool = True) -> Scaled:
    """Return the operand with float32 factors; four packed exponents of K are unpacked.

    Args:
        operand: values [..., rows, K] and factors [..., row blocks, K blocks] of float32, or
            int32 [..., rows, ceil(K blocks / 4)]; [..., K, rows] and so on if not `k_last`.
        gran_k: what one factor covers of K.
        k_last: whether K is the last dimension.
    """
    values, sf = operand
    if sf.dtype != torch.int32:
        return values, sf
    packed = sf if k_last else sf.transpose(-1, -2)
    blocks = ceil_div(values.shape[-1 if k_last else -2], gran_k)
    factors: torch.Tensor = call(deepgemm.layout.unpack_ue8m0, packed, k_blocks=blocks)
    return values, factors if k_last else factors.transpose(-1, -2)


def scaled_by_groups(operand: Scaled, k_sizes: torch.Tensor, gran_k: int) -> Scaled:
    """Return the operand with float32 factors: packed ones are so for each group along K.

    Args:
        operand: values [K, rows] and factors [K blocks, rows] of float32, or int32 [sum over the
            groups of ceil(K blocks / 4), rows].
        k_sizes: int32 [G], K of each group, read on the device.
        gran_k: what one factor covers of K.
    """
    values, sf = operand
    if sf.dtype != torch.int32:
        return operand
    factors: torch.Tensor = call(
        deepgemm.layout.unpack_ue8m0, sf.t(), k_sizes=k_sizes, k_per_scale=gran_k
    )
    return values, factors.t()
