"""Prints the table of the goals that `headway` was built for, from what goals.sh has measured.

python3 docs/measurements/headway/goals.py FOLDER

Each figure is the median over the blocks with its 95 % interval, from the order of the values (a binomial distribution). A goal is
reached (`yes`) if the median is on its side, `nearly` if the interval reaches it, and otherwise not (`no`).
"""

import csv
import math
import pathlib
import re
import statistics
import sys

FOLDER = pathlib.Path(sys.argv[1])
CANDIDATES = [("bbr3",), ("bbr1", "bbr"), ("headway",)]


def read(part):
    file = FOLDER / part / "results.csv"
    return list(csv.DictReader(open(file))) if file.exists() else []


def interval(values):
    """The median and the ends of its interval; with fewer than six values there is no interval."""
    values, n = sorted(values), len(values)
    middle = statistics.median(values)
    if n < 6:
        return middle, middle, middle
    half = 0.98 * math.sqrt(n)
    return middle, values[max(0, math.floor(n / 2 - half))], values[min(n - 1, math.ceil(n / 2 + half) - 1)]


def number(name, factor=1.0):
    return lambda row: float(row[name]) * factor if row[name] else None


def share(row):
    own, rival = float(row["goodput_bps"]), float(row["rival_goodput_bps"])
    return 100 * own / (own + rival) if own + rival > 0 else None


class AtMost:
    """A goal that figures below it reach; `times` is a multiple of what `bbr3` has."""

    def __init__(self, bound=None, times=None):
        self.bound, self.times = bound, times

    def value(self, bbr3):
        return self.bound if self.times is None else self.times * bbr3

    def text(self, bbr3, digits):
        bound = f"≤ {self.value(bbr3):.{digits}f}"
        if self.times is None:
            return bound
        return f"{bound} (as `bbr3`)" if self.times == 1 else f"{bound} ({self.times:g} × `bbr3`)"

    def verdict(self, own, bbr3):
        (middle, low, _), bound = own, self.value(bbr3)
        return "yes" if middle <= bound else "nearly" if low <= bound else "no"


class AtLeast(AtMost):
    """A goal that figures above it reach."""

    def text(self, bbr3, digits):
        return super().text(bbr3, digits).replace("≤", "≥")

    def verdict(self, own, bbr3):
        (middle, _, high), bound = own, self.value(bbr3)
        return "yes" if middle >= bound else "nearly" if high >= bound else "no"


class Between:
    """A share that is neither too small nor too large."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def text(self, _bbr3, digits):
        return f"{self.low:.{digits}f} to {self.high:.{digits}f}"

    def verdict(self, own, _bbr3):
        middle, low, high = own
        return "yes" if self.low <= middle <= self.high else "nearly" if high >= self.low and low <= self.high else "no"


def line(what, goal, rows, value, digits=2):
    found = []
    for names in CANDIDATES:
        values = [value(row) for row in rows if row["cc"] in names]
        values = [v for v in values if v is not None]
        found.append(interval(values) if values else None)
    if None in found:
        return
    shown = [f"{m:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]" for m, low, high in found]
    bbr3, own = found[0][0], found[2]
    print(f"| {what} | {' | '.join(shown)} | {goal.text(bbr3, digits)} | {goal.verdict(own, bbr3)} |")


def paths(rows):
    """The paths of a part, by the numbers in them: a run draws their order."""
    return sorted({row["path"] for row in rows}, key=lambda path: [float(n) for n in re.findall(r"\d+\.?\d*", path)])


def on(rows, path):
    return [row for row in rows if row["path"] == path]


def parts_of(what, goal, rows, value, digits=2):
    """One row for each path; `goal` is one for all, or one for each."""
    for path in paths(rows):
        line(f"{what}, `{path}`", goal.get(path) if isinstance(goal, dict) else goal, on(rows, path), value, digits)


def joins(rows):
    """How long two flows need, and how many runs never come to a fair share."""
    longest = max((float(row["time_to_fair_ms"]) for row in rows if row["time_to_fair_ms"]), default=0)
    for path in paths(rows):
        line(f"second flow: s to a fair share, `{path}`", AtMost(3), on(rows, path), number("time_to_fair_ms", 1e-3), 1)
        cells = []
        for names in CANDIDATES:
            times = [row["time_to_fair_ms"] for row in on(rows, path) if row["cc"] in names]
            never = sum(not t or float(t) >= longest > 50_000 for t in times)
            cells.append(100 * never / len(times))
        verdict = "yes" if cells[2] < 2 else "no"
        print(f"| never, % of the runs | {' | '.join(f'{cell:.1f}' for cell in cells)} | < 2 | {verdict} |")


def main():
    print("| what | `bbr3` | BBRv1 | `headway` | goal | reached |\n| --- | --- | --- | --- | --- | --- |")
    for path in paths(rows := read("loss")):
        lost = float(path.rpartition("loss=")[2].rstrip("%"))
        goal = AtLeast(90 if lost == 10 else 97)
        line(f"of the link left by loss, % of 1−p, `{path}`", goal, on(rows, path), number("utilisation", 1e4 / (100 - lost)), 1)
    parts_of("Mbit/s of `cubic` beside it", AtLeast(times=0.9), read("beside_loss"), number("rival_goodput_bps", 1e-6))
    parts_of("sent again by 8 flows, %", AtMost(times=1.2), read("small"), number("retransmit_rate", 100))
    parts_of("sent again, %", AtMost(times=1), read("policer"), number("retransmit_rate", 100))
    joins(read("join"))
    queue = {f"50mbit 40ms queue=1bdp streams={n}": AtMost(bound) for n, bound in ((1, 2.48), (2, 10), (8, 16))}
    parts_of("p95 of the queue, ms", queue, read("queue"), number("queue_delay_p95_us", 1e-3))
    parts_of("rate × 4: ms to 90 %", AtMost(320), read("faster"), number("time_to_90_after_recovery_ms"), 0)
    delay = {"lte-att": AtMost(750), "lte-tmo": AtMost(700), "wifi-var": AtMost(60)}
    parts_of("p95 of the queue, ms", delay, read("vary"), number("queue_delay_p95_us", 1e-3), 0)
    goodput = {"lte-att": AtLeast(times=0.95), "lte-tmo": AtLeast(times=0.95), "wifi-var": AtLeast(times=0.97)}
    parts_of("goodput, Mbit/s", goodput, read("vary"), number("goodput_bps", 1e-6))
    for rival in ("cubic", "bbr3", "bbr1"):
        parts_of(f"share beside `{rival}`, %", Between(40, 60), read(f"share_{rival}"), share, 0)
    parts_of("share of 20 beside 160 ms, %", Between(40, 60), read("rtt"), share, 0)


main()
