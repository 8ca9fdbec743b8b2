"""Write docs/settings.md from the one table of settings, in src/core/env.cpp.

python tools/gen_settings.py          rewrite the page
python tools/gen_settings.py --check  exit code 1 if the page differs from the table
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LITERALS = r'((?:"(?:\\.|[^"\\])*"\s*)+)'
_ROW = re.compile(r"\{\s*" + r"\s*,\s*".join([_LITERALS] * 4) + r",?\s*\}")
_HEAD = """# Settings

Environment variables, read at use (never cached at load) and only by `src/core/env.cpp`. Generated
from its table by `tools/gen_settings.py`; a test holds the two together. An empty value counts as
not set.

A setting stops no call that would be computed without it, since it is read in the middle of a
service too. A value that is none of its type counts as not set; a directory or file that cannot
be used is done without: kernels are kept in memory, the bundle is passed by, nothing is dumped or
recorded. Either way one warning names the variable, what was found and what is needed. Two
settings name the library to load, `DEEPGEMM_NVRTC_PATH` and `DEEPGEMM_CUDA_DRIVER_PATH`: another
in its place would hide which one runs, so that a wrong path is an error (`CompileError`,
`DriverError`) when the library is first needed.

| variable | type | when not set | meaning |
|---|---|---|---|
"""


def _text(literals: str) -> str:
    parts = re.findall(r'"((?:\\.|[^"\\])*)"', literals)
    return "".join(parts).replace('\\"', '"').replace("\\\\", "\\")


def read_table(source: str) -> list[tuple[str, str, str, str]]:
    """Return (variable, type, fallback, meaning) of every row of the C++ table."""
    rows = []
    for match in _ROW.finditer(source):
        variable, kind, fallback, meaning = (_text(group) for group in match.groups())
        if variable.startswith("DEEPGEMM_"):
            rows.append((variable, kind, fallback, meaning))
    return rows


def render(rows: list[tuple[str, str, str, str]]) -> str:
    """Return the Markdown page."""
    lines = []
    for variable, *words in rows:
        cells = [cell.replace("|", "\\|") for cell in words]
        lines.append(f"| `{variable}` | {' | '.join(cells)} |\n")
    return _HEAD + "".join(lines)


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    page = ROOT / "docs" / "settings.md"
    rows = read_table((ROOT / "src" / "core" / "env.cpp").read_text(encoding="utf-8"))
    text = render(rows)
    if arguments.check:
        same = page.is_file() and page.read_text(encoding="utf-8") == text
        print("docs/settings.md is up to date" if same else "run python tools/gen_settings.py")
        return 0 if same else 1
    page.write_text(text, encoding="utf-8")
    print(f"{len(rows)} settings written to docs/settings.md")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
