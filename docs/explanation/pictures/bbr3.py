"""Draws the pictures of docs/explanation/bbr3.md: one for each state of BBRv3, from one simulated run.

headway bench --in sim --cc bbr3 --path '50mbit 40ms queue=4bdp' --trace --blocks 1 --seconds 14 --out RUN
python3 docs/explanation/pictures/bbr3.py RUN docs/explanation/pictures
"""

import pathlib
import sys

RATE_MBIT, RTT_S = 50.0, 0.040
BDP = RATE_MBIT * 1e6 / 8 * RTT_S
STATES = {1: "Startup", 2: "Drain", 3: "DOWN", 4: "CRUISE", 5: "REFILL", 6: "UP", 7: "ProbeRTT"}
# Name of the file: state, how many times it has been entered before, seconds shown before and after it.
PICTURES = {
    "startup": (1, 0, 0.0, 0.15),
    "drain": (2, 0, 0.15, 0.15),
    "down": (3, 0, 0.25, 0.3),
    "cruise": (4, 0, 0.2, 0.3),
    "refill": (5, 0, 0.15, 0.15),
    "up": (6, 0, 0.15, 0.25),
    "probe_rtt": (7, 0, 0.3, 0.4),
}
WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 370, 40, 10, 40, 78, 30
LINK, PACED, WINDOW, FLIGHT, QUEUE = "#9a9a9a", "#c24e00", "#6a51a3", "#1f4e9c", "#1b7837"


def rows(file):
    with open(file) as text:
        names = text.readline().lstrip("# ").split()
        yield from (dict(zip(names, line.split())) for line in text)


def read(run):
    """Seconds since the load began, beside the state and the series of the panels."""
    (folder,) = pathlib.Path(run, "cells").iterdir()
    acks = list(rows(folder / "acks.txt"))
    start = int(acks[0]["now_us"]) // 1_000_000 * 1_000_000
    seconds = [(int(r["now_us"]) - start) / 1e6 for r in acks]
    states = [int(r["bbr3.state"]) for r in acks]

    def column(name, factor):
        return [(t, int(r[name]) * int(r["unit_bytes"]) * factor) for t, r in zip(seconds, acks) if r["event"] == "1"]

    paced = [(t, int(r["out.pacing_rate"]) * 8e-6) for t, r in zip(seconds, acks)]
    probes = [(int(r["sent_us"]) / 1e6, int(r["rtt_us"])) for r in rows(folder / "probe.txt") if r["rtt_us"] != "-"]
    base = min(rtt for _, rtt in probes)
    queue = [(t, (rtt - base) / 1e3) for t, rtt in probes]
    return seconds, states, paced, column("inflight", 1 / BDP), column("out.cwnd", 1 / BDP), queue


def spans(seconds, states):
    """Stretches of one state: (state, from, to)."""
    begin = 0
    for i in range(1, len(states) + 1):
        if i == len(states) or states[i] != states[begin]:
            yield states[begin], seconds[begin], seconds[min(i, len(states) - 1)]
            begin = i


class Panels:
    """The panels of one picture, over one stretch of time."""

    def __init__(self, begin, end):
        self.begin, self.end, self.out = begin, end, []

    def x(self, t):
        return LEFT + (min(max(t, self.begin), self.end) - self.begin) / (self.end - self.begin) * (WIDTH - LEFT - RIGHT)

    def top(self, panel):
        return TOP + panel * (PANEL + GAP)

    def text(self, x, y, words, more=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>')

    def shade(self, begin, end, colour):
        a, b = self.x(begin), self.x(end)
        for panel in range(3):
            self.out.append(
                f'<rect x="{a:.1f}" y="{self.top(panel)}" width="{max(b - a, 1):.1f}" height="{PANEL}" fill="{colour}"/>'
            )

    def frame(self, panel, most, names):
        top, bottom = self.top(panel), self.top(panel) + PANEL
        self.out.append(
            f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{PANEL}" fill="none" stroke="#bbbbbb"/>'
        )
        at = LEFT
        for words, colour in names:
            self.text(at, top - 6, words, f'fill="{colour}" font-weight="600"')
            at += 7.2 * len(words) + 14
        for part in (0, 0.5, 1):
            y = bottom - PANEL * part
            self.out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#dddddd"/>')
            self.text(LEFT - 5, y + 4, f"{most * part:g}", 'text-anchor="end" fill="#555555"')

    def line(self, panel, most, points, colour, more="", steps=False):
        """The points as a line; with `steps` a value holds until the next one."""
        seen, last = [], None
        for t, v in points:
            if t <= self.begin:
                last = v
            elif t < self.end:
                if last is not None and not seen:
                    seen.append((self.begin, last))
                if steps and seen and seen[-1][1] != v:
                    seen.append((t, seen[-1][1]))
                seen.append((t, v))
        columns = {}
        for t, v in seen:
            columns.setdefault(round(self.x(t)), []).append(min(v, most))
        # Of each column of pixels the first, the least, the largest and the last value are drawn.
        xy = []
        for at, values in columns.items():
            ends = [values[0], min(values), max(values), values[-1]]
            ys = [f"{self.top(panel) + PANEL * (1 - v / most):.1f}" for v in ends]
            xy += [f"{at},{y}" for i, y in enumerate(ys) if i == 0 or y != ys[i - 1]]
        self.out.append(
            f'<polyline points="{" ".join(xy)}" fill="none" stroke="{colour}" stroke-width="1.8" {more}/>'
        )

    def times(self):
        y, length = self.top(2) + PANEL + 16, self.end - self.begin
        step = next(s for s in (0.05, 0.1, 0.2, 0.5, 1, 2) if length / s <= 7)
        tick = -(-self.begin // step) * step
        while tick <= self.end + 1e-9:
            self.text(self.x(tick), y, f"{tick:.4g}", 'text-anchor="middle" fill="#555555"')
            tick += step
        self.text(WIDTH / 2, y + 16, "seconds since the start", 'text-anchor="middle" fill="#555555"')

    def svg(self, label):
        height = self.top(2) + PANEL + 40
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{label}">\n'
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(self.out) + "\n</svg>\n"
        )


def draw(series, begin, end, marked, label):
    _, _, paced, flight, window, queue = series
    panels = Panels(begin, end)
    for _, a, b in marked:
        panels.shade(a, b, "#fff0c8")
    seen = [v for t, v in paced if begin <= t <= end] + [RATE_MBIT]
    fastest = next(m for m in (60, 80, 100, 150, 200) if m >= max(seen))
    fullest = max(v for t, v in flight + window if begin <= t <= end)
    fullest = next(m for m in (1, 2, 3, 4, 6, 8) if m >= fullest)
    longest = max(v for t, v in queue if begin <= t <= end)
    longest = next(m for m in (4, 10, 20, 40, 80, 120, 160) if m >= longest)
    panels.frame(0, fastest, [("pacing rate", PACED), ("link, Mbit/s", "#666666")])
    panels.line(0, fastest, [(begin - 1, RATE_MBIT), (begin, RATE_MBIT), (end - 1e-6, RATE_MBIT)], LINK)
    panels.line(0, fastest, paced, PACED, steps=True)
    panels.frame(1, fullest, [("in flight", FLIGHT), ("window, in BDP", WINDOW)])
    panels.line(1, fullest, window, WINDOW, 'stroke-dasharray="5 3"', steps=True)
    panels.line(1, fullest, flight, FLIGHT)
    panels.frame(2, longest, [("queueing delay, ms", QUEUE)])
    panels.line(2, longest, queue, QUEUE)
    panels.times()
    return panels.svg(label)


def main(run, folder):
    series = read(run)
    stretches = [s for s in spans(*series[:2]) if s[0] in STATES]
    for name, (state, skip, before, after) in PICTURES.items():
        marked = [s for s in stretches if s[0] == state][skip]
        panels_from, panels_to = max(0, marked[1] - before), marked[2] + after
        label = f"Pacing rate, data in flight and queueing delay of BBRv3 around {STATES[state]}"
        file = pathlib.Path(folder, f"bbr3-{name.replace('_', '-')}.svg")
        file.write_text(draw(series, panels_from, panels_to, [marked], label))
        print(file, f"{STATES[state]} from {marked[1]:.3f} to {marked[2]:.3f} s")
    whole = [s for s in stretches if s[0] in (6, 7)]
    label = "Pacing rate, data in flight and queueing delay of BBRv3 over twelve seconds"
    pathlib.Path(folder, "bbr3-whole.svg").write_text(draw(series, 0, 12, whole, label))


main(*sys.argv[1:])
