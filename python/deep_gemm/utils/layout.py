"""Memory layouts of scale factors: on a GPU one kernel each, which nobody waits for."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import deepgemm
from deep_gemm._state import call, state
from deep_gemm.config import (
    get_k_alignment_for_contiguous_layout,
    get_m_alignment_for_contiguous_layout,
    get_mk_alignment_for_contiguous_layout,
    get_theoretical_mk_alignment_for_contiguous_layout,
    set_mk_alignment_for_contiguous_layout,
)
from deep_gemm.utils.math import align, ceil_div

__all__ = [
    "get_k_alignment_for_contiguous_layout",
    "get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor",
    "get_m_alignment_for_contiguous_layout",
    "get_mk_alignment_for_contiguous_layout",
    "get_mn_major_tma_aligned_packed_ue8m0_tensor",
    "get_mn_major_tma_aligned_tensor",
    "get_theoretical_mk_alignment_for_contiguous_layout",
    "get_tma_aligned_size",
    "set_mk_alignment_for_contiguous_layout",
    "transform_sf_into_required_layout",
]

_TMA_BYTES = 16
_PACKED = 4  # exponents in an int32


def get_tma_aligned_size(x: int, element_size: int) -> int:
    """Return the least number of elements, x or more, whose bytes are a multiple of 16."""
    return align(x, _TMA_BYTES // element_size)


def _check(sf: torch.Tensor) -> None:
    if sf.dtype != torch.float32:
        raise TypeError(f"sf: found {sf.dtype}, need torch.float32")
    if sf.dim() not in (2, 3):
        raise ValueError(f"sf: found rank {sf.dim()}, need [mn, k] or [G, mn, k]")


def get_mn_major_tma_aligned_tensor(sf: torch.Tensor) -> torch.Tensor:
    """Lay factors out with rows contiguous, padded to 16 bytes.

    Args:
        sf: FP32 [mn, k] or [G, mn, k], any strides.

    Returns:
        The same shape and values, strides ([k * aligned], 1, aligned) with aligned = mn rounded up
        to 4; sf itself if it lies so.

    Raises:
        TypeError: not FP32. ValueError: neither rank 2 nor 3.
    """
    _check(sf)
    mn, k = sf.shape[-2:]
    aligned = get_tma_aligned_size(mn, sf.element_size())
    if sf.stride() == (aligned * k, 1, aligned)[3 - sf.dim() :]:
        return sf
    found: torch.Tensor = call(deepgemm.layout.sf_fast, sf)
    return found


def get_mn_major_tma_aligned_packed_ue8m0_tensor(
    sf: torch.Tensor, psum_layout: torch.Tensor | None = None
) -> torch.Tensor:
    """Pack factors that are powers of two by fours along K, rows contiguous.

    Args:
        sf: FP32 [mn, k] or [G, mn, k], any strides.
        psum_layout: int32 [G], the row after each group's last, as for grouped products; rows of
            no group may hold anything and get zeros.

    Returns:
        int32 [.., mn, ceil(k / 4)], byte j the exponent of ``sf[.., 4 i + j]``, zeros behind the
        last; strides ([packed * aligned], 1, aligned).

    Raises:
        TypeError: not FP32. ValueError: neither rank 2 nor 3; in host memory, also a factor that
            is no power of two (on a GPU it becomes infinity).
    """
    _check(sf)
    packed: torch.Tensor = call(
        deepgemm.layout.pack_ue8m0, sf, group_ends=psum_layout, alignment=state.mk_alignment
    )
    return packed


def get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(
    sf: torch.Tensor,
    grouped_layout: torch.Tensor | None,
    ks_cpu: Sequence[int],
    gran_k: int,
    k_alignment: int,
    use_psum_layout: bool = False,
) -> torch.Tensor:
    """Pack the factors of groups along K by fours, each group by itself.

    Args:
        sf: FP32 [K blocks of all groups, mn], powers of two.
        grouped_layout: int32 [G], k of each group, read on the device; None: as `ks_cpu` says.
        ks_cpu: the same, from which the result has its shape.
        gran_k: what one factor covers of K.
        k_alignment: not used: groups follow each other without gaps.
        use_psum_layout: must be False.

    Returns:
        int32 [sum of ceil(k / (4 gran_k)), mn], contiguous.

    Raises:
        ValueError: sf has not the blocks that `ks_cpu` says; or, in host memory, a factor that is
            no power of two, or sizes that are others. NotImplementedError: a psum layout.
    """
    if use_psum_layout:
        raise NotImplementedError(
            "use_psum_layout: groups along K with gaps between them are not there yet; "
            "give the size of each group"
        )
    blocks = [ceil_div(k, gran_k) for k in ks_cpu]
    if sf.dim() != 2 or sf.shape[0] != sum(blocks):
        raise ValueError(f"sf: found {tuple(sf.shape)}, need {sum(blocks)} K blocks first")
    if grouped_layout is None:
        grouped_layout = torch.tensor(list(ks_cpu), dtype=torch.int32, device=sf.device)
    packed: torch.Tensor = call(
        deepgemm.layout.pack_ue8m0, sf.t(),
        k_sizes=grouped_layout, host_k_sizes=ks_cpu, k_per_scale=gran_k,
    )  # fmt: skip
    return packed.t().contiguous()


def transform_sf_into_required_layout(
    sf: torch.Tensor,
    mn: int,
    k: int,
    recipe: tuple[int, ...],
    num_groups: int | None = None,
    is_sfa: bool | None = None,
    disable_ue8m0_cast: bool = False,
    psum_layout: torch.Tensor | None = None,
) -> torch.Tensor:
    """Bring factors into the layout that the products read fastest; nothing needs it to be right.

    Args:
        sf: FP32 [mn blocks, K blocks], or int32 with K packed by fours; [G, ...] of groups.
        mn: rows of the operand.
        k: its K.
        recipe: (rows of a, rows of b, k) of one factor with `is_sfa`, or (rows, k) without.
        num_groups: G.
        is_sfa: whether sf is of a.
        disable_ue8m0_cast: not used.
        psum_layout: not used.

    Returns:
        Of one factor per row, FP32: :func:`get_mn_major_tma_aligned_tensor`. Else sf itself.

    Raises:
        ValueError: `recipe` and `is_sfa` do not fit each other, or sf's shape does not fit them.
    """
    if (len(recipe) == 3) != (is_sfa is not None) or len(recipe) not in (2, 3):
        raise ValueError(
            f"recipe: found {recipe} with is_sfa={is_sfa}, need three numbers with is_sfa, "
            "or two without"
        )
    gran_mn, gran_k = (recipe[0 if is_sfa else 1], recipe[2]) if len(recipe) == 3 else recipe
    packed = sf.dtype == torch.int32
    groups = () if num_groups is None else (num_groups,)
    need = (*groups, ceil_div(mn, gran_mn), ceil_div(k, gran_k * (_PACKED if packed else 1)))
    if tuple(sf.shape) != need:
        raise ValueError(
            f"sf: found shape {tuple(sf.shape)}, need {need} (one factor per {gran_mn} x {gran_k} "
            f"of {mn} x {k})"
        )
    return sf if packed or gran_mn != 1 else get_mn_major_tma_aligned_tensor(sf)
