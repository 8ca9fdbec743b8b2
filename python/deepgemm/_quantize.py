"""Quantisation to float8 with fine-grained scale factors, and back."""

from typing import Any, NamedTuple

from deepgemm._library import ext


class Quantized(NamedTuple):
    """A scaled array: ``values * sf`` is what it stands for.

    Attributes:
        values: [rows, K] float8 (a :class:`View` over uint8 where the framework has no float8),
            or a stack of such matrices, [G, rows, K].
        sf: [ceil(rows / granularity[0]), ceil(K / granularity[1])] float32; [G, ...] of a stack.
        granularity: (rows, k) covered by one factor; None is the whole extent.
    """

    values: Any
    sf: Any
    granularity: tuple[int | None, int | None] | None = None


def quantize(
    x: Any,
    granularity: tuple[int | None, int | None] | None = (1, 128),
    dtype: Any = "float8_e4m3fn",
    *,
    power_of_two: bool = False,
    amax_floor: float = 1e-4,
    stream: Any = None,
) -> Quantized:
    """Quantise to float8 with one scale factor per block.

    Per block: ``sf = max(max|x|, amax_floor) / max_finite(dtype)``, and values are
    ``x * (1 / sf)`` rounded to nearest even and saturated. The product with the rounded reciprocal
    is what the published FP8 checkpoints use, so that weights quantised elsewhere agree bit for
    bit (DeepSeek-V3, arXiv:2412.19437, section 3.3).

    Args:
        x: [rows, K] float32, bfloat16 or float16 (float64 too in host memory); any strides. Or a
            stack [G, rows, K], such as the weights of G experts: each matrix is quantised by
            itself (on a GPU by a kernel of its own).
        granularity: (rows, k) of a block: (1, 128) for activations, (128, 128) for weights, (1, K)
            or (1, None) per row, (1, 32) for MX; None: one factor for the whole matrix. Edge
            blocks may be partial.
        dtype: ``"float8_e4m3fn"`` (largest value 448) or ``"float8_e5m2"`` (57344).
        power_of_two: round sf up to a power of two (exact, by its exponent bits).
        amax_floor: lower bound of a block's max|x|, so that a block of zeros has a usable factor.
            Below 2^-128 the reciprocal of sf is clamped to the largest float32.
        stream: as for :func:`gemm`.

    Returns:
        :class:`Quantized` in x's framework and on its device. For one-row granularities sf lies in
        the layout that the kernels read fastest: its rows are contiguous and padded to 16 bytes
        (the shape stays as above). A NaN in x makes its block's sf and values NaN; an infinity
        makes sf infinite.

    Raises:
        ValueError: rank, granularity or a value. TypeError: dtypes, or x is no array.
    """
    return Quantized(*ext.quantize(x, granularity, dtype, power_of_two, amax_floor, stream))


def dequantize(
    q: Any,
    out: Any = None,
    *,
    out_dtype: Any = None,
    granularity: tuple[int | None, int | None] | None = None,
    stream: Any = None,
) -> Any:
    """Turn a scaled array back: ``values * sf``, rounded once.

    Args:
        q: a :class:`Quantized` or a pair ``(values, sf)``; values [rows, K] or [G, rows, K] float8,
            sf float32 or float8_e8m0fnu, or a number that scales it all.
        out: of the shape of values, written and returned if given.
        out_dtype: of a new array: float32 (default), bfloat16 or float16.
        granularity: (rows, k) of one factor, if q does not carry it and two readings fit.
        stream: as for :func:`gemm`.

    Raises:
        ValueError: shape or granularity. TypeError: dtypes, no scale factors, or not an array.
    """
    return ext.dequantize(q, out, out_dtype, granularity, stream)
