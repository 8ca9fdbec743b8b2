"""deepgemm.layout on a GPU: scale factors laid out and packed, bit for bit against NumPy.

By hand, on one GPU: python tests/python/test_gpu_layout.py packs 0
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import deepgemm
import oracle
from gpu_place import SENTINEL, Place, as_tests, main

layout = deepgemm.layout

SHAPES = ((1, 1), (7, 3), (64, 32), (65, 33), (130, 56), (3, 5, 2), (2, 70, 40))
ORDERS = ("row-major", "turned", "apart")
LEAD = 20  # elements before an array in its memory


def strides_of(shape: tuple[int, ...], order: str) -> tuple[int, ...]:
    """Row-major; rows contiguous with a pitch; or neighbours in neither direction."""
    *outer, rows, columns = shape
    row, column = {
        "row-major": (columns, 1),
        "turned": (1, rows + 5),
        "apart": (2 * columns + 1, 2),
    }[order]
    return (*(rows * columns * 3 + 7 for _ in outer), row, column)


def fast_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    *outer, rows, columns = shape
    padded = -(-rows // 4) * 4
    return (*(columns * padded for _ in outer), 1, padded)


def elements_of(flat: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """The array inside its memory."""
    apart = [stride * flat.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(flat[LEAD:], shape, apart)


def span_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return LEAD + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + 1 + LEAD


def put(place: Place, x: np.ndarray, order: str) -> Any:
    """`x` in that order of memory, ones between its elements."""
    strides = strides_of(x.shape, order)
    flat = np.full(span_of(x.shape, strides), -1, np.int32).view(x.dtype)
    elements_of(flat, x.shape, strides)[...] = x
    return place.put(flat).strided(x.shape, strides, LEAD)


class Guarded:
    """An output whose surroundings are looked at."""

    def __init__(self, place: Place, shape: tuple[int, ...], dtype: str, order: str) -> None:
        self.shape, self.strides = shape, strides_of(shape, order)
        self.base = deepgemm.DeviceArray((span_of(shape, self.strides),), dtype, place.device)
        self.base.fill(SENTINEL)
        self.out = self.base.strided(shape, self.strides, LEAD)

    def read(self) -> np.ndarray:
        flat = self.base.to_numpy().view(np.uint32)
        inside = elements_of(flat, self.shape, self.strides)
        result = inside.copy()
        inside[...] = SENTINEL * 0x01010101
        assert (flat == SENTINEL * 0x01010101).all(), "bytes around out were written"
        return result


def fast_contents(x: Any) -> np.ndarray:
    """The bits of an array in the fast layout, which it must have."""
    assert tuple(x.strides) == fast_strides(tuple(x.shape))
    *outer, rows, columns = x.shape
    padded = -(-rows // 4) * 4
    whole = x.strided((*outer, columns, padded), (*(columns * padded for _ in outer), padded, 1))
    return np.ascontiguousarray(whole.to_numpy().view(np.uint32)[..., :rows].swapaxes(-1, -2))


def packed_by_numpy(sf: np.ndarray) -> np.ndarray:
    """Exponents [..., K] of powers of two by fours, byte by byte: uint32 [..., ceil(K / 4)]."""
    *outer, columns = sf.shape
    codes = np.zeros((*outer, -(-columns // 4) * 4), np.uint8)
    codes[..., :columns] = np.log2(sf.astype(np.float64)).astype(np.int64) + 127
    return np.ascontiguousarray(codes).view("<u4")


def powers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (2.0 ** rng.integers(-126, 128, shape)).astype(np.float32)


def blocks_of(sizes: list[int], k_per_scale: int) -> list[int]:
    return [-(-size // k_per_scale) for size in sizes]


def grouped_by_numpy(sf: np.ndarray, blocks: list[int]) -> np.ndarray:
    """The K blocks of each group packed by themselves."""
    parts = np.split(sf, np.cumsum(blocks)[:-1], axis=-1)
    return np.concatenate([packed_by_numpy(part) for part in parts], axis=-1)


def copies(place: Place) -> None:
    """sf_fast: the same bits, whatever they are, from any order to any order."""
    rng = np.random.default_rng(21)
    for shape, order, dtype in itertools.product(SHAPES, ORDERS, (np.float32, np.int32)):
        bits = rng.integers(0, 2**32, shape, np.uint32)
        sf = put(place, bits.view(dtype), order)
        fast = layout.sf_fast(sf)
        assert fast.dtype == sf.dtype
        assert np.array_equal(fast_contents(fast), bits), (shape, order)
        assert layout.sf_fast(fast) is fast
        for to in ORDERS:
            guarded = Guarded(place, shape, np.dtype(dtype).name, to)
            assert layout.sf_fast(sf, guarded.out) is guarded.out
            assert np.array_equal(guarded.read(), bits), (shape, order, to)


def packs(place: Place) -> None:
    """pack_ue8m0: four exponents of K in an int32, and back."""
    rng = np.random.default_rng(22)
    for shape, order in itertools.product(SHAPES, ORDERS):
        sf = powers(rng, shape)
        want = packed_by_numpy(sf)
        given = put(place, sf, order)
        packed = layout.pack_ue8m0(given)
        assert packed.dtype == "int32"
        assert np.array_equal(fast_contents(packed), want), (shape, order)
        back = layout.unpack_ue8m0(packed, k_blocks=shape[-1])
        assert back.dtype == "float32"
        assert np.array_equal(fast_contents(back), sf.view(np.uint32)), (shape, order)
        for to in ORDERS:
            guarded = Guarded(place, want.shape, "int32", to)
            assert layout.pack_ue8m0(given, guarded.out) is guarded.out
            assert np.array_equal(guarded.read(), want), (shape, order, to)


def packs_no_powers_of_two(place: Place) -> None:
    """A sign or a mantissa: refused in host memory, infinity on a GPU."""
    sf = np.ones((70, 6), np.float32)
    for bad in (3.0, -2.0, np.nan, 1e-45, -0.0):
        sf[41, 5] = bad
        given = put(place, sf, "row-major")
        if place.device < 0:
            with pytest.raises(ValueError, match=r"sf: found .* at row 41, K block 5"):
                layout.pack_ue8m0(given)
            continue
        want = np.full((70, 2), (0x7F7F7F7F, 0x7F7F), np.uint32)
        want[41, 1] = 0xFF7F
        packed = layout.pack_ue8m0(given)
        assert np.array_equal(fast_contents(packed), want), bad
        back = layout.unpack_ue8m0(packed, k_blocks=6)
        assert fast_contents(back).view(np.float32)[41, 5] == np.inf


def unpacks(place: Place) -> None:
    """unpack_ue8m0: every code is the exponent of an FP32; 0 is 0, and 255 infinity."""
    rng = np.random.default_rng(23)
    for shape, order, to in itertools.product(SHAPES, ORDERS, ORDERS):
        words = rng.integers(0, 2**32, shape, np.uint32)
        words.flat[0] = 0xFF0080FF
        codes = words.view(np.uint8).reshape(*shape[:-1], -1)
        want = codes.astype(np.uint32) << 23
        given = put(place, words.view(np.int32), order)
        assert np.array_equal(fast_contents(layout.unpack_ue8m0(given)), want), (shape, order)
        guarded = Guarded(place, want.shape, "float32", to)
        assert layout.unpack_ue8m0(given, guarded.out) is guarded.out
        assert np.array_equal(guarded.read(), want), (shape, order, to)


def aligned_groups(sizes: list[int], alignment: int) -> tuple[list[int], np.ndarray]:
    """Ends of groups of rows, and the rows that they own."""
    ends: list[int] = []
    owned: list[int] = []
    row = 0
    for size in sizes:
        row += -row % alignment
        owned += range(row, row + size)
        row += size
        ends.append(row)
    return ends, np.array(owned, np.intp)


def packs_with_groups_of_rows(place: Place) -> None:
    """Rows of no group may hold anything, and get zeros."""
    rng = np.random.default_rng(24)
    many = [int(size) for size in rng.integers(0, 3, 300)]
    for sizes, alignment, dtype in itertools.product(
        ([3, 0, 130, 1], [64], [0, 0], [], many), (1, 4, 128), (np.int32, np.int64)
    ):
        if len(sizes) > 4 and alignment > 4:
            continue
        ends, owned = aligned_groups(sizes, alignment)
        end = ends[-1] if ends else 0
        for shape in ((end + 70, 6), (2, end + 1, 9)):
            sf = powers(rng, shape)
            want = np.zeros((*shape[:-1], -(-shape[-1] // 4)), np.uint32)
            want[..., owned, :] = packed_by_numpy(sf)[..., owned, :]
            gaps = np.setdiff1d(np.arange(shape[-2]), owned)
            sf[..., gaps, :] = np.nan
            vector = place.put(np.array(ends, dtype))
            guarded = Guarded(place, want.shape, "int32", "turned")
            layout.pack_ue8m0(
                put(place, sf, "row-major"), guarded.out, group_ends=vector, alignment=alignment
            )
            assert np.array_equal(guarded.read(), want), (sizes[:4], alignment)


def packs_with_groups_of_k(place: Place) -> None:
    """Each group along K packed by itself, and back; columns of no group get zeros."""
    rng = np.random.default_rng(25)
    many = [int(size) for size in rng.integers(0, 900, 130)]
    for sizes, k_per_scale, rows, order in itertools.product(
        ([128, 640, 0, 512], [1], [100, 33, 4096, 16], many), (128, 32), (12, 70), ORDERS
    ):
        blocks = blocks_of(sizes, k_per_scale)
        sf = powers(rng, (rows, sum(blocks)))
        want = grouped_by_numpy(sf, blocks)
        given, vector = put(place, sf, order), place.put(np.array(sizes, np.int32))
        groups = {"k_sizes": vector, "k_per_scale": k_per_scale}
        packed = layout.pack_ue8m0(given, host_k_sizes=sizes, **groups)
        assert np.array_equal(fast_contents(packed), want), (sizes[:4], k_per_scale, order)
        back = layout.unpack_ue8m0(packed, k_blocks=sum(blocks), **groups)
        assert np.array_equal(fast_contents(back), sf.view(np.uint32)), (sizes[:4], order)
        wider = Guarded(place, (rows, want.shape[1] + 9), "int32", "turned")
        layout.pack_ue8m0(given, wider.out, **groups)
        found = wider.read()
        assert np.array_equal(found[:, : want.shape[1]], want)
        assert not found[:, want.shape[1] :].any()
        more = Guarded(place, (rows, sum(blocks) + 5), "float32", "row-major")
        layout.unpack_ue8m0(packed, more.out, **groups)
        found = more.read()
        assert oracle.same_bits(found[:, : sum(blocks)].view(np.float32), sf)
        assert not found[:, sum(blocks) :].any()


BODIES = {
    body.__name__: body
    for body in (
        copies,
        packs,
        packs_no_powers_of_two,
        unpacks,
        packs_with_groups_of_rows,
        packs_with_groups_of_k,
    )
}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)


@pytest.mark.gpu
@pytest.mark.torch
def test_a_graph_repeats_them(torch: Any, rng: np.random.Generator) -> None:
    """All of them captured; factors, ends and sizes change from one replay to the next."""
    rows, sizes = 70, [128, 640, 512]
    sf = torch.ones(rows, 10, device="cuda")
    ends = torch.tensor([rows], dtype=torch.int32, device="cuda")
    k_sizes = torch.tensor(sizes, dtype=torch.int32, device="cuda")

    def step() -> tuple[Any, ...]:
        return (
            layout.sf_fast(sf),
            layout.pack_ue8m0(sf, group_ends=ends, alignment=4),
            layout.pack_ue8m0(sf, k_sizes=k_sizes, host_k_sizes=sizes),
            layout.unpack_ue8m0(layout.pack_ue8m0(sf), k_blocks=10),
        )

    step()  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fast, dense, grouped, back = step()
    for owned, order in ((rows, sizes), (33, [512, 128, 640]), (0, [640, 512, 128])):
        source = powers(rng, (rows, 10))
        sf.copy_(torch.from_numpy(source))
        ends.fill_(owned)
        k_sizes.copy_(torch.tensor(order, dtype=torch.int32))
        graph.replay()
        torch.cuda.synchronize()
        assert np.array_equal(fast.cpu().numpy(), source)
        assert np.array_equal(back.cpu().numpy(), source)
        want = packed_by_numpy(source).view(np.int32)
        want[owned:] = 0
        assert np.array_equal(dense.cpu().numpy(), want)
        want = grouped_by_numpy(source, blocks_of(order, 128)).view(np.int32)
        assert np.array_equal(grouped.cpu().numpy(), want)


@pytest.mark.gpu
@pytest.mark.torch
def test_on_the_current_stream(torch: Any, rng: np.random.Generator) -> None:
    """The factors are still being made on a side stream when they are packed."""
    source = powers(rng, (300, 9))
    early, late = torch.from_numpy(source).cuda(), torch.ones(300, 9, device="cuda")
    layout.pack_ue8m0(late)  # compiles
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        late.copy_(early)
        packed = layout.pack_ue8m0(late)
    side.synchronize()
    assert np.array_equal(packed.cpu().numpy(), packed_by_numpy(source).view(np.int32))


if __name__ == "__main__":
    main(BODIES)
