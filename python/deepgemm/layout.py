"""Memory layouts of scale factors.

All of them take [rows, K blocks] or a stack [G, rows, K blocks] with any strides, and give the fast
layout: rows contiguous (stride 1), columns ceil(rows / 4) * 4 elements apart, matrices as many
columns apart as they have. On a GPU each is one launch of one kernel, which no extent or stride is
compiled into and a CUDA graph can hold; in host memory plain loops. The padding behind a column is
neither read nor written.
"""

from collections.abc import Iterable
from typing import Any

from deepgemm._library import ext


def sf_fast(sf: Any, out: Any = None, *, stream: Any = None) -> Any:
    """Lay scale factors out as the kernels read them fastest.

    Args:
        sf: [rows, K blocks] or [G, rows, K blocks], float32, or int32 of packed ones.
        out: of the shape and dtype of sf, any strides; written and returned if given.
        stream: as for :func:`deepgemm.gemm`.

    Returns:
        An array of the same shape, values, dtype and framework in the fast layout; ``sf`` itself if
        it lies so already.

    Raises:
        ValueError: rank, or out's shape or device. TypeError: dtype, not an array, or one of jax,
            which has no strides.
    """
    return ext.sf_fast(sf, out, stream)


def pack_ue8m0(
    sf: Any,
    out: Any = None,
    *,
    group_ends: Any = None,
    alignment: int = 1,
    k_sizes: Any = None,
    host_k_sizes: Iterable[int] | None = None,
    k_per_scale: int = 128,
    stream: Any = None,
) -> Any:
    """Pack scale factors that are powers of two by fours along K, as their exponents (UE8M0).

    Byte j of ``out[.., r, i]`` is bits 23 to 30 of ``sf[.., r, 4 i + j]``, 0 behind the last one.

    Args:
        sf: [rows, K blocks] or [G, rows, K blocks] float32.
        out: int32 of the shape below, any strides; written and returned if given.
        group_ends: [groups] int32 or int64 on sf's device: only rows of groups are packed, group g
            ending before row ``group_ends[g]`` and starting where the one before it ends, rounded
            up to a multiple of ``alignment``. Other rows may hold anything, and get 0.
        alignment: of ``group_ends``.
        k_sizes: [groups] int32 or int64 on sf's device, in elements of K: each group's
            ``ceil(k / k_per_scale)`` columns are packed by themselves. Not with ``group_ends``.
        host_k_sizes: the same numbers as a sequence, which say how many columns a new out has.
        k_per_scale: what one factor covers of K; counts with ``k_sizes`` only.
        stream: as for :func:`deepgemm.gemm`.

    Returns:
        int32 [.., rows, ceil(K blocks / 4)], with ``k_sizes`` [.., rows, sum over the groups of
        ceil(blocks / 4)], in the fast layout (row-major of jax). Columns past the last group are 0.

    Raises:
        ValueError: shape, stride or device; both kinds of groups; in host memory, also a factor
            that has a sign or a mantissa (with ``k_sizes`` behind the last group too), or wrong
            groups. On a GPU such a factor's code is 255, which stands for infinity, so that it
            shows.
        TypeError: dtype, or not an array.
    """
    return ext.pack_ue8m0(
        sf, out, group_ends, alignment, k_sizes, host_k_sizes, k_per_scale, stream
    )


def unpack_ue8m0(
    packed: Any,
    out: Any = None,
    *,
    k_blocks: int | None = None,
    k_sizes: Any = None,
    k_per_scale: int = 128,
    stream: Any = None,
) -> Any:
    """Turn packed exponents into the float32 factors that :func:`pack_ue8m0` was given.

    Args:
        packed: [rows, words] or [G, rows, words] int32, four exponents in each: 0 stands for 0.0,
            255 for infinity.
        out: float32 of the shape below, any strides; written and returned if given.
        k_blocks: columns of a new out, ``4 * words - 3`` to ``4 * words`` (default: the latter);
            with ``k_sizes`` any number up to that.
        k_sizes: as for :func:`pack_ue8m0`. Columns past the last group get 0.0.
        k_per_scale: likewise.
        stream: as for :func:`deepgemm.gemm`.

    Returns:
        float32 [.., rows, k_blocks] in the fast layout (row-major of jax).

    Raises:
        ValueError: shape, stride or device; in host memory, also wrong groups.
        TypeError: dtype, or not an array.
    """
    return ext.unpack_ue8m0(packed, out, k_blocks, k_sizes, k_per_scale, stream)
