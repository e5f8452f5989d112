"""Draws what a path and two flows did on it, from a run with --trace: rates, queueing delay, state and brake.

The picture of a drop, with and without the brake:

headway bench --in sim --cc bbr3,bbr3_brake --path drop-3x-50mbit-40ms-4bdp-5s --trace --blocks 1 --seconds 22 --out RUN
python3 docs/measurements/brake/picture.py RUN > docs/measurements/brake/drop.svg

Other stretches of time and other scales, in seconds, Mbit/s and milliseconds: picture.py RUN FROM TO MBIT MS WORDS
"""

import json
import pathlib
import sys

FROM_S, TO_S, MOST_MBIT, MOST_MS = map(float, sys.argv[2:6] or (8, 20, 75, 260))
WORDS = "".join(sys.argv[6:]) or "Rate, queueing delay, state and brake over a drop of the rate to a third"
WIDTH, LEFT, GAP = 430, 52, 30
PANELS = [("rate, Mbit/s", 62, 140, MOST_MBIT), ("queueing delay, ms", 232, 114, MOST_MS)]
STATES = {1: "Startup", 2: "Drain", 3: "DOWN", 4: "CRUISE", 5: "REFILL", 6: "UP", 7: "ProbeRTT"}
STATE_FILL = {1: "#555555", 2: "#b0b0b0", 3: "#9ecae1", 4: "#e8eef4", 5: "#fdd0a2", 6: "#f28e2b", 7: "#bcbddc"}
BRAKE = {0: ("off", "#f2f2f2"), 1: ("DRAIN", "#b2182b"), 2: ("HOLD", "#f4a582")}
LINK, PACED, DELIVERED, DELAY = "#9a9a9a", "#d95f02", "#1f4e9c", "#1b7837"


def rows(file):
    with open(file) as text:
        names = text.readline().lstrip("# ").split()
        yield from (dict(zip(names, line.split())) for line in text)


def cell(folder):
    """Series over seconds of the load: link rate, pacing rate, delivery, queueing delay, state, brake."""
    cc = json.loads((folder / "cell.json").read_text())["cell"]["cc"]
    acks = [r for r in rows(folder / "acks.txt") if r["event"] == "1"]
    start = int(acks[0]["now_us"]) // 1_000_000 * 1_000_000
    paced, delivered, states, brakes, last = [], [], [], [], None
    for r in acks:
        t = (int(r["now_us"]) - start) / 1e6
        total = int(r["delivered"]) * int(r["unit_bytes"])
        states.append((t, int(r[f"{cc}.state"])))
        brakes.append((t, int(r[f"{cc}.brake_mode"])))
        if last is None or t - last[0] >= 0.05:
            paced.append((t, int(r["out.pacing_rate"]) * 8e-6))
            if last:
                delivered.append((t, (total - last[1]) * 8e-6 / (t - last[0])))
            last = (t, total)
    link = [(int(r["t_us"]) / 1e6, int(r["rate_bps"]) / 1e6) for r in rows(folder / "link.txt") if r["dir"] == "down"]
    probes = [(int(r["sent_us"]) / 1e6, int(r["rtt_us"])) for r in rows(folder / "probe.txt") if r["rtt_us"] != "-"]
    base = min(rtt for _, rtt in probes)
    delay = [(t, (rtt - base) / 1e3) for t, rtt in probes]
    return cc, link, paced, delivered, delay, states, brakes


def line(points, left, top, height, most, colour, width):
    seen = [(t, v) for t, v in points if FROM_S <= t <= TO_S]
    xy = " ".join(f"{x(t, left):.1f},{top + height * (1 - min(v, most) / most):.1f}" for t, v in seen)
    return f'<polyline points="{xy}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'


def x(t, left):
    return left + (t - FROM_S) / (TO_S - FROM_S) * WIDTH


def text(at, y, words, more=""):
    return f'<text x="{at:.1f}" y="{y}" {more}>{words}</text>'


def band(points, left, y, fill):
    """One rectangle for each stretch of one value."""
    seen = [(t, v) for t, v in points if FROM_S <= t <= TO_S]
    ends = [i for i in range(1, len(seen)) if seen[i][1] != seen[i - 1][1]] + [len(seen) - 1]
    begin = 0
    for end in ends:
        a, b = x(seen[begin][0], left), x(seen[end][0], left)
        yield f'<rect x="{a:.1f}" y="{y}" width="{max(b - a, 0.6):.1f}" height="16" fill="{fill(seen[begin][1])}"/>'
        begin = end


def column(left, series):
    cc, link, paced, delivered, delay, states, brakes = series
    yield text(left + WIDTH / 2, 26, cc, 'text-anchor="middle" font-size="15" font-weight="600"')
    for label, top, height, most in PANELS:
        yield f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{height}" fill="none" stroke="#cccccc"/>'
        yield text(left, top - 6, label, 'fill="#444444"')
        for part in range(1, 5):
            v, y = most * part / 5, top + height * (1 - part / 5)
            yield f'<line x1="{left}" x2="{left + WIDTH}" y1="{y}" y2="{y}" stroke="#eeeeee"/>'
            yield text(left - 5, y + 4, f"{v:.0f}", 'text-anchor="end" fill="#666666"')
    (_, top, height, most), (_, low, low_height, longest) = PANELS
    yield line(link, left, top, height, most, LINK, 5)
    yield line(paced, left, top, height, most, PACED, 1.6)
    yield line(delivered, left, top, height, most, DELIVERED, 1.6)
    yield line(delay, left, low, low_height, longest, DELAY, 1.8)
    yield from band(states, left, 362, STATE_FILL.get)
    yield from band(brakes, left, 384, lambda mode: BRAKE[mode][1])
    for second in range(int(FROM_S), int(TO_S) + 1, 2):
        yield text(x(second, left), 418, f"{second} s", 'text-anchor="middle" fill="#666666"')


def legend(y):
    at = LEFT
    for colour, words in [(LINK, "link"), (PACED, "pacing rate"), (DELIVERED, "delivered"), (DELAY, "queueing delay")]:
        yield f'<line x1="{at}" x2="{at + 20}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3"/>'
        yield text(at + 25, y, words)
        at += 45 + 7 * len(words)
    at, y = LEFT, y + 20
    named = [(STATE_FILL[s], STATES[s]) for s in (3, 4, 5, 6, 7)] + [(c, f"brake: {n}") for n, c in BRAKE.values()]
    for colour, words in named:
        yield f'<rect x="{at}" y="{y - 11}" width="14" height="12" fill="{colour}" stroke="#999999" stroke-width="0.5"/>'
        yield text(at + 19, y, words)
        at += 38 + 7 * len(words)


def main(run):
    cells = sorted((cell(f) for f in pathlib.Path(run, "cells").iterdir()), key=lambda series: series[0])
    width, height = LEFT + len(cells) * (WIDTH + GAP + LEFT) - LEFT, 480
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img" '
        f'aria-label="{WORDS}">'
    )
    print(f'<rect width="{width}" height="{height}" fill="#ffffff"/>')
    for index, series in enumerate(cells):
        print("\n".join(column(LEFT + index * (WIDTH + GAP + LEFT), series)))
    print("\n".join(legend(446)))
    print("</svg>")


main(sys.argv[1])
