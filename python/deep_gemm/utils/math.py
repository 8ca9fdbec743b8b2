"""Quantisers of torch tensors, and the bits of UE8M0 and FP4.

Of every quantiser, per block: ``amax = max(max|x|, 1e-4)``, ``sf = amax / 448`` in FP32, rounded up
to a power of two if asked, ``values = float8(x * (1 / sf))``.
"""

from __future__ import annotations

import torch

import deepgemm
from deep_gemm._state import call

_LARGEST_E4M3 = 448.0
_LARGEST_E2M1 = 6.0
_AMAX_FLOOR = 1e-4
_MANTISSA = 0x7FFFFF
_KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Above the i-th magnitude, code i + 1 is nearer.
_E2M1_STEPS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def ceil_div(x: int, y: int) -> int:
    """Return x / y, rounded up."""
    return (x + y - 1) // y


def align(x: int, y: int) -> int:
    """Return the least multiple of y that is not below x."""
    return ceil_div(x, y) * y


def ceil_to_ue8m0(x: torch.Tensor) -> torch.Tensor:
    """Round FP32 magnitudes up to powers of two, by their exponent bits, within 2^-126 to 2^127."""
    bits = x.float().abs().view(torch.int32)
    exponent = (bits >> 23) + (bits & _MANTISSA != 0).int()
    return (exponent.clamp(1, 254) << 23).view(torch.float32)


def pack_ue8m0_to_int(x: torch.Tensor) -> torch.Tensor:
    """Pack FP32 powers of two [..., 4 n] into their exponents, int32 [..., n].

    Byte j of an int32 is the exponent of ``x[..., 4 i + j]``.

    Raises:
        ValueError: the last dimension is no multiple of 4; in host memory, also a value that is
            negative or no power of two (on a GPU its code is 255, infinity).
        TypeError: the dtype is not float32.
    """
    if x.dtype != torch.float32:
        raise TypeError(f"x: found {x.dtype}, need torch.float32")
    if x.shape[-1] % 4:
        raise ValueError(f"x: found {x.shape[-1]} in the last dimension, need a multiple of 4")
    if x.is_cuda and x.numel() > 0:
        return _pack_by_kernel(x)
    bits = x.contiguous().view(torch.int32)
    if bool(((bits & _MANTISSA != 0) | (bits < 0)).any()):
        raise ValueError("x: found a value that is no power of two, need exponents alone (UE8M0)")
    return (bits >> 23).to(torch.uint8).view(torch.int32)


def _pack_by_kernel(x: torch.Tensor) -> torch.Tensor:
    packed = torch.empty(*x.shape[:-1], x.shape[-1] // 4, dtype=torch.int32, device=x.device)
    rows = packed.view(-1, packed.shape[-1])
    call(deepgemm.layout.pack_ue8m0, x.reshape(-1, x.shape[-1]), rows)
    return packed


def unpack_ue8m0_from_int(packed: torch.Tensor) -> torch.Tensor:
    """Unpack int32 [..., n] into FP32 powers of two [..., 4 n]."""
    if packed.is_cuda and packed.numel() > 0:
        return _unpack_by_kernel(packed)
    exponents = packed.contiguous().view(torch.uint8)
    return (exponents.int() << 23).view(torch.float32)


def _unpack_by_kernel(packed: torch.Tensor) -> torch.Tensor:
    x = torch.empty(*packed.shape[:-1], packed.shape[-1] * 4, device=packed.device)
    rows = packed.reshape(-1, packed.shape[-1])
    call(deepgemm.layout.unpack_ue8m0, rows, x.view(-1, x.shape[-1]))
    return x


def _factor(amax: torch.Tensor, largest: float, use_ue8m0: bool) -> torch.Tensor:
    # Why a tensor: by a number, torch on a GPU multiplies with the rounded reciprocal instead.
    sf = amax.clamp(_AMAX_FLOOR) / amax.new_full((), largest)
    return ceil_to_ue8m0(sf) if use_ue8m0 else sf


def _blocks(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Return x [m, n] in FP32, padded with zeros, as [row blocks, rows, column blocks, columns]."""
    m, n = x.shape
    below, right = align(m, rows) - m, align(n, columns) - n
    padded = torch.nn.functional.pad(x.float(), (0, right, 0, below))
    return padded.view(ceil_div(m, rows), rows, ceil_div(n, columns), columns)


def _plain_cast(
    x: torch.Tensor, rows: int, columns: int, use_ue8m0: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise in blocks of rows x columns, by torch alone."""
    m, n = x.shape
    blocks = _blocks(x, rows, columns)
    sf = _factor(blocks.abs().amax(dim=(1, 3)), _LARGEST_E4M3, use_ue8m0)
    scaled = blocks * (1.0 / sf)[:, None, :, None]
    flat = scaled.reshape(align(m, rows), align(n, columns))[:m, :n]
    return flat.to(torch.float8_e4m3fn).contiguous(), sf


def _kernel_cast(
    x: torch.Tensor, rows: int, columns: int, use_ue8m0: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise by `deepgemm.quantize`: the same bits of every finite x, in one kernel."""
    q = deepgemm.quantize(x, (rows, columns), power_of_two=use_ue8m0, amax_floor=_AMAX_FLOOR)
    return q.values, q.sf.contiguous()


def _by_kernel(x: torch.Tensor) -> bool:
    return x.is_cuda and x.dtype in _KERNEL_DTYPES and x.numel() > 0


def _cast(
    x: torch.Tensor, rows: int, columns: int, use_ue8m0: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() != 2:
        raise ValueError(f"x: found rank {x.dim()}, need [m, n]")
    return (_kernel_cast if _by_kernel(x) else _plain_cast)(x, rows, columns, use_ue8m0)


def per_token_cast_to_fp8(
    x: torch.Tensor, use_ue8m0: bool, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise x [m, n] per row and `gran_k` columns.

    Returns:
        E4M3 [m, n] and FP32 [m, ceil(n / gran_k)], both contiguous; packed, int32 [m, a fourth].
    """
    values, sf = _cast(x, 1, gran_k, use_ue8m0)
    return values, pack_ue8m0_to_int(sf) if use_packed_ue8m0 else sf


def per_channel_cast_to_fp8(
    x: torch.Tensor, use_ue8m0: bool, gran_k: int = 128
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise x [m, n] per `gran_k` rows and one column.

    Returns:
        E4M3 [m, n] and FP32 [m / gran_k, n].

    Raises:
        ValueError: m is no multiple of `gran_k`.
    """
    if x.shape[0] % gran_k:
        raise ValueError(f"x: found {x.shape[0]} rows, need a multiple of {gran_k}")
    return _cast(x, gran_k, 1, use_ue8m0)


def per_block_cast_to_fp8(
    x: torch.Tensor, use_ue8m0: bool, gran_k: int = 128
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise x [m, n] in blocks of `gran_k` x `gran_k`.

    Returns:
        E4M3 [m, n] and FP32 [ceil(m / gran_k), ceil(n / gran_k)].
    """
    return _cast(x, gran_k, gran_k, use_ue8m0)


def _kernel_cast_of_leading(
    x: torch.Tensor, count: int, use_ue8m0: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise with a factor for each place of the first `count` dimensions."""
    outer = x.shape[:count]
    rows = x.reshape(outer.numel(), -1)
    values, sf = _kernel_cast(rows, 1, rows.shape[1], use_ue8m0)
    return values.view(x.shape), sf.view(outer).squeeze()


def per_custom_dims_cast_to_fp8(
    x: torch.Tensor, dims: tuple[int, ...], use_ue8m0: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise x of any rank with one factor for each place of `dims`.

    Returns:
        E4M3 of x's shape, and FP32 of the extents of `dims`, without those of 1.
    """
    kept = {dim % x.dim() for dim in dims}
    if _by_kernel(x) and kept == set(range(len(kept))):
        return _kernel_cast_of_leading(x, len(kept), use_ue8m0)
    others = tuple(dim for dim in range(x.dim()) if dim not in kept)
    magnitude = x.abs().float()
    amax = magnitude.amax(dim=others, keepdim=True) if others else magnitude
    sf = _factor(amax, _LARGEST_E4M3, use_ue8m0)
    return (x.float() * (1.0 / sf)).to(torch.float8_e4m3fn), sf.squeeze()


def _e2m1_codes(x: torch.Tensor) -> torch.Tensor:
    """Return the 4-bit code of each FP32 number, uint8; a zero has no sign."""
    steps = torch.tensor(_E2M1_STEPS, device=x.device)
    code = torch.bucketize(x.abs().contiguous(), steps).to(torch.uint8)
    sign = ((x < 0) & (code != 0)).to(torch.uint8)
    return code | (sign << 3)


def _pack_nibbles(codes: torch.Tensor) -> torch.Tensor:
    """Pack codes [m, 2 n] into int8 [m, n], the even ones low."""
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).view(torch.int8)


def _unpack_nibbles(packed: torch.Tensor) -> torch.Tensor:
    """Unpack int8 [m, n] into codes [m, 2 n], uint8."""
    raw = packed.contiguous().view(torch.uint8)
    return torch.stack((raw & 0xF, raw >> 4), dim=-1).flatten(-2)


def per_token_cast_to_fp4(
    x: torch.Tensor, use_ue8m0: bool, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise x [m, n] to E2M1 per row and `gran_k` columns.

    Returns:
        int8 [m, n / 2], two codes in each, the even column's low, and FP32
        [m, ceil(n / gran_k)]; packed, int32 [m, a fourth].

    Raises:
        ValueError: n is odd.
    """
    m, n = x.shape
    if n % 2:
        raise ValueError(f"x: found {n} columns, need an even number")
    blocks = _blocks(x, 1, gran_k)
    sf = _factor(blocks.abs().amax(dim=(1, 3)), _LARGEST_E2M1, use_ue8m0)
    scaled = blocks * (1.0 / sf)[:, None, :, None]
    codes = _e2m1_codes(scaled.reshape(m, -1)[:, :n])
    return _pack_nibbles(codes), pack_ue8m0_to_int(sf) if use_packed_ue8m0 else sf


def transpose_packed_fp4(a: torch.Tensor) -> torch.Tensor:
    """Transpose int8 [m, n / 2] of packed codes into [n, m / 2].

    Raises:
        ValueError: m is odd.
    """
    if a.shape[0] % 2:
        raise ValueError(f"a: found {a.shape[0]} rows, need an even number")
    return _pack_nibbles(_unpack_nibbles(a).t().contiguous())


def cast_back_from_fp4(
    packed: torch.Tensor, sf: torch.Tensor, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> torch.Tensor:
    """Turn packed codes int8 [m, n / 2] and factors [m, ceil(n / gran_k)] into FP32 [m, n]."""
    codes = _unpack_nibbles(packed)
    values = torch.tensor(_E2M1_VALUES, device=packed.device)[(codes & 7).long()]
    signed = torch.where(codes >= 8, -values, values)
    factors = unpack_ue8m0_from_int(sf) if use_packed_ue8m0 else sf
    return signed * factors.repeat_interleave(gran_k, dim=1)[:, : codes.shape[1]]
