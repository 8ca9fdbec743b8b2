"""Grouped products in guarded memory at a Place: one exact product, every byte of it checked.

Bytes of out that no group owns must stay SENTINEL; rows that no group owns hold NaN bytes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

import deepgemm
import oracle
from gpu_place import SENTINEL, Place
from grouped_oracle import slices, stack

LEAD = 64  # elements before and after out
E4M3 = "float8_e4m3fn"
PAIR = ((1, 128), (128, 128))
GENERAL = {"kernel": "general"}


class Guarded:
    """An array, maybe with gaps, inside memory whose other bytes are all SENTINEL."""

    def __init__(
        self, place: Place, shape: Any, dtype: str, extra: int = 0, contents: Any = None,
        gap: int = 0,
    ) -> None:  # fmt: skip
        *groups, m, n = shape
        pitch = n + extra
        apart = m * pitch + extra + gap
        self.shape, self.strides = tuple(shape), (apart, pitch, 1)[-len(shape) :]
        count = 2 * LEAD + (groups[0] * apart if groups else m * pitch)
        item = np.dtype(oracle.DTYPES[dtype])
        self.host = np.full(count * item.itemsize, SENTINEL, np.uint8).view(item)
        if contents is not None:
            self.inside(self.host)[...] = contents
        self.memory = place.put(self.host)
        self.array = self.memory.strided(self.shape, self.strides, LEAD)

    def inside(self, flat: Any) -> Any:
        bytes_apart = tuple(step * flat.itemsize for step in self.strides)
        return as_strided(flat[LEAD:], self.shape, bytes_apart)

    def check(self, want: Any, written: Any) -> None:
        """The rows `written` (a mask) hold `want`; no other byte has changed."""
        expected, found = self.host.copy(), self.memory.to_numpy()
        self.inside(expected)[written] = want[written]
        rows = [np.ascontiguousarray(self.inside(x)[written]) for x in (found, expected)]
        assert oracle.same_bits(*rows), "wrong results"
        self.inside(found)[written] = want[written]
        assert found.tobytes() == expected.tobytes(), "bytes that no group owns were written"

    def check_around(self) -> Any:
        """Nothing around the array has changed; returns what is in it."""
        found = self.memory.to_numpy()
        result = self.inside(found).copy()
        self.inside(found)[...] = self.inside(self.host)
        assert found.tobytes() == self.host.tobytes(), "bytes around out were written"
        return result


def poison(x: Any, which: Any) -> None:
    """NaN bytes of every type."""
    x.view(np.uint8).reshape(*x.shape, x.itemsize)[which] = 0xFF


def put_apart(place: Place, x: Any, extra: int) -> Any:
    """A matrix or a stack with NaN bytes between rows and between groups."""
    *groups, m, n = x.shape
    wide = np.zeros((*groups, m + (extra > 0), n + extra), x.dtype)
    poison(wide, ...)
    wide[..., :m, :n] = x
    pitch = n + extra
    return place.put(wide.reshape(-1)).strided(
        x.shape, (wide.shape[-2] * pitch, pitch, 1)[-x.ndim :]
    )


def put_turned(place: Place, x: Any) -> Any:
    """A matrix or a stack whose rows, not columns, are contiguous."""
    m, n = x.shape[-2:]
    base = place.put(np.ascontiguousarray(x.swapaxes(-1, -2)).reshape(-1))
    return base.strided(x.shape, (m * n, 1, m)[-x.ndim :])


def put_vector(place: Place, values: Any, dtype: Any = np.int32, step: int = 1) -> Any:
    """A group vector; what lies between its elements is no number of rows."""
    flat = np.full(max(len(values), 1) * step, np.iinfo(dtype).max, dtype)
    flat[: len(values) * step : step] = values
    return place.put(flat).strided((len(values),), (step,))


def operand(rng: Any, rows: int, k: int, granularity: Any, dtype: str) -> Any:
    """Exact; without factors if `granularity` is None."""
    if granularity is not None:
        return oracle.exact_operand(rng, rows, k, granularity, dtype)
    values = oracle.cast(rng.integers(-3, 4, (rows, k)).astype(np.float32), dtype)
    return SimpleNamespace(values=values, sf=np.ones((1, 1), np.float32), real=values)


def scaled(values: Any, place: Place, sf: Any, granularity: Any, fast: bool = False) -> Any:
    """Values with factors, row-major or as TMA takes them."""
    if granularity is None:
        return values
    return values, put_rows_contiguous(place, sf) if fast else place.put(sf)


def put_rows_contiguous(place: Place, sf: Any) -> Any:
    """[..., rows, blocks] with rows contiguous and padded to 16 bytes; NaN in the padding."""
    *groups, rows, blocks = sf.shape
    padded = -(-rows // 4) * 4
    base = np.full((*groups, blocks, padded), np.nan, np.float32)
    base[..., :rows] = sf.swapaxes(-1, -2)
    return place.put(base).strided(sf.shape, (blocks * padded, 1, padded)[-sf.ndim :])


def experts_at(
    place: Place, rng: Any, groups: int, n: int, k: int, granularity: Any, dtype: str, turn: bool,
    extra: int, fast: bool,
) -> Any:  # fmt: skip
    """(b as the call takes it, its real matrices)."""
    b = stack([operand(rng, n, k, granularity, dtype) for _ in range(groups)])
    values, sf = (x.swapaxes(1, 2).copy() if turn else x for x in (b.values, b.sf))
    fast = fast and granularity == (1, 128)
    return scaled(put_apart(place, values, extra), place, sf, granularity, fast), b.real


def after_the_sum(rng: Any, shape: Any, groups: int, n: int, steps: Any) -> dict[str, Any]:
    """Of bias, c, alpha and activation those that `steps` names, with exact values."""
    every = {
        "bias": rng.integers(-9, 9, (groups, n)).astype(np.float32),
        "c": rng.integers(-9, 9, (*shape, n)).astype(np.float32),
        "alpha": -0.5,
        "activation": "relu",
    }
    return {name: every[name] for name in steps}


def product_of(a: Any, b: Any, g: int, rows: Any, after: dict[str, Any]) -> Any:
    own = dict(after)
    if "bias" in own:
        own["bias"] = own["bias"][g]
    if "c" in own:
        own["c"] = own["c"][rows]
    return oracle.product(a, b, **own)


def run(
    place: Place, call: Any, after: dict[str, Any], out_dtype: str, shape: Any, extra: int,
    in_place: bool, policy: Any,
) -> Guarded:  # fmt: skip
    """call(out, **after) in guarded memory; out holds c if `in_place`."""
    given = {**after, "policy": policy}
    out = Guarded(place, shape, out_dtype, extra, after["c"] if in_place else None)
    for name in ("bias", "c"):
        if name in given:
            given[name] = place.put(given[name])
    if in_place:
        given["c"] = out.array
    assert call(out.array, **given) is out.array
    return out


def check_rows(
    place: Place, rng: Any, labels: Any, groups: int, n: int, k: int, form: dict[str, Any], *,
    granularity: Any = PAIR, dtypes: Any = (E4M3, E4M3), out_dtype: str = "float32",
    layout: str = "nt", extra: int = 0, steps: Any = (), in_place: bool = False,
    policy: Any = None, fast: bool = False, turn_a: bool = False,
) -> None:  # fmt: skip
    """grouped_gemm with the form's arguments; `labels` says which group a row belongs to."""
    labels = np.asarray(labels)
    m, none = len(labels), labels < 0
    a = operand(rng, m, k, granularity[0], dtypes[0])
    b, b_real = experts_at(
        place, rng, groups, n, k, granularity[1], dtypes[1], layout == "nn", extra, fast
    )
    after = after_the_sum(rng, (m,), groups, n, steps)
    want = np.zeros((m, n))
    for g in range(groups):
        rows = labels == g
        want[rows] = product_of(a.real[rows], b_real[g], g, rows, after)
    poison(a.values, none)
    if granularity[0] and granularity[0][0] == 1:
        poison(a.sf, none)
    values = put_turned(place, a.values) if turn_a else put_apart(place, a.values, extra)
    left = scaled(values, place, a.sf, granularity[0], fast)
    scales = None if granularity == (None, None) else granularity
    out = run(
        place,
        lambda out, **given: deepgemm.grouped_gemm(
            left, b, out=out, layout=layout, granularity=scales, **form, **given
        ),
        *(after, out_dtype, (m, n), extra, in_place, policy),
    )
    out.check(oracle.cast(want, out_dtype), ~none)


def check_masked(
    place: Place, rng: Any, rows: Any, most: int, n: int, k: int, *, vector: Any = None,
    granularity: Any = PAIR, dtypes: Any = (E4M3, E4M3), out_dtype: str = "float32",
    layout: str = "nt", extra: int = 0, steps: Any = (), in_place: bool = False,
    policy: Any = None, fast: bool = False, turn_a: bool = False,
) -> None:  # fmt: skip
    """masked_gemm of len(rows) groups of `most` rows; `vector` is `rows` at the place."""
    groups = len(rows)
    mask = np.arange(most) < np.asarray(rows)[:, None]
    a = stack([operand(rng, most, k, granularity[0], dtypes[0]) for _ in range(groups)])
    b, b_real = experts_at(
        place, rng, groups, n, k, granularity[1], dtypes[1], layout == "nn", extra, fast
    )
    after = after_the_sum(rng, (groups, most), groups, n, steps)
    want = np.zeros((groups, most, n))
    for g, count in enumerate(rows):
        want[g, :count] = product_of(a.real[g, :count], b_real[g], g, np.s_[g, :count], after)
    poison(a.values, ~mask)
    if granularity[0] and granularity[0][0] == 1:
        poison(a.sf, ~mask)
    values = put_turned(place, a.values) if turn_a else put_apart(place, a.values, extra)
    left = scaled(values, place, a.sf, granularity[0], fast)
    counts = put_vector(place, rows) if vector is None else vector
    scales = None if granularity == (None, None) else granularity
    out = run(
        place,
        lambda out, **given: deepgemm.masked_gemm(
            left, b, counts, out, layout=layout, granularity=scales, **given
        ),
        *(after, out_dtype, want.shape, extra, in_place, policy),
    )
    out.check(oracle.cast(want, out_dtype), mask)


def k_side(
    place: Place, rng: Any, rows: int, sizes: Any, rest: int, granularity: Any, dtype: str,
    turn: bool, extra: int, fast: bool,
) -> Any:  # fmt: skip
    """(the operand as the call takes it, real matrices); NaN bytes in the last `rest` of K."""
    parts = [operand(rng, rows, size, granularity, dtype) for size in sizes]
    values = np.zeros((rows, sum(sizes) + rest), oracle.DTYPES[dtype])
    poison(values, ...)
    for part, where in zip(parts, slices(sizes), strict=True):
        values[:, where] = part.values
    after = np.full((rows, 1 if rest else 0), np.nan, np.float32)
    factors = [] if granularity is None else [part.sf for part in parts]
    sf = np.concatenate([*factors, after], axis=1)
    if turn:
        values, sf = values.T.copy(), sf.T.copy()
    real = [part.real for part in parts]
    return scaled(put_apart(place, values, extra), place, sf, granularity, fast), real


def check_k(
    place: Place, rng: Any, sizes: Any, m: int, n: int, *, rest: int = 0, vector: Any = None,
    granularity: Any = (1, 128), dtype: str = E4M3, out_dtype: str = "float32",
    layout: str = "nt", extra: int = 0, steps: Any = (), in_place: bool = False,
    policy: Any = None, fast: bool = False,
) -> None:  # fmt: skip
    """k_grouped_gemm; `rest` of K after the last group is NaN."""
    sizes = [int(size) for size in sizes]
    common = (granularity, dtype)
    a, lefts = k_side(place, rng, m, sizes, rest, *common, layout[0] == "t", extra, fast)
    b, rights = k_side(place, rng, n, sizes, rest, *common, layout[1] == "n", extra, fast)
    after = after_the_sum(rng, (len(sizes), m), len(sizes), n, steps)
    want = np.zeros((len(sizes), m, n))
    for g, (left, right) in enumerate(zip(lefts, rights, strict=True)):
        want[g] = product_of(left, right, g, g, after)
    counts = put_vector(place, sizes) if vector is None else vector
    out = run(
        place,
        lambda out, **given: deepgemm.k_grouped_gemm(a, b, counts, out, layout=layout, **given),
        *(after, out_dtype, want.shape, extra, in_place, policy),
    )
    out.check(oracle.cast(want, out_dtype), np.ones(want.shape[:2], bool))
