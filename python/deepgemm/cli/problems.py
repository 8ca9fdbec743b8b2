"""Options that name a problem, shared by ``explain`` and ``warmup``."""

import argparse
from collections.abc import Callable
from typing import Any


def add_problem_options(parser: Any) -> None:
    """Add dtypes, layout and epilogue."""
    parser.add_argument("--a-dtype", default="float8_e4m3fn", metavar="DTYPE", help="float8_e4m3fn")
    parser.add_argument("--b-dtype", metavar="DTYPE", help="that of a")
    parser.add_argument("--out-dtype", metavar="DTYPE", help="bfloat16 (k-grouped: float32)")
    parser.add_argument(
        "--granularity",
        metavar="A/B",
        help='scale factors, e.g. "1x128/128x128" (default for float8), "1x0/1x0" per row (0: '
        'the whole extent), "none"',
    )
    parser.add_argument("--layout", choices=["nt", "nn", "tn", "tt"], default="nt")
    parser.add_argument("--activation", choices=["relu", "gelu", "gelu_tanh", "silu"])
    parser.add_argument("--bias", action="store_true", help="with a bias")
    parser.add_argument("--c", action="store_true", help="with a c that is added")


def unused(add_options: Callable[[Any], None]) -> argparse.Namespace:
    """Return the options that it adds as they are where none is given."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args([])


def problem_options(args: argparse.Namespace, out_dtype: str = "bfloat16") -> dict[str, Any]:
    """Those options as keywords of ``deepgemm.explain``; ``out_dtype`` if none is named."""
    options = {
        name: getattr(args, name)
        for name in ("a_dtype", "b_dtype", "layout", "activation", "bias", "c")
    }
    options["b_dtype"] = args.b_dtype or args.a_dtype
    options["out_dtype"] = args.out_dtype or out_dtype
    if args.granularity is not None:
        options["granularity"] = parse_granularity(args.granularity)
    return options


def parse_granularity(text: str) -> Any:
    """``"1x128/128x128"`` as a pair of pairs; ``"none"`` as None."""
    if text == "none":
        return None
    pairs = [pair.split("x") for pair in text.split("/")]
    if len(pairs) == 1:
        pairs *= 2
    if len(pairs) != 2 or any(len(pair) != 2 or not all(map(str.isdigit, pair)) for pair in pairs):
        raise ValueError(f'--granularity: found "{text}", need ROWSxK/ROWSxK or none')
    return tuple((int(rows), int(k)) for rows, k in pairs)


def parse_shape(text: str) -> tuple[int, int, int]:
    """``"M,N,K"`` or ``"MxNxK"``."""
    parts = text.replace("x", ",").split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() for part in parts):
        raise ValueError(f'problem: found "{text}", need M,N,K')
    m, n, k = (int(part) for part in parts)
    if 0 in (m, n, k):
        raise ValueError(f'problem: found "{text}", need M, N and K of 1 or more')
    return m, n, k
