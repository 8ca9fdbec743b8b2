"""The products of a decoder model, read from its Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Architectures whose fields are known, by ``model_type``: what a config of it must have.
_ATTENTION = ("hidden_size", "num_attention_heads")
_MLA = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_QWEN_MOE = ("num_experts", "moe_intermediate_size", "num_experts_per_tok")
_DEEPSEEK = (*_MLA, "n_routed_experts", "moe_intermediate_size", "num_experts_per_tok")
KNOWN = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), (*_ATTENTION, "intermediate_size")),
    "mixtral": (
        *(*_ATTENTION, "intermediate_size"),
        *("num_local_experts", "num_experts_per_tok"),
    ),
    **dict.fromkeys(("qwen2_moe", "qwen3_moe"), (*_ATTENTION, *_QWEN_MOE)),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), (*_ATTENTION, *_DEEPSEEK)),
}
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
EXPERT_FORMS = ("sizes", "labels", "masked")


@dataclass(frozen=True)
class Product:
    """Weights [N, K] of one place in a model, or of its experts."""

    name: str
    n: int
    k: int
    experts: int = 0  # on one rank; 0: dense
    rows_per_token: float = 1.0  # of all experts of the rank together


@dataclass(frozen=True)
class Model:
    """What was read from a config."""

    model_type: str
    products: tuple[Product, ...]
    taken: dict[str, int]  # the fields that count, with their values

    def __str__(self) -> str:
        known = "" if self.model_type in KNOWN else ", an unknown architecture read by its fields"
        lines = [f"{self.model_type}{known}: "]
        lines[0] += ", ".join(f"{name} {value}" for name, value in self.taken.items())
        for product in self.products:
            experts = f", {product.experts} experts" if product.experts else ""
            lines.append(f"  {product.name:<16} N {product.n}, K {product.k}{experts}")
        return "\n".join(lines)


class _Fields:
    """A config that remembers what was taken from it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        # Models of several modalities keep the decoder's fields apart.
        text = config.get("text_config")
        nested = "hidden_size" not in config and isinstance(text, Mapping)
        self.values: Mapping[str, Any] = text if nested and text is not None else config
        named = self.values.get("model_type") or config.get("model_type")
        self.model_type = str(named or "unnamed model")
        self.taken: dict[str, int] = {}

    def get(self, *names: str) -> int:
        """Return the first of the fields that is there and not 0, else 0."""
        for name in names:
            value = self.values.get(name)
            if value is None or value is False:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"config: found {name} {value!r}, need an integer of 0 or more")
            if value > 0:
                self.taken[name] = value
                return value
        return 0

    def need(self, *names: str) -> int:
        """Return the first of the fields that is there; one must be."""
        value = self.get(*names)
        if value == 0:
            raise ValueError(f"config of {self.model_type}: found no {' or '.join(names)}, need it")
        return value


def _share(value: int, parts: int, name: str) -> int:
    if value % parts != 0:
        raise ValueError(f"{name}: found {value}, need a multiple of the {parts} ranks")
    return value // parts


def read_model(
    config: Mapping[str, Any],
    *,
    tensor_parallel: int = 1,
    expert_parallel: int = 1,
    lm_head: bool = False,
) -> Model:
    """List the products of one rank: projections, MLP, experts.

    Args:
        config: what ``config.json`` holds.
        tensor_parallel: ranks that share heads, MLP columns and, without ``expert_parallel``, each
            expert.
        expert_parallel: ranks that share out whole experts.
        lm_head: also the projection onto the vocabulary.

    Raises:
        ValueError: names the field that is missing, is no number, or does not divide by the ranks.
    """
    for name, ranks in (("tensor_parallel", tensor_parallel), ("expert_parallel", expert_parallel)):
        if ranks < 1:
            raise ValueError(f"{name}: found {ranks}, need 1 or more")
    fields = _Fields(config)
    for name in KNOWN.get(fields.model_type, ("hidden_size",)):
        fields.need(name)
    hidden = fields.need("hidden_size")
    products = [
        *_attention(fields, hidden, tensor_parallel),
        *_mlp(fields, hidden, tensor_parallel),
        *_experts(fields, hidden, tensor_parallel, expert_parallel),
    ]
    if lm_head:
        products.append(
            Product("lm_head", -(-fields.need("vocab_size") // tensor_parallel), hidden)
        )
    if not products:
        raise ValueError(
            f"config of {fields.model_type}: found neither num_attention_heads nor "
            "intermediate_size, need one"
        )
    return Model(fields.model_type, tuple(products), fields.taken)


def _attention(fields: _Fields, hidden: int, ranks: int) -> Iterator[Product]:
    heads = fields.get("num_attention_heads")
    if heads == 0:
        return
    mine = _share(heads, ranks, "num_attention_heads")
    if fields.get("kv_lora_rank"):
        yield from _latent_attention(fields, hidden, mine)
        return
    head = fields.get("head_dim") or _share(hidden, heads, "head_dim is missing and hidden_size")
    shared = fields.get("num_key_value_heads") or heads
    # Where there are fewer heads of keys than ranks, ranks hold copies.
    kv = 1 if shared < ranks else _share(shared, ranks, "num_key_value_heads")
    yield Product("qkv", (mine + 2 * kv) * head, hidden)
    yield Product("o", hidden, mine * head)


def _latent_attention(fields: _Fields, hidden: int, heads: int) -> Iterator[Product]:
    """Yield the projections of multi-head latent attention; those onto the ranks are not shared."""
    kv_rank = fields.need("kv_lora_rank")
    nope, rope = fields.need("qk_nope_head_dim"), fields.need("qk_rope_head_dim")
    value = fields.need("v_head_dim")
    q_rank = fields.get("q_lora_rank")
    if q_rank:
        yield Product("q_a and kv_a", q_rank + kv_rank + rope, hidden)
        yield Product("q_a", q_rank, hidden)
        yield Product("q_b", heads * (nope + rope), q_rank)
    else:
        yield Product("q", heads * (nope + rope), hidden)
    yield Product("kv_a", kv_rank + rope, hidden)
    yield Product("kv_b", heads * (nope + value), kv_rank)
    yield Product("o", hidden, heads * value)


def _pair(name: str, size: int, hidden: int, **more: Any) -> Iterator[Product]:
    """Yield a gated MLP: both of its first matrices side by side, and the last."""
    yield Product(f"{name}gate_up", 2 * size, hidden, **more)
    yield Product(f"{name}down", hidden, size, **more)


def _mlp(fields: _Fields, hidden: int, ranks: int) -> Iterator[Product]:
    """Yield the MLP of dense layers and the experts that every token has."""
    experts = fields.get(*EXPERTS)
    values = fields.values
    sparse = experts > 0 and fields.model_type in KNOWN
    has_dense = (
        bool(values.get("moe_intermediate_size"))
        and bool(
            values.get("first_k_dense_replace")
            or values.get("mlp_only_layers")
            or (values.get("decoder_sparse_step") or 1) > 1
            or (values.get("moe_layer_freq") or 1) != 1
        )
        if sparse
        else not experts or bool(values.get("moe_intermediate_size"))
    )
    if has_dense and (size := fields.get("intermediate_size")):
        yield from _pair("", _share(size, ranks, "intermediate_size"), hidden)
    if not experts:
        return
    shared = fields.get("shared_expert_intermediate_size")
    if not shared and (count := fields.get("n_shared_experts")):
        shared = count * fields.need("moe_intermediate_size")
    if shared:
        yield from _pair("shared ", _share(shared, ranks, "the shared experts' size"), hidden)


def _experts(fields: _Fields, hidden: int, tensor: int, expert: int) -> Iterator[Product]:
    experts = fields.get(*EXPERTS)
    if not experts:
        return
    size = fields.need("moe_intermediate_size", "intermediate_size")
    top = fields.need("num_experts_per_tok")
    mine = _share(experts, expert, "the number of experts")
    if expert == 1:
        size = _share(size, tensor, "the experts' size")
    yield from _pair("experts ", size, hidden, experts=mine, rows_per_token=top / expert)


def problems_of(
    product: Product, tokens: int, dtype: str, form: str, most_tokens: int
) -> dict[str, Any]:
    """One problem of a product, as :func:`deepgemm.warmup` takes it.

    Args:
        product: which weights.
        tokens: of a dense product its rows; of experts the tokens before they are given to experts,
            of ``"masked"`` the rows that an expert is expected to have.
        dtype: ``"fp8"`` or ``"bf16"``.
        form: of experts, how rows are given to them: one of ``EXPERT_FORMS``.
        most_tokens: of ``"masked"``, the rows that each expert has room for.
    """
    problem: dict[str, Any] = {"n": product.n, "k": product.k}
    if dtype == "bf16":
        problem |= dict.fromkeys(("a_dtype", "b_dtype", "out_dtype"), "bfloat16")
    if not product.experts:
        return {**problem, "op": "gemm", "m": tokens}
    problem["groups"] = product.experts
    if form == "masked":
        return {**problem, "op": "masked_gemm", "m": most_tokens, "expected_rows": tokens}
    rows = max(1, round(tokens * product.rows_per_token))
    name = "labels" if form == "labels" else "group_sizes"
    return {**problem, "op": "grouped_gemm", "m": rows, "form": name}


def covering_problems(
    model: Model,
    *,
    dtype: str = "fp8",
    rows: Sequence[int] | None = None,
    most_rows: int = 8192,
    forms: Iterable[str] = ("sizes", "masked"),
    device: int | None = None,
    device_sms: int | None = None,
) -> list[dict[str, Any]]:
    """Problems whose kernels are all that the model can need.

    Args:
        model: of :func:`read_model`.
        dtype: ``"fp8"`` or ``"bf16"``.
        rows: numbers of tokens; default: all from 1 to ``most_rows``, since the choice of a kernel
            depends on every one.
        most_rows: see ``rows``.
        forms: how rows are given to experts.
        device: as for :func:`deepgemm.explain`.
        device_sms: choose for a device of so many SMs.

    Returns:
        The first problem of each kernel.
    """
    from deepgemm._problems import shaped_problem
    from deepgemm._runtime import report_recorded

    wanted = range(1, most_rows + 1) if rows is None else sorted(set(rows))
    most = max(wanted, default=most_rows)
    found: dict[str, dict[str, Any]] = {}
    for product in model.products:
        for form in forms if product.experts else ("dense",):
            for tokens in wanted:
                problem = problems_of(product, tokens, dtype, form, most)
                if device_sms is not None:
                    problem["device_sms"] = device_sms
                recorded = shaped_problem(**problem)
                report = report_recorded(recorded, device=device, compile=False, candidates=False)
                found.setdefault(report["identity"], problem)
    if dtype == "fp8":
        shape = [most, model.taken["hidden_size"]]
        found["quantize"] = {
            **{"op": "quantize", "shape": shape, "dtype": "float8_e4m3fn"},
            "granularity": [1, 128],
        }
    return list(found.values())
