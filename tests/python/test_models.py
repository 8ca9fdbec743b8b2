"""The products of a model as its config.json has them, and that warm-up covers every row count."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import deepgemm
from deepgemm._models import KNOWN, covering_problems, read_model
from deepgemm.cli import main as cli

HAS_NVRTC = bool(deepgemm.info()["nvrtc_path"])

# Extents as published with these models.
LLAMA_8B = {
    **{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336},
    **{"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256},
}
QWEN3_30B = {
    **{"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144},
    **{"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128},
    **{"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
    **{"decoder_sparse_step": 1, "mlp_only_layers": []},
}
MIXTRAL = {
    **{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336},
    **{"num_attention_heads": 32, "num_key_value_heads": 8},
    **{"num_local_experts": 8, "num_experts_per_tok": 2},
}
QWEN2_MOE = {
    **{"model_type": "qwen2_moe", "hidden_size": 3584, "intermediate_size": 18944},
    **{"num_attention_heads": 28, "num_key_value_heads": 4, "num_experts": 64},
    **{"num_experts_per_tok": 8, "moe_intermediate_size": 2560},
    **{"shared_expert_intermediate_size": 20480},
}
DEEPSEEK_V3 = {
    **{"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432},
    **{"moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1},
    **{"num_experts_per_tok": 8, "num_attention_heads": 128, "num_key_value_heads": 128},
    **{"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64},
    **{"v_head_dim": 128, "first_k_dense_replace": 3, "vocab_size": 129280},
}
DEEPSEEK_V2_LITE = {
    **{"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944},
    **{"moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2},
    **{"num_experts_per_tok": 6, "num_attention_heads": 16, "q_lora_rank": None},
    **{"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
    **{"first_k_dense_replace": 1},
}
MODELS = {
    "llama": LLAMA_8B,
    "qwen3_moe": QWEN3_30B,
    "mixtral": MIXTRAL,
    "qwen2_moe": QWEN2_MOE,
    "deepseek_v3": DEEPSEEK_V3,
    "deepseek_v2": DEEPSEEK_V2_LITE,
}


def shapes(config, **options):
    return {
        product.name: (product.n, product.k, *([product.experts] if product.experts else []))
        for product in read_model(config, **options).products
    }


def test_llama():
    whole = {
        "qkv": (6144, 4096),
        "o": (4096, 4096),
        "gate_up": (28672, 4096),
        "down": (4096, 14336),
    }
    assert shapes(LLAMA_8B) == whole
    assert shapes(LLAMA_8B, lm_head=True) == {**whole, "lm_head": (128256, 4096)}
    assert shapes(LLAMA_8B, tensor_parallel=4, lm_head=True) == {
        "qkv": (1536, 4096),
        "o": (4096, 1024),
        "gate_up": (7168, 4096),
        "down": (4096, 3584),
        "lm_head": (32064, 4096),
    }
    # 16 ranks hold copies of 8 heads of keys.
    assert shapes(LLAMA_8B, tensor_parallel=16)["qkv"] == ((2 + 2) * 128, 4096)


def test_experts():
    assert shapes(QWEN3_30B, tensor_parallel=2) == {
        "qkv": ((16 + 2 * 2) * 128, 2048),
        "o": (2048, 2048),
        "experts gate_up": (768, 2048, 128),
        "experts down": (2048, 384, 128),
    }
    assert shapes(QWEN3_30B, expert_parallel=8)["experts gate_up"] == (1536, 2048, 16)
    dense = shapes({**QWEN3_30B, "mlp_only_layers": [0]})
    assert dense["gate_up"] == (12288, 2048)
    assert shapes(MIXTRAL) == {
        "qkv": (6144, 4096),
        "o": (4096, 4096),
        "experts gate_up": (28672, 4096, 8),
        "experts down": (4096, 14336, 8),
    }
    assert shapes(QWEN2_MOE)["shared gate_up"] == (40960, 3584)


def test_latent_attention():
    assert shapes(DEEPSEEK_V3, tensor_parallel=8, expert_parallel=32) == {
        "q_a and kv_a": (2112, 7168),
        "q_a": (1536, 7168),
        "q_b": (3072, 1536),
        "kv_a": (576, 7168),
        "kv_b": (4096, 512),
        "o": (7168, 2048),
        "gate_up": (4608, 7168),
        "down": (7168, 2304),
        "shared gate_up": (512, 7168),
        "shared down": (7168, 256),
        "experts gate_up": (4096, 7168, 8),
        "experts down": (7168, 2048, 8),
    }
    lite = shapes(DEEPSEEK_V2_LITE)
    assert lite["q"] == (3072, 2048)
    assert lite["kv_a"] == (576, 2048)
    assert lite["gate_up"] == (21888, 2048)
    assert lite["shared down"] == (2048, 2816)
    assert "q_b" not in lite


@pytest.mark.parametrize("name", MODELS)
def test_a_missing_field_is_named(name):
    for field in KNOWN[name]:
        config = {key: value for key, value in MODELS[name].items() if key != field}
        with pytest.raises(ValueError, match=rf"config of {name}: found no {field}, need it"):
            read_model(config)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"hidden_size": "wide"}, {}, "found hidden_size 'wide', need an integer"),
        ({"hidden_size": -1}, {}, "found hidden_size -1"),
        ({}, {"tensor_parallel": 3}, "num_attention_heads: found 32, need a multiple of the 3"),
        ({}, {"tensor_parallel": 0}, "tensor_parallel: found 0"),
        ({"hidden_size": 4100}, {}, "head_dim is missing and hidden_size: found 4100"),
        ({"num_key_value_heads": 6}, {"tensor_parallel": 4}, "num_key_value_heads: found 6"),
        ({"intermediate_size": 14337}, {"tensor_parallel": 2}, "intermediate_size: found 14337"),
        ({"vocab_size": None}, {"lm_head": True}, "found no vocab_size"),
    ],
)
def test_wrong_configs(change, options, words):
    with pytest.raises(ValueError, match=words):
        read_model({**LLAMA_8B, **change}, **options)


def test_an_unknown_architecture_is_read_by_its_fields():
    model = read_model({**LLAMA_8B, "model_type": "novel"})
    assert model.products == read_model(LLAMA_8B).products
    assert "novel, an unknown architecture read by its fields: hidden_size 4096" in str(model)
    # Only what is there; and the decoder of a model of several modalities.
    assert shapes({"hidden_size": 64, "intermediate_size": 96}) == {
        "gate_up": (192, 64),
        "down": (64, 96),
    }
    assert shapes({"model_type": "two", "text_config": QWEN3_30B}) == shapes(QWEN3_30B)
    with pytest.raises(ValueError, match="found no hidden_size"):
        read_model({"model_type": "novel"})
    with pytest.raises(ValueError, match="neither num_attention_heads nor intermediate_size"):
        read_model({"model_type": "novel", "hidden_size": 64})
    with pytest.raises(ValueError, match="found no num_experts_per_tok"):
        read_model({"hidden_size": 64, "intermediate_size": 96, "num_experts": 4})


@pytest.mark.parametrize("dtype", ["fp8", "bf16"])
def test_every_row_count_is_covered(dtype):
    """What a call may choose for any number of tokens is among what is prepared."""
    config = {**QWEN3_30B, "mlp_only_layers": [0]}
    most = 300
    model = read_model(config, tensor_parallel=2)
    problems = covering_problems(
        model, dtype=dtype, most_rows=most, forms=("sizes", "labels", "masked"), device=-1
    )
    assert len(problems) > 8
    prepared = {report_identity(problem) for problem in problems}
    assert len(prepared) == len(problems)
    float16 = {"a_dtype": "bfloat16", "b_dtype": "bfloat16"} if dtype == "bf16" else {}
    for product in model.products:
        for m in (1, 2, 7, 8, 9, 31, 32, 33, 64, 65, 100, 128, 129, 200, 255, 256, 299, 300):
            shape = {"n": product.n, "k": product.k, **float16}
            if not product.experts:
                needed = [{**shape, "op": "gemm", "m": m}]
            else:
                groups = {**shape, "groups": product.experts}
                rows = {**groups, "op": "grouped_gemm", "m": 8 * m}
                masks = {**groups, "op": "masked_gemm", "m": most, "expected_rows": m}
                needed = [rows, {**rows, "form": "labels"}, masks]
            for problem in needed:
                assert report_identity(problem) in prepared, problem


def report_identity(problem):
    from deepgemm._runtime import report_of

    return report_of(problem, device=-1, compile=False, candidates=False).identity


def test_the_sms_of_the_device_count():
    model = read_model(LLAMA_8B)
    of_h200, of_h20 = (
        covering_problems(model, rows=[256, 1024], device=-1, device_sms=sms) for sms in (132, 78)
    )
    assert {report_identity(p) for p in of_h200} != {report_identity(p) for p in of_h20}
    assert all(p.get("device_sms", 78) == 78 for p in of_h20)


def test_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEEPGEMM_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "config.json"
    for text, words in (("{", "found no JSON"), ("[]", "found list")):
        path.write_text(text, encoding="utf-8")
        assert cli.main(["warmup", "--model", str(path)]) == 2
        assert words in capsys.readouterr().err
    path.write_text(json.dumps({**LLAMA_8B, "hidden_size": None}), encoding="utf-8")
    assert cli.main(["warmup", "--model", str(path)]) == 2
    assert "config of llama: found no hidden_size, need it" in capsys.readouterr().err
    for option in (("--rows", "0"), ("--expert-forms", "heaps")):
        with pytest.raises(SystemExit) as exit_:
            cli.main(["warmup", "--model", str(path), *option])
        assert exit_.value.code == 2
    if not HAS_NVRTC:
        return
    path.write_text(json.dumps(MIXTRAL), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "deepgemm", "warmup", "--model", tmp_path, "--json"),
            *("--tensor-parallel", "8", "--rows", "1,512", "--expert-forms", "masked"),
            *("--jobs", "2", "--dtype", "bf16"),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    summary = json.loads(done.stdout)
    assert "experts gate_up  N 3584, K 4096, 8 experts" in done.stderr
    assert summary["compiled"] == len(summary["kernels"]) == summary["problems"] >= 3
    assert {kernel["origin"] for kernel in summary["kernels"]} == {"compiled"}
    assert len(list((tmp_path / "cache").iterdir())) == summary["compiled"]
