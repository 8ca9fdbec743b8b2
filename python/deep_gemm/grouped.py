"""Products in groups of rows: labels and prefix sums, and masks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from deep_gemm._operands import Pair, Recipe, Scaled, granularities, scaled
from deep_gemm._state import product, state

Function = TypeVar("Function", bound=Callable[..., None])


def _labels_called_m_indices(function: Function) -> Function:
    """Take `grouped_layout` under its older name too."""

    @functools.wraps(function)
    def take(*args: Any, **kwargs: Any) -> None:
        if "m_indices" in kwargs:
            kwargs["grouped_layout"] = kwargs.pop("m_indices")
        function(*args, **kwargs)

    return cast(Function, take)


def _contiguous(
    a: Any, b: Any, d: torch.Tensor, grouped_layout: torch.Tensor, psum: bool, **options: Any
) -> None:
    """Compute by labels, one per row, or by ends, one per group (`psum`)."""
    if psum:
        options |= {"group_ends": grouped_layout, "alignment": state.mk_alignment}
    else:
        options["labels"] = grouped_layout
    product("grouped_gemm", a, b, out=d, **options)


def _contiguous_fp8(
    layout: str,
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    recipes: tuple[Recipe | None, Pair | None, Pair | None],
    psum: bool,
) -> None:
    granularity = granularities(*recipes, b[1])
    left = scaled(a, granularity[0][1])
    right = scaled(b, granularity[1][1], layout == "nt")
    _contiguous(left, right, d, grouped_layout, psum, layout=layout, granularity=granularity)


@_labels_called_m_indices
def m_grouped_fp8_gemm_nt_contiguous(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    recipe: Recipe | None = None,
    recipe_a: Pair | None = None,
    recipe_b: Pair | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
    use_psum_layout: bool = False,
    ensure_zero_padding: bool = True,
    expected_m_for_psum_layout: int | None = None,
) -> None:
    """Multiply each row of a with the matrix of its group, into d. Rows of no group stay.

    Args:
        a: float8 [M, K] and its factors.
        b: float8 [G, N, K] and its factors, one matrix of them per group.
        d: [M, N], BF16, FP16 or FP32.
        grouped_layout: int32 [M], each row's group or -1, in any order and of any lengths; with
            `use_psum_layout` [G], the row after each group's last, groups starting at multiples
            of ``get_mk_alignment_for_contiguous_layout()``.
        recipe: as for :func:`fp8_gemm_nt`.
        recipe_a: likewise.
        recipe_b: likewise.
        compiled_dims: not used.
        disable_ue8m0_cast: not used.
        use_psum_layout: how `grouped_layout` is read.
        ensure_zero_padding: not used: rows of no group are not written.
        expected_m_for_psum_layout: not used: a kernel's tiles follow the groups that it finds.
    """
    recipes = (recipe, recipe_a, recipe_b)
    _contiguous_fp8("nt", a, b, d, grouped_layout, recipes, use_psum_layout)


@_labels_called_m_indices
def m_grouped_fp8_gemm_nn_contiguous(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    recipe: Recipe | None = None,
    recipe_a: Pair | None = None,
    recipe_b: Pair | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
    use_psum_layout: bool = False,
    ensure_zero_padding: bool = True,
) -> None:
    """As :func:`m_grouped_fp8_gemm_nt_contiguous`, b and its factors being [G, K, N]."""
    recipes = (recipe, recipe_a, recipe_b)
    _contiguous_fp8("nn", a, b, d, grouped_layout, recipes, use_psum_layout)


def m_grouped_fp8_gemm_nt_masked(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    masked_m: torch.Tensor,
    expected_m: int,
    recipe: Recipe | None = None,
    recipe_a: Pair | None = None,
    recipe_b: Pair | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """Multiply the first ``masked_m[g]`` rows of each group, into d. The other rows stay.

    Args:
        a: float8 [G, Mmax, K] and its factors [G, Mmax, K blocks]; any Mmax.
        b: float8 [G, N, K] and its factors.
        d: [G, Mmax, N], BF16, FP16 or FP32.
        masked_m: int32 [G], read when the kernel runs: a CUDA graph may change it.
        expected_m: about how many rows a group has; steers the choice of kernel only.
        recipe: as for :func:`fp8_gemm_nt`.
        recipe_a: likewise.
        recipe_b: likewise.
        compiled_dims: not used.
        disable_ue8m0_cast: not used.
    """
    granularity = granularities(recipe, recipe_a, recipe_b, b[1])
    left, right = scaled(a, granularity[0][1]), scaled(b, granularity[1][1])
    product(
        "masked_gemm", left, right, masked_m, d,
        expected_rows=int(expected_m), granularity=granularity,
    )  # fmt: skip


m_grouped_fp8_fp4_gemm_nt_contiguous = m_grouped_fp8_gemm_nt_contiguous
m_grouped_fp8_fp4_gemm_nn_contiguous = m_grouped_fp8_gemm_nn_contiguous
m_grouped_fp8_fp4_gemm_nt_masked = m_grouped_fp8_gemm_nt_masked
fp8_m_grouped_gemm_nt_masked = m_grouped_fp8_gemm_nt_masked


@_labels_called_m_indices
def m_grouped_bf16_gemm_nt_contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    compiled_dims: str = "nk",
    use_psum_layout: bool = False,
    ensure_zero_padding: bool = True,
    expected_m_for_psum_layout: int | None = None,
) -> None:
    """As :func:`m_grouped_fp8_gemm_nt_contiguous` of BF16: a [M, K], b [G, N, K], no factors."""
    _contiguous(a, b, d, grouped_layout, use_psum_layout)


@_labels_called_m_indices
def m_grouped_bf16_gemm_nn_contiguous(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    compiled_dims: str = "nk",
    use_psum_layout: bool = False,
    ensure_zero_padding: bool = True,
) -> None:
    """As :func:`m_grouped_bf16_gemm_nt_contiguous`, b being [G, K, N]."""
    _contiguous(a, b, d, grouped_layout, use_psum_layout, layout="nn")


def m_grouped_bf16_gemm_nt_masked(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    masked_m: torch.Tensor,
    expected_m: int,
    compiled_dims: str = "nk",
) -> None:
    """As :func:`m_grouped_fp8_gemm_nt_masked` of BF16: a [G, Mmax, K], b [G, N, K]."""
    product("masked_gemm", a, b, masked_m, d, expected_rows=int(expected_m))


bf16_m_grouped_gemm_nt_masked = m_grouped_bf16_gemm_nt_masked
