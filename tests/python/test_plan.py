"""deepgemm.plan: what a plan computes, what it refuses, what it keeps."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import pydoc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepgemm
from fake_driver import needs_fake_driver, run_on_fake


def operands(rng: Any, m: int = 24, n: int = 40, k: int = 256) -> tuple[Any, Any]:
    a = deepgemm.quantize(rng.standard_normal((m, k), np.float32), (1, 128))
    b = deepgemm.quantize(rng.standard_normal((n, k), np.float32), (128, 128))
    return a, b


def test_a_plan_computes_what_gemm_does(rng):
    a, b = operands(rng)
    plan = deepgemm.plan("gemm", a, b, out_dtype="float32", activation="relu", alpha=0.5)
    for _ in range(2):
        a, b = operands(rng)
        want = deepgemm.gemm(a, b, out_dtype="float32", activation="relu", alpha=0.5)
        assert (plan(a, b) == want).all()
        out = np.empty_like(want)
        assert plan(a, b, out=out) is out
        assert plan(a, b, out) is out
        assert (out == want).all()


def test_c_and_bias(rng):
    x, y = rng.standard_normal((4, 8), np.float32), rng.standard_normal((6, 8), np.float32)
    out, bias = np.zeros((4, 6), np.float32), rng.standard_normal(6).astype(np.float32)
    plan = deepgemm.plan("gemm", x, y, out, c=out, bias=bias)
    assert (out == 0).all()  # nothing has run
    plan(x, y, out, c=out, bias=bias)
    plan(x, y, out=out, c=out, bias=bias)
    want = deepgemm.gemm(x, y, c=deepgemm.gemm(x, y, bias=bias), bias=bias)
    assert (out == want).all()
    with pytest.raises(ValueError, match="c: found memory of its own, need out itself"):
        plan(x, y, out, c=np.zeros_like(out), bias=bias)
    with pytest.raises(ValueError, match="bias: found none, need"):
        plan(x, y, out, c=out)


def grouped_arrays(rng: Any) -> dict[str, tuple[Any, ...]]:
    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    sizes = np.array([3, 0, 7], np.int32)
    return {
        "grouped_gemm": (normal(12, 8), normal(3, 5, 8), sizes),
        "masked_gemm": (normal(3, 7, 8), normal(3, 5, 8), sizes),
        "k_grouped_gemm": (normal(4, 12), normal(5, 12), sizes),
    }


def test_a_pair_has_the_granularity_of_the_plan(rng):
    a, b = operands(rng)
    pairs = (a.values, a.sf), (b.values, b.sf)
    want = deepgemm.gemm(a, b)
    for made_with in ((a, b), pairs):
        plan = deepgemm.plan("gemm", *made_with)
        for given in ((a, b), pairs, (a, pairs[1])):
            assert (plan(*given) == want).all()
        with pytest.raises(ValueError, match=r"granularity of a: found \(1, 64\), need "):
            plan((*pairs[0], (1, 64)), b)
    # A granularity that nothing infers from the shape of factors.
    odd = deepgemm.quantize(rng.standard_normal((24, 256), np.float32), (1, 64))
    bare = (odd.values, odd.sf)
    with pytest.raises(ValueError, match="any other granularity must be given"):
        deepgemm.gemm(bare, b)
    assert (deepgemm.plan("gemm", odd, b)(bare, b) == deepgemm.gemm(odd, b)).all()


@pytest.mark.parametrize("op", ["grouped_gemm", "masked_gemm", "k_grouped_gemm"])
def test_plans_of_grouped_products(op, rng):
    plan = deepgemm.plan(op, *grouped_arrays(rng)[op])
    arrays = grouped_arrays(rng)[op]
    want = np.zeros_like(plan(*arrays))
    out = np.zeros_like(want)
    getattr(deepgemm, op)(*arrays, out=want)
    assert plan(*arrays, out=out) is out
    assert (out == want).all()
    assert plan.problem["op"] == op
    assert plan.problem["groups"] == 3
    a, b, sizes = arrays
    with pytest.raises(TypeError, match="found int64, need int32"):
        plan(a, b, sizes.astype(np.int64), out)
    with pytest.raises(ValueError, match="found 99 for group 2"):
        plan(a, b, np.array([3, 0, 99], np.int32), out)


def test_plans_of_the_forms_of_groups(rng):
    a, b, sizes = grouped_arrays(rng)["grouped_gemm"]
    out = np.zeros((12, 5), np.float32)
    offsets = np.array([0, 3, 3, 10], np.int64)
    plan = deepgemm.plan("grouped_gemm", a, b, group_offsets=offsets, alpha=2.0)
    plan(a, b, offsets, out=out)
    want = np.zeros_like(out)
    deepgemm.grouped_gemm(a, b, sizes, want, alpha=2.0)
    assert (out == want).all()
    with pytest.raises(ValueError, match="group_offsets: found shape"):
        plan(a, b, offsets[:3], out)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"a": lambda a, b: (a.values[:-1], a.sf[:-1])}, ValueError, r"a: found shape \[23, 256\]"),
        ({"b": lambda a, b: (b.values[:, :128], b.sf[:, :1])}, ValueError, "b: found shape"),
        ({"a": lambda a, b: (np.asfortranarray(a.values), a.sf)}, ValueError, "a: found strides"),
        ({"a": lambda a, b: a.values}, ValueError, "sfa: found none, need"),
        (
            {"a": lambda a, b: a.values.astype("float32")},
            TypeError,
            "a: found float32, need float8",
        ),
        ({"a": lambda a, b: (a.values, 2.0)}, ValueError, "sfa: found none, need"),
        ({"c": lambda a, b: np.zeros((24, 40), np.float32)}, ValueError, "c: found .*need none"),
    ],
)
def test_what_differs_is_named(change, kind, words, rng):
    a, b = operands(rng)
    plan = deepgemm.plan("gemm", a, b, out_dtype="float32")
    given = {"a": a, "b": b, "out": np.empty((24, 40), np.float32)}
    plan(**given)
    given.update({name: make(a, b) for name, make in change.items()})
    with pytest.raises(kind, match=words):
        plan(**given)


def test_wrong_outs(rng):
    a, b = operands(rng)
    plan = deepgemm.plan("gemm", a, b, out_dtype="float32")
    with pytest.raises(TypeError, match="out: found float64, need float32"):
        plan(a, b, np.empty((24, 40)))
    with pytest.raises(ValueError, match="out: found strides"):
        plan(a, b, np.empty((24, 41), np.float32)[:, :40])
    frozen = np.empty((24, 40), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out: found a read-only array"):
        plan(a, b, frozen)
    x = np.zeros((40, 40), np.float32)
    square = deepgemm.plan("gemm", x, x.copy(), out_dtype="float32")
    with pytest.raises(ValueError, match="out: found memory that overlaps a"):
        square(x, x.copy(), x)


def test_arguments_are_read_as_python_does(rng):
    a, b = operands(rng)
    plan = deepgemm.plan("gemm", a, b)
    with pytest.raises(TypeError, match=r"Plan\(\) missing a required argument: 'b'"):
        plan(a)
    with pytest.raises(TypeError, match=r"Plan\(\) got an unexpected keyword argument 'alpha'"):
        plan(a, b, alpha=2.0)
    with pytest.raises(TypeError, match=r"Plan\(\) got multiple values for argument 'a'"):
        plan(a, b, a=a)
    with pytest.raises(TypeError, match="takes from 2 to 3 positional arguments but 4 were given"):
        plan(a, b, None, None)
    with pytest.raises(TypeError, match=r"gemm\(\) got an unexpected keyword argument 'beta'"):
        deepgemm.gemm(a, b, beta=1)
    name = "".join(["al", "pha"])  # not interned
    assert (deepgemm.gemm(a, b, **{name: 1.0}) == plan(a, b)).all()


def test_unknown_operations_and_wrong_examples(rng):
    a, b = operands(rng)
    with pytest.raises(ValueError, match=r"op: found 'matmul', need one of \"gemm\", "):
        deepgemm.plan("matmul", a, b)
    with pytest.raises(ValueError, match="b: found shape"):
        deepgemm.plan("gemm", a, (b.values[:, :128], b.sf[:, :1]))
    with pytest.raises(TypeError, match="cannot create"):
        deepgemm.Plan()


def test_what_a_plan_says(rng):
    a, b = operands(rng)
    plan = deepgemm.plan("gemm", a, b)
    report = plan.explain()
    assert isinstance(report, deepgemm.Report)
    assert report.kernel == "cpu"
    assert "host memory" in str(report)
    assert plan.config == report.config
    assert plan.problem == report.problem
    assert plan.problem["m"] == 24
    assert plan.problem["a_granularity"] == (1, 128)
    assert "cpu" in repr(plan)


def test_a_plan_keeps_no_array(rng):
    a, b = operands(rng)
    out = np.empty((24, 40), np.float32)
    kept = [weakref.ref(x) for x in (a.values, a.sf, b.values, b.sf, out)]
    plan = deepgemm.plan("gemm", a, b, out)
    plan(a, b, out)
    del a, b, out
    gc.collect()
    assert [ref() for ref in kept] == [None] * 5
    assert plan.problem["n"] == 40


def test_threads(rng):
    a, b = operands(rng)
    plan = deepgemm.plan("gemm", a, b, out_dtype="float32")
    want = deepgemm.gemm(a, b, out_dtype="float32")
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(50):
            if not (plan(a, b) == want).all():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("op", ["gemm", "grouped_gemm", "masked_gemm", "k_grouped_gemm"])
def test_compiled_operations_are_documented(op):
    operation = getattr(deepgemm, op)
    assert operation.__name__ == op
    assert "stream" in inspect.signature(operation).parameters
    text = pydoc.plain(pydoc.render_doc(operation))
    assert f"{op}(a: Any, b: Any" in text
    assert "Raises:" in text


ON_A_GPU = """
import sys, threading
import deepgemm
from deepgemm import DeviceArray

def put(shape, dtype):
    return DeviceArray(shape, dtype, 0)

a, sfa = put((64, 256), "float8_e4m3fn"), put((2, 64), "float32").strided((64, 2), (1, 64))
b, sfb = put((128, 256), "float8_e4m3fn"), put((1, 2), "float32")
out = put((64, 128), "bfloat16")
plan = deepgemm.plan("gemm", (a, sfa), (b, sfb), out)
plan((a, sfa), (b, sfb), out, stream=7)
assert plan((a, sfa), (b, sfb)).shape == (64, 128)
report = plan.explain()
assert report.kernel.startswith("deepgemm_fp8_gemm"), report
assert report.origin == "compiled" and report.candidates and plan.config == report.config

def refused(words, *arguments, **more):
    try:
        plan(*arguments, **more)
    except (ValueError, TypeError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

off = put((64 * 256 + 16,), "float8_e4m3fn").strided((64, 256), (256, 1), 4)
refused("a: found an address 4 bytes past a multiple of 16", (off, sfa), (b, sfb), out)
other = DeviceArray((128, 256), "float8_e4m3fn", 1)
refused("b: found an array on cuda:1", (a, sfa), (other, sfb), out)
host = DeviceArray((64, 128), "bfloat16", -1)
refused("out: found an array on cpu", (a, sfa), (b, sfb), host)
refused("sfa: found strides", (a, put((64, 2), "float32")), (b, sfb), out)
refused("out: found float16", (a, sfa), (b, sfb), put((64, 128), "float16"))
refused("a: found shape [32, 256]", (a.strided((32, 256), (256, 1)), sfa), (b, sfb), out)
plan((a, sfa), (b, sfb), out)  # and after them
plan((put((64, 256), "float8_e4m3fn"), sfa), (b, sfb), put((64, 128), "bfloat16"))

square = put((128, 256), "bfloat16")
x, y = square.strided((128, 128), (256, 1)), put((128, 128), "bfloat16")
plan = deepgemm.plan("gemm", x, y, square.strided((128, 128), (256, 1), 128))
plan(x, y, square.strided((128, 128), (256, 1), 128))  # beside x, in the same rows
refused("out: found memory that overlaps a", x, y, x)
refused("out: found strides", x, y, y)
grouped = deepgemm.plan("grouped_gemm", (a, sfa), (put((4, 128, 256), "float8_e4m3fn"),
    put((4, 1, 2), "float32")), put((4,), "int32"), out)
assert "schedule" in repr(grouped) or grouped.config, grouped
"""


@needs_fake_driver
def test_plans_on_a_gpu(tmp_path: Path) -> None:
    done = run_on_fake(tmp_path, "-c", ON_A_GPU)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("op", ["gemm", "grouped_gemm", "masked_gemm", "k_grouped_gemm"])
def test_operations_are_copied_and_pickled_as_functions_are(op):
    operation = getattr(deepgemm, op)
    held = {"call": functools.partial(operation, layout="nn")}
    for made in (copy.deepcopy(held), pickle.loads(pickle.dumps(held))):
        assert made["call"].func is operation
    assert weakref.ref(operation)() is operation
    assert repr(operation) == f"<operation deepgemm.{op}>"
    with pytest.raises(TypeError, match=r"unexpected keyword argument '.ud800'"):
        operation(1, 2, **{"\ud800": 1})


def test_options_are_taken_by_value(rng):
    x = rng.integers(-2, 3, (8, 16)).astype(np.float32)
    alpha, granularity = np.array(2.0), [[1, 128], [1, 128]]
    plan = deepgemm.plan("gemm", x, x.copy(), alpha=alpha, granularity=granularity)
    alpha[()], granularity[0] = 3.0, "nothing"
    assert np.array_equal(plan(x, x.copy()), 2 * (x @ x.T))


def test_a_kernel_that_does_not_exist_is_refused_when_the_plan_is_made(rng):
    x = rng.standard_normal((8, 16)).astype(np.float32)
    with pytest.raises(ValueError, match=r"kernel: found .*of_16_characters"):
        deepgemm.plan("gemm", x, x.copy(), policy={"kernel": "nonsense_of_16_characters"})


def test_a_forgotten_operation_is_named_by_its_type():
    with pytest.raises(ValueError, match="op: found an object of type ndarray, need one of"):
        deepgemm.plan(np.ones((4, 4)), np.ones((4, 4)))
