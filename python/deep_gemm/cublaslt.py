"""cuBLASLt's products through torch: the rival of comparisons."""

from __future__ import annotations

import torch


def _product(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, c: torch.Tensor | None) -> None:
    """Write ``a @ b + c`` into d; a is [M, K] and b [K, N], of any strides."""
    if c is not None and c.shape != d.shape:
        raise ValueError(f"c: found shape {tuple(c.shape)}, need d's, {tuple(d.shape)}")
    if a.dtype == b.dtype == d.dtype:
        if c is None:
            torch.mm(a, b, out=d)
        else:
            torch.addmm(c.to(d.dtype), a, b, out=d)
        return
    if not a.is_cuda:
        product = a.float() @ b.float()
    elif a.element_size() == 1:
        # cuBLASLt takes float8 with K contiguous in both; the factors are ones.
        one = torch.ones((), device=a.device)
        right = b.t().contiguous().t()
        product = torch._scaled_mm(
            a.contiguous(), right, scale_a=one, scale_b=one, out_dtype=d.dtype,
            use_fast_accum=False,
        )  # fmt: skip
    else:
        product = torch.mm(a, b, out_dtype=d.dtype)
    d.copy_(product if c is None else product + c)


def cublaslt_gemm_nt(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, c: torch.Tensor | None = None
) -> None:
    """Write ``a @ b.T + c`` into d by torch: a [M, K], b [N, K], BF16 or float8; d BF16 or FP32."""
    _product(a, b.t(), d, c)


def cublaslt_gemm_nn(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, c: torch.Tensor | None = None
) -> None:
    """Write ``a @ b + c`` into d by torch: a [M, K], b [K, N]."""
    _product(a, b, d, c)


def cublaslt_gemm_tn(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, c: torch.Tensor | None = None
) -> None:
    """Write ``a.T @ b + c`` into d by torch: a [K, M], b [K, N]."""
    _product(a.t(), b, d, c)


def cublaslt_gemm_tt(
    a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, c: torch.Tensor | None = None
) -> None:
    """Write ``a.T @ b.T + c`` into d by torch: a [K, M], b [N, K]."""
    _product(a.t(), b.t(), d, c)
