"""Prints the table of the goals that `headway` was built for, from what goals.sh has measured.

python3 docs/measurements/headway/goals.py FOLDER        from what goals.sh has measured
python3 docs/measurements/headway/goals.py FILE.csv      from the columns of it that the table needs, with the part's name before them
python3 docs/measurements/headway/goals.py keep FOLDER... > FILE.csv      makes such a file

Each figure is the median over the blocks with its 95 % interval, from the order of the values (a binomial distribution). After a share
comes what the middle 80 % of the blocks have, because one run of eight may be another story than the median tells. A goal is reached
(`yes`) if the median is on its side, `nearly` if the interval reaches it, and otherwise not (`no`).
"""

import csv
import math
import pathlib
import re
import statistics
import sys

FOLDER = pathlib.Path(sys.argv[1])
CANDIDATES = [("bbr3",), ("bbr1", "bbr"), ("headway",)]
# So many blocks have an interval of 95 %, and so many say what the middle 80 % of them are.
FEWEST, FEWEST_FOR_SPREAD = 6, 20


def read(part):
    if FOLDER.suffix == ".csv":
        return [row for row in csv.DictReader(open(FOLDER)) if row["part"] == part]
    file = FOLDER / part / "results.csv"
    return list(csv.DictReader(open(file))) if file.exists() else []


def keep(folders):
    """Prints the columns of all cells in these folders that the table needs."""
    columns = ["path", "cc", "block", "goodput_bps", "rival_goodput_bps", "utilisation", "retransmit_rate", "queue_delay_p95_us",
               "time_to_fair_ms", "time_to_90_after_recovery_ms"]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["part", *columns])
    for file in sorted(file for folder in folders for file in pathlib.Path(folder).glob("*/results.csv")):
        for row in csv.DictReader(open(file)):
            out.writerow([file.parent.name, *(row.get(name, "") for name in columns)])


def interval(values):
    """The median and the ends of its interval, which with too few values is the median itself."""
    values, n = sorted(values), len(values)
    middle = statistics.median(values)
    if n < FEWEST:
        return middle, middle, middle
    half = 0.98 * math.sqrt(n)
    return middle, values[max(0, math.floor(n / 2 - half))], values[min(n - 1, math.ceil(n / 2 + half) - 1)]


def number(name, factor=1.0):
    return lambda row: float(row[name]) * factor if row[name] else None


def share(row):
    own, rival = float(row["goodput_bps"]), float(row["rival_goodput_bps"])
    return 100 * own / (own + rival) if own + rival > 0 else None


class Goal:
    """What a figure should be: at least `least`, at most `most`; with `times_bbr3` these are multiples of what `bbr3` has."""

    def __init__(self, least=None, most=None, times_bbr3=False):
        self.least, self.most, self.times_bbr3 = least, most, times_bbr3

    def bounds(self, bbr3):
        factor = bbr3 if self.times_bbr3 else 1
        return [bound if bound is None else bound * factor for bound in (self.least, self.most)]

    def text(self, bbr3, digits):
        least, most = self.bounds(bbr3)
        if least is not None and most is not None:
            return f"{least:.{digits}f} to {most:.{digits}f}"
        text = f"≤ {most:.{digits}f}" if least is None else f"≥ {least:.{digits}f}"
        if not self.times_bbr3:
            return text
        times = self.most if least is None else self.least
        return f"{text} (as `bbr3`)" if times == 1 else f"{text} ({times:g} × `bbr3`)"

    def is_kept(self, low, high, bbr3):
        """Whether some figure between these two keeps the bounds."""
        least, most = self.bounds(bbr3)
        return (least is None or high >= least) and (most is None or low <= most)

    def verdict(self, own, bbr3):
        middle, low, high = own
        return "yes" if self.is_kept(middle, middle, bbr3) else "nearly" if self.is_kept(low, high, bbr3) else "no"


def spread(values):
    """From which value to which the middle 80 % are."""
    values, tenth = sorted(values), len(values) // 10
    return values[tenth], values[-1 - tenth]


def line(what, goal, rows, value, digits=2):
    """A row of the table. A candidate without figures, or with too few for an interval, has a dash or no interval."""
    figures = [[v for row in rows if row["cc"] in names and (v := value(row)) is not None] for names in CANDIDATES]
    cells = []
    for values in figures:
        middle, low, high = interval(values) if values else (0, 0, 0)
        ends = f" [{low:.{digits}f}, {high:.{digits}f}]" if len(values) >= FEWEST else ""
        if value is share and len(values) >= FEWEST_FOR_SPREAD:
            ends += ", {:.{d}f} to {:.{d}f}".format(*spread(values), d=digits)
        cells.append(f"{middle:.{digits}f}{ends}" if values else "–")
    reached = "– | –"
    if figures[2] and (figures[0] or not goal.times_bbr3):
        bbr3 = interval(figures[0])[0] if figures[0] else None
        reached = f"{goal.text(bbr3, digits)} | {goal.verdict(interval(figures[2]), bbr3)}"
    print(f"| {what} | {' | '.join(cells)} | {reached} |")


def paths(rows):
    """The paths of a part, by the numbers in them and their names: a run draws their order."""
    return sorted({row["path"] for row in rows}, key=lambda path: ([float(n) for n in re.findall(r"\d+\.?\d*", path)], path))


def on(rows, path):
    return [row for row in rows if row["path"] == path]


def parts_of(what, goal, rows, value, digits=2):
    """One row for each path; `goal` is one for all, or one for each."""
    for path in paths(rows):
        line(f"{what}, `{path}`", goal[path] if isinstance(goal, dict) else goal, on(rows, path), value, digits)


def joins(rows):
    """How long two flows need, and how many runs never come to a fair share."""
    longest = max((float(row["time_to_fair_ms"]) for row in rows if row["time_to_fair_ms"]), default=0)
    for path in paths(rows):
        line(f"second flow: s to a fair share, `{path}`", Goal(most=3), on(rows, path), number("time_to_fair_ms", 1e-3), 1)
        cells = []
        for names in CANDIDATES:
            times = [row["time_to_fair_ms"] for row in on(rows, path) if row["cc"] in names]
            never = sum(not t or float(t) >= longest > 50_000 for t in times)
            cells.append(100 * never / len(times) if times else None)
        verdict = "–" if cells[2] is None else "yes" if cells[2] < 2 else "no"
        print(f"| never, % of the runs | {' | '.join('–' if cell is None else f'{cell:.1f}' for cell in cells)} | < 2 | {verdict} |")


def main():
    print("| what | `bbr3` | BBRv1 | `headway` | goal | reached |\n| --- | --- | --- | --- | --- | --- |")
    for path in paths(rows := read("loss")):
        lost = float(path.rpartition("loss=")[2].rstrip("%"))
        goal = Goal(least=90 if lost == 10 else 97)
        line(f"of the link left by loss, % of 1−p, `{path}`", goal, on(rows, path), number("utilisation", 1e4 / (100 - lost)), 1)
    parts_of("Mbit/s of `cubic` beside it", Goal(least=0.9, times_bbr3=True), read("beside_loss"), number("rival_goodput_bps", 1e-6))
    parts_of("sent again by 8 flows, %", Goal(most=1.2, times_bbr3=True), read("small"), number("retransmit_rate", 100))
    parts_of("sent again, %", Goal(most=1, times_bbr3=True), read("policer"), number("retransmit_rate", 100))
    joins(read("join"))
    queue = {f"50mbit 40ms queue=1bdp streams={n}": Goal(most=bound) for n, bound in ((1, 2.48), (2, 10), (8, 16))}
    parts_of("p95 of the queue, ms", queue, read("queue"), number("queue_delay_p95_us", 1e-3))
    parts_of("rate × 4: ms to 90 %", Goal(most=320), read("faster"), number("time_to_90_after_recovery_ms"), 0)
    delay = {"lte-att": Goal(most=750), "lte-tmo": Goal(most=700), "wifi-var": Goal(most=60)}
    parts_of("p95 of the queue, ms", delay, read("vary"), number("queue_delay_p95_us", 1e-3), 0)
    goodput = {path: Goal(least=part, times_bbr3=True) for path, part in (("lte-att", 0.95), ("lte-tmo", 0.95), ("wifi-var", 0.97))}
    parts_of("goodput, Mbit/s", goodput, read("vary"), number("goodput_bps", 1e-6))
    for rival in ("cubic", "bbr3", "bbr1"):
        parts_of(f"share beside `{rival}`, %", Goal(40, 60), read(f"share_{rival}"), share, 0)
    parts_of("share of 20 beside 160 ms, %", Goal(40, 60), read("rtt"), share, 0)


if __name__ == "__main__":
    keep(sys.argv[2:]) if sys.argv[1] == "keep" else main()
