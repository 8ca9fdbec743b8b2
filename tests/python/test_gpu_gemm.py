"""gemm and quantize on a GPU against exact answers, each body in a child process with a time limit.

A body takes the device: a CUDA ordinal, or -1 for host memory, where the CPU reference runs the
very same lines: that is how the bodies themselves are tested. By hand, on one GPU:

    python tests/python/test_gpu_gemm.py exact_shapes 0
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import deepgemm
import oracle
from gpu_place import SENTINEL, Place, as_tests, main

M = (0, 1, 3, 17, 64, 127, 129, 300)
N = (1, 8, 24, 33, 136, 576)
K = (0, 16, 48, 128, 144, 640, 1024, 1152)


def operands(
    place: Place,
    a: oracle.Operand,
    b: oracle.Operand,
    fast_sfa: bool,
    pitch_extra: int,
    offset: int,
) -> tuple[Any, Any]:
    """Values in strided memory; factors that TMA can take if `fast_sfa`, else row-major."""
    k = a.values.shape[1]

    def put(x: oracle.Operand) -> Any:
        per_row = x.sf.shape[0] == x.values.shape[0] and x.sf.size
        put_sf = place.put_fast_scales if fast_sfa and per_row else place.put
        return (place.put_strided(x.values, k + pitch_extra, offset), put_sf(x.sf))

    return put(a), put(b)


def check(
    place: Place,
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    *,
    granularity: Any = ((1, 128), (128, 128)),
    out_dtype: str = "bfloat16",
    fast_sfa: bool = True,
    pitch_extra: int = 0,
    offset: int = 0,
    out_extra: int = 0,
    **options: Any,
) -> None:
    """One exact product in guarded memory."""
    m, n, k = shape
    a = oracle.exact_operand(rng, m, k, granularity[0])
    b = oracle.exact_operand(rng, n, k, granularity[1])
    pitch = n + out_extra
    base, out = place.guarded(m, n, out_dtype, pitch)
    host = {name: options.pop(name) for name in ("c", "bias") if name in options}
    deepgemm.gemm(
        *operands(place, a, b, fast_sfa, pitch_extra, offset),
        out,
        granularity=granularity,
        **{name: place.put(x) for name, x in host.items()},
        **options,
    )
    found = place.read_guarded(base, m, n, pitch)
    options.pop("policy", None)
    want = oracle.cast(oracle.product(a.real, b.real, **host, **options), out_dtype)
    assert oracle.same_bits(found, want), (shape, out_dtype, fast_sfa, pitch_extra, offset)


def exact_shapes(place: Place) -> None:
    """Every M, N, K; dtype of out, layout of sfa and pitches vary from one to the next."""
    rng = np.random.default_rng(1)
    for i, shape in enumerate(itertools.product(M, N, K)):
        check(
            place,
            rng,
            shape,
            out_dtype=("bfloat16", "float32")[i % 2],
            fast_sfa=i % 3 != 0,
            pitch_extra=(0, 16, 128)[i % 5 % 3],
            out_extra=(0, 8, 24)[i % 7 % 3],
        )


def granularities(place: Place) -> None:
    """Every pair of granularities that has a name."""
    rng = np.random.default_rng(2)
    rows = ((1, 128), (128, 128), (1, 0), (0, 0), (1, 32))
    for pair in itertools.product(rows, rows):
        for shape in ((65, 136, 640), (3, 24, 160)):
            check(place, rng, shape, granularity=pair, fast_sfa=pair[0] == (1, 128))


def unaligned(place: Place) -> None:
    """Bases and pitches that TMA cannot take."""
    rng = np.random.default_rng(3)
    for offset, extra, out_extra in ((1, 0, 0), (8, 3, 1), (0, 5, 7), (16, 16, 3), (3, 13, 0)):
        for shape in ((17, 33, 144), (129, 136, 640), (1, 1, 16), (64, 24, 130)):
            for out_dtype in ("bfloat16", "float32"):
                check(
                    place,
                    rng,
                    shape,
                    out_dtype=out_dtype,
                    offset=offset,
                    pitch_extra=extra,
                    out_extra=out_extra,
                )


def epilogue(place: Place) -> None:
    """Steps that stay exact: relu, bias, c, a power of two as alpha; and K = 0."""
    rng = np.random.default_rng(4)
    for m, n, k in ((64, 136, 640), (129, 33, 144), (3, 576, 1024), (17, 24, 0)):
        whole = {
            "bias": rng.integers(-9, 9, n).astype(np.float32),
            "c": rng.integers(-9, 9, (m, n)).astype(np.float32),
            "alpha": 0.5,
            "activation": "relu",
        }
        for names in ((), ("bias",), ("c",), ("alpha",), ("activation",), tuple(whole)):
            for out_dtype in ("bfloat16", "float32"):
                check(
                    place,
                    rng,
                    (m, n, k),
                    out_dtype=out_dtype,
                    **{name: whole[name] for name in names},
                )


def accumulate(place: Place) -> None:
    """c is out: thirty steps added in place."""
    rng = np.random.default_rng(5)
    a = oracle.exact_operand(rng, 129, 256, (1, 128))
    b = oracle.exact_operand(rng, 136, 256, (128, 128))
    left, right = operands(place, a, b, True, 0, 0)
    out = place.put(np.zeros((129, 136), np.float32))
    for _ in range(30):
        deepgemm.gemm(left, right, out, c=out)
    want = 30 * oracle.product(a.real, b.real)
    assert oracle.same_bits(out.to_numpy(), oracle.cast(want, "float32"))


def repeat(place: Place) -> None:
    """The same bits, every time."""
    rng = np.random.default_rng(6)
    times = 500 if place.device >= 0 else 3
    for m, n, k in ((300, 576, 1152), (17, 136, 640), (129, 33, 1024)):
        a = oracle.random_operand(rng, m, k, (1, 128))
        b = oracle.random_operand(rng, n, k, (128, 128))
        left, right = operands(place, a, b, True, 0, 0)
        first = deepgemm.gemm(left, right).to_numpy()
        out = deepgemm.DeviceArray((m, n), "bfloat16", place.device)
        for _ in range(times):
            out.fill(SENTINEL)
            deepgemm.gemm(left, right, out)
            assert oracle.same_bits(out.to_numpy(), first)


def against_the_cpu(place: Place) -> None:
    """Random values and factors, every activation, against the reference backend and float64."""
    rng = np.random.default_rng(7)
    host = Place(-1)
    for activation, (m, n, k) in zip(
        (None, "relu", "gelu", "gelu_tanh", "silu"),
        ((300, 576, 1152), (64, 136, 640), (17, 33, 144), (129, 24, 1024), (1, 576, 1024)),
        strict=True,
    ):
        a = oracle.random_operand(rng, m, k, (1, 128))
        b = oracle.random_operand(rng, n, k, (128, 128))
        bias = rng.standard_normal(n).astype(np.float32)
        for out_dtype, limit in (("float32", 1e-6), ("bfloat16", 1e-5), ("float16", 1e-5)):
            results = []
            for where in (place, host):
                out = deepgemm.gemm(
                    *operands(where, a, b, True, 0, 0),
                    bias=where.put(bias),
                    alpha=1e-3,
                    activation=activation,
                    out_dtype=out_dtype,
                )
                results.append(out.to_numpy())
            want = oracle.product(a.real, b.real, alpha=1e-3, bias=bias, activation=activation)
            assert oracle.difference(results[0], want) < limit, (activation, out_dtype)
            assert oracle.difference(results[0], results[1]) < limit


def other_dtypes(place: Place) -> None:
    """float8_e5m2 mixes, BF16 and FP16 operands, float8 out."""
    rng = np.random.default_rng(8)
    names = ("float8_e4m3fn", "float8_e5m2")
    for x, y, out_dtype in itertools.product(names, names, ("bfloat16", "float32", names[0])):
        a = oracle.exact_operand(rng, 65, 640, (1, 128), x)
        b = oracle.exact_operand(rng, 136, 640, (128, 128), y)
        out = deepgemm.gemm(*operands(place, a, b, True, 0, 0), out_dtype=out_dtype)
        want = oracle.cast(oracle.product(a.real, b.real), out_dtype)
        assert oracle.same_bits(out.to_numpy(), want), (x, y, out_dtype)
    for name in ("bfloat16", "float16"):
        a, b = (oracle.cast(rng.integers(-2, 3, (r, 144)).astype("f4"), name) for r in (33, 24))
        out = deepgemm.gemm(place.put(a), place.put(b), out_dtype="float32")
        assert oracle.same_bits(out.to_numpy(), oracle.cast(oracle.product(a, b), "float32"))


def layouts(place: Place) -> None:
    """a and b in either major."""
    rng = np.random.default_rng(9)
    a = oracle.exact_operand(rng, 64, 256, (1, 128))
    b = oracle.exact_operand(rng, 136, 256, (128, 128))

    def put(x: oracle.Operand, turned: bool) -> Any:
        return tuple(place.put(y.T if turned else y) for y in (x.values, x.sf))

    for layout in ("nt", "nn", "tn", "tt"):
        out = deepgemm.gemm(
            put(a, layout[0] == "t"),
            put(b, layout[1] == "n"),
            layout=layout,
            granularity=((1, 128), (128, 128)),
        )
        want = oracle.cast(oracle.product(a.real, b.real), "bfloat16")
        assert oracle.same_bits(out.to_numpy(), want), layout


def nan_and_zero(place: Place) -> None:
    """A NaN stays in its row and column; a factor of 0 gives 0."""
    rng = np.random.default_rng(10)
    a = oracle.exact_operand(rng, 130, 640, (1, 128))
    b = oracle.exact_operand(rng, 136, 640, (128, 128))
    a.sf[5, 3], a.sf[77] = np.nan, 0
    b.values[9, 600] = np.nan
    out = deepgemm.gemm(*operands(place, a, b, True, 0, 0), out_dtype="float32").to_numpy()
    nan = np.zeros(out.shape, bool)
    nan[5] = nan[:, 9] = True
    assert np.array_equal(np.isnan(out), nan)
    assert (np.delete(out[77], 9) == 0).all()


def every_candidate(place: Place) -> None:
    """Every config that the heuristics weigh, forced, on shapes with tails.

    Factors per 128 columns and per column, with and without C added in place.
    """
    rng = np.random.default_rng(13)
    shapes = ((1, 136, 256), (17, 200, 1152), (60, 576, 640), (128, 136, 1024), (300, 520, 400))
    for shape, columns, out_dtype in itertools.product(
        shapes, ((128, 128), (1, 128)), ("bfloat16", "float32")
    ):
        granularity = ((1, 128), columns)
        report = deepgemm.explain("gemm", *shape, granularity=granularity, out_dtype=out_dtype)
        assert len(report.candidates) > 3
        for candidate in report.candidates:
            policy = candidate["policy"]
            check(place, rng, shape, granularity=granularity, out_dtype=out_dtype, policy=policy)
    for candidate in deepgemm.explain(
        "gemm", 129, 136, 256, granularity=((1, 128), (1, 128)), out_dtype="float32", c=True
    ).candidates:
        a = oracle.exact_operand(rng, 129, 256, (1, 128))
        b = oracle.exact_operand(rng, 136, 256, (1, 128))
        left, right = operands(place, a, b, True, 0, 0)
        out = place.put(np.full((129, 136), 3, np.float32))
        deepgemm.gemm(left, right, out, c=out, granularity=(1, 128), policy=candidate["policy"])
        want = oracle.product(a.real, b.real) + 3
        assert oracle.same_bits(out.to_numpy(), oracle.cast(want, "float32")), candidate


def padding_is_not_read(place: Place) -> None:
    """K of every residue with NaN between the rows, and N of every residue beside guarded bytes."""
    rng = np.random.default_rng(15)
    for k, n in itertools.product((130, 136, 144, 255), (33, 36, 40, 63)):
        for m, out_dtype in itertools.product((5, 130), ("bfloat16", "float32")):
            extra = -(k % -16) or 16
            check(
                place,
                rng,
                (m, n, k),
                out_dtype=out_dtype,
                pitch_extra=extra,
                out_extra=-(n % -8) or 8,
            )


def dependent_launches(place: Place) -> None:
    """Programmatic dependent launch: each product reads what the kernel before it wrote."""
    rng = np.random.default_rng(16)
    x = rng.integers(-2, 3, (40, 256)).astype(np.float32)
    w = rng.integers(-2, 3, (256, 256)).astype(np.float32)
    with deepgemm.options(pdl=place.device >= 0):
        for _ in range(20):
            left = deepgemm.quantize(place.put(x), (1, 128))
            right = deepgemm.quantize(place.put(w), (128, 128))
            first = deepgemm.gemm(left, right, out_dtype="float32")
            again = deepgemm.gemm(deepgemm.quantize(first, (1, 128)), right, out_dtype="float32")
            del left, right
            found = first.to_numpy(), again.to_numpy()
    assert np.isfinite(found[1]).all()
    host = Place(-1)
    left, right = (deepgemm.quantize(host.put(y), g) for y, g in ((x, (1, 128)), (w, (128, 128))))
    want = deepgemm.gemm(left, right, out_dtype="float32").to_numpy()
    assert oracle.difference(found[0], want) < 1e-6


def constant_weights(place: Place) -> None:
    """With a constant b, its tiles may come before the previous kernel has written a."""
    rng = np.random.default_rng(18)
    # K of fewer blocks than a ring has stages, and of more (less often, since a model is slow).
    for m, k, rounds in ((3, 640, 10), (40, 640, 10), (300, 640, 10), (300, 4480, 1)):
        w = rng.integers(-2, 3, (384, k)).astype(np.float32)
        right = deepgemm.quantize(place.put(w), (128, 128))
        right.values.to_numpy()  # so that nothing in the stream still writes it
        xs = [rng.integers(-2, 3, (m, k)).astype(np.float32) for _ in range(4)]
        inputs = [place.put(x) for x in xs]
        plain = [deepgemm.gemm(deepgemm.quantize(x, (1, 128)), right).to_numpy() for x in inputs]
        with deepgemm.options(pdl=place.device >= 0, constant_b=True):
            for _ in range(rounds):
                for x, want in zip(inputs, plain, strict=True):
                    found = deepgemm.gemm(deepgemm.quantize(x, (1, 128)), right)
                    again = deepgemm.gemm(deepgemm.quantize(x, (1, 128)), right)
                    assert oracle.same_bits(found.to_numpy(), want)
                    assert oracle.same_bits(again.to_numpy(), want)


def few_sms(place: Place) -> None:
    """Any number of SMs gives the same bits."""
    rng = np.random.default_rng(17)
    for num_sms in (1, 2, 7, 66, 131):
        with deepgemm.options(num_sms=num_sms):
            for shape in ((17, 136, 640), (300, 576, 1152)):
                check(place, rng, shape)


def many_columns(place: Place) -> None:
    """Few rows of a, and more columns than all CTAs of a GPU have at once."""
    rng = np.random.default_rng(21)
    for shape in ((20, 16896, 256), (3, 70016, 384)):
        check(place, rng, shape)
        check(place, rng, shape, bias=rng.integers(-9, 9, shape[1]).astype(np.float32))


def strict_after_warmup(place: Place) -> None:
    """A repeated call compiles nothing."""
    rng = np.random.default_rng(12)
    check(place, rng, (64, 136, 640))
    with deepgemm.options(strict_jit=True):
        check(place, rng, (64, 136, 640))


def _bodies() -> Iterator[Callable[[Place], None]]:
    yield from (exact_shapes, granularities, unaligned, epilogue, accumulate, repeat)
    yield from (against_the_cpu, other_dtypes, layouts, nan_and_zero)
    yield from (every_candidate, padding_is_not_read)
    yield from (dependent_launches, constant_weights, few_sms, many_columns, strict_after_warmup)


BODIES = {body.__name__: body for body in _bodies()}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
