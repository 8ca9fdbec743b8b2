"""The right answers, computed with NumPy alone, and inputs for which they are exact.

Exact inputs: integers of at most 2 in magnitude and scale factors 2^-2 ... 2^2 that differ from
block to block. Every partial sum then fits float32, so that any order of summation gives the same
bits and a kernel must agree with NumPy to the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf
from typing import Any

import ml_dtypes
import numpy as np

Array = Any
DTYPES = {
    name: np.dtype(getattr(ml_dtypes, name, None) or name)
    for name in (
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e8m0fnu",
        "bfloat16",
        "float16",
        "float32",
        "float64",
    )
}
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def cast(x: Array, dtype: str) -> Array:
    """Rounded once to nearest even; float8 saturates, NaN stays."""
    if dtype in LARGEST:
        x = np.clip(x, -LARGEST[dtype], LARGEST[dtype])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x).astype(DTYPES[dtype])


def same_bits(x: Array, y: Array) -> bool:
    """Equal bit for bit, all NaNs being one."""
    nan = np.isnan(x.astype(np.float64)) & np.isnan(y.astype(np.float64))
    raw = f"u{x.dtype.itemsize}"
    equal = np.ascontiguousarray(x).view(raw) == np.ascontiguousarray(y).view(raw)
    return x.dtype == y.dtype and x.shape == y.shape and bool(np.all(equal | nan))


def difference(x: Array, y: Array) -> float:
    """1 - 2<x,y> / (<x,x> + <y,y>): the error measure of docs/design.md."""
    x, y = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    norm = float(x @ x + y @ y)
    return 0.0 if norm == 0 else 1 - 2 * float(x @ y) / norm


def expand(sf: Array, granularity: tuple[int, int], shape: tuple[int, int]) -> Array:
    """One factor per element; 0 in a granularity is the whole extent."""
    rows, k = (part or max(extent, 1) for part, extent in zip(granularity, shape, strict=True))
    full = np.repeat(np.repeat(sf.astype(np.float64), rows, axis=0), k, axis=1)
    return full[: shape[0], : shape[1]]


def scale_shape(granularity: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
    rows, k = (
        1 if part == 0 else -(-extent // part)
        for part, extent in zip(granularity, shape, strict=True)
    )
    return rows, k


@dataclass
class Operand:
    """Values and factors, with the real matrix that they stand for, rows by K."""

    values: Array
    sf: Array
    granularity: tuple[int, int]

    @property
    def real(self) -> Array:
        shape = self.values.shape
        return self.values.astype(np.float64) * expand(self.sf, self.granularity, shape)


def exact_operand(
    rng: np.random.Generator,
    rows: int,
    k: int,
    granularity: tuple[int, int],
    dtype: str = "float8_e4m3fn",
) -> Operand:
    values = cast(rng.integers(-2, 3, (rows, k)).astype(np.float32), dtype)
    sf = 2.0 ** rng.integers(-2, 3, scale_shape(granularity, (rows, k)))
    return Operand(values, sf.astype(np.float32), granularity)


def random_operand(
    rng: np.random.Generator,
    rows: int,
    k: int,
    granularity: tuple[int, int],
    dtype: str = "float8_e4m3fn",
) -> Operand:
    values = cast(rng.standard_normal((rows, k)).astype(np.float32) * 30, dtype)
    sf = rng.uniform(0.001, 0.1, scale_shape(granularity, (rows, k)))
    return Operand(values, sf.astype(np.float32), granularity)


ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0.0)),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(erf, otypes=[float])(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def product(
    a: Array,
    b: Array,
    *,
    alpha: float = 1.0,
    bias: Array | None = None,
    activation: str | None = None,
    c: Array | None = None,
) -> Array:
    """activation(alpha * A @ B^T + bias) + c of real matrices, in float64."""
    out = alpha * (a.astype(np.float64) @ b.astype(np.float64).T)
    if bias is not None:
        out = out + bias.astype(np.float64)
    out = ACTIVATIONS[activation](out)
    return out if c is None else out + c.astype(np.float64)


def _round_up_to_power_of_two(sf: Array) -> Array:
    """By exponent bits: mantissa 0 stays, any other goes to the next exponent."""
    bits = sf.astype(np.float32).view(np.uint32)
    up = np.where(bits & 0x7FFFFF != 0, (bits & 0x7F800000) + 0x800000, bits)
    special = bits & 0x7F800000 == 0x7F800000
    return np.where(special, bits, up).astype(np.uint32).view(np.float32)


def quantize(
    x: Array,
    granularity: tuple[int, int],
    dtype: str = "float8_e4m3fn",
    power_of_two: bool = False,
    amax_floor: float = 1e-4,
) -> tuple[Array, Array]:
    """The contract of docs/design.md, block by block, in float32."""
    x = x.astype(np.float32)
    rows, k = (part or max(extent, 1) for part, extent in zip(granularity, x.shape, strict=True))
    sf = np.empty(scale_shape(granularity, x.shape), np.float32)
    values = np.empty(x.shape, DTYPES[dtype])
    for i in range(sf.shape[0]):
        for j in range(sf.shape[1]):
            place = np.s_[i * rows : (i + 1) * rows, j * k : (j + 1) * k]
            block = x[place]
            amax = np.maximum(np.abs(block).max(initial=0), np.float32(amax_floor))  # keeps NaN
            factor = np.float32(amax) / np.float32(LARGEST[dtype])
            if power_of_two:
                factor = _round_up_to_power_of_two(np.array([factor], np.float32))[0]
            sf[i, j] = factor
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                scaled = block * (np.float32(1) / factor)
                nan = np.isnan(factor) | np.isnan(scaled)
                values[place] = cast(np.where(nan, np.nan, scaled), dtype)
    return values, sf
