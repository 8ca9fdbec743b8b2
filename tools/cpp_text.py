"""Just enough reading of C++ text for the laws: includes, code without comments, function sizes.

Why not a parser: the laws need line counts and names, must run in a second with no dependency, and
the project's sources are clang-formatted, which makes brace matching exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_INCLUDE = re.compile(r"^\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", re.MULTILINE)
_TOKEN = re.compile(
    r"//[^\n]*"
    r"|/\*.*?\*/"
    r'|R"(?P<tag>[^(\s]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_NOT_A_FUNCTION = re.compile(
    r"^\s*(?:if|for|while|switch|do|else|try|catch|namespace|struct|class|union|enum|extern)\b"
)


@dataclass(frozen=True)
class Function:
    """A function body: its name, the line where its header begins, and its lines in all."""

    name: str
    line: int
    lines: int


def includes(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, target, quoted) of each #include."""
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(2)) + 1, match.group(2), match.group(1) == '"'


def blank_comments_and_strings(text: str) -> str:
    """Return the text with comments and literals blanked, line numbers kept."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group(0))

    return _TOKEN.sub(blank, text)


def _without_preprocessor(code: str) -> str:
    lines, continued = [], False
    for line in code.split("\n"):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.rstrip().endswith("\\")
        lines.append("" if directive else line)
    return "\n".join(lines)


def _function_name(header: str) -> str | None:
    """Name of the function that this text before a '{' declares, or None."""
    header = re.sub(r"\btemplate\s*<[^;{}]*?>(?=\s*\w)", " ", header)
    header = re.sub(r"__\w+__\s*\([^()]*\)+", " ", header)
    if "(" not in header or _NOT_A_FUNCTION.match(header):
        return None
    before = header[: header.index("(")]
    if "=" in before and "operator" not in before:
        return None
    names = re.findall(r"operator\s*\S+|[~\w:]+", before)
    return names[-1] if names else None


def functions(text: str) -> Iterator[Function]:
    """Yield every function with a body; lambdas and blocks count as part of their function."""
    code = _without_preprocessor(blank_comments_and_strings(text))
    start, depth_inside, current = 0, 0, None
    for position, char in enumerate(code):
        if current is not None:
            depth_inside += (char == "{") - (char == "}")
            if depth_inside == 0:
                name, begin = current
                first = code.count("\n", 0, begin) + 1
                yield Function(name, first, code.count("\n", 0, position) + 2 - first)
                current, start = None, position + 1
        elif char == "{":
            header = code[start:position]
            if (found := _function_name(header)) is not None:
                current = (found, start + len(header) - len(header.lstrip()))
                depth_inside = 1
            start = position + 1
        elif char in ";}":
            start = position + 1
