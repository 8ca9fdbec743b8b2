"""The dense matrix product."""

from typing import Any

from deepgemm._library import Policy, compiled, ext


@compiled(ext.gemm)
def gemm(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    alpha: float = 1.0,
    out_dtype: Any = None,
    out_scale: float | None = None,
    layout: str = "nt",
    granularity: Any = None,
    policy: Policy | dict[str, object] | None = None,
    stream: Any = None,
) -> Any:
    """Compute ``out = activation(alpha * A @ B + bias) + c``, A of shape [M, K], B of [K, N].

    Arrays of any framework, all in host memory (CPU reference) or on one CUDA device (launched on
    ``stream``). FP8 products are promoted into FP32 sums at least every 128 of K.

    An a or b of rank 3, [B, ...], makes a batch of B products. One matrix serves all of it where it
    has rank 2, a batch extent of 1 or a batch stride of 0: of a, b, c, and the factors of a batch.

    Args:
        a: [M, K] or [B, M, K], or a scaled array: ``(values, sf)`` or what :func:`quantize`
            returns. float8, bfloat16, float16 or float32, any strides. A number as sf scales it
            all. Tensors that require grad are taken, but the result carries no gradient.
        b: likewise; [N, K] or [B, N, K] in the default layout.
        out: [M, N] or [B, M, N] (in memory, B is outermost), written and returned. May be ``c``;
            else overlaps nothing. Not read-only, not a jax array or a tensor that requires grad.
        c: of out's shape, and its dtype or float32; added last. A float8 c is multiplied by
            ``out_scale`` first, as what an earlier call with it has written.
        bias: [N] float32, bfloat16 or float16.
        activation: None, ``"relu"``, ``"gelu"`` (erf), ``"gelu_tanh"`` or ``"silu"``.
        alpha: factor of the product.
        out_dtype: of a new out: bfloat16 (default), float16 (default for float16 a), float32
            (default for float32 a) or float8.
        out_scale: a float8 out is divided by it, then saturated.
        layout: memory of a and b as in row-major BLAS: ``"nt"`` [M, K], [N, K]; ``"nn"`` [M, K],
            [K, N]; ``"tn"`` [K, M], [K, N]; ``"tt"`` [K, M], [N, K]. sf lies as its values do: for
            a b of [K, N] it is what ``quantize(b)`` gives, [K blocks, N blocks].
        granularity: (rows, k) that one scale factor covers, None for the whole extent; one pair or
            a pair of pairs, of (rows of A or columns of B, k) in every layout. Needed where the
            shape of sf fits two. A :class:`Quantized` carries its own, of its memory.
        policy: a :class:`Policy`, or a dict of its fields, to overrule the choice of kernel on a
            GPU; a field that only one kernel has asks for it. In host memory it changes nothing.
        stream: an int, or an object with ``__cuda_stream__``, ``cuda_stream`` or ``ptr``; default:
            the current stream of a's framework.

    Raises:
        ValueError: shape, stride, value, device, granularity, or a policy that cannot be had.
        TypeError: dtype, or no array. deepgemm.Error: driver, device or compiler.
    """
    raise NotImplementedError  # compiled: see the decorator
