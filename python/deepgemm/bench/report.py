"""Result files: their JSON form (docs/performance.md), its check, tables and plots from it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

Row = dict[str, Any]
Document = dict[str, Any]

HEAD: dict[str, tuple[type, ...]] = {
    "card": (str,),
    "driver": (str,),
    "nvrtc": (str,),
    "commit": (str,),
    "date": (str,),
    "clock_mhz": (int, float),
    "rows": (list,),
}
_NUMBER = (int, float)
SHORT = {"bfloat16": "bf16", "float32": "fp32"}
# Every field a row may have; those of NEEDED must be there.
PRODUCT: dict[str, tuple[type, ...]] = {
    "op": (str,),
    "m": (int,),
    "n": (int,),
    "k": (int,),
    "groups": (int,),
    "layout": (str,),
    "in_dtype": (str,),
    "out_dtype": (str,),
    "accumulate": (bool,),
    "mode": (str,),
    "l2": (str,),
    "us": _NUMBER,
    "tflops": _NUMBER,
    "gbps": _NUMBER,
    "error": _NUMBER,
    "rival": (str,),
    "rival_us": _NUMBER,
    "ratio": _NUMBER,
    "through_padded_us": _NUMBER,
}
JIT: dict[str, tuple[type, ...]] = {
    "kernel": (str,),
    "cold_ms": _NUMBER,
    "disk_ms": _NUMBER,
    "bundle_ms": _NUMBER,
}
CALL: dict[str, tuple[type, ...]] = {"path": (str,), "us": _NUMBER, "launch_us": _NUMBER}
_NEEDED = {
    "product": ("op", "m", "n", "k", "in_dtype", "out_dtype", "mode", "us"),
    "jit": ("kernel", "cold_ms"),
    "call": ("path", "us"),
}
_FIELDS = {"product": PRODUCT, "jit": JIT, "call": CALL}


def document(head: dict[str, Any], rows: Sequence[Row]) -> Document:
    """Return a result file's content."""
    return {**head, "rows": list(rows)}


def _kind(row: Row) -> str:
    return "product" if "op" in row else "jit" if "kernel" in row else "call"


def problems(content: Document) -> list[str]:
    """Return what is wrong with a result file's content; nothing if it has the right form."""
    if not isinstance(content, dict):
        return [f"found {type(content).__name__}, need an object with {', '.join(HEAD)}"]
    found = [f"{name}: missing" for name in HEAD if name not in content]
    found += [f"{name}: unknown" for name in content if name not in HEAD]
    found += [
        f"{name}: found {type(content[name]).__name__}"
        for name, types in HEAD.items()
        if name in content and not isinstance(content[name], types)
    ]
    rows = content.get("rows")
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        found += [f"rows[{index}]{problem}" for problem in _row_problems(row)]
    return found


def _row_problems(row: Any) -> list[str]:
    if not isinstance(row, dict):
        return [f": found {type(row).__name__}, need an object"]
    kind = _kind(row)
    fields = _FIELDS[kind]
    found = [f".{name}: missing" for name in _NEEDED[kind] if name not in row]
    for name, value in row.items():
        if name not in fields:
            found.append(f".{name}: unknown")
        elif not isinstance(value, fields[name]) or (
            isinstance(value, float) and math.isnan(value)
        ):
            found.append(f".{name}: found {value!r}")
    if row.get("mode", "burst") not in ("burst", "sustained"):
        found.append(f".mode: found {row['mode']!r}")
    return found


def save(content: Document, path: Path) -> None:
    """Write a result file; refuse one that has not the right form."""
    if wrong := problems(content):
        raise ValueError("result file: " + "; ".join(wrong))
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {name: value for name, value in content.items() if name != "rows"}
    rows = ",\n".join("  " + json.dumps(row) for row in content["rows"])
    text = json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + rows + "\n ]\n}\n"
    path.write_text(text, encoding="utf-8")


def load(path: Path) -> Document:
    """Read a result file."""
    content: Document = json.loads(path.read_text(encoding="utf-8"))
    return content


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean, NaN of nothing."""
    positive = [value for value in values if value > 0]
    if not positive:
        return math.nan
    return math.exp(sum(math.log(value) for value in positive) / len(positive))


def _output(row: Row) -> str:
    dtype = str(row["out_dtype"])
    return SHORT.get(dtype, dtype) + (" +=" if row.get("accumulate") else "")


def _has_layouts(rows: Sequence[Row]) -> bool:
    """Tell whether rows must name their layout."""
    return any(row.get("layout", "nt") != "nt" for row in rows)


def _has_padding(rows: Sequence[Row]) -> bool:
    """Tell whether some row was also measured in padded groups."""
    return any("through_padded_us" in row for row in rows)


def _cells(row: Row, with_layout: bool, with_padding: bool) -> list[str]:
    def number(name: str, form: str) -> str:
        return format(row[name], form) if name in row else ""

    return [
        *([str(row.get("op", "")), str(row["groups"])] if "groups" in row else []),
        *(str(row[name]) for name in ("m", "n", "k")),
        *([str(row.get("layout", ""))] if with_layout else []),
        _output(row),
        row["mode"] + (f", L2 {row['l2']}" if "l2" in row else ""),
        number("us", ".1f"),
        number("tflops", ".0f"),
        number("gbps", ".0f"),
        number("error", ".1e"),
        number("rival_us", ".1f"),
        number("ratio", ".3f"),
        *([number("through_padded_us", ".1f")] if with_padding else []),
    ]


def _product_table(rows: Sequence[Row]) -> list[str]:
    with_layout, with_padding = _has_layouts(rows), _has_padding(rows)
    head = ["M", "N", "K", *(["layout"] if with_layout else []), "out", "mode"]
    head += ["us", "TFLOP/s", "GB/s", "error", "rival us", "ratio"]
    head += ["through padded groups, us"] if with_padding else []
    marks = "--:|" * 3 + "---|" * (3 if with_layout else 2) + "--:|" * (6 + with_padding)
    if any("groups" in row for row in rows):
        head, marks = ["op", "groups", *head], "---|--:|" + marks
    lines = ["| " + " | ".join(head) + " |", "|" + marks]
    cells = (_cells(row, with_layout, with_padding) for row in rows)
    return lines + ["| " + " | ".join(row) + " |" for row in cells]


def _plain_table(rows: Sequence[Row]) -> list[str]:
    names = [name for name in _FIELDS[_kind(rows[0])] if any(name in row for row in rows)]
    lines = ["| " + " | ".join(name.replace("_", " ") for name in names) + " |"]
    lines.append("|---|" + "--:|" * (len(names) - 1))
    return lines + ["| " + " | ".join(str(row.get(n, "")) for n in names) + " |" for row in rows]


def markdown(content: Document) -> str:
    """Return the rows as a Markdown table, with a line about the machine."""
    rows: list[Row] = content["rows"]
    lines = _product_table(rows) if not rows or _kind(rows[0]) == "product" else _plain_table(rows)
    words = (
        f"{content['card']}, driver {content['driver']}, NVRTC {content['nvrtc']}, "
        f"commit {content['commit']}, {content['date']}."
    )
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    rivals = sorted({row["rival"] for row in rows if "rival" in row})
    if ratios:
        words += (
            f" Ratio = time of {', '.join(rivals)} over ours; geometric mean of {len(ratios)} rows "
            f"{geometric_mean(ratios):.3f}, lowest {min(ratios):.3f}."
        )
    return "\n".join([*lines, "", words, ""])


def _bar_labels(rows: Sequence[Row]) -> list[str]:
    def kind(row: Row) -> str:
        if _has_layouts(rows):
            return f" {row.get('layout', '')} {_output(row)}"
        return " +=" if row.get("accumulate") else ""

    return [f"{row['m']} x {row['n']} x {row['k']}{kind(row)}" for row in rows]


def svg(content: Document) -> str:
    """Return a bar chart of the ratios (or of TFLOP/s where there was no rival), as SVG."""
    rows = content["rows"]
    if any(_kind(row) != "product" for row in rows):
        raise ValueError("plot: found rows that are no products, need a file of `bench dense`")
    field = "ratio" if any("ratio" in row for row in rows) else "tflops"
    values = [float(row.get(field, 0)) for row in rows]
    labels = _bar_labels(rows)
    top, height, width = max([*values, 1e-9]), 18, 460
    left = max([190, *(6 * len(label) for label in labels)])
    total = height * len(rows) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{total}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="{left}" y="16">{escape(content["card"])}: '
        f"{'rival time / our time' if field == 'ratio' else 'TFLOP/s'}</text>",
    ]
    for index, (label, value) in enumerate(zip(labels, values, strict=True)):
        y, length = 26 + index * height, value / top * width
        fill = "#4878a8" if field != "ratio" or value >= 1 else "#c06050"
        parts.append(f'<text x="{left - 6}" y="{y + 12}" text-anchor="end">{label}</text>')
        parts.append(
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{height - 4}" fill="{fill}"/>'
        )
        parts.append(f'<text x="{left + length + 4:.1f}" y="{y + 12}">{value:.3g}</text>')
    if field == "ratio":
        x = left + width / top
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="22" y2="{total - 22}" stroke="#444" '
            'stroke-dasharray="3 3"/>'
        )
    return "\n".join([*parts, "</svg>", ""])
