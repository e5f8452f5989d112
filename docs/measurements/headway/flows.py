"""Draws what each flow of a run got over time, and the queueing delay: a column for each candidate, from its first block.

python3 docs/measurements/headway/flows.py RUN TO_S MOST_MBIT MOST_MS WORDS > PICTURE.svg

The goodput is a mean over half a second. docs/measurements/headway.md has the commands of the pictures.
"""

import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from panels import DELAY, DELIVERED, LINK, Time, candidate, draw, frames, lines_legend, link_and_delay

TO_S, MOST_MBIT, MOST_MS = map(float, sys.argv[2:5])
TIME = Time(0.0, TO_S)
PANELS = [("goodput, Mbit/s", 62, 150, MOST_MBIT), ("queueing delay, ms", 242, 104, MOST_MS)]
FLOWS = [("first flow", DELIVERED), ("second flow", "#d95f02")]
MEAN_S = 0.5


def goodput(intervals, flow):
    """Mbit/s over half seconds."""
    bins = {}
    for interval in intervals:
        stream = interval["streams"][flow]
        part = int(stream["start"] / MEAN_S + 1e-6)
        bins[part] = bins.get(part, 0) + stream["bytes"] * 8e-6 / MEAN_S
    return [((part + 0.5) * MEAN_S, value) for part, value in sorted(bins.items())]


def cell(folder):
    """The candidate, the goodput of its flows, the rate of the link and the queueing delay, each over seconds."""
    intervals = json.loads((folder / "load.json").read_text())["intervals"]
    flows = [goodput(intervals, flow) for flow in range(len(intervals[0]["streams"]))]
    return candidate(folder), flows, *link_and_delay(folder)


def column(left, series):
    cc, flows, link, delay = series
    yield from frames(left, cc, PANELS)
    yield TIME.line(link, left, PANELS[0], LINK, 4)
    for (_, colour), points in zip(FLOWS, flows):
        yield TIME.line(points, left, PANELS[0], colour, 1.8)
    yield TIME.line(delay, left, PANELS[1], DELAY, 1.4)
    yield from TIME.labels(left, 5, 366)


def legend(cells):
    return lines_legend([("link", LINK), *FLOWS[: len(cells[0][1])], ("queueing delay", DELAY)], 392)


draw(sys.argv[1], sys.argv[5], 410, cell, column, legend)
