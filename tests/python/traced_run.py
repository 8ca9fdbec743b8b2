"""A run with every kind of product, for the tests of DEEPGEMM_TRACE and of warm-up.

As a program (a child process, on a fake driver or a GPU) it runs the parts that are named, then
says what was compiled. ``extra`` is a product that ``run`` does not cover.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import ml_dtypes
import numpy as np

import deepgemm


def put(shape: tuple[int, ...], dtype: str, device: int = 0) -> Any:
    return deepgemm.DeviceArray(shape, dtype, device)


def scaled(rows: int, k: int, block: int = 1, stack: int = 0) -> Any:
    """float8 values with aligned factors, of one matrix or of a stack."""
    front = (stack,) if stack else ()
    values = put((*front, rows, k), "float8_e4m3fn")
    blocks, row_blocks = -(-k // 128), -(-rows // block)
    if block > 1:
        return values, put((*front, row_blocks, blocks), "float32"), (block, 128)
    pitch = -(-rows // 4) * 4
    sf = put((*front, blocks, pitch), "float32")
    strides = (*((blocks * pitch,) if stack else ()), 1, pitch)
    return values, sf.strided((*front, rows, blocks), strides), (1, 128)


def sizes(*values: int) -> Any:
    return deepgemm.DeviceArray.from_numpy(np.array(values, np.int32), device=0)


def run() -> None:
    """Every operation, some twice."""
    for m in (1, 8, 300):
        deepgemm.gemm(scaled(m, 512), scaled(640, 512, 128))
    deepgemm.gemm(scaled(300, 512), scaled(640, 512, 128))
    deepgemm.gemm(scaled(300, 512), scaled(640, 512), out_dtype="float32")
    a, b = put((256, 256), "bfloat16"), put((384, 256), "bfloat16")
    deepgemm.gemm(a, b, bias=put((384,), "float32"), activation="silu", alpha=0.5)
    out = put((256, 384), "bfloat16")
    deepgemm.gemm(a, put((256, 384), "bfloat16"), out, layout="nn", c=out)
    deepgemm.gemm(a, b, policy={"tile_m": 128, "tile_n": 128, "stages": 3})
    with deepgemm.options(num_sms=20):
        deepgemm.gemm(scaled(2000, 512), scaled(640, 512, 128))
    deepgemm.gemm(put((3, 70, 128), "float16"), put((3, 96, 128), "float16"))
    deepgemm.gemm(scaled(64, 256, 1, 3), scaled(128, 256, 128, 3))
    deepgemm.gemm(put((65, 33), "float32"), put((17, 33), "float32"))
    deepgemm.grouped_gemm(scaled(300, 512), scaled(256, 512, 128, 4), sizes(100, 50, 0, 150))
    # One factor for all, of rank 0 or spread by the operation over groups or a batch.
    x, stack = put((64, 128), "float8_e4m3fn"), put((2, 64, 128), "float8_e4m3fn")
    for factor in (put((), "float32"), put((1,), "float32")):
        deepgemm.gemm((x, factor), (x, factor))
        deepgemm.grouped_gemm((x, factor), (stack, factor), sizes(30, 20))
        deepgemm.gemm((stack, factor), (stack, factor))
    deepgemm.grouped_gemm(
        put((64, 128), "bfloat16"), put((2, 128, 96), "bfloat16"), labels=sizes(*[0, 1] * 32),
        layout="nn", bias=put((2, 96), "float32"),
    )  # fmt: skip
    deepgemm.grouped_gemm(
        put((64, 100), "float32"), put((2, 96, 100), "float32"), group_ends=sizes(30, 64)
    )
    deepgemm.masked_gemm(
        scaled(128, 512, 1, 4), scaled(256, 512, 128, 4), sizes(1, 2, 3, 4), expected_rows=3
    )
    deepgemm.k_grouped_gemm(scaled(256, 512), scaled(128, 512), sizes(256, 256))
    deepgemm.k_grouped_gemm(
        put((256, 128), "bfloat16"), put((256, 64), "bfloat16"), sizes(128, 128), layout="tn"
    )
    x = deepgemm.DeviceArray.from_numpy(np.zeros((64, 512), ml_dtypes.bfloat16), device=0)
    q = deepgemm.quantize(x)
    deepgemm.quantize(x, (128, 128), "float8_e5m2")
    deepgemm.dequantize(q)
    deepgemm.layout.pack_ue8m0(q.sf)
    deepgemm.layout.sf_fast(put((64, 9), "float32"))


def extra() -> None:
    deepgemm.gemm(put((512, 4096), "float16"), put((4096, 4096), "float16"), out_dtype="float32")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        {"run": run, "extra": extra}[name]()
    print(json.dumps(deepgemm.cache_info()))
