"""What was found on this machine, why a config is chosen, and kernels prepared ahead."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deepgemm._library import Policy, as_policy, ext
from deepgemm._problems import (
    OPS,
    extents_of,
    granularities,
    is_recorded,
    recorded_arrays,
    shaped_problem,
)


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
    # Of explain(): every config weighed, cheapest first, each with "config", "predicted_us",
    # "swept" (measured on an H200 as its kernel's fastest for this problem, before predictions) and
    # the "policy" that asks for it.
    candidates: list[dict[str, Any]] = field(default_factory=list)
    problem: dict[str, Any] = field(default_factory=dict)
    # Two reports have the same one only if the compiled kernel is the same.
    identity: str = ""

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
        ``sources_digest`` of the device code; ``settings``, the ``DEEPGEMM_`` variables that are
        set; and ``usable``: whether kernels can be compiled, or come from a bundle, and run here,
        on a GPU of compute capability 9.0.
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
        op: ``"gemm"``, ``"grouped_gemm"``, ``"masked_gemm"`` or ``"k_grouped_gemm"``.
        operands: the arrays, as for the operation; or M, N, K for aligned arrays of these extents
            (of ``"grouped_gemm"`` M is the rows of all groups, of ``"masked_gemm"`` those of each
            matrix, of ``"k_grouped_gemm"`` K is that of all groups).
        device: CUDA device whose figures count, -1 for those of an H200; default: the arrays'
            device, else device 0 if it is a Hopper GPU, else -1. The thread's ``num_sms`` (see
            :func:`options`) limits it as it does the operation.
        options: the keywords of the operation. With M, N, K also ``a_dtype``, ``b_dtype``,
            ``out_dtype``, ``granularity`` ((1, 128) and (128, 128) for float8; None for no
            scale factors), ``c`` and ``bias`` (bool), and of groups ``groups`` (how many) and
            ``form`` (``"group_sizes"``, ``"group_offsets"``, ``"group_ends"`` or ``"labels"``).

    Raises:
        ValueError: unknown ``op``, or what the operation itself would raise. TypeError: operands
            that are neither arrays nor M, N, K.
    """
    if op not in OPS:
        raise ValueError(f"op: found {op!r}, need one of " + ", ".join(f'"{name}"' for name in OPS))
    numbers = sum(_is_integer(operand) for operand in operands)
    if len(operands) == 3 and numbers == 3:
        shape = dict(zip("mnk", operands, strict=True))
        return report_of({"op": op, **shape, **options}, device=device, compile=False)
    most = 3 if op == "gemm" else 4
    if numbers or not 2 <= len(operands) <= most:
        found = ", ".join(_shown(operand) for operand in operands) or "none"
        raise TypeError(f"operands: found {found}, need M, N, K or arrays a, b (and out)")
    if op == "gemm":
        return _report_arrays(*operands, device=device, **options)
    policy = options.pop("policy", None)
    problem, where = recorded_arrays(op, *operands, **options)
    device = where if device is None else device
    return _report_recorded(problem, policy, device=device, compile=False)


def warmup(
    problems: Iterable[Any],
    *,
    device: int | None = None,
    jobs: int = 1,
    progress: Callable[[int, int, Report], None] | None = None,
) -> list[Report]:
    """Compile the kernels of a list of problems ahead of time, into the cache.

    Works with no GPU and no driver, as long as NVRTC is there. The thread's ``num_sms`` counts
    as in :func:`explain`.

    Args:
        problems: each an (M, N, K); or a mapping with the keys ``m``, ``n``, ``k``, ``op``
            (default ``"gemm"``) and the options that :func:`explain` takes with M, N, K; or a
            problem that ``DEEPGEMM_TRACE`` recorded, a line of its file as ``json.loads`` gives it.
            M matters only through the number of tiles, so give the smallest, the usual and the
            largest.
        device: choose for this CUDA device, and load the kernels there (-1: for an H200, and load
            nothing); default: choose as :func:`explain` does, compile only. A recorded problem is
            chosen for the SMs of the device that it was recorded on.
        jobs: how many kernels are compiled at once, each by a thread of its own.
        progress: called after each problem with how many are done, their count, its report.

    Returns:
        One report per problem; ``origin`` says where its kernel came from.

    Raises:
        ValueError: a problem that cannot be computed. TypeError: it is neither of these.
        deepgemm.CompileError: NVRTC is missing.
    """
    every = [_as_mapping(problem) for problem in problems]
    if jobs < 1:
        raise ValueError(f"jobs: found {jobs}, need 1 or more")
    reports: dict[int, Report] = {}
    for number, report in _prepared(every, device, jobs):
        reports[number] = report
        if progress is not None:
            progress(len(reports), len(every), report)
    return [reports[number] for number in range(len(every))]


def report_of(
    problem: Mapping[str, Any], *, device: int | None, compile: bool, candidates: bool = True
) -> Report:
    """Report of one problem of :func:`warmup` that is a mapping."""
    if is_recorded(problem):
        rest = {key: value for key, value in problem.items() if key != "policy"}
        return _report_recorded(
            rest, problem.get("policy"), device=device, compile=compile, candidates=candidates
        )
    missing = [name for name in "mnk" if name not in problem]
    if missing:
        raise ValueError(
            f"problem: found a mapping without {', '.join(missing)}, need the keys m, n, k"
        )
    options = {name: value for name, value in problem.items() if name not in ("op", *"mnk")}
    op = problem.get("op", "gemm")
    m, n, k = (problem[name] for name in "mnk")
    if op == "gemm" and "device_sms" not in options:
        return _report_shape(m, n, k, device=device, compile=compile, **options)
    if op not in OPS:
        raise ValueError(f"op: found {op!r}, need one of " + ", ".join(f'"{name}"' for name in OPS))
    if op != "gemm" and "groups" not in options:
        raise ValueError(f"groups: found none, need how many groups {op} has")
    policy = options.pop("policy", None)
    recorded = shaped_problem(op, m, n, k, **options)
    return _report_recorded(recorded, policy, device=device, compile=compile, candidates=candidates)


def _prepared(
    problems: list[Mapping[str, Any]], device: int | None, jobs: int
) -> Iterator[tuple[int, Report]]:
    """Number and report of each problem, as they are done.

    Why threads: a compile holds no GIL, and two of them in NVRTC 13.5 did not wait for each other
    (both threads could run in 99 % of the samples), so processes would gain nothing.
    """

    def prepare(number: int) -> tuple[int, Report]:
        try:
            return number, report_of(problems[number], device=device, compile=True)
        except (ValueError, TypeError) as error:
            if len(problems) == 1:
                raise
            raise type(error)(f"problem {number + 1} of {len(problems)}: {error}") from None

    if jobs == 1 or len(problems) < 2:
        yield from map(prepare, range(len(problems)))
        return
    from concurrent.futures import ThreadPoolExecutor, as_completed

    from deepgemm._options import get_options, set_options

    chosen = max(device or 0, 0)
    mine, of_device = get_options(), get_options(device=chosen)

    def take_options() -> None:
        """Give the pool's thread the options of the caller's."""
        set_options(**mine)
        set_options(**of_device, device=chosen)

    with ThreadPoolExecutor(jobs, initializer=take_options) as pool:
        futures = [pool.submit(prepare, number) for number in range(len(problems))]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:  # after an error or an interrupt: what has not begun is not begun
            for future in futures:
                future.cancel()


def _as_mapping(problem: Any) -> Mapping[str, Any]:
    """Return one problem of :func:`warmup` as a mapping."""
    if isinstance(problem, Mapping):
        return problem
    if not isinstance(problem, (tuple, list)):
        raise TypeError(f"problem: found {_shown(problem)}, need (M, N, K) or a mapping")
    if len(problem) != 3:
        raise ValueError(f"problem: found {problem!r}, need (M, N, K)")
    return dict(zip("mnk", problem, strict=True))


def _is_integer(x: Any) -> bool:
    """An int or an integer of NumPy's; arrays of one element have __index__ too, and a shape."""
    return (
        hasattr(x, "__index__") and getattr(x, "shape", ()) == () and not hasattr(x, "__dlpack__")
    )


def _shown(x: Any) -> str:
    text = repr(x) if _is_integer(x) else f"an object of type {type(x).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


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
    a_granularity, b_granularity = granularities(granularity, a_dtype, b_dtype)
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


def _report_recorded(
    problem: Mapping[str, Any],
    policy: Any,
    *,
    device: int | None,
    compile: bool,
    candidates: bool = True,
) -> Report:
    found = report_recorded(problem, policy, device=device, compile=compile, candidates=candidates)
    return Report(**found, problem={"op": problem["op"], **extents_of(problem)})


def report_recorded(
    problem: Mapping[str, Any],
    policy: Any = None,
    *,
    device: int | None,
    compile: bool,
    candidates: bool,
) -> dict[str, Any]:
    """What :func:`report_of` makes its report of."""
    return ext.report_problem(dict(problem), as_policy(policy), device, compile, candidates)


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
