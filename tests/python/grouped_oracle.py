"""The right answers of grouped products, and their exact inputs: oracle.py for every group."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np

import oracle

SENTINEL = -777.0


def stack(operands):
    """Values, factors and real matrices of one operand per group, as arrays with G first."""
    return SimpleNamespace(
        values=np.stack([o.values for o in operands]),
        sf=np.stack([o.sf for o in operands]),
        real=np.stack([o.real for o in operands]),
    )


def experts(rng, groups, n, k, granularity=(128, 128), dtype="float8_e4m3fn"):
    return stack([oracle.exact_operand(rng, n, k, granularity, dtype) for _ in range(groups)])


def filled(shape, dtype="float32"):
    return np.full(shape, SENTINEL).astype(oracle.DTYPES[dtype])


def want_rows(a_real, b_real, labels, dtype="float32", **after):
    """Row m by the matrix labels[m]; the sentinel where that is -1."""
    out = filled((len(labels), b_real.shape[1]), dtype)
    bias, c = after.pop("bias", None), after.pop("c", None)
    for g in range(len(b_real)):
        mine = np.flatnonzero(np.asarray(labels) == g)
        if mine.size:
            own = {
                "bias": None if bias is None else bias[g],
                "c": None if c is None else c[mine],
            }
            out[mine] = oracle.cast(oracle.product(a_real[mine], b_real[g], **own, **after), dtype)
    return out


def labels_of(sizes, m):
    return np.concatenate(
        [np.repeat(np.arange(len(sizes)), sizes), np.full(m - sum(sizes), -1)]
    ).astype(np.int32)


def every_form(sizes, m):
    """The same groups as each of the forms."""
    sizes = np.asarray(sizes, np.int64)
    yield {"group_sizes": sizes.astype(np.int32)}
    yield {"group_sizes": sizes}
    yield {"group_offsets": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)}
    yield {"group_ends": np.cumsum(sizes).astype(np.int32)}
    yield {"labels": labels_of(sizes, m)}


def skewed(rng, groups, total):
    """Many vectors: uniform, one group with everything, mostly empty, powers of two apart."""
    kind = rng.integers(4)
    if kind == 0:
        return rng.multinomial(total, np.full(groups, 1 / groups))
    sizes = np.zeros(groups, np.int64)
    if kind == 1:
        sizes[rng.integers(groups)] = total
    elif kind == 2:
        some = rng.choice(groups, max(1, groups // 8), replace=False)
        sizes[some] = rng.multinomial(total, np.full(len(some), 1 / len(some)))
    else:
        weights = 2.0 ** -rng.permutation(groups).clip(0, 50)
        sizes = rng.multinomial(total, weights / weights.sum())
    return sizes


def slices(sizes):
    return [slice(begin, end) for begin, end in pairwise(np.concatenate([[0], np.cumsum(sizes)]))]
