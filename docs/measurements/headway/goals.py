"""Prints the table of the goals that `headway` was built for, from what goals.sh has measured.

python3 docs/measurements/headway/goals.py FOLDER

Each figure is the median over the blocks with its 95 % interval, from the order of the values (a binomial distribution).
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


def median(values, digits):
    """The median and its interval, or an empty text without values."""
    values = sorted(values)
    if not values:
        return ""
    n = len(values)
    half = 0.98 * math.sqrt(n)
    low, high = values[max(0, math.floor(n / 2 - half))], values[min(n - 1, math.ceil(n / 2 + half) - 1)]
    if n < 6:
        return f"{statistics.median(values):.{digits}f}"
    return f"{statistics.median(values):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def number(name, factor=1.0):
    return lambda row: float(row[name]) * factor if row[name] else None


def share(row):
    own, rival = float(row["goodput_bps"]), float(row["rival_goodput_bps"])
    return 100 * own / (own + rival) if own + rival > 0 else None


def line(goal, rows, value, digits=2):
    cells = []
    for names in CANDIDATES:
        values = [value(row) for row in rows if row["cc"] in names]
        cells.append(median([v for v in values if v is not None], digits))
    print(f"| {goal} | " + " | ".join(cells) + " |")


def paths(rows):
    """The paths of a part, by the numbers in them: a run draws their order."""
    return sorted({row["path"] for row in rows}, key=lambda path: [float(n) for n in re.findall(r"\d+\.?\d*", path)])


def on(rows, path):
    return [row for row in rows if row["path"] == path]


def parts_of(goal, rows, value, digits=2):
    for path in paths(rows):
        line(f"{goal}, `{path}`", on(rows, path), value, digits)


def joins(rows):
    """How long two flows need, and how many runs need no more than 3 s or never come to a fair share."""
    for path in paths(rows):
        line(f"second flow: s to a fair share, `{path}`", on(rows, path), number("time_to_fair_ms", 1e-3), 1)
        cells = []
        for names in CANDIDATES:
            times = [float(r["time_to_fair_ms"]) / 1e3 for r in on(rows, path) if r["cc"] in names and r["time_to_fair_ms"]]
            count = sum(r["cc"] in names for r in on(rows, path))
            longest = max((float(r["time_to_fair_ms"]) / 1e3 for r in on(rows, path) if r["time_to_fair_ms"]), default=0)
            never = sum(t >= longest and t > 50 for t in times) + count - len(times)
            quick = sum(t <= 3 for t in times)
            cells.append(f"{100 * quick / count:.0f}, {100 * never / count:.0f}" if count else "")
        print("| % of runs within 3 s, never | " + " | ".join(cells) + " |")


def main():
    print("| goal | `bbr3` | BBRv1 | `headway` |\n| --- | --- | --- | --- |")
    for path in paths(rows := read("loss")):
        lost = float(path.rpartition("loss=")[2].rstrip("%"))
        line(f"of the link left by loss, % of 1−p, `{path}`", on(rows, path), number("utilisation", 1e4 / (100 - lost)), 1)
    parts_of("Mbit/s of `cubic` beside it", read("beside_loss"), number("rival_goodput_bps", 1e-6))
    parts_of("retransmitted, %", read("small"), number("retransmit_rate", 100))
    parts_of("retransmitted, %", read("policer"), number("retransmit_rate", 100))
    joins(read("join"))
    parts_of("p95 of the queue, ms", read("queue"), number("queue_delay_p95_us", 1e-3))
    parts_of("rate × 4: ms to 90 %", read("faster"), number("time_to_90_after_recovery_ms"), 0)
    parts_of("p95 of the queue, ms", read("vary"), number("queue_delay_p95_us", 1e-3), 0)
    parts_of("goodput, Mbit/s", read("vary"), number("goodput_bps", 1e-6))
    for rival in ("cubic", "bbr3", "bbr1"):
        parts_of(f"share beside `{rival}`, %", read(f"share_{rival}"), share, 0)
    parts_of("Mbit/s of `cubic` beside it", read("share_cubic"), number("rival_goodput_bps", 1e-6), 1)
    parts_of("share of 20 beside 160 ms, %", read("rtt"), share, 0)


main()
