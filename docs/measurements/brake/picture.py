"""Draws what a path and two flows did on it, from a run with --trace: rates, queueing delay, state and brake.

The picture of a drop, with and without the brake:

headway bench --in sim --cc bbr3,bbr3_brake --path drop-3x-50mbit-40ms-4bdp-5s --trace --blocks 1 --seconds 22 --out RUN
python3 docs/measurements/brake/picture.py RUN > docs/measurements/brake/drop.svg

Other stretches of time and other scales, in seconds, Mbit/s and milliseconds: picture.py RUN FROM TO MBIT MS WORDS
"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from panels import DELAY, DELIVERED, LEFT, LINK, Time, candidate, draw, frames, lines_legend, link_and_delay, rows, text

FROM_S, TO_S, MOST_MBIT, MOST_MS = map(float, sys.argv[2:6] or (8, 20, 75, 260))
WORDS = "".join(sys.argv[6:]) or "Rate, queueing delay, state and brake over a drop of the rate to a third"
TIME = Time(FROM_S, TO_S)
PANELS = [("rate, Mbit/s", 62, 140, MOST_MBIT), ("queueing delay, ms", 232, 114, MOST_MS)]
STATES = {1: "Startup", 2: "Drain", 3: "DOWN", 4: "CRUISE", 5: "REFILL", 6: "UP", 7: "ProbeRTT"}
STATE_FILL = {1: "#555555", 2: "#b0b0b0", 3: "#9ecae1", 4: "#e8eef4", 5: "#fdd0a2", 6: "#f28e2b", 7: "#bcbddc"}
BRAKE = {0: ("off", "#f2f2f2"), 1: ("DRAIN", "#b2182b"), 2: ("HOLD", "#f4a582")}
PACED = "#d95f02"


def cell(folder):
    """Series over seconds of the load: link rate, pacing rate, delivery, queueing delay, state, brake."""
    cc = candidate(folder)
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
    link, delay = link_and_delay(folder)
    return cc, link, paced, delivered, delay, states, brakes


def band(points, left, y, fill):
    """One rectangle for each stretch of one value."""
    seen = TIME.seen(points)
    ends = [i for i in range(1, len(seen)) if seen[i][1] != seen[i - 1][1]] + [len(seen) - 1]
    begin = 0
    for end in ends:
        a, b = TIME.x(seen[begin][0], left), TIME.x(seen[end][0], left)
        yield f'<rect x="{a:.1f}" y="{y}" width="{max(b - a, 0.6):.1f}" height="16" fill="{fill(seen[begin][1])}"/>'
        begin = end


def column(left, series):
    cc, link, paced, delivered, delay, states, brakes = series
    yield from frames(left, cc, PANELS)
    yield TIME.line(link, left, PANELS[0], LINK, 5)
    yield TIME.line(paced, left, PANELS[0], PACED, 1.6)
    yield TIME.line(delivered, left, PANELS[0], DELIVERED, 1.6)
    yield TIME.line(delay, left, PANELS[1], DELAY, 1.8)
    yield from band(states, left, 362, STATE_FILL.get)
    yield from band(brakes, left, 384, lambda mode: BRAKE[mode][1])
    yield from TIME.labels(left, 2, 418)


def legend(_cells):
    lines = [("link", LINK), ("pacing rate", PACED), ("delivered", DELIVERED), ("queueing delay", DELAY)]
    yield from lines_legend(lines, 446)
    at, y = LEFT, 466
    named = [(STATE_FILL[s], STATES[s]) for s in (3, 4, 5, 6, 7)] + [(c, f"brake: {n}") for n, c in BRAKE.values()]
    for colour, words in named:
        yield f'<rect x="{at}" y="{y - 11}" width="14" height="12" fill="{colour}" stroke="#999999" stroke-width="0.5"/>'
        yield text(at + 19, y, words)
        at += 38 + 7 * len(words)


draw(sys.argv[1], WORDS, 480, cell, column, legend)
