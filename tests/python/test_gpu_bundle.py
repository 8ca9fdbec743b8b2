"""Kernels out of a bundle on a GPU: right, and nothing is compiled.

By hand, on one GPU: python tests/python/test_gpu_bundle.py bundled 0
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import numpy as np

import deepgemm
import oracle
from deepgemm.cli import main as cli
from gpu_place import Place, as_tests, main

M, N, K = 200, 384, 512
FP32 = (33, 65, 77)  # no tensor-core kernel takes it


def make_bundle(path: Path, device: int) -> None:
    """The kernels that `bundled` needs; the cache that they are compiled into is thrown away."""
    report = deepgemm.explain("gemm", M, N, K, device=device)
    kernel = f"{report.kernel} e4m3 x e4m3, out bf16, {re.escape(report.config)}$"
    patterns = f"^({kernel}|deepgemm_general_gemm |dg_quantize 128 of K.*e4m3$)"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DEEPGEMM_CACHE_DIR"] = cache
        assert cli.main(["bundle", "-o", str(path), "--only", patterns]) == 0


def bundled(place: Place) -> None:
    """Quantise, a product on the tensor cores, a product on the general kernel; in strict mode."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((M, K), (N, K)))
    c, d = (rng.standard_normal((FP32[i], FP32[2])).astype(np.float32) for i in (0, 1))
    with tempfile.TemporaryDirectory() as folder:
        path, empty = Path(folder, "kernels.bundle"), Path(folder, "empty")
        if place.device >= 0:  # then this process is this test's own
            make_bundle(path, place.device)
            os.environ |= {"DEEPGEMM_BUNDLE": str(path), "DEEPGEMM_CACHE_DIR": str(empty)}
        before = deepgemm.cache_info()
        with deepgemm.options(strict_jit=True):
            aq = deepgemm.quantize(place.put(a), (1, 128))
            bq = deepgemm.quantize(place.put(b), (128, 128))
            out = deepgemm.gemm(aq, bq, out_dtype="bfloat16").to_numpy()
            plain = deepgemm.gemm(place.put(c), place.put(d), out_dtype="float32").to_numpy()
        after = deepgemm.cache_info()
        if place.device >= 0:
            assert after["bundle_hits"] - before["bundle_hits"] == after["loaded"] >= 3, after
            assert after["compiled"] == before["compiled"], after
            assert not empty.exists()
    exact = np.matmul(*(x.astype(np.float64) for x in (a, b.T)))
    assert oracle.difference(out.astype(np.float64), exact) < 2e-3  # what FP8 costs
    np.testing.assert_allclose(plain, c @ d.T, rtol=1e-4, atol=1e-4)


BODIES = {"bundled": bundled}

test_on_the_cpu, test_on_the_gpu = as_tests(__file__, BODIES)

if __name__ == "__main__":
    main(BODIES)
