"""Products of many groups in one call: the experts of an MoE layer, forward and backward."""

from typing import Any

from deepgemm._library import Policy, compiled, ext


@compiled(ext.grouped_gemm)
def grouped_gemm(
    a: Any,
    b: Any,
    group_sizes: Any = None,
    out: Any = None,
    *,
    group_offsets: Any = None,
    group_ends: Any = None,
    alignment: int = 1,
    labels: Any = None,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    alpha: float = 1.0,
    out_dtype: Any = None,
    layout: str = "nt",
    granularity: Any = None,
    policy: Policy | dict[str, object] | None = None,
    stream: Any = None,
) -> Any:
    """Multiply each row of ``a`` with the matrix of its group.

    Of the rows of group g: ``out = activation(alpha * A_g @ B_g + bias[g]) + c``. Groups have any
    number of rows, none included, and start anywhere. Rows of no group are neither read nor
    written: they stay as they are, and in a new out hold what its memory held. One of four int32
    or int64 arrays on the device of the others says whose rows are whose.

    Args:
        a: [M, K], or a scaled array with sf of (1, 128), any other (1, k), or one factor for all.
        b: [G, N, K], or a scaled array with sf of [G, N blocks, K blocks], as ``quantize(b, (128,
            128))`` gives it, or one factor for all. The groups lie outermost in memory.
        group_sizes: [G]; group g has the next ``group_sizes[g]`` rows. Their sum is at most M.
        out: [M, N], written and returned; as for :func:`gemm`, but never float8.
        group_offsets: [G + 1]; group g has the rows ``group_offsets[g]`` to
            ``group_offsets[g + 1]``. They do not decrease; the first need not be 0.
        group_ends: [G]; group g ends before row ``group_ends[g]`` and starts where the group before
            it ends, rounded up to a multiple of ``alignment`` (group 0: at 0). They do not
            decrease; an end before the group's start is an empty group.
        alignment: of ``group_ends``. 1 gives the ``offs`` of torch's grouped products, 128 the
            prefix sums of DeepGEMM's ``use_psum_layout``.
        labels: [M]; row m belongs to group ``labels[m]``, in any order, or to none (-1): it stays
            untouched and is not set to 0.
        c: [M, N] of out's dtype or float32, added last; may be ``out`` itself.
        bias: [G, N] float32, bfloat16 or float16.
        layout: ``"nt"``, or ``"nn"``: b is [G, K, N] and its sf [G, K blocks, N blocks].
        activation, alpha, out_dtype, granularity, stream: as for :func:`gemm`.
        policy: on a GPU, ``kernel`` ("persistent" or "general"), the tile, ``num_sms``.

    Raises:
        ValueError: as :func:`gemm`; not one of the four arrays; in host memory also sizes that are
            negative or exceed M, offsets or ends that decrease or pass M, labels out of range. On a
            GPU their values are not waited for: wrong ones give wrong rows, within the arrays.
            Set the environment variable ``DEEPGEMM_CHECK_GROUPS`` to find them there.
        TypeError: dtype, or no array. deepgemm.Error: driver, device or compiler.
    """
    raise NotImplementedError  # compiled: see the decorator


@compiled(ext.masked_gemm)
def masked_gemm(
    a: Any,
    b: Any,
    rows: Any,
    out: Any = None,
    *,
    expected_rows: int | None = None,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    alpha: float = 1.0,
    out_dtype: Any = None,
    layout: str = "nt",
    granularity: Any = None,
    policy: Policy | dict[str, object] | None = None,
    stream: Any = None,
) -> Any:
    """Multiply the first ``rows[g]`` rows of each group with its matrix.

    ``out[g, :rows[g]] = activation(alpha * A_g @ B_g + bias[g]) + c[g, :rows[g]]``. The other rows
    are neither read, whatever their bytes are, nor written: in a new out they hold what its memory
    held. The shapes do not depend on ``rows``, whose values may change while a CUDA graph that
    holds the call is replayed.

    Args:
        a: [G, Mmax, K], or a scaled array with sf of [G, Mmax, K/128] (granularity (1, 128), or
            any other within a group), or one factor for all. The groups are the outermost
            dimension in memory, here and in every other operand.
        b: as for :func:`grouped_gemm`.
        rows: [G] int32 or int64, each 0 to Mmax, on the device of the other arrays.
        out: [G, Mmax, N], written and returned; as for :func:`gemm`, but never float8.
        expected_rows: about how many rows a group will have. It steers the choice of kernel and
            never changes the result.
        c: [G, Mmax, N] of out's dtype or float32, added last; may be ``out`` itself.
        bias, activation, alpha, out_dtype, layout, granularity, policy, stream: as for
            :func:`grouped_gemm`.

    Raises:
        ValueError: shape, stride, value, device or granularity; in host memory, also ``rows`` that
            are negative or exceed Mmax. Nothing is computed then. On a GPU they are not waited
            for, as in :func:`grouped_gemm`: wrong ones give wrong rows, within the arrays.
        TypeError: dtype, or no array. deepgemm.Error: driver, device or compiler.
    """
    raise NotImplementedError  # compiled: see the decorator


@compiled(ext.k_grouped_gemm)
def k_grouped_gemm(
    a: Any,
    b: Any,
    k_sizes: Any,
    out: Any = None,
    *,
    c: Any = None,
    alpha: float = 1.0,
    out_dtype: Any = None,
    layout: str = "nt",
    policy: Policy | dict[str, object] | None = None,
    stream: Any = None,
) -> Any:
    """Multiply along each group's slice of K: the gradients of the experts' weights.

    ``out[g] = alpha * A[:, slice g] @ B[slice g, :] + c[g]``. Group g has the next ``k_sizes[g]``
    of K; what follows the last group is not used. A group without K gives 0, or ``c[g]``.

    Factors cover one row and 128 of K, and their blocks are counted per group, so that each group
    starts a block: with sizes of 160 and 128, sf is [rows, 3], its first two blocks cover the 128
    and the 32 of the first group. That is each group's slice quantised by itself, side by side; if
    all sizes are multiples of 128, it is ``quantize(a)`` of the whole array.

    Args:
        a: [M, K] (layout ``"nt"``, ``"nn"``) or [K, M] (``"tn"``, ``"tt"``): float8, bfloat16,
            float16 or float32; a scaled array has sf of [M, blocks], or [blocks, M] for [K, M],
            float32 or float8_e8m0fnu. More blocks than the groups need are ignored.
        b: likewise, [N, K] (``"nt"``, ``"tt"``) or [K, N] (``"nn"``, ``"tn"``).
        k_sizes: [G] int32 or int64, on the device of the other arrays; their sum is at most K.
            Multiples of 16 if a or b is float8.
        out: [G, M, N] float32 or bfloat16, written and returned; the groups are the outermost
            dimension in memory. As for :func:`gemm` otherwise.
        c: [G, M, N] of out's dtype or float32; may be ``out`` itself, to accumulate in place.
        alpha: factor of the product.
        out_dtype: of a new out: float32 (default) or bfloat16.
        layout: memory of a and b as in :func:`gemm`; ``"tn"`` for activations and gradients that
            lie token by token.
        policy: as for :func:`grouped_gemm`.
        stream: as for :func:`gemm`.

    Raises:
        ValueError: shape, stride, value, device, or a granularity other than (1, 128); in host
            memory, also sizes that are negative, exceed K in sum, are no multiples of 16 (float8),
            or need more blocks than sf has. Nothing is computed then. On a GPU they are not waited
            for, as in :func:`grouped_gemm`: wrong ones give wrong numbers, within the arrays.
        TypeError: dtype, or no array. deepgemm.Error: driver, device or compiler.
    """
    raise NotImplementedError  # compiled: see the decorator
