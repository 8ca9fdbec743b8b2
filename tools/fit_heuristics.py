"""Fits the cost models of src/heuristics to the sweeps under benchmarks/results/h200.

Writes src/heuristics/fitted_h200.hpp: for each tile of the FP8 kernel and each shape of the decode
kernel, the coefficients of a linear model (non-negative least squares on relative error). Prints
the regret of choosing by the model instead of by measurement. Needs numpy and scipy.

    python tools/fit_heuristics.py [--check]     --check: fit and report, write nothing
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
SWEEPS = ROOT / "benchmarks" / "results" / "h200"
OUTPUT = ROOT / "src" / "heuristics" / "fitted_h200.hpp"
SMS = 132

Problem = tuple[int, int, int]
Shape = tuple[int, ...]
Samples = dict[Shape, list[tuple[Problem, float]]]


def ceil_div(a: int, b: int) -> int:
    """Smallest integer not below a / b."""
    return -(-a // b)


def gemm_terms(problem: Problem, shape: Shape) -> list[float]:
    """Terms of gemm_cost.cpp, in its order."""
    m, n, k = problem
    tile_m, tile_n, _, cluster_m, cluster_n, _ = shape
    clusters = ceil_div(m, tile_m * cluster_m) * ceil_div(n, tile_n * cluster_n)
    waves = ceil_div(clusters, SMS // (cluster_m * cluster_n))
    inputs, outputs = (m * k + n * k) / 1e6, m * n * 2 / 1e6
    return [1, waves, waves * ceil_div(k, 128), inputs, outputs]


def decode_terms(problem: Problem, shape: Shape) -> list[float]:
    """Terms of decode_cost.cpp, in its order."""
    _, n, k = problem
    _, consumers, stage_blocks, stages, cluster, ctas_per_sm = shape
    grid = ceil_div(n, 64 * consumers) * cluster
    # Clusters of 4 and 8 do not tile the 132 SMs.
    sms = SMS if cluster <= 2 else 120 if ctas_per_sm == 1 else 124
    waves = ceil_div(grid, sms * ctas_per_sm)
    steps = ceil_div(ceil_div(ceil_div(k, 128), stage_blocks), cluster)
    sharing = min(ctas_per_sm, ceil_div(grid, SMS))
    return [1, waves - 1, steps, waves * steps, n * k / 1e6, sharing * steps,
            max(0, steps - stages), waves * sharing]  # fmt: skip


def fit(
    samples: Samples, terms: Callable[[Problem, Shape], list[float]], sharpness: float
) -> dict[Shape, np.ndarray[Any, Any]]:
    """Coefficients per shape. Points far above a problem's best time weigh less."""
    best: dict[Problem, float] = {}
    for points in samples.values():
        for problem, us in points:
            best[problem] = min(best.get(problem, us), us)
    fitted = {}
    for shape, points in samples.items():
        matrix = np.array([terms(problem, shape) for problem, _ in points], dtype=float)
        times = np.array([us for _, us in points])
        weights = (np.array([best[problem] for problem, _ in points]) / times) ** sharpness / times
        fitted[shape] = nnls(matrix * weights[:, None], times * weights)[0]
    return fitted


def chosen(
    samples: Samples,
    fitted: dict[Shape, np.ndarray[Any, Any]],
    terms: Callable[[Problem, Shape], list[float]],
) -> dict[Shape, np.ndarray[Any, Any]]:
    """The shapes that the model chooses for two problems or more; others only cost compiles."""
    wins: dict[Shape, int] = defaultdict(int)
    candidates: dict[tuple[int, Problem], list[tuple[float, Shape]]] = defaultdict(list)
    for shape, points in samples.items():
        for problem, _ in points:
            predicted = float(np.dot(terms(problem, shape), fitted[shape]))
            candidates[shape[0], problem].append((predicted, shape))
    for options in candidates.values():
        wins[min(options)[1]] += 1
    return {shape: values for shape, values in fitted.items() if wins[shape] >= 2}


def report(
    name: str,
    samples: Samples,
    fitted: dict[Shape, np.ndarray[Any, Any]],
    terms: Callable[[Problem, Shape], list[float]],
) -> None:
    """Prints the regret of the model's choices."""
    choices: dict[Problem, list[tuple[float, float]]] = defaultdict(list)
    for shape, points in samples.items():
        for problem, us in points:
            predicted = float(np.dot(terms(problem, shape), fitted[shape]))
            choices[problem].append((predicted, us))
    regrets = sorted(
        min(points)[1] / min(us for _, us in points) - 1 for points in choices.values()
    )
    errors = [abs(p / us - 1) for points in choices.values() for p, us in points]
    print(
        f"{name}: {len(regrets)} problems, {len(fitted)} shapes; regret median "
        f"{np.median(regrets):.1%}, mean {np.mean(regrets):.1%}, max {regrets[-1]:.1%}; "
        f"error of a prediction {np.mean(errors):.1%}"
    )


def read_gemm() -> Samples:
    """sweep_fp8.json, keyed by tile, consumers, cluster and order."""
    samples: Samples = defaultdict(list)
    for m, n, k, tm, tn, consumers, _stages, cm, cn, ordered, us in read("sweep_fp8.json"):
        samples[(tm, tn, consumers, cm, cn, ordered)].append(((m, n, k), us))
    return samples


def read_decode() -> Samples:
    """sweep_decode.json, keyed by tokens and shape."""
    samples: Samples = defaultdict(list)
    for m, n, k, *shape, us in read("sweep_decode.json"):
        tokens = next(t for t in (8, 16, 32, 64, 128) if m <= t)
        samples[(tokens, *shape)].append(((m, n, k), us))
    return samples


def read(name: str) -> list[list[Any]]:
    """Rows of one sweep."""
    rows: list[list[Any]] = json.loads((SWEEPS / name).read_text())["rows"]
    return rows


def lines(fitted: dict[Shape, np.ndarray[Any, Any]]) -> Iterable[str]:
    """One initialiser per shape."""
    for shape, values in sorted(fitted.items()):
        numbers = ", ".join(f"{value:.4g}F" for value in values)
        numbers = ", ".join(
            n if "." in n or "e" in n else n[:-1] + ".0F" for n in numbers.split(", ")
        )
        yield f"    {{{', '.join(map(str, shape))}, {{{numbers}}}}},"


def main() -> int:
    """Entry point."""
    gemm, decode = read_gemm(), read_decode()
    gemm_fit, decode_fit = fit(gemm, gemm_terms, 1), fit(decode, decode_terms, 2)
    report("fp8", gemm, gemm_fit, gemm_terms)
    report("decode", decode, decode_fit, decode_terms)
    decode_fit = chosen(decode, decode_fit, decode_terms)
    decode = {shape: points for shape, points in decode.items() if shape in decode_fit}
    report("decode, pruned", decode, decode_fit, decode_terms)
    if "--check" not in sys.argv:
        text = "\n".join(
            [
                "// Generated by tools/fit_heuristics.py; do not edit.",
                "// Coefficients in microseconds; the terms are those of the cost functions.",
                "#pragma once",
                "",
                "namespace deepgemm::heuristics {",
                "",
                "// clang-format off",
                "struct FittedGemm {",
                "  int tile_m, tile_n, consumers, cluster_m, cluster_n, ordered;",
                "  float terms[5];",
                "};",
                "inline constexpr FittedGemm fitted_gemm[] = {",
                *lines(gemm_fit),
                "};",
                "",
                "struct FittedDecode {",
                "  int tokens, consumers, stage_blocks, stages, cluster_k, ctas_per_sm;",
                "  float terms[8];",
                "};",
                "inline constexpr FittedDecode fitted_decode[] = {",
                *lines(decode_fit),
                "};",
                "// clang-format on",
                "",
                "}  // namespace deepgemm::heuristics",
                "",
            ]
        )
        OUTPUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
