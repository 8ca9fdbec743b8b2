"""An FP8 product of NumPy arrays, on the CPU reference backend: runs anywhere."""

import numpy as np

import deepgemm


def main() -> None:
    """Quantise, multiply, and compare with FP32 and with FP64 on the quantised values."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 256)).astype(np.float32)  # activations [M, K]
    w = rng.standard_normal((128, 256)).astype(np.float32)  # weights [N, K]
    xq = deepgemm.quantize(x)  # FP8, one factor per row and 128 of K
    wq = deepgemm.quantize(w, (128, 128))  # FP8, one factor per 128 x 128 block
    y = deepgemm.gemm(xq, wq, out_dtype="float32")

    exact = x @ w.T
    same = deepgemm.dequantize(xq).astype(np.float64) @ deepgemm.dequantize(wq).T
    print("relative error of FP8:", np.linalg.norm(y - exact) / np.linalg.norm(exact))
    print("of the product alone: ", np.linalg.norm(y - same) / np.linalg.norm(same))


if __name__ == "__main__":
    main()
