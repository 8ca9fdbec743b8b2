"""Draw a trace of the SM90 model (SM90_MODEL_TRACE) as a timeline.

    python tools/sm90_timeline.py trace.txt timeline.svg [first step [last step]]

One row for each warp, barrier and the asynchronous units: bars are waits, ticks are events; hover
over one to read what it is. Time is the scheduler's steps, not clocks.
"""

from __future__ import annotations

import argparse
import html
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROW, LEFT, WIDTH = 14, 260, 1600
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")
Event = tuple[int, str, str, str]  # step, row, kind, words


def read(path: Path) -> Iterator[Event]:
    """The events of a trace; its last launch if it has several."""
    events: list[Event] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        step, row, kind, words = line.split("|", 3)
        if events and int(step) < events[-1][0]:
            events.clear()  # the next launch counts from the start again
        events.append((int(step), row, kind, words))
    yield from events


def spans(events: list[Event]) -> Iterator[tuple[str, int, int, str]]:
    """Row, begin, end and words of each wait (an event has begin == end)."""
    open_waits: dict[str, tuple[int, str]] = {}
    for step, row, kind, words in events:
        if kind == "+":
            open_waits[row] = (step, words)
        elif kind == "-" and row in open_waits:
            begin, text = open_waits.pop(row)
            yield row, begin, step, text
        elif kind == "!":
            yield row, step, step, words
    last = events[-1][0]
    for row, (begin, text) in open_waits.items():
        yield row, begin, last, f"{text} (never over)"


def draw(events: list[Event], first: int, last: int) -> str:
    """The picture as SVG."""
    rows: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for row, begin, end, words in spans(events):
        if end >= first and begin <= last:
            rows[row].append((max(begin, first), min(end, last), words))
    scale = WIDTH / max(1, last - first)
    colours: dict[str, str] = {}
    parts = []
    for i, (row, marks) in enumerate(sorted(rows.items())):
        y = 20 + i * ROW
        parts.append(f'<text x="4" y="{y + 10}">{html.escape(row)}</text>')
        for begin, end, words in marks:
            colour = colours.setdefault(words.split(" ")[0], COLOURS[len(colours) % len(COLOURS)])
            parts.append(
                f'<rect x="{LEFT + (begin - first) * scale:.1f}" y="{y}" '
                f'width="{max(1.0, (end - begin) * scale):.1f}" height="{ROW - 3}" '
                f'fill="{colour}"><title>{html.escape(words)} ({begin} to {end})</title></rect>'
            )
    height = 30 + len(rows) * ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
        f'font-family="monospace" font-size="10"><text x="4" y="12">steps {first} to {last}</text>'
        + "".join(parts)
        + "</svg>\n"
    )


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("svg", type=Path)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("last", type=int, nargs="?")
    arguments = parser.parse_args()
    events = list(read(arguments.trace))
    if not events:
        parser.error(f"{arguments.trace} has no events")
    last = events[-1][0] if arguments.last is None else arguments.last
    arguments.svg.write_text(draw(events, arguments.first, last), encoding="utf-8")
    print(f"{arguments.svg}: {len(events)} events")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
