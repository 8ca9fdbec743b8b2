"""A BERT encoder in plain NumPy, over any Linear: embed, six layers, mean pooling, normalise.

All sentences are packed into one matrix of tokens [T, hidden]; only attention looks at where each
sentence begins, so that no padding is ever computed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepgemm.demo.model import Model

Array = NDArray[Any]
# linear(name of the layer, x [T, K], activation or None) -> [T, N]; it knows the weights.
Linear = Callable[[str, Array, "str | None"], Array]

_erf = np.frompyfunc(math.erf, 1, 1)


def gelu(x: Array) -> Array:
    """Return the exact (erf) GELU in x's dtype."""
    wide = np.asarray(x, np.float64)
    erf = np.asarray(_erf(wide / math.sqrt(2)), np.float64)
    return np.asarray(0.5 * wide * (1 + erf), x.dtype)


def _layer_norm(model: Model, name: str, x: Array) -> Array:
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    scale = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + model.norm_epsilon)
    weight = model.tensors[f"{name}.weight"].astype(x.dtype)
    return np.asarray(centred * scale * weight + model.tensors[f"{name}.bias"], x.dtype)


def _softmax(scores: Array) -> Array:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _attention(model: Model, query: Array, key: Array, value: Array) -> Array:
    """Scaled dot-product attention of one sentence; all [tokens, hidden]."""
    tokens, hidden = query.shape
    width = hidden // model.heads
    split = (tokens, model.heads, width)
    q, k, v = (x.reshape(split).transpose(1, 0, 2) for x in (query, key, value))
    scores = q @ k.transpose(0, 2, 1) / query.dtype.type(math.sqrt(width))
    return np.asarray((_softmax(scores) @ v).transpose(1, 0, 2).reshape(tokens, hidden))


def encode(model: Model, sentences: Sequence[Sequence[int]], linear: Linear, dtype: type) -> Array:
    """Return the unit-length embedding of each sentence (token ids), [sentences, hidden]."""
    lengths = [len(ids) for ids in sentences]
    bounds = np.cumsum([0, *lengths])
    tokens = np.concatenate([np.asarray(ids, np.int64) for ids in sentences])
    positions = np.concatenate([np.arange(n) for n in lengths])
    tensors = model.tensors
    x = tensors["embeddings.word_embeddings.weight"][tokens].astype(dtype)
    x = x + tensors["embeddings.position_embeddings.weight"][positions]
    x = x + tensors["embeddings.token_type_embeddings.weight"][0]
    x = _layer_norm(model, "embeddings.LayerNorm", x.astype(dtype))
    for index in range(model.layers):
        layer = f"encoder.layer.{index}"
        q, k, v = (
            linear(f"{layer}.attention.self.{name}", x, None) for name in ("query", "key", "value")
        )
        spans = [slice(a, b) for a, b in itertools.pairwise(bounds)]
        mixed = np.concatenate([_attention(model, q[s], k[s], v[s]) for s in spans])
        mixed = linear(f"{layer}.attention.output.dense", mixed, None)
        x = _layer_norm(model, f"{layer}.attention.output.LayerNorm", x + mixed)
        inner = linear(f"{layer}.intermediate.dense", x, "gelu")
        inner = linear(f"{layer}.output.dense", inner, None)
        x = _layer_norm(model, f"{layer}.output.LayerNorm", x + inner)
    pooled = np.stack([x[a:b].mean(axis=0) for a, b in itertools.pairwise(bounds)])
    return np.asarray(pooled / np.linalg.norm(pooled, axis=1, keepdims=True))
