"""What the pictures of a run have in common: a column of panels over time for each candidate, drawn as SVG.

brake/picture.py and headway/flows.py use it.
"""

import json
import pathlib

WIDTH, LEFT, GAP = 430, 52, 30
LINK, DELIVERED, DELAY = "#9a9a9a", "#1f4e9c", "#1b7837"


def rows(file):
    with open(file) as text:
        names = text.readline().lstrip("# ").split()
        yield from (dict(zip(names, line.split())) for line in text)


def candidate(folder):
    return json.loads((folder / "cell.json").read_text())["cell"]["cc"]


def link_and_delay(folder):
    """The rate of the link in Mbit/s and the queueing delay in ms, each over seconds."""
    link = [(int(r["t_us"]) / 1e6, int(r["rate_bps"]) / 1e6) for r in rows(folder / "link.txt") if r["dir"] == "down"]
    probes = [(int(r["sent_us"]) / 1e6, int(r["rtt_us"])) for r in rows(folder / "probe.txt") if r["rtt_us"] != "-"]
    base = min(rtt for _, rtt in probes)
    return link, [(t, (rtt - base) / 1e3) for t, rtt in probes]


def text(at, y, words, more=""):
    return f'<text x="{at:.1f}" y="{y}" {more}>{words}</text>'


class Time:
    """The seconds that a picture shows, from left to right in a column."""

    def __init__(self, from_s, to_s):
        self.from_s, self.to_s = from_s, to_s

    def x(self, t, left):
        return left + (t - self.from_s) / (self.to_s - self.from_s) * WIDTH

    def seen(self, points):
        return [(t, v) for t, v in points if self.from_s <= t <= self.to_s]

    def line(self, points, left, panel, colour, width):
        _, top, height, most = panel
        seen = self.seen(points)
        xy = " ".join(f"{self.x(t, left):.1f},{top + height * (1 - min(v, most) / most):.1f}" for t, v in seen)
        return f'<polyline points="{xy}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'

    def labels(self, left, every, y):
        for second in range(int(self.from_s), int(self.to_s) + 1, every):
            yield text(self.x(second, left), y, f"{second} s", 'text-anchor="middle" fill="#666666"')


def frames(left, title, panels):
    """The title of a column and its empty panels, each (label, top, height, most)."""
    yield text(left + WIDTH / 2, 26, title, 'text-anchor="middle" font-size="15" font-weight="600"')
    for label, top, height, most in panels:
        yield f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{height}" fill="none" stroke="#cccccc"/>'
        yield text(left, top - 6, label, 'fill="#444444"')
        for part in range(1, 5):
            v, y = most * part / 5, top + height * (1 - part / 5)
            yield f'<line x1="{left}" x2="{left + WIDTH}" y1="{y}" y2="{y}" stroke="#eeeeee"/>'
            yield text(left - 5, y + 4, f"{v:.0f}", 'text-anchor="end" fill="#666666"')


def lines_legend(named, y):
    """The colours of lines and what they mean."""
    at = LEFT
    for words, colour in named:
        yield f'<line x1="{at}" x2="{at + 20}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3"/>'
        yield text(at + 25, y, words)
        at += 45 + 7 * len(words)


def draw(run, words, height, cell, column, legend):
    """Prints the picture: `cell` reads a folder into a series that begins with the candidate, and `column` and `legend` draw it."""
    cells = sorted((cell(f) for f in pathlib.Path(run, "cells").iterdir()), key=lambda series: series[0])
    width = LEFT + len(cells) * (WIDTH + GAP + LEFT) - LEFT
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img" '
        f'aria-label="{words}">'
    )
    print(f'<rect width="{width}" height="{height}" fill="#ffffff"/>')
    for index, series in enumerate(cells):
        print("\n".join(column(LEFT + index * (WIDTH + GAP + LEFT), series)))
    print("\n".join(legend(cells)))
    print("</svg>")
