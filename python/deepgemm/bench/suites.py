"""The benchmark suites as data: what is computed, and what the peer measured for it.

The peer is the torch-only DeepGEMM on one H200 (burst times); its ratio is cuBLASLt's time over its
own in one run. Microseconds move with the card, so compare by ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

from deepgemm.bench.report import SHORT

FP8, BF16 = "float8_e4m3fn", "bfloat16"
_BYTES = {FP8: 1, BF16: 2, "float32": 4}


@dataclass(frozen=True)
class Case:
    """One product: out [M, N] = A [M, K] @ B [K, N], or added to what out holds.

    FP8 has block scales, both (1, 128) where it accumulates; BF16 has none.
    """

    m: int
    n: int
    k: int
    out_dtype: str = BF16
    accumulate: bool = False
    layout: str = "nt"
    in_dtype: str = FP8
    peer_us: float | None = None
    peer_ratio: float | None = None

    @property
    def is_scaled(self) -> bool:
        """Whether A and B have block scales."""
        return self.in_dtype == FP8

    @property
    def granularities(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Granularity of a and of b where they have block scales."""
        return (1, 128), (1, 128) if self.accumulate else (128, 128)

    @property
    def flops(self) -> float:
        """Floating-point operations."""
        return 2.0 * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        """Fewest bytes through device memory: values, scales and outputs, each once."""
        moved = _BYTES[self.in_dtype] * (self.m + self.n) * self.k
        moved += _BYTES[self.out_dtype] * self.m * self.n * (2 if self.accumulate else 1)
        if self.is_scaled:
            (rows_a, k_a), (rows_b, k_b) = self.granularities
            moved += 4 * _blocks(self.m, rows_a) * _blocks(self.k, k_a)
            moved += 4 * _blocks(self.n, rows_b) * _blocks(self.k, k_b)
        return float(moved)

    @property
    def shape(self) -> str:
        """The extents: "4096x7168x2048"."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def label(self) -> str:
        """Short name: its shape, in BF16 with layout and output, and "+=" where it accumulates.

        "4096x7168x2048", "4096x4096x7168+=", "4096x4096x7168,tn,fp32+=".
        """
        kind = "" if self.is_scaled else f",{self.layout},{SHORT[self.out_dtype]}"
        return f"{self.shape}{kind}{'+=' if self.accumulate else ''}"


def _blocks(extent: int, block: int) -> int:
    return -(-extent // block)


# M, N, K, accumulate, peer us, peer ratio
_DENSE = (
    (1, 2112, 7168, False, 14.2, 0.68),
    (1, 576, 7168, False, 10.0, 0.72),
    (1, 24576, 1536, False, 17.0, 0.9),
    (1, 32768, 512, False, 8.5, 0.99),
    (1, 7168, 16384, False, 41.0, 0.98),
    (1, 4096, 7168, False, 16.8, 0.86),
    (1, 7168, 2048, False, 8.0, 0.95),
    (128, 2112, 7168, False, 11.0, 0.93),
    (128, 576, 7168, False, 9.4, 0.9),
    (128, 24576, 1536, False, 17.0, 0.97),
    (128, 32768, 512, False, 10.4, 1.02),
    (128, 7168, 16384, False, 43.5, 1.03),
    (128, 4096, 7168, False, 13.9, 1.03),
    (128, 7168, 2048, False, 9.1, 0.92),
    (4096, 2112, 7168, False, 93.7, 0.98),
    (4096, 576, 7168, False, 32.4, 0.78),
    (4096, 24576, 1536, False, 228.8, 1.02),
    (4096, 32768, 512, False, 126.7, 1.17),
    (4096, 7168, 16384, False, 635.2, 1.02),
    (4096, 4096, 7168, False, 163.9, 1.0),
    (4096, 7168, 2048, False, 90.3, 1.01),
    (4096, 7168, 2112, False, 96.9, 1.01),
    (2112, 4096, 7168, True, 133.4, 0.79),
    (2112, 4096, 7168, False, 93.3, 1.02),
    (4096, 7168, 576, False, 36.5, 1.08),
    (576, 4096, 7168, True, 57.2, 0.55),
    (576, 4096, 7168, False, 28.4, 0.96),
    (4096, 1536, 24576, False, 202.4, 1.01),
    (24576, 4096, 1536, True, 422.8, 0.82),
    (24576, 4096, 1536, False, 227.9, 1.01),
    (4096, 512, 32768, False, 99.2, 0.94),
    (32768, 4096, 512, True, 447.3, 0.9),
    (32768, 4096, 512, False, 127.0, 1.08),
    (4096, 16384, 7168, False, 648.5, 0.97),
    (7168, 4096, 16384, True, 895.1, 0.71),
    (7168, 4096, 16384, False, 632.6, 0.98),
    (4096, 7168, 4096, False, 167.7, 1.0),
    (4096, 4096, 7168, True, 245.8, 0.73),
    (4096, 4096, 7168, False, 164.2, 1.0),
    (4096, 2048, 7168, False, 83.8, 0.99),
    (7168, 4096, 2048, True, 163.7, 0.78),
    (7168, 4096, 2048, False, 90.1, 0.98),
)
DENSE = tuple(
    Case(
        *(m, n, k, "float32" if accumulate else BF16, accumulate),
        peer_us=us,
        peer_ratio=ratio,
    )
    for m, n, k, accumulate, us, ratio in _DENSE
)

# (N, K) of the decode rows: the weights of one layer of a large language model.
DECODE_WEIGHTS = (
    (2112, 7168),
    (576, 7168),
    (24576, 1536),
    (32768, 512),
    (7168, 16384),
    (4096, 7168),
    (7168, 2048),
)
DECODE_ROWS = (2, 4, 8, 16, 32, 64)
DECODE = tuple(Case(m, n, k) for m in DECODE_ROWS for n, k in DECODE_WEIGHTS)

# M, N, K, layout, {output: (peer us, peer ratio)}
_BF16: tuple[tuple[int, int, int, str, dict[str, tuple[float, float]]], ...] = (
    (1, 2112, 7168, "nt", {"bf16": (15.5, 0.97), "bf16+=": (15.5, 1.0)}),
    (1, 576, 7168, "nt", {"bf16": (10.9, 0.7), "bf16+=": (11.0, 0.71)}),
    (1, 24576, 1536, "nt", {"bf16": (26.5, 1.05), "bf16+=": (26.5, 1.05)}),
    (1, 32768, 512, "nt", {"bf16": (13.9, 1.03), "bf16+=": (13.7, 1.01)}),
    (1, 7168, 16384, "nt", {"bf16": (69.6, 1.02), "bf16+=": (70.0, 1.02)}),
    (1, 4096, 7168, "nt", {"bf16": (22.2, 1.07), "bf16+=": (22.1, 1.08)}),
    (1, 7168, 2048, "nt", {"bf16": (12.6, 1.01), "bf16+=": (12.7, 1.0)}),
    (1, 256, 7168, "nt", {"fp32": (10.5, 0.65)}),
    (1, 129280, 7168, "nt", {"fp32": (432.9, 1.01)}),
    (128, 2112, 7168, "nt", {"bf16": (16.9, 0.98), "bf16+=": (17.1, 1.0)}),
    (128, 576, 7168, "nt", {"bf16": (11.9, 0.78), "bf16+=": (11.9, 0.8)}),
    (128, 24576, 1536, "nt", {"bf16": (28.7, 1.0), "bf16+=": (28.9, 1.01)}),
    (128, 32768, 512, "nt", {"bf16": (16.1, 0.99), "bf16+=": (18.0, 0.98)}),
    (128, 7168, 16384, "nt", {"bf16": (68.9, 1.09), "bf16+=": (69.5, 1.1)}),
    (128, 4096, 7168, "nt", {"bf16": (24.1, 0.98), "bf16+=": (24.3, 0.98)}),
    (128, 7168, 2048, "nt", {"bf16": (13.3, 0.98), "bf16+=": (13.4, 0.97)}),
    (128, 256, 7168, "nt", {"fp32": (11.2, 0.7)}),
    (128, 129280, 7168, "nt", {"fp32": (523.6, 0.93)}),
    (4096, 2112, 7168, "nt", {"bf16": (159.9, 0.97), "bf16+=": (162.9, 0.96)}),
    (4096, 576, 7168, "nt", {"bf16": (45.3, 0.96), "bf16+=": (46.2, 0.96)}),
    (4096, 24576, 1536, "nt", {"bf16": (401.1, 1.0), "bf16+=": (462.2, 0.94)}),
    (4096, 32768, 512, "nt", {"bf16": (203.9, 1.02), "bf16+=": (292.6, 0.97)}),
    (4096, 7168, 16384, "nt", {"bf16": (1190.0, 0.99), "bf16+=": (1195.0, 0.99)}),
    (4096, 4096, 7168, "nt", {"bf16": (297.1, 1.0), "bf16+=": (300.7, 0.99)}),
    (4096, 7168, 2048, "nt", {"bf16": (157.5, 0.98), "bf16+=": (167.6, 0.97)}),
    (4096, 256, 7168, "nt", {"fp32": (32.0, 0.97)}),
    (4096, 129280, 7168, "nt", {"fp32": (11838.0, 0.97)}),
    (4096, 7168, 2112, "nn", {"bf16": (161.7, 0.99)}),
    (2112, 4096, 7168, "tn", {"fp32+=": (191.6, 0.91), "bf16": (169.1, 0.98)}),
    (4096, 7168, 576, "nn", {"bf16": (53.3, 0.96)}),
    (576, 4096, 7168, "tn", {"fp32+=": (62.9, 0.78), "bf16": (62.9, 0.74)}),
    (4096, 1536, 24576, "nn", {"bf16": (381.3, 1.01)}),
    (24576, 4096, 1536, "tn", {"fp32+=": (608.6, 0.9), "bf16": (402.3, 0.99)}),
    (4096, 512, 32768, "nn", {"bf16": (183.7, 0.99)}),
    (32768, 4096, 512, "tn", {"fp32+=": (496.1, 0.85), "bf16": (210.5, 0.99)}),
    (4096, 16384, 7168, "nn", {"bf16": (1206.0, 1.02)}),
    (7168, 4096, 16384, "tn", {"fp32+=": (1348.0, 0.9), "bf16": (1187.0, 1.0)}),
    (4096, 7168, 4096, "nn", {"bf16": (303.2, 0.99)}),
    (4096, 4096, 7168, "tn", {"fp32+=": (372.2, 0.83), "bf16": (295.8, 1.0)}),
    (4096, 2048, 7168, "nn", {"bf16": (149.6, 0.99)}),
    (7168, 4096, 2048, "tn", {"fp32+=": (226.4, 0.86), "bf16": (156.8, 1.0)}),
    (4096, 7168, 256, "nn", {"bf16": (31.9, 0.93)}),
    (256, 4096, 7168, "tn", {"fp32+=": (31.7, 0.94), "bf16": (30.7, 0.95)}),
    (4096, 7168, 129280, "nn", {"bf16": (11308.0, 0.96)}),
    (129280, 4096, 7168, "tn", {"fp32+=": (12762.0, 0.9), "bf16": (10980.0, 0.98)}),
)
_DTYPES = {short: dtype for dtype, short in SHORT.items()}
BF16_DENSE = tuple(
    Case(
        *(m, n, k, _DTYPES[out.removesuffix("+=")], out.endswith("+="), layout, BF16),
        peer_us=us,
        peer_ratio=ratio,
    )
    for m, n, k, layout, outs in _BF16
    for out, (us, ratio) in outs.items()
)


def _named(cases: tuple[Case, ...], *labels: str) -> tuple[Case, ...]:
    return tuple(case for case in cases if case.label in labels)


# For a quick look. Large, short K, poor wave count, decode, accumulate: one of each.
QUICK = _named(
    DENSE,
    *("4096x7168x16384", "4096x7168x2048", "4096x2112x7168", "128x7168x16384"),
    *("1x7168x16384", "4096x4096x7168+="),
)
# One of each layout and output; and decode, 128 rows.
BF16_QUICK = _named(
    BF16_DENSE,
    *("1x4096x7168,nt,bf16", "128x7168x16384,nt,bf16", "4096x7168x16384,nt,bf16"),
    *("4096x7168x2048,nt,bf16+=", "4096x256x7168,nt,fp32", "4096x7168x4096,nn,bf16"),
    *("4096x4096x7168,tn,fp32+=", "4096x4096x7168,tn,bf16"),
)


def select(cases: tuple[Case, ...], wanted: list[str]) -> tuple[Case, ...]:
    """Return the cases named by "MxNxK", label, "M=4096" or number in the suite (from 0)."""
    if not wanted:
        return cases
    chosen = []
    for word in wanted:
        if word.isdigit():
            found = list(cases[int(word) : int(word) + 1])
        elif word.startswith("M="):
            found = [case for case in cases if case.m == int(word[2:])]
        else:
            found = [case for case in cases if word in (case.shape, case.label)]
        if not found:
            raise ValueError(f"rows: found {word!r}, need MxNxK, M=number or 0..{len(cases) - 1}")
        chosen += [case for case in found if case not in chosen]
    return tuple(chosen)


def listing(suite: tuple[Case, ...], cases: tuple[Case, ...]) -> str:
    """Return a line per case: its number in the suite, shape, output, the peer's figures."""
    width = column(cases)
    lines = [f"{'':>3}  {'row':<{width}}{'out':<10}{'peer us':>8}{'peer ratio':>12}"]
    for case in cases:
        us = f"{case.peer_us:.1f}" if case.peer_us else ""
        ratio = f"{case.peer_ratio:.2f}" if case.peer_ratio else ""
        number = suite.index(case)
        lines.append(
            f"{number:>3}  {case.label:<{width}}{case.out_dtype:<10}{us:>8}{ratio:>12}".rstrip()
        )
    return "\n".join(lines)


def column(cases: tuple[Case, ...]) -> int:
    """Return the width of a table's first column, for labels."""
    return max([20, *(len(case.label) + 1 for case in cases)])
