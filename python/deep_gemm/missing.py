"""Names of what `deepgemm` cannot compute yet: they exist, and say so when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

_MISSING = {
    "einsum": "einsum of BF16 batches is not there yet; deepgemm.gemm takes batches of rank 3",
    "fp8_einsum": "einsum of FP8 batches is not there yet; deepgemm.gemm takes batches of rank 3",
    "fp8_mqa_logits": "the FP8 MQA logits of the indexer's prefill are not there yet",
    "fp8_fp4_mqa_logits": "the FP8 and FP4 MQA logits of the indexer's prefill are not there yet",
    "get_paged_mqa_logits_metadata": "the schedule of paged MQA logits is not there yet",
    "fp8_paged_mqa_logits": "the FP8 MQA logits over a paged cache are not there yet",
    "fp8_fp4_paged_mqa_logits": "the FP8 and FP4 MQA logits over a paged cache are not there yet",
    "tf32_hc_prenorm_gemm": "the TF32 product of hyper-connections with its sums of squares is "
    "not there yet",
    "get_symm_buffer_for_mega_moe": "symmetric memory for the fused MoE kernel is not there yet",
    "transform_weights_for_mega_moe": "weights of the fused MoE kernel are not there yet",
    "fp8_fp4_mega_moe": "the fused MoE kernel of FP8 and FP4 is not there yet (SM100 only)",
    "bf16_mega_moe": "the fused MoE kernel of BF16 is not there yet (SM100 only)",
    "m_grouped_bf16_gemm_nt_contiguous_tl": "Triton kernels are not offered; "
    "m_grouped_bf16_gemm_nt_contiguous computes the same",
    "m_grouped_bf16_gemm_nn_contiguous_tl": "Triton kernels are not offered; "
    "m_grouped_bf16_gemm_nn_contiguous computes the same",
    "a_fused_m_grouped_bf16_gemm_nt_contiguous_tl": "a gather fused into a grouped product is not "
    "there yet",
    "a_fused_m_grouped_bf16_gemm_nn_contiguous_tl": "a gather fused into a grouped product is not "
    "there yet",
    "a_fused_k_grouped_bf16_gemm_tn_contiguous_tl": "a gather fused into a product in groups of K "
    "is not there yet",
    "b_fused_k_grouped_bf16_gemm_tn_contiguous_tl": "a gather fused into a product in groups of K "
    "is not there yet",
}


def refusal(name: str) -> Callable[..., NoReturn]:
    """Return a function of that name which raises NotImplementedError with its sentence."""
    words = f"{name}: {_MISSING[name]}"

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(words)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raise NotImplementedError: {_MISSING[name]}."
    return refuse


einsum = refusal("einsum")
fp8_einsum = refusal("fp8_einsum")
fp8_mqa_logits = refusal("fp8_mqa_logits")
fp8_fp4_mqa_logits = refusal("fp8_fp4_mqa_logits")
get_paged_mqa_logits_metadata = refusal("get_paged_mqa_logits_metadata")
fp8_paged_mqa_logits = refusal("fp8_paged_mqa_logits")
fp8_fp4_paged_mqa_logits = refusal("fp8_fp4_paged_mqa_logits")
tf32_hc_prenorm_gemm = refusal("tf32_hc_prenorm_gemm")
get_symm_buffer_for_mega_moe = refusal("get_symm_buffer_for_mega_moe")
transform_weights_for_mega_moe = refusal("transform_weights_for_mega_moe")
fp8_fp4_mega_moe = refusal("fp8_fp4_mega_moe")
bf16_mega_moe = refusal("bf16_mega_moe")


class SymmBuffer:
    """The buffer of the fused MoE kernel. Making one raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError."""
        raise NotImplementedError(
            "SymmBuffer: symmetric memory for the fused MoE kernel is not there yet"
        )
