"""Problems as dictionaries: from shapes and from arrays to what a trace records.

A recorded problem (docs/warmup.md) has every array as ``dtype``, ``shape``, and where they are not
the usual ones ``strides`` and ``offset``; it is what :func:`deepgemm.warmup` takes in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepgemm._library import ext

OPS = ("gemm", "grouped_gemm", "masked_gemm", "k_grouped_gemm")
# How the rows of grouped_gemm are given to groups, and the extent of the array that says it.
GROUP_FORMS = ("group_sizes", "group_offsets", "group_ends", "labels")
_VECTORS = {"masked_gemm": "rows", "k_grouped_gemm": "k_sizes"}


def is_recorded(problem: Mapping[str, Any]) -> bool:
    """Whether it has arrays (or is no product), and not M, N, K."""
    return "a" in problem or problem.get("op") in ("quantize", "dequantize", "scale_layout")


def extents_of(problem: Mapping[str, Any]) -> dict[str, Any]:
    """M, N, K, groups and layout of a recorded problem, as far as it has them."""
    if "a" not in problem:
        return {"shape": list(problem["shape"])} if "shape" in problem else {}
    layout = problem.get("layout", "nt")
    a, b = problem["a"]["shape"], problem["b"]["shape"]
    rows, k = a[-2:] if layout[0] == "n" else a[-2:][::-1]
    found = {"m": rows, "n": b[-1 if layout[1] == "n" else -2], "k": k, "layout": layout}
    if problem["op"] != "gemm":
        stack = problem["out"] if problem["op"] == "k_grouped_gemm" else problem["b"]
        return {**found, "groups": stack["shape"][0]}
    batch = max(
        (x["shape"][0] for x in (problem["a"], problem["b"]) if len(x["shape"]) == 3), default=1
    )
    return {**found, "batch": batch} if batch != 1 else found


def extent(value: Any, name: str) -> int:
    """``value`` as an integer of 0 or more."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: found {value!r}, need an integer")
    number = int(value)
    if number < 0:
        raise ValueError(f"{name}: found {number}, need 0 or more")
    return number


def array(dtype: str, *shape: int) -> dict[str, Any]:
    """Describe an aligned row-major array."""
    return {"dtype": dtype, "shape": list(shape)}


def shaped_problem(
    op: str,
    m: Any,
    n: Any,
    k: Any,
    *,
    groups: Any = 0,
    a_dtype: Any = "float8_e4m3fn",
    b_dtype: Any = "float8_e4m3fn",
    out_dtype: Any = None,
    granularity: Any = "default",
    layout: str = "nt",
    form: str = "group_sizes",
    **extras: Any,
) -> dict[str, Any]:
    """Describe a product of aligned arrays as a trace would record it.

    Args:
        op: one of ``OPS``.
        m: the extents, with ``n`` and ``k``; of ``"grouped_gemm"`` M is the rows of all groups, of
            ``"masked_gemm"`` those of each a[g], of ``"k_grouped_gemm"`` K is that of all groups.
        n: see ``m``.
        k: see ``m``.
        groups: how many.
        a_dtype: this and the rest as for :func:`deepgemm.explain`.
        granularity: default of ``"k_grouped_gemm"``: (1, 128) for both.
        form: of ``"grouped_gemm"``, which of the four arrays says whose rows are whose.
        extras: those of ``_add_extras``.
    """
    m, n, k = extent(m, "M"), extent(n, "N"), extent(k, "K")
    groups = extent(groups, "groups")
    if form not in GROUP_FORMS:
        raise ValueError(f"form: found {form!r}, need one of {', '.join(GROUP_FORMS)}")
    if layout not in ("nt", "nn", "tn", "tt"):
        raise ValueError(f'layout: found {layout!r}, need one of "nt", "nn", "tn", "tt"')
    along_k, masked = op == "k_grouped_gemm", op == "masked_gemm"
    if along_k and granularity == "default":
        granularity = ((1, 128), (1, 128))
    a_scale, b_scale = granularities(granularity, a_dtype, b_dtype)
    if along_k:  # it takes no other, and none of what is not float8
        a_scale = a_scale if ext.dtype_name(a_dtype).startswith("float8") else None
        b_scale = b_scale if ext.dtype_name(b_dtype).startswith("float8") else None
    blocks = -(-k // 128) + groups if along_k else None
    out_dtype = ext.dtype_name(out_dtype or ("float32" if along_k else "bfloat16"))
    stacked = op in ("grouped_gemm", "masked_gemm")
    a_matrices, b_matrices = groups if masked else None, groups if stacked else None
    out = (groups, m, n) if masked or along_k else (m, n)
    problem: dict[str, Any] = {
        "op": op,
        "layout": layout,
        "a": _operand(a_dtype, a_scale, m, k, layout[0] == "t", a_matrices, blocks),
        "b": _operand(b_dtype, b_scale, n, k, layout[1] == "n", b_matrices, blocks),
        "out": array(out_dtype, *out),
    }
    if op != "gemm":
        length = {"labels": m, "group_offsets": groups + 1}.get(form, groups)
        vector = _VECTORS.get(op, form)
        problem[vector] = array("int32", length if vector == form else groups)
    _add_extras(problem, groups, n, **extras)
    return problem


def _add_extras(
    problem: dict[str, Any],
    groups: int,
    n: int,
    *,
    c: bool = False,
    bias: bool = False,
    activation: str | None = None,
    expected_rows: int | None = None,
    device_sms: int | None = None,
    **unknown: Any,
) -> None:
    """Add the epilogue (a c is ``out`` itself), and what the choice is made for."""
    if unknown:
        raise TypeError(f"{problem['op']}: found the keyword {min(unknown)!r}, which it has not")
    if c:
        problem["c"] = "out"
    if bias:
        stack = [] if problem["op"] == "gemm" else [groups]
        problem["bias"] = array("float32", *stack, n)
    if activation is not None:
        problem["activation"] = activation
    if expected_rows is not None:
        problem["expected_rows"] = extent(expected_rows, "expected_rows")
    if device_sms is not None:
        problem["device_sms"] = extent(device_sms, "device_sms")


def recorded_arrays(
    op: str,
    a: Any,
    b: Any,
    vector: Any = None,
    out: Any = None,
    *,
    layout: str = "nt",
    granularity: Any = None,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    alpha: float = 1.0,
    out_dtype: Any = None,
    expected_rows: int | None = None,
    alignment: int = 1,
    stream: Any = None,
    **groups: Any,
) -> tuple[dict[str, Any], int | None]:
    """Describe the arrays of a grouped product as a trace would; and their CUDA device."""
    del stream
    name, given = _vector_of(op, vector, groups)
    first, second, factor, device = ext.describe_operands(a, b, layout, granularity)
    problem: dict[str, Any] = {"op": op, "layout": layout, "a": first, "b": second}
    problem[name] = ext.describe_array(given, name)[0]
    problem["out"], address = _out_of(op, first, second, problem[name], layout, out, out_dtype)
    if c is not None:
        described, c_address = ext.describe_array(c, "c")
        problem["c"] = "out" if c_address == address else described
    if bias is not None:
        problem["bias"] = ext.describe_array(bias, "bias")[0]
    if activation is not None:
        problem["activation"] = activation
    if alpha * factor != 1:
        problem["alpha"] = alpha * factor
    if op == "masked_gemm" and expected_rows is not None:
        problem["expected_rows"] = extent(expected_rows, "expected_rows")
    if op == "grouped_gemm":
        problem["alignment"] = alignment
    return problem, device if device >= 0 else None


def granularities(granularity: Any, a_dtype: Any, b_dtype: Any) -> tuple[Any, Any]:
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


def _operand(
    dtype: Any,
    granularity: Any,
    rows: int,
    k: int,
    turned: bool,
    matrices: int | None,
    blocks: int | None,
) -> dict[str, Any]:
    """Describe values and their factors, those of one row each in the fast layout."""
    stack = [] if matrices is None else [matrices]
    values = array(ext.dtype_name(dtype), *stack, *((k, rows) if turned else (rows, k)))
    if granularity is None:
        return values
    each_rows, each_k = (part or 0 for part in granularity)
    sf_rows = -(-rows // each_rows) if each_rows else min(rows, 1)
    sf_k = blocks if blocks is not None else (-(-k // each_k) if each_k else min(k, 1))
    shape, strides = [sf_rows, sf_k], [sf_k, 1]
    if each_rows == 1:
        strides = [1, -(-sf_rows // 4) * 4]
    if turned:
        shape, strides = shape[::-1], strides[::-1]
    if stack:
        pitch = max(extent * stride for extent, stride in zip(shape, strides, strict=True))
        shape, strides = [*stack, *shape], [pitch, *strides]
    sf = {"dtype": "float32", "shape": shape, "strides": strides}
    return {**values, "sf": sf, "granularity": [each_rows or None, each_k or None]}


def _vector_of(op: str, vector: Any, groups: dict[str, Any]) -> tuple[str, Any]:
    """Name and array of the one group vector."""
    names = GROUP_FORMS if op == "grouped_gemm" else (_VECTORS[op],)
    unknown = [name for name in groups if name not in names]
    if unknown:
        raise TypeError(f"{op}: found the argument {unknown[0]!r}, need those of deepgemm.{op}")
    given = {names[0]: vector, **groups} if vector is not None else groups
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) != 1:
        raise ValueError(f"{names[0]}: found {len(given)} group arrays, need one of {names}")
    return next(iter(given.items()))


def _out_of(
    op: str,
    a: dict[str, Any],
    b: dict[str, Any],
    vector: dict[str, Any],
    layout: str,
    out: Any,
    out_dtype: Any,
) -> tuple[dict[str, Any], int]:
    """Describe out, or the one that would be made; with its address."""
    if out is not None:
        described: tuple[dict[str, Any], int] = ext.describe_array(out, "out")
        return described
    m = a["shape"][-1 if layout[0] == "t" else -2]
    n = b["shape"][-1 if layout[1] == "n" else -2]
    default = "float32" if op == "k_grouped_gemm" or a["dtype"] == "float32" else "bfloat16"
    if op != "k_grouped_gemm" and a["dtype"] == "float16":
        default = "float16"
    groups = {"masked_gemm": a["shape"][:1], "k_grouped_gemm": vector["shape"][:1]}.get(op, [])
    dtype = default if out_dtype is None else ext.dtype_name(out_dtype)
    return array(dtype, *groups, m, n), -1
