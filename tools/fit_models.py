"""The cost models of src/heuristics and their choices, for tools/fit_heuristics.py.

Linear models in the terms of the C++ cost functions, fitted by non-negative least squares on
relative error; what they choose, and where a table goes before them.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

SMS = 132
MODEL_REGRET = 0.01  # above it a problem gets into the table
MISSED = 0.02  # of a problem's time: a shape that spares more is kept
# Up to SHORT us fewer waves are worth WAVE_BONUS: sweeps meet an L2 full of dirty lines. With a
# clean one 64x7168x2048 takes 6.5 us in one wave and 7.6 in two, 64x32768x512 7.8 in two and 8.4 in
# four.
SHORT, WAVE_BONUS = 10.0, 0.025
# By kind: the sweep, its epilogue, and the bytes of one element of D that cross the memory.
KINDS = (
    ("sweep_fp8.json", "store", 2),
    ("sweep_fp8_columns.json", "store", 4),
    ("sweep_fp8_columns.json", "reduce", 8),
    ("sweep_fp8_columns.json", "accumulate", 8),
    ("sweep_bf16.json", "store 16", 2),
    ("sweep_bf16.json", "store", 4),
    ("sweep_bf16.json", "reduce", 8),
    ("sweep_bf16.json", "accumulate", 8),
    ("sweep_bf16.json", "accumulate 16", 4),
)
FIRST_BF16 = 4
# Of groups: kind and dtype in sweep_groups.json, the bytes of D, and the usual band.
GROUP_KINDS = (
    ("rows", "fp8", 2, 8),
    ("k", "fp8", 8, 4),
    ("rows", "bf16", 2, 8),
    ("k", "bf16", 8, 4),
)

Problem = tuple[int, ...]  # M, N, K; of groups: how many, M, N, K
Shape = tuple[int, ...]
Samples = dict[Shape, list[tuple[Problem, float]]]
Points = list[tuple[float, float, Shape]]  # predicted us, measured us, of what
Fitted = dict[Shape, np.ndarray[Any, Any]]
Tuned = dict[Problem, tuple[Shape, float]]


def ceil_div(a: int, b: int) -> int:
    """Smallest integer not below a / b."""
    return -(-a // b)


def waves_of(m: int, n: int, shape: Shape) -> int:
    """How often the SMs are filled with clusters of a product's tiles."""
    _, tile_m, tile_n, _, cluster_m, cluster_n, cluster_k = shape[:7]
    clusters = ceil_div(m, tile_m * cluster_m) * ceil_div(n, tile_n * cluster_n)
    return ceil_div(clusters, SMS // (cluster_m * cluster_n * cluster_k))


def gemm_terms(problem: Problem, shape: Shape) -> list[float]:
    """Terms of gemm_cost.cpp, in its order."""
    m, n, k = problem
    kind, cluster_k = shape[0], shape[6]
    waves = waves_of(m, n, shape)
    in_bytes = 1 if kind < FIRST_BF16 else 2
    inputs, outputs = in_bytes * (m * k + n * k) / 1e6, m * n * KINDS[kind][2] / 1e6
    steps = ceil_div(ceil_div(k * in_bytes, 128), cluster_k)
    # Tiles of which K is split are one wave, which the constant has.
    return [1, waves if cluster_k == 1 else 0, waves * steps, inputs, outputs]


def expected(rows: int, of: int) -> float:
    """The mean of ceil(size / of) for groups of 0.7 to 1.3 of so many rows."""
    samples = 16
    sizes = [rows * (0.7 + 0.6 * (i + 0.5) / samples) for i in range(samples)]
    return sum(math.ceil(size / of) for size in sizes) / samples


def group_terms(problem: Problem, shape: Shape) -> list[float]:
    """The same of groups, each of about m rows, or about k."""
    groups, m, n, k = problem
    kind, tile_m, tile_n, consumers = shape[:4]
    along_n = shape[8]
    which, dtype, out_bytes, _ = GROUP_KINDS[kind - len(KINDS)]
    in_bytes = 1 if dtype == "fp8" else 2
    tiles, live = float(ceil_div(m, tile_m)), 1.0
    if which == "rows":
        tiles = expected(m, tile_m)
        units = 64 * consumers // along_n  # rows of a unit of every warpgroup
        live = expected(m, units) * units / (tiles * tile_m)
    waves = math.ceil(groups * tiles * ceil_div(n, tile_n) / SMS)
    steps = waves * ceil_div(k * in_bytes, 128)
    inputs, outputs = in_bytes * groups * (m + n) * k / 1e6, groups * m * n * out_bytes / 1e6
    return [1, steps, steps * live, inputs, outputs]


def decode_terms(problem: Problem, shape: Shape) -> list[float]:
    """Terms of decode_heuristics.cpp, in its order."""
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
) -> Fitted:
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


def predictions(
    samples: Samples,
    fitted: Fitted,
    terms: Callable[[Problem, Shape], list[float]],
) -> dict[Problem, Points]:
    """Per problem, each shape's predicted and measured time; what is not fitted is never cheap."""
    found: dict[Problem, Points] = defaultdict(list)
    for shape, points in samples.items():
        for problem, us in points:
            predicted = math.inf
            if shape in fitted:
                predicted = float(np.dot(terms(problem, shape), fitted[shape]))
            found[problem].append((predicted, us, shape))
    return found


def chosen(
    samples: Samples,
    fitted: Fitted,
    terms: Callable[[Problem, Shape], list[float]],
) -> Fitted:
    """The shapes that the model chooses for two problems or more, and those that are missed.

    Others only cost compiles.
    """
    wins: dict[Shape, int] = defaultdict(int)
    problems = predictions(samples, fitted, terms).values()
    for options in problems:
        wins[min(options)[2]] += 1
    kept = {shape for shape in fitted if wins[shape] >= 2}
    while gains := gains_of_others(problems, kept):
        kept.add(max(gains, key=lambda shape: gains[shape]))
    return {shape: fitted[shape] for shape in sorted(kept)}


def gains_of_others(problems: Iterable[Points], kept: set[Shape]) -> dict[Shape, float]:
    """What each other shape would spare, summed over the problems where it is worth it."""
    gains: dict[Shape, float] = defaultdict(float)
    for points in problems:
        best = min((us for _, us, shape in points if shape in kept), default=0.0)
        for _, us, shape in points:
            if shape not in kept and best > (1 + MISSED) * us:
                gains[shape] += best / us - 1
    return gains


def tune(
    samples: Samples,
    fitted: Fitted,
    terms: Callable[[Problem, Shape], list[float]],
    bucket: Callable[[int], int],
    waves: Callable[[Problem, Shape], int] = lambda *_: 1,
) -> Tuned:
    """Per (bucket of M, N, K) that the model loses at: the best shape and its median time."""
    groups: dict[Problem, list[Points]] = defaultdict(list)
    for (m, n, k), points in predictions(samples, fitted, terms).items():
        groups[bucket(m), n, k].append(points)
    tuned: Tuned = {}
    for key, members in groups.items():
        # Shape by shape, the largest regret over the group's problems.
        regrets: dict[Shape, list[float]] = defaultdict(list)
        times: dict[Shape, list[float]] = defaultdict(list)
        for points in members:
            best = min(us for _, us, _ in points)
            for shape, us in {shape: us for _, us, shape in points}.items():
                regrets[shape].append(us / best)
                times[shape].append(us)
        worst = {shape: max(r) for shape, r in regrets.items() if len(r) == len(members)}
        model = max(regrets_of(members))
        shape = min(worst, key=lambda each: worst[each])
        gained = model > MODEL_REGRET and worst[shape] < model + 0.99
        if np.median(times[shape]) < SHORT:
            near = [each for each in worst if worst[each] <= worst[shape] + WAVE_BONUS]
            fewest = min(near, key=lambda each: (waves(key, each), worst[each]))
            gained |= waves(key, fewest) < waves(key, min(members[0])[2])
            shape = fewest
        if gained:
            tuned[key] = (shape, float(np.median(times[shape])))
    return tuned


def settle(tiles: tuple[Samples, Fitted, Tuned], decode: tuple[Samples, Fitted, Tuned]) -> None:
    """Where prediction takes the slower of the two kernels, both get into the table."""
    of_tiles = predictions(*tiles[:2], gemm_terms)
    of_decode = predictions(*decode[:2], decode_terms)
    for m, n, k in of_tiles.keys() & of_decode.keys():
        sides = [
            (tiles[2], (row_tiles(m), n, k), of_tiles[m, n, k]),
            (decode[2], (tokens_of(m), n, k), of_decode[m, n, k]),
        ]
        predicted, taken, best = [], [], []
        for tuned, key, points in sides:
            measured = {shape: us for _, us, shape in points}
            shape, us = tuned.get(key) or (min(points)[2], min(points)[0])
            predicted.append(us)
            taken.append(measured.get(shape, us))
            best.append(min((us, shape) for shape, us in measured.items()))
        if taken[predicted.index(min(predicted))] < (1 + MODEL_REGRET) * min(best)[0]:
            continue
        for (tuned, key, _), (us, shape) in zip(sides, best, strict=True):
            tuned.setdefault(key, (shape, us))


def regrets_of(problems: Iterable[Points], wanted: Iterable[Shape | None] = ()) -> list[float]:
    """The regret of each problem, by the model or by the shape wanted for it."""
    found = []
    for points, shape in zip_longest(problems, wanted):
        best = min(us for _, us, _ in points)
        taken = [us for _, us, each in points if each == shape]
        found.append((min(taken) if taken else min(points)[1]) / best - 1)
    return found


def report(
    name: str,
    samples: Samples,
    fitted: Fitted,
    terms: Callable[[Problem, Shape], list[float]],
    tuned: Tuned | None = None,
    bucket: Callable[[int], int] = int,
) -> None:
    """Prints the regret of the choices."""
    by_problem = predictions(samples, fitted, terms)
    table = tuned or {}
    wanted = [table.get((bucket(problem[0]), *problem[1:]), (None,))[0] for problem in by_problem]
    regrets = sorted(regrets_of(by_problem.values(), wanted))
    known = (pair for points in by_problem.values() for pair in points if pair[0] < math.inf)
    errors = [abs(predicted / us - 1) for predicted, us, _ in known]
    print(
        f"{name}: {len(regrets)} problems, {len(fitted)} shapes; regret median "
        f"{np.median(regrets):.1%}, mean {np.mean(regrets):.1%}, max {regrets[-1]:.1%}; "
        f"error of a prediction {np.mean(errors):.1%}"
    )


def row_tiles(m: int) -> int:
    """The bucket of M of a tuned product."""
    return ceil_div(m, 64)


def waves_of_tuned(key: Problem, shape: Shape) -> int:
    """Of (row_tiles, N, K)."""
    return waves_of(key[0] * 64, key[1], shape)


def tokens_of(m: int) -> int:
    """The columns of WGMMA that M tokens take in the decode kernel."""
    return next(tokens for tokens in (8, 16, 32, 64, 128) if m <= tokens)
