"""Products in groups along K: the gradients of experts' weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deep_gemm._operands import Recipe, Scaled, scaled_by_groups
from deep_gemm._state import product
from deep_gemm.utils.math import ceil_div


def _refuse_psum(use_psum_layout: bool) -> None:
    if use_psum_layout:
        raise NotImplementedError(
            "use_psum_layout: groups along K with gaps between them are not there yet; "
            "give grouped_layout the size of each group"
        )


def k_grouped_fp8_gemm_nt_contiguous(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    ks_cpu: Sequence[int],
    grouped_layout: torch.Tensor | None,
    c: torch.Tensor | None = None,
    recipe: Recipe = (1, 1, 128),
    compiled_dims: str = "mn",
    use_psum_layout: bool = False,
) -> None:
    """Write ``d[g] = A_g @ B_g.T + c[g]``, group by group.

    Args:
        a: float8 of sum(M * k_g) elements, one [M, k_g] matrix behind the other, and their
            factors side by side, [M, sum of K blocks] float32 of any strides.
        b: likewise, with N.
        d: [G, M, N], FP32 or BF16.
        ks_cpu: k_g of each group, any multiples of 16, 0 included.
        grouped_layout: the same on the device; not read.
        c: None, d itself, or another [G, M, N].
        recipe: (rows of a, rows of b, k) of one factor.
        compiled_dims: not used.
        use_psum_layout: must be False.

    Raises:
        ValueError: a or b has not the elements, or d not the groups, that `ks_cpu` says.
    """
    _refuse_psum(use_psum_layout)
    groups, m, n = d.shape
    total = sum(ks_cpu)
    for name, operand, rows in (("a", a[0], m), ("b", b[0], n)):
        if operand.numel() != rows * total or len(ks_cpu) != groups:
            raise ValueError(
                f"{name}: found {operand.numel()} elements for {rows} rows of {len(ks_cpu)} groups "
                f"with {total} of K in all, need {rows * total} and the {groups} groups of d"
            )
    granularity = ((recipe[0], recipe[2]), (recipe[1], recipe[2]))
    flat_a, flat_b = a[0].reshape(-1), b[0].reshape(-1)
    begin = block = 0
    # deepgemm.k_grouped_gemm takes [M, K] arrays of one pitch; it still misses flat buffers, whose
    # pitch is each group's own, so that this is one product per group.
    for g, k in enumerate(ks_cpu):
        blocks = slice(block, block + ceil_div(k, recipe[2]))
        end = begin + k
        product(
            "gemm",
            (flat_a[begin * m : end * m].view(m, k), a[1][:, blocks]),
            (flat_b[begin * n : end * n].view(n, k), b[1][:, blocks]),
            d[g],
            c=None if c is None else c[g],
            granularity=granularity,
        )
        begin, block = end, blocks.stop


def k_grouped_fp8_gemm_tn_contiguous(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    ks_cpu: Sequence[int] | None,
    grouped_layout: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe = (1, 1, 128),
    compiled_dims: str = "mn",
    use_psum_layout: bool = False,
) -> None:
    """Write ``d[g] = A_g.T @ B_g + c[g]``, tokens lying one behind the other.

    Args:
        a: float8 [sum of k_g, M] and its factors [K blocks, M], blocks counted per group; or
            int32 of these, packed by fours per group.
        b: likewise, with N.
        d: [G, M, N], FP32 or BF16.
        ks_cpu: not read.
        grouped_layout: int32 [G], k_g of each group, multiples of 16, read on the device.
        c: None, d itself, or another [G, M, N].
        recipe: must be (1, 1, 128).
        compiled_dims: not used.
        use_psum_layout: must be False.

    Raises:
        ValueError: another recipe.
    """
    _refuse_psum(use_psum_layout)
    if tuple(recipe) != (1, 1, 128):
        raise ValueError(f"recipe: found {recipe}, need (1, 1, 128)")
    left, right = (scaled_by_groups(operand, grouped_layout, 128) for operand in (a, b))
    product(
        "k_grouped_gemm", left, right, grouped_layout, d,
        c=c, layout="tn",
    )  # fmt: skip


def k_grouped_bf16_gemm_tn_contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    ks_cpu: Sequence[int] | None,
    grouped_layout: torch.Tensor,
    c: torch.Tensor | None = None,
    compiled_dims: str = "mn",
    use_psum_layout: bool = False,
) -> None:
    """Write ``d[g] = A_g.T @ B_g + c[g]``, of BF16: a [sum of k_g, M], b [sum of k_g, N].

    Args:
        a: BF16 (or FP16, FP32); group g has the next k_g rows, any number of them.
        b: likewise.
        d: [G, M, N], FP32 or BF16.
        ks_cpu: not read.
        grouped_layout: int32 [G], k_g of each group, read on the device.
        c: None, d itself, or another [G, M, N].
        compiled_dims: not used.
        use_psum_layout: must be False.
    """
    _refuse_psum(use_psum_layout)
    product("k_grouped_gemm", a, b, grouped_layout, d, c=c, layout="tn")
