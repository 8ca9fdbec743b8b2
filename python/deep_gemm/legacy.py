"""The Triton kernels of older GPUs, by name: calling one says what to call instead."""

from __future__ import annotations

from deep_gemm.missing import refusal

m_grouped_bf16_gemm_nt_contiguous_tl = refusal("m_grouped_bf16_gemm_nt_contiguous_tl")
m_grouped_bf16_gemm_nn_contiguous_tl = refusal("m_grouped_bf16_gemm_nn_contiguous_tl")
a_fused_m_grouped_bf16_gemm_nt_contiguous_tl = refusal(
    "a_fused_m_grouped_bf16_gemm_nt_contiguous_tl"
)
a_fused_m_grouped_bf16_gemm_nn_contiguous_tl = refusal(
    "a_fused_m_grouped_bf16_gemm_nn_contiguous_tl"
)
a_fused_k_grouped_bf16_gemm_tn_contiguous_tl = refusal(
    "a_fused_k_grouped_bf16_gemm_tn_contiguous_tl"
)
b_fused_k_grouped_bf16_gemm_tn_contiguous_tl = refusal(
    "b_fused_k_grouped_bf16_gemm_tn_contiguous_tl"
)
