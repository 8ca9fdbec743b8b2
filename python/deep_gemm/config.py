"""Settings of the process. What has no meaning for `deepgemm` is kept, given back and not used."""

from __future__ import annotations

import torch

from deep_gemm._state import state


def init(library_root_path: str = "", cuda_home_path: str = "") -> None:
    """Do nothing: there is no library path or CUDA toolkit to be told of."""


def set_num_sms(new_num_sms: int) -> None:
    """Let kernels occupy at most so many SMs, odd numbers too; 0: all of them.

    Raises:
        ValueError: the number is negative.
    """
    if new_num_sms < 0:
        raise ValueError(f"new_num_sms: found {new_num_sms}, need 0 or more (0: every SM)")
    state.num_sms = int(new_num_sms)


def get_num_sms() -> int:
    """Return what :func:`set_num_sms` was given; else the SMs of the current GPU, 0 without one."""
    if state.num_sms:
        return state.num_sms
    if not torch.cuda.is_available():
        return 0
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def set_pdl(new_enable_pdl: bool) -> None:
    """Launch with programmatic dependent launch, or not."""
    state.pdl = bool(new_enable_pdl)


def get_pdl() -> bool:
    """Return what :func:`set_pdl` was given; False before."""
    return bool(state.pdl)


def set_tc_util(new_tc_util: int) -> None:
    """Keep a tensor-core utilisation of 0 to 100 (0: 100). No kernel for SM90 reads it.

    Raises:
        ValueError: the number is outside 0 to 100.
    """
    if not 0 <= new_tc_util <= 100:
        raise ValueError(f"new_tc_util: found {new_tc_util}, need 0 to 100")
    state.tc_util = int(new_tc_util) or 100


def get_tc_util() -> int:
    """Return what :func:`set_tc_util` was given; 100 before."""
    return state.tc_util


def set_ignore_compile_dims(new_value: bool) -> None:
    """Keep the value. Kernels here are never compiled for an M, N or K."""
    state.ignore_compile_dims = bool(new_value)


def set_block_size_multiple_of(new_value: int | tuple[int, int]) -> None:
    """Keep the value. Tiles are chosen by `deepgemm`; its `policy` overrules them."""
    state.block_size_multiple_of = new_value


def set_mk_alignment_for_contiguous_layout(new_value: int) -> None:
    """Set the alignment of the groups' starts in a psum layout; labels need none."""
    state.mk_alignment = int(new_value)


def get_mk_alignment_for_contiguous_layout() -> int:
    """Return what :func:`set_mk_alignment_for_contiguous_layout` was given; 128 before."""
    return state.mk_alignment


def get_theoretical_mk_alignment_for_contiguous_layout(expected_m: int | None = None) -> int:
    """Return 128, whatever is expected: what callers pad to on SM90. Nothing here needs it."""
    return 128


get_m_alignment_for_contiguous_layout = get_mk_alignment_for_contiguous_layout
get_k_alignment_for_contiguous_layout = get_mk_alignment_for_contiguous_layout
