"""Names and argument orders of DeepGEMM's first version."""

from __future__ import annotations

import torch

from deep_gemm._operands import Scaled
from deep_gemm.gemm import fp8_gemm_nt
from deep_gemm.grouped import m_grouped_fp8_gemm_nt_contiguous, m_grouped_fp8_gemm_nt_masked
from deep_gemm.utils.layout import get_mn_major_tma_aligned_tensor


def gemm_fp8_fp8_bf16_nt(lhs: Scaled, rhs: Scaled, out: torch.Tensor) -> None:
    """As :func:`fp8_gemm_nt`: lhs [M, K], rhs [N, K], out [M, N]."""
    fp8_gemm_nt(lhs, rhs, out)


def m_grouped_gemm_fp8_fp8_bf16_nt_contiguous(
    lhs: Scaled, rhs: Scaled, out: torch.Tensor, m_indices: torch.Tensor
) -> None:
    """As :func:`m_grouped_fp8_gemm_nt_contiguous`, by labels [M]."""
    m_grouped_fp8_gemm_nt_contiguous(lhs, rhs, out, m_indices)


def m_grouped_gemm_fp8_fp8_bf16_nt_masked(
    lhs: Scaled, rhs: Scaled, out: torch.Tensor, masked_m: torch.Tensor, expected_m: int
) -> None:
    """As :func:`m_grouped_fp8_gemm_nt_masked`."""
    m_grouped_fp8_gemm_nt_masked(lhs, rhs, out, masked_m, expected_m)


get_col_major_tma_aligned_tensor = get_mn_major_tma_aligned_tensor
