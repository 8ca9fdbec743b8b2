"""The benchmark suites as data: what is computed, and what the peer measured for it.

The peer is the torch-only DeepGEMM on one H200 (burst times); its ratio is cuBLASLt's time over its
own in one run. Microseconds move with the card, so compare by ratio.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One product: out [M, N] = A [M, K] @ B [N, K]^T in FP8 with block scales."""

    m: int
    n: int
    k: int
    accumulate: bool = False  # FP32 output, added to what it holds; both scales (1, 128)
    peer_us: float | None = None
    peer_ratio: float | None = None

    @property
    def out_dtype(self) -> str:
        """Dtype of the output."""
        return "float32" if self.accumulate else "bfloat16"

    @property
    def granularities(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Granularity of a and of b."""
        return (1, 128), (1, 128) if self.accumulate else (128, 128)

    @property
    def flops(self) -> float:
        """Floating-point operations."""
        return 2.0 * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        """Fewest bytes through device memory: values, scales and outputs, each once."""
        (rows_a, k_a), (rows_b, k_b) = self.granularities
        scales = _blocks(self.m, rows_a) * _blocks(self.k, k_a)
        scales += _blocks(self.n, rows_b) * _blocks(self.k, k_b)
        out = self.m * self.n * (8 if self.accumulate else 2)
        return float(self.m * self.k + self.n * self.k + 4 * scales + out)

    @property
    def label(self) -> str:
        """Short name: "4096x7168x2048", with "+=" where the output is accumulated."""
        return f"{self.m}x{self.n}x{self.k}{'+=' if self.accumulate else ''}"


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
DENSE = tuple(Case(*row) for row in _DENSE)

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

# Large, short K, poor wave count, decode, accumulate: one of each, for a quick look.
QUICK = tuple(
    case
    for case in DENSE
    if case.label
    in (
        "4096x7168x16384",
        "4096x7168x2048",
        "4096x2112x7168",
        "128x7168x16384",
        "1x7168x16384",
        "4096x4096x7168+=",
    )
)


def select(cases: tuple[Case, ...], wanted: list[str]) -> tuple[Case, ...]:
    """Return the cases named by "MxNxK", by "M=4096" or by their number in the suite (from 0)."""
    if not wanted:
        return cases
    chosen = []
    for word in wanted:
        if word.isdigit():
            found = list(cases[int(word) : int(word) + 1])
        elif word.startswith("M="):
            found = [case for case in cases if case.m == int(word[2:])]
        else:
            found = [case for case in cases if case.label in (word, word + "+=")]
        if not found:
            raise ValueError(f"rows: found {word!r}, need MxNxK, M=number or 0..{len(cases) - 1}")
        chosen += [case for case in found if case not in chosen]
    return tuple(chosen)


def listing(suite: tuple[Case, ...], cases: tuple[Case, ...]) -> str:
    """Return a line per case: its number in the suite, shape, output, the peer's figures."""
    lines = [f"{'':>3}  {'row':<20}{'out':<10}{'peer us':>8}{'peer ratio':>12}"]
    for case in cases:
        us = f"{case.peer_us:.1f}" if case.peer_us else ""
        ratio = f"{case.peer_ratio:.2f}" if case.peer_ratio else ""
        number = suite.index(case)
        lines.append(
            f"{number:>3}  {case.label:<20}{case.out_dtype:<10}{us:>8}{ratio:>12}".rstrip()
        )
    return "\n".join(lines)
