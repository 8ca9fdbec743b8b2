"""``deepgemm gemm A.npy B.npy -o D.npy``: a product of two files."""

import argparse
import json
import time
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "gemm",
        help="multiply two .npy files",
        description="Computes A @ B of two .npy files of float32, float16, float64 or bfloat16 (as "
        "ml_dtypes saves it, or its bits as uint16). By default they are quantised to float8 on "
        "the way.",
    )
    parser.add_argument("a", type=Path, metavar="A.npy", help="[M, K]")
    parser.add_argument("b", type=Path, metavar="B.npy", help="[N, K] unless --layout says else")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="D.npy", help="[M, N]")
    parser.add_argument("--layout", choices=["nt", "nn", "tn", "tt"], default="nt")
    parser.add_argument(
        "--dtype",
        choices=["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32"],
        default="float8_e4m3fn",
        help="what is multiplied: float8 with fine-grained scale factors (default), or a cast",
    )
    parser.add_argument("--out-dtype", choices=["float32", "float16"], default="float32")
    parser.add_argument("--device", type=int, help="CUDA device; default: 0 if usable, else CPU")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, multiply, write."""
    import numpy as np

    import deepgemm

    a, b = _load(args.a), _load(args.b)
    _check_depths(args, a, b)
    if args.layout[0] == "t":
        a = np.ascontiguousarray(a.T)
    if args.layout[1] == "n":
        b = np.ascontiguousarray(b.T)
    device = args.device
    if device is None:
        device = 0 if deepgemm.info()["usable"] else -1
    begin = time.perf_counter()
    out = deepgemm.gemm(
        _operand(a, args.dtype, (1, 128), device),
        _operand(b, args.dtype, (128, 128), device),
        out_dtype=args.out_dtype,
    )
    result = out if device < 0 else out.to_numpy()
    seconds = time.perf_counter() - begin
    # np.save would add it too, but only in silence.
    path = args.output if args.output.suffix == ".npy" else Path(f"{args.output}.npy")
    np.save(path, result)
    record = {
        "m": a.shape[0],
        "n": b.shape[0],
        "k": a.shape[1],
        "device": "cpu" if device < 0 else f"cuda:{device}",
        "seconds": seconds,
        "output": str(path),
    }
    if args.json:
        print(json.dumps(record))
    else:
        print(
            f"[{record['m']}, {record['k']}] x [{record['k']}, {record['n']}] on "
            f"{record['device']}: written to {path}, {seconds * 1e3:.1f} ms in all "
            "(casts, copies and any compile included)"
        )
    return 0


def _check_depths(args: argparse.Namespace, a: Any, b: Any) -> None:
    """Both files have the same K, in the words of the files and of --layout."""
    a_is = "[K, M]" if args.layout[0] == "t" else "[M, K]"
    b_is = "[K, N]" if args.layout[1] == "n" else "[N, K]"
    k = a.shape[0 if args.layout[0] == "t" else 1]
    found = b.shape[0 if args.layout[1] == "n" else 1]
    if found != k:
        raise ValueError(
            f"{args.b}: found shape {list(b.shape)}, K = {found}, need K = {k} ({args.a} has shape "
            f"{list(a.shape)}; --layout {args.layout} reads it as {a_is}, and {args.b} as {b_is})"
        )


def _load(path: Path) -> Any:
    """The file's array in float32."""
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except ValueError:  # numpy advises to load it in an unsafe way
        raise ValueError(f"{path}: found something else, need a .npy file of numbers") from None
    if array.ndim != 2:
        raise ValueError(f"{path}: found rank {array.ndim}, need rank 2")
    if array.dtype in (np.uint16, np.dtype("V2")):  # bfloat16: the upper half of a float32
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if array.dtype not in (np.float32, np.float16, np.float64):
        raise TypeError(
            f"{path}: found {array.dtype}, need float32, float16, float64 or bfloat16 (as uint16)"
        )
    return np.ascontiguousarray(array.astype(np.float32))


def _operand(array: Any, dtype: str, granularity: tuple[int, int], device: int) -> Any:
    import deepgemm
    from deepgemm._arrays import numpy_dtype

    if not dtype.startswith("float8"):
        native = numpy_dtype(dtype)
        if native is None:
            raise ImportError(f"{dtype} needs ml_dtypes: pip install ml_dtypes")
        array = array.astype(native)
    if device >= 0:
        array = deepgemm.DeviceArray.from_numpy(array, device=device)
    return deepgemm.quantize(array, granularity, dtype) if dtype.startswith("float8") else array
