"""The Linears of one model: FP32, FP8 emulated in FP64 (free, or in step), deepgemm in FP8."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import deepgemm
from deepgemm.demo import emulation
from deepgemm.demo.devices import Place
from deepgemm.demo.encoder import gelu
from deepgemm.demo.model import Model

Array = NDArray[Any]
ACTIVATION_BLOCK, WEIGHT_BLOCK = (1, 128), (128, 128)


class Float32Linear:
    """y = x W^T + b as the model's authors ran it."""

    def __init__(self, model: Model) -> None:
        """Take the weights."""
        self.tensors = model.tensors

    def __call__(self, name: str, x: Array, activation: str | None) -> Array:
        """Apply the named layer."""
        y = x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]
        return gelu(y) if activation == "gelu" else y


class EmulatedLinear:
    """The same with inputs rounded to FP8 by the NumPy quantisers, everything else in FP64."""

    def __init__(self, model: Model) -> None:
        """Take the weights."""
        self.tensors = model.tensors
        self._weights: dict[str, Array] = {}

    def weight(self, name: str) -> Array:
        """Return the FP64 value of the quantised weights [N, K]."""
        if name not in self._weights:
            quantized = emulation.quantize(self.tensors[f"{name}.weight"], WEIGHT_BLOCK)
            self._weights[name] = emulation.dequantize(*quantized, WEIGHT_BLOCK)
        return self._weights[name]

    def product(self, name: str, x: Array, activation: str | None) -> Array:
        """Return act(x W^T + b) in FP64 for x as it is."""
        y = np.asarray(x, np.float64) @ self.weight(name).T + self.tensors[f"{name}.bias"]
        return gelu(y) if activation == "gelu" else y

    def __call__(self, name: str, x: Array, activation: str | None) -> Array:
        """Quantise x, then apply the named layer."""
        quantized = emulation.quantize(x, ACTIVATION_BLOCK)
        return self.product(name, emulation.dequantize(*quantized, ACTIVATION_BLOCK), activation)


class EmulationInStep(EmulatedLinear):
    """The emulation with the FP8 values that a run of the library really multiplied.

    Why: rounding to FP8 is discontinuous. Where a free emulation differs from the run in the last
    digit of FP32, a value at a tie is rounded the other way, changes by 6 %, and the difference
    spreads through the layers; that says nothing about the library. Here the rounding decisions are
    the run's (each checked bit for bit against the definition on its own input), and everything
    else, residuals and norms too, is a stream of its own in FP64.
    """

    def __init__(self, model: Model, inputs: dict[str, Array]) -> None:
        """Take the weights, and the values that each layer was given."""
        super().__init__(model)
        self._inputs = inputs
        self.rounded_otherwise = self.rounded = 0

    def __call__(self, name: str, x: Array, activation: str | None) -> Array:
        """Apply the named layer to what the run gave it; count what x would have given."""
        own = emulation.dequantize(*emulation.quantize(x, ACTIVATION_BLOCK), ACTIVATION_BLOCK)
        given = self._inputs[name]
        # Why 1e-3: scales differ in their last digits, FP8 neighbours by more than 5 %.
        self.rounded_otherwise += int((np.abs(own - given) > 1e-3 * np.abs(given)).sum())
        self.rounded += given.size
        return self.product(name, given, activation)


@dataclass
class ShapeRecord:
    """What was seen of one product shape: times in ms, the worst error, the kernel."""

    m: int
    n: int
    k: int
    activation: str | None
    roles: list[str] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)
    error: float = 0.0
    kernel: dict[str, Any] = field(default_factory=dict)


def relative_error(found: Array, exact: Array) -> float:
    """Return 1 - 2<x,y> / (<x,x> + <y,y>), the error measure of the project; 0 for equal."""
    x, y = np.asarray(found, np.float64).ravel(), np.asarray(exact, np.float64).ravel()
    total = float(x @ x + y @ y)
    return 1.0 - 2.0 * float(x @ y) / total if total > 0 else 0.0


class Fp8Linear:
    """Every Linear as `deepgemm.quantize` and one `deepgemm.gemm`, with bias and GELU fused."""

    def __init__(self, model: Model, place: Place) -> None:
        """Take the weights, and where to compute."""
        self.tensors, self.place = model.tensors, place
        self.exact = EmulatedLinear(model)
        self.records: dict[tuple[int, int, int, str | None], ShapeRecord] = {}
        self.inputs: dict[str, Array] = {}  # FP64 of what each layer multiplied
        self.unlike_definition = 0  # quantised values and factors that differ from the emulation's
        self._layers: dict[str, tuple[Any, Any]] = {}

    def load(self, name: str) -> None:
        """Move one layer to the device and quantise its weights there."""
        if name not in self._layers:
            weight = self.place.upload(self.tensors[f"{name}.weight"])
            bias = self.place.upload(self.tensors[f"{name}.bias"])
            quantized = deepgemm.quantize(weight, WEIGHT_BLOCK)
            self._compare(self.tensors[f"{name}.weight"], quantized, WEIGHT_BLOCK)
            self._layers[name] = (quantized, bias)

    def __call__(self, name: str, x: Array, activation: str | None) -> Array:
        """Quantise x on the device, multiply there, bring the FP32 result back."""
        self.load(name)
        weight, bias = self._layers[name]
        record = self._record(name, x, activation)
        activations = deepgemm.quantize(self.place.upload(np.float32(x)), ACTIVATION_BLOCK)
        self.inputs[name] = self._compare(x, activations, ACTIVATION_BLOCK)
        options: dict[str, Any] = {
            "bias": bias,
            "activation": activation,
            "out_dtype": "float32",
        }
        if not record.kernel:
            record.kernel = self.place.prepare(activations, weight, options)
        self.place.synchronize()
        start = time.perf_counter()
        out = deepgemm.gemm(activations, weight, **options)
        self.place.synchronize()
        record.times_ms.append((time.perf_counter() - start) * 1e3)
        y = self.place.download(out)
        # Against FP64 on the very values and factors that went into the product.
        error = relative_error(y, self.exact.product(name, self.inputs[name], activation))
        # Why not max(): it would drop a NaN.
        record.error = error if not error <= record.error else record.error
        return y

    def _record(self, name: str, x: Array, activation: str | None) -> ShapeRecord:
        n, k = self.tensors[f"{name}.weight"].shape
        key = (x.shape[0], n, k, activation)
        record = self.records.setdefault(key, ShapeRecord(*key))
        role = ".".join(name.split(".")[3:])
        if role not in record.roles:
            record.roles.append(role)
        return record

    def _compare(self, x: Array, quantized: Any, granularity: tuple[int, int]) -> Array:
        """Return the FP64 of what was quantised; count differences from the definition."""
        codes = self.place.download_bytes(quantized.values)
        sf = self.place.download(quantized.sf)
        values, expected_sf = emulation.quantize(x, granularity)
        self.unlike_definition += int((codes != emulation.encode_e4m3(values)).sum())
        self.unlike_definition += int((sf != expected_sf).sum())
        return emulation.dequantize(emulation.decode_e4m3(codes), sf, granularity)
