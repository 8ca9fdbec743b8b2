"""Fill the marked tables of docs/performance.md from the result files.

python tools/gen_performance.py          rewrite the page
python tools/gen_performance.py --check  exit code 1 if the page differs from the result files
"""

from __future__ import annotations

import argparse
import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
_MARKS = re.compile(r"(<!-- begin: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def _report() -> ModuleType:
    """Load deepgemm.bench.report from the sources; it needs nothing that must be built."""
    path = ROOT / "python" / "deepgemm" / "bench" / "report.py"
    spec = importlib.util.spec_from_file_location("report", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def render(page: str, root: Path = ROOT) -> str:
    """Return the page with every marked table made anew."""
    report = _report()

    def fill(match: re.Match[str]) -> str:
        file = root / match.group(2)
        if not file.is_file():
            return f"{match.group(1)}No result file yet.\n{match.group(4)}"
        return match.group(1) + str(report.markdown(report.load(file))) + match.group(4)

    return _MARKS.sub(fill, page)


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    path = ROOT / "docs" / "performance.md"
    page = path.read_text(encoding="utf-8")
    made = render(page)
    if arguments.check:
        print("up to date" if made == page else "run python tools/gen_performance.py")
        return 0 if made == page else 1
    path.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
