"""Draws what each flow of a run got over time, and the queueing delay: a column for each candidate, from its first block.

python3 docs/measurements/headway/flows.py RUN TO_S MOST_MBIT MOST_MS WORDS > PICTURE.svg

The goodput is a mean over half a second. docs/measurements/headway.md has the commands of the pictures.
"""

import json
import pathlib
import sys

TO_S, MOST_MBIT, MOST_MS = map(float, sys.argv[2:5])
WORDS = sys.argv[5]
WIDTH, LEFT, GAP = 430, 52, 30
PANELS = [("goodput, Mbit/s", 62, 150, MOST_MBIT), ("queueing delay, ms", 242, 104, MOST_MS)]
FLOWS, LINK, DELAY = [("first flow", "#1f4e9c"), ("second flow", "#d95f02")], "#9a9a9a", "#1b7837"
MEAN_S = 0.5


def rows(file):
    with open(file) as text:
        names = text.readline().lstrip("# ").split()
        yield from (dict(zip(names, line.split())) for line in text)


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
    cc = json.loads((folder / "cell.json").read_text())["cell"]["cc"]
    intervals = json.loads((folder / "load.json").read_text())["intervals"]
    flows = [goodput(intervals, flow) for flow in range(len(intervals[0]["streams"]))]
    link = [(int(r["t_us"]) / 1e6, int(r["rate_bps"]) / 1e6) for r in rows(folder / "link.txt") if r["dir"] == "down"]
    probes = [(int(r["sent_us"]) / 1e6, int(r["rtt_us"])) for r in rows(folder / "probe.txt") if r["rtt_us"] != "-"]
    base = min(rtt for _, rtt in probes)
    return cc, flows, link, [(t, (rtt - base) / 1e3) for t, rtt in probes]


def text(at, y, words, more=""):
    return f'<text x="{at:.1f}" y="{y}" {more}>{words}</text>'


def x(t, left):
    return left + t / TO_S * WIDTH


def line(points, left, panel, colour, width):
    _, top, height, most = panel
    xy = " ".join(f"{x(t, left):.1f},{top + height * (1 - min(v, most) / most):.1f}" for t, v in points if t <= TO_S)
    return f'<polyline points="{xy}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'


def column(left, series):
    cc, flows, link, delay = series
    yield text(left + WIDTH / 2, 26, cc, 'text-anchor="middle" font-size="15" font-weight="600"')
    for label, top, height, most in PANELS:
        yield f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{height}" fill="none" stroke="#cccccc"/>'
        yield text(left, top - 6, label, 'fill="#444444"')
        for part in range(1, 5):
            v, y = most * part / 5, top + height * (1 - part / 5)
            yield f'<line x1="{left}" x2="{left + WIDTH}" y1="{y}" y2="{y}" stroke="#eeeeee"/>'
            yield text(left - 5, y + 4, f"{v:.0f}", 'text-anchor="end" fill="#666666"')
    yield line(link, left, PANELS[0], LINK, 4)
    for (_, colour), points in zip(FLOWS, flows):
        yield line(points, left, PANELS[0], colour, 1.8)
    yield line(delay, left, PANELS[1], DELAY, 1.4)
    for second in range(0, int(TO_S) + 1, 5):
        yield text(x(second, left), 366, f"{second} s", 'text-anchor="middle" fill="#666666"')


def legend(flows, y):
    at = LEFT
    for words, colour in [("link", LINK), *FLOWS[:flows], ("queueing delay", DELAY)]:
        yield f'<line x1="{at}" x2="{at + 20}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3"/>'
        yield text(at + 25, y, words)
        at += 45 + 7 * len(words)


def main(run):
    cells = sorted((cell(f) for f in pathlib.Path(run, "cells").iterdir()), key=lambda series: series[0])
    width, height = LEFT + len(cells) * (WIDTH + GAP + LEFT) - LEFT, 410
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img" '
        f'aria-label="{WORDS}">'
    )
    print(f'<rect width="{width}" height="{height}" fill="#ffffff"/>')
    for index, series in enumerate(cells):
        print("\n".join(column(LEFT + index * (WIDTH + GAP + LEFT), series)))
    print("\n".join(legend(len(cells[0][1]), 392)))
    print("</svg>")


main(sys.argv[1])
