"""A Linear with FP8 weights in PyTorch, on a Hopper GPU if there is one, else on the CPU."""

import torch

import deepgemm


class Fp8Linear(torch.nn.Module):
    """`torch.nn.Linear` for inference: weights quantised once, activations at each call."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        """Take the weights [N, K] and the bias of a trained layer."""
        super().__init__()
        self.weight = deepgemm.quantize(linear.weight.detach(), (128, 128))
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x W^T + b in bfloat16."""
        rows = x.reshape(-1, x.shape[-1])
        out = deepgemm.gemm(deepgemm.quantize(rows, (1, 128)), self.weight, bias=self.bias)
        return out.reshape(*x.shape[:-1], -1)


def main() -> None:
    """Compare with the layer that it replaces."""
    device = "cuda" if deepgemm.info()["usable"] else "cpu"
    torch.manual_seed(0)
    layer = torch.nn.Linear(512, 256, device=device)
    x = torch.randn(8, 16, 512, device=device)
    with torch.inference_mode():
        y, exact = Fp8Linear(layer)(x), layer(x)
    print(f"{device}: {tuple(y.shape)} {y.dtype}")
    print("relative error of FP8:", float((y - exact).norm() / exact.norm()))


if __name__ == "__main__":
    main()
