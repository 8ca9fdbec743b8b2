"""Dense products: arguments of `deep_gemm` in, `deepgemm.gemm` out."""

from __future__ import annotations

import torch

from deep_gemm._operands import Pair, Recipe, Scaled, granularities, scaled
from deep_gemm._state import product


def _fp8(
    layout: str,
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    c: torch.Tensor | None,
    recipe: Recipe | None,
    recipe_a: Pair | None,
    recipe_b: Pair | None,
) -> None:
    granularity = granularities(recipe, recipe_a, recipe_b, b[1])
    left = scaled(a, granularity[0][1], layout[0] == "n")
    right = scaled(b, granularity[1][1], layout[1] == "t")
    product("gemm", left, right, d, c=c, layout=layout, granularity=granularity)


def fp8_gemm_nt(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe | None = None,
    recipe_a: Pair | None = None,
    recipe_b: Pair | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """Write ``A @ B.T + c`` into d.

    Args:
        a: float8 [M, K] and its factors, float32 of any strides, or packed int32.
        b: float8 [N, K] and its factors.
        d: [M, N], BF16, FP16 or FP32.
        c: None, d itself, or another [M, N]; added last.
        recipe: (rows of a, rows of b, k) of one factor; (1, 128, 128) if none is given.
        recipe_a: (rows, k) of a's factors, together with `recipe_b` and instead of `recipe`.
        recipe_b: the same of b's.
        compiled_dims: not used; no kernel is compiled for its extents.
        disable_ue8m0_cast: not used; factors stay FP32.
    """
    _fp8("nt", a, b, d, c, recipe, recipe_a, recipe_b)


def fp8_gemm_nn(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe | None = None,
    recipe_a: Pair | None = None,
    recipe_b: Pair | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """Write ``A @ B + c`` into d: as :func:`fp8_gemm_nt`, b and its factors being [K, N]."""
    _fp8("nn", a, b, d, c, recipe, recipe_a, recipe_b)


def fp8_gemm_tn(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe | None = None,
    recipe_a: Pair | None = None,
    recipe_b: Pair | None = None,
    compiled_dims: str = "mn",
    disable_ue8m0_cast: bool = False,
) -> None:
    """Write ``A.T @ B + c`` into d: as :func:`fp8_gemm_nt`, a being [K, M] and b [K, N]."""
    _fp8("tn", a, b, d, c, recipe, recipe_a, recipe_b)


def fp8_gemm_tt(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    recipe: Recipe | None = None,
    recipe_a: Pair | None = None,
    recipe_b: Pair | None = None,
    compiled_dims: str = "mn",
    disable_ue8m0_cast: bool = False,
) -> None:
    """Write ``A.T @ B.T + c`` into d: as :func:`fp8_gemm_nt`, a being [K, M]."""
    _fp8("tt", a, b, d, c, recipe, recipe_a, recipe_b)


fp8_fp4_gemm_nt = fp8_gemm_nt
fp8_fp4_gemm_nn = fp8_gemm_nn
fp8_fp4_gemm_tn = fp8_gemm_tn
fp8_fp4_gemm_tt = fp8_gemm_tt


def fp8_gemm_nt_skip_head_mid(
    a: Scaled,
    b: Scaled,
    d: torch.Tensor,
    head_splits: tuple[int, int, int],
    recipe: Recipe | None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """Write ``A @ B.T`` into d, leaving the middle columns of each head as they are.

    Args:
        a: as for :func:`fp8_gemm_nt`.
        b: likewise, [N, K]; N is a number of heads times ``left + right``.
        d: [M, heads * (left + mid + right)].
        head_splits: (left, mid, right) columns of one head; any numbers.
        recipe: as for :func:`fp8_gemm_nt`.
        compiled_dims: not used.
        disable_ue8m0_cast: not used.

    Raises:
        ValueError: N is not a number of whole heads, or d has not the columns of the heads.
    """
    left, mid, right = head_splits
    m, n, width = d.shape[0], b[0].shape[0], left + right
    if width <= 0 or n % width or d.shape[1] != n // width * (width + mid):
        raise ValueError(
            f"head_splits: found {head_splits} for b of {n} rows and d of {d.shape[1]} columns, "
            "need heads of left + right rows of b and left + mid + right columns of d"
        )
    # deepgemm has no output with gaps between its columns yet; until then, a copy.
    whole = torch.empty(m, n, dtype=d.dtype, device=d.device)
    fp8_gemm_nt(a, b, whole, recipe=recipe)
    heads = whole.view(m, n // width, width)
    target = d.view(m, n // width, width + mid)
    target[..., :left] = heads[..., :left]
    target[..., left + mid :] = heads[..., left:]


def bf16_gemm_nt(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    compiled_dims: str = "nk",
) -> None:
    """Write ``A @ B.T + c`` into d.

    Args:
        a: BF16 (or FP16, FP32) [M, K], any strides.
        b: likewise, [N, K].
        d: [M, N], BF16, FP16 or FP32.
        c: None, d itself, or another [M, N]; added before the only rounding.
        compiled_dims: not used.
    """
    product("gemm", a, b, d, c=c, layout="nt")


def bf16_gemm_nn(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    compiled_dims: str = "nk",
) -> None:
    """Write ``A @ B + c`` into d: as :func:`bf16_gemm_nt`, b being [K, N]."""
    product("gemm", a, b, d, c=c, layout="nn")


def bf16_gemm_tn(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    compiled_dims: str = "mn",
) -> None:
    """Write ``A.T @ B + c`` into d: as :func:`bf16_gemm_nt`, a being [K, M] and b [K, N]."""
    product("gemm", a, b, d, c=c, layout="tn")


def bf16_gemm_tt(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor,
    c: torch.Tensor | None = None,
    compiled_dims: str = "mn",
) -> None:
    """Write ``A.T @ B.T + c`` into d: as :func:`bf16_gemm_nt`, a being [K, M]."""
    product("gemm", a, b, d, c=c, layout="tt")
