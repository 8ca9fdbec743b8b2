"""What was found on this machine, why a config is chosen, and kernels prepared ahead."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deepgemm._library import Policy, as_policy, ext


@dataclass(frozen=True)
class Report:
    """How a product is, or would be, computed."""

    kernel: str
    config: str
    fields: dict[str, str]
    reason: str
    origin: str  # "memory", "bundle", "disk" or "compiled"; empty if only explained
    milliseconds: float  # to prepare it
    shared_bytes: int
    threads: int
    grid: int
    stages: int
    # Of explain(): every config weighed, cheapest first, each with "config", "predicted_us" and the
    # "policy" that asks for it.
    candidates: list[dict[str, Any]] = field(default_factory=list)
    problem: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.config}"]
        lines += [f"  {name:<18} {value}" for name, value in self.fields.items()]
        lines += [f"  {'why':<18} {self.reason}"] if self.reason else []
        lines += (
            [f"  {'from':<18} {self.origin}, {self.milliseconds:.1f} ms"] if self.origin else []
        )
        return "\n".join(lines)


def info() -> dict[str, Any]:
    """Look at the driver, its GPUs, NVRTC and the cache. Creates no context and never raises.

    Returns:
        ``version``; ``driver_version`` (13000; 0 without a driver), ``driver_problem`` (empty if
        it is usable), ``gpus`` (each with ``index``, ``name``, ``sm_count``,
        ``compute_capability``, ``l2_bytes``); ``nvrtc_path``, ``nvrtc_version``,
        ``nvrtc_problem``; ``cache_directory`` (empty: kernels stay in memory), ``cache_problem``;
        ``sources_digest`` of the device code; and ``usable``: whether kernels can be compiled, or
        come from a bundle, and run here, on a GPU of compute capability 9.0.
    """
    found = ext.runtime_info()
    compiler = bool(found["nvrtc_path"]) and not found["nvrtc_problem"]
    kernels = compiler or ext.cache_info()["bundle_kernels"] > 0
    return {**found, "usable": bool(hopper_gpus(found)) and kernels}


def hopper_gpus(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Of what :func:`info` found, the GPUs that kernels run on: compute capability 9.0."""
    return [gpu for gpu in found["gpus"] if tuple(gpu["compute_capability"]) == (9, 0)]


def cache_info() -> dict[str, Any]:
    """Look at the cache of compiled kernels and at the bundle, if there is one.

    Returns:
        ``directory`` (empty: kernels stay in memory), ``problem``, ``entries``, ``bytes``,
        ``limit`` (of bytes; 0: none); of this process ``loaded``, ``compiled``, ``disk_hits``,
        ``bundle_hits``; ``bundle`` (its file; empty: none), ``bundle_problem`` (why it is not
        used), ``bundle_kernels``, ``bundle_bytes``, ``bundle_nvrtc_version``.
    """
    return ext.cache_info()


def clear_cache() -> int:
    """Remove this library's kernels from the cache directory; returns how many files went."""
    return ext.clear_cache()


def synchronize(device: int = 0) -> None:
    """Wait for all work of a CUDA device.

    Raises:
        deepgemm.DriverError: an earlier kernel failed, or there is no driver.
    """
    ext.synchronize(device)


def explain(op: str, *operands: Any, device: int | None = None, **options: Any) -> Report:
    """Say which kernel and config would compute an operation, and why. Compiles nothing.

    Args:
        op: ``"gemm"``.
        operands: the arrays, as for :func:`gemm`; or M, N, K for aligned arrays of these extents.
        device: CUDA device whose figures count, -1 for those of an H200; default: the arrays'
            device, else device 0 if it is a Hopper GPU, else -1. The thread's ``num_sms`` (see
            :func:`options`) limits it as it does the operation.
        options: the keywords of the operation. With M, N, K also ``a_dtype``, ``b_dtype``,
            ``out_dtype``, ``granularity`` ((1, 128) and (128, 128) for float8; None for no
            scale factors), ``c`` and ``bias`` (bool).

    Raises:
        ValueError: unknown ``op``, or what the operation itself would raise. TypeError: operands
            that are neither arrays nor M, N, K.
    """
    if op != "gemm":
        raise ValueError(f'op: found {op!r}, need one of "gemm"')
    numbers = sum(_is_integer(operand) for operand in operands)
    if len(operands) == 3 and numbers == 3:
        return _report_shape(*operands, device=device, compile=False, **options)
    if numbers or not 2 <= len(operands) <= 3:
        found = ", ".join(_shown(operand) for operand in operands) or "none"
        raise TypeError(f"operands: found {found}, need M, N, K or arrays a, b (and out)")
    return _report_arrays(*operands, device=device, **options)


def warmup(
    problems: Iterable[Any],
    *,
    device: int | None = None,
    progress: Callable[[int, int, Report], None] | None = None,
) -> list[Report]:
    """Compile the kernels of a list of problems ahead of time, into the cache.

    Works with no GPU and no driver, as long as NVRTC is there. The thread's ``num_sms`` counts
    as in :func:`explain`.

    Args:
        problems: each an (M, N, K), or a mapping with the keys ``m``, ``n``, ``k`` and the options
            that :func:`explain` takes with M, N, K. M matters only through the number of tiles, so
            give the smallest, the usual and the largest.
        device: choose for this CUDA device, and load the kernels there (-1: for an H200, and load
            nothing); default: choose as :func:`explain` does, compile only.
        progress: called after each problem with its number (from 1), their count, its report.

    Returns:
        One report per problem; ``origin`` says where its kernel came from.

    Raises:
        ValueError: a problem that cannot be computed. TypeError: it is neither of these.
        deepgemm.CompileError: NVRTC is missing.
    """
    every = list(problems)
    reports: list[Report] = []
    for number, problem in enumerate(every, start=1):
        shape, options = _shape_and_options(problem)
        report = _report_shape(*shape, device=device, compile=True, **options)
        reports.append(report)
        if progress is not None:
            progress(number, len(every), report)
    return reports


def _is_integer(x: Any) -> bool:
    """An int or an integer of NumPy's; arrays of one element have __index__ too, and a shape."""
    return (
        hasattr(x, "__index__") and getattr(x, "shape", ()) == () and not hasattr(x, "__dlpack__")
    )


def _shown(x: Any) -> str:
    text = repr(x) if _is_integer(x) else f"an object of type {type(x).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _shape_and_options(problem: Any) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    """(M, N, K) and the keywords of one problem of :func:`warmup`."""
    if isinstance(problem, Mapping):
        missing = [name for name in "mnk" if name not in problem]
        if missing:
            raise ValueError(
                f"problem: found a mapping without {', '.join(missing)}, need the keys m, n, k"
            )
        rest = {name: value for name, value in problem.items() if name not in ("m", "n", "k")}
        return (problem["m"], problem["n"], problem["k"]), rest
    if not isinstance(problem, (tuple, list)):
        raise TypeError(f"problem: found {_shown(problem)}, need (M, N, K) or a mapping")
    if len(problem) != 3:
        raise ValueError(f"problem: found {problem!r}, need (M, N, K)")
    m, n, k = problem
    return (m, n, k), {}


def _report_shape(
    m: int,
    n: int,
    k: int,
    *,
    device: int | None,
    compile: bool,
    a_dtype: Any = "float8_e4m3fn",
    b_dtype: Any = "float8_e4m3fn",
    out_dtype: Any = "bfloat16",
    granularity: Any = "default",
    layout: str = "nt",
    activation: str | None = None,
    c: bool = False,
    bias: bool = False,
    policy: Policy | dict[str, object] | None = None,
) -> Report:
    a_granularity, b_granularity = _granularities(granularity, a_dtype, b_dtype)
    found = ext.report_shape(
        m,
        n,
        k,
        a_dtype,
        b_dtype,
        out_dtype,
        a_granularity,
        b_granularity,
        layout,
        activation,
        c,
        bias,
        as_policy(policy),
        device,
        compile,
    )
    shape = {"m": int(m), "n": int(n), "k": int(k)}
    return Report(**found, problem={"op": "gemm", **shape, "layout": layout})


def _granularities(granularity: Any, a_dtype: Any, b_dtype: Any) -> tuple[Any, Any]:
    """Those of a and b: the usual ones for float8, none for the others, unless given."""
    if isinstance(granularity, str) and granularity == "default":
        a = (1, 128) if ext.dtype_name(a_dtype).startswith("float8") else None
        b = (128, 128) if ext.dtype_name(b_dtype).startswith("float8") else None
        return a, b
    if granularity is None:
        return None, None
    if not isinstance(granularity, (tuple, list)) or len(granularity) != 2:
        raise ValueError(f"granularity: found {granularity!r}, need (rows, k) or a pair of those")
    first, second = granularity
    if isinstance(first, (tuple, list)) or isinstance(second, (tuple, list)):
        return first, second
    return granularity, granularity


def _report_arrays(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    device: int | None,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    alpha: float = 1.0,
    out_dtype: Any = None,
    out_scale: float | None = None,
    layout: str = "nt",
    granularity: Any = None,
    policy: Policy | dict[str, object] | None = None,
    stream: Any = None,
) -> Report:
    del stream  # no part of the choice
    found = ext.report_gemm(
        a,
        b,
        out,
        c,
        bias,
        activation,
        alpha,
        out_dtype,
        out_scale,
        layout,
        granularity,
        as_policy(policy),
        device,
        False,  # compile
    )
    return Report(**found, problem={"op": "gemm", "layout": layout})
