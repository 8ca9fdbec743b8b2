"""The FP8 quantisers once more, independently of the library, in plain NumPy.

Definition (docs/design.md, "Numbers"): per block, amax is clamped from below, sf = amax / 448 in
FP32, and values = x * (1 / sf) in FP32, rounded to nearest even and saturated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

E4M3_MAX = 448.0
_MANTISSA_BITS, _MIN_EXPONENT, _BIAS = 3, -6, 7

Array = NDArray[Any]


def round_e4m3(x: Array) -> Array:
    """Round to the nearest E4M3 value, ties to even, saturating; the values come as FP64."""
    wide = np.clip(np.asarray(x, np.float64), -E4M3_MAX, E4M3_MAX)
    exponent = np.maximum(np.frexp(wide)[1] - 1, _MIN_EXPONENT)
    quantum = np.exp2((exponent - _MANTISSA_BITS).astype(np.float64))
    # Why clip again: a value just below the largest one may round up past it.
    rounded = np.rint(wide / quantum) * quantum
    return np.asarray(np.clip(rounded, -E4M3_MAX, E4M3_MAX))


def encode_e4m3(values: Array) -> NDArray[np.uint8]:
    """Return the bytes of values that E4M3 represents exactly; NaN is 0x7f."""
    magnitude = np.abs(np.asarray(values, np.float64))
    not_a_number = np.isnan(magnitude)
    magnitude = np.where(not_a_number, 0, magnitude)
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, _MIN_EXPONENT)
    exponent = np.where(magnitude == 0, _MIN_EXPONENT, exponent)  # frexp(0) has exponent 0
    units = np.rint(magnitude / np.exp2((exponent - _MANTISSA_BITS).astype(np.float64)))
    # A subnormal has units < 8 at the smallest exponent: its exponent field is then 0.
    code = (exponent + _BIAS - 1) * 8 + units
    sign = np.signbit(values).astype(np.uint8) << 7
    return np.asarray(np.where(not_a_number, 0x7F, code).astype(np.uint8) | sign, np.uint8)


def decode_e4m3(codes: Array) -> Array:
    """Return the FP64 values of E4M3 bytes; NaN for the two NaN codes."""
    code = np.asarray(codes, np.uint8).astype(np.int64)
    field, mantissa = (code >> 3) & 15, code & 7
    normal = np.where(field > 0, 8 + mantissa, mantissa).astype(np.float64)
    scale = np.exp2((np.maximum(field, 1) - _BIAS - _MANTISSA_BITS).astype(np.float64))
    value = np.where((code & 127) == 127, np.nan, normal * scale)
    return np.where(code >= 128, -value, value)


def _spread(sf: Array, granularity: tuple[int, int], shape: tuple[int, ...]) -> Array:
    full = np.repeat(np.repeat(sf, granularity[0], axis=0), granularity[1], axis=1)
    return full[: shape[0], : shape[1]]


def quantize(
    x: Array, granularity: tuple[int, int], amax_floor: float = 1e-4
) -> tuple[Array, NDArray[np.float32]]:
    """Return (values as FP64, sf as FP32) of a matrix, one sf per `granularity` block."""
    x32 = np.asarray(x, np.float32)
    rows, columns = granularity
    pad = (-x32.shape[0] % rows, -x32.shape[1] % columns)
    padded = np.pad(np.abs(x32), ((0, pad[0]), (0, pad[1])))
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    amax = np.maximum(blocks.max(axis=(1, 3)), np.float32(amax_floor))
    sf = (amax / np.float32(E4M3_MAX)).astype(np.float32)
    inverse = (np.float32(1) / sf).astype(np.float32)
    return round_e4m3(x32 * _spread(inverse, granularity, x32.shape)), sf


def dequantize(values: Array, sf: Array, granularity: tuple[int, int]) -> Array:
    """Return values * sf in FP64."""
    wide = np.asarray(values, np.float64)
    return wide * _spread(np.asarray(sf, np.float64), granularity, wide.shape)
