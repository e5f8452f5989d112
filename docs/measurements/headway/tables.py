"""Prints the tables of headway.md that come from the simulator, from what simulator.sh has measured.

python3 docs/measurements/headway/tables.py FOLDER [SECTION]

A ratio to `bbr3` is the program's own: the geometric mean over the paths with its 95 % interval, from `means` of results.json. All
other figures are medians over the seeds.
"""

import csv
import json
import pathlib
import statistics
import sys

import goals

GOODPUT, P95, P99, AGAIN = "goodput_bps", "queue_delay_p95_us", "queue_delay_p99_us", "retransmit_rate"
BLIND = "headway:loss_blind_probes=1000000:loss_blind_hold=1"
# Whether a figure of `headway` is worse than that of `bbr3` by so much that it is named.
WORSE = {
    GOODPUT: lambda bbr3, own: own < 0.97 * bbr3,
    P95: lambda bbr3, own: own > 1.1 * bbr3 and own > bbr3 + 100,
    AGAIN: lambda bbr3, own: own > 1.2 * bbr3 and own > bbr3 + 1e-4,
    "jain": lambda bbr3, own: own < bbr3 - 0.03,
}
FOLDER = pathlib.Path(sys.argv[1])


class Run:
    """What one command has measured, in a folder of this name."""

    def __init__(self, *name):
        folder = FOLDER.joinpath(*map(str, name))
        self.rows = list(csv.DictReader(open(folder / "results.csv")))
        self.means = json.load(open(folder / "results.json"))["means"]

    def paths(self, holds=""):
        """The paths with this in their name."""
        return [path for path in goals.paths(self.rows) if holds in path]

    def values(self, path, cc, name, factor=1.0):
        return [float(row[name]) * factor for row in goals.on(self.rows, path) if row["cc"] == cc and row[name]]

    def median(self, path, cc, name, factor=1.0):
        values = self.values(path, cc, name, factor)
        return statistics.median(values) if values else None

    def ratio(self, cc, name):
        """The ratio to `bbr3` over all paths, with its interval, as the program has worked it out; nothing where it has none."""
        means = [mean for mean in self.means if (mean["candidate"], mean["metric"]) == (cc, name)]
        return text(means[0]["ratio"], means[0]["low"], means[0]["high"]) if means else ""


def text(middle, low, high):
    digits = 3 if middle < 2 else 2 if middle < 10 else 1
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def figures(run, path, candidates, name, factor, digits, bold="headway"):
    cells = []
    for cc in candidates:
        value = run.median(path, cc, name, factor)
        cell = "never" if value is None else f"{value:.{digits}f}" if isinstance(digits, int) else digits(value)
        cells.append(f"**{cell}**" if cc == bold else cell)
    return ", ".join(cells)


def row(*cells):
    print("| " + " | ".join(cells) + " |")


def share(run):
    for one in run.rows:
        one["share"] = str(goals.share(one))
    return run


def short(path):
    """A path without its buffer, loss and load, as the tables have it."""
    return " ".join(path.split()[:2])


def a_flow_by_itself(section):
    run = Run(section, 1)
    for cc in ("headway", "bbr1"):
        row(f"`{cc}`", run.ratio(cc, GOODPUT), run.ratio(cc, P95), run.ratio(cc, AGAIN))
    worst = sorted((run.median(p, "headway", P95) / run.median(p, "bbr3", P95), p) for p in run.paths())
    more = [run.median(p, "headway", GOODPUT) / run.median(p, "bbr3", GOODPUT) for p in run.paths()]
    print(f"p95 from {worst[0]} to {worst[-1]}; goodput {min(more):.3f} to {max(more):.3f}; p99 {run.ratio('headway', P99)}")
    run = Run(section, 2)
    for cc in ("headway", "bbr1"):
        row(f"`{cc}`", run.ratio(cc, GOODPUT), run.ratio(cc, P95))
    for path in run.paths("450ms queue=1bdp"):
        print(path, figures(run, path, ("bbr3", "headway"), GOODPUT, 1e-6, 1), figures(run, path, ("bbr3", "headway"), P95, 1e-3, 0))


def the_rate_falls_and_comes_back(section):
    run = Run(section, 1)
    for path in run.paths():
        what = ((P95, 1e-3, 0), ("time_to_90_after_recovery_ms", 1, 0))
        row(path, *(figures(run, path, ("bbr3", "bbr1", "headway"), *one) for one in what))
    print("headway", run.ratio("headway", GOODPUT), run.ratio("headway", P95))
    after, messages = "queue_delay_p99_after_drop_us", "message_delay_p99_us"
    for n in (2, 3):
        run = Run(section, n)
        for cc in ("headway", "bbr3_brake"):
            print(f"{cc}: p99 after the fall {run.ratio(cc, after)}, goodput {run.ratio(cc, GOODPUT)}, "
                  f"p99 of the messages {run.ratio(cc, messages)}")
        later = []
        for path in run.paths():
            own, brake = (run.median(path, cc, messages, 1e-3) for cc in ("headway", "bbr3_brake"))
            if own > 1.02 * brake and own > brake + 0.5:
                later.append(f"{path}: {own:.1f} in place of {brake:.1f}")
        print(f"messages are later on {len(later)} of {len(run.paths())} rows", *(later if n == 3 else later[:5]), sep="\n")
    run = Run(section, 4)
    ms = lambda value: f"{value:.0f}" if value >= 100 else f"{value:.1f}"
    for path in run.paths():
        row(path, *(figures(run, path, (cc,), P99, 1e-3, ms) for cc in ("bbr3", "bbr3_brake", "headway")))


def traffic_that_pauses(section):
    for n, load in ((1, "0.2 s, 0.8 s"), (2, "0.5 s, 2.5 s"), (3, "2 s, 6 s")):
        run = Run(section, n)
        for cc, name in (("headway", load), ("bbr1", "")):
            row(name, f"`{cc}`", *(run.ratio(cc, what) for what in (GOODPUT, P95, AGAIN)))


def several_flows(section):
    run = Run(section, 1)
    row("`headway`", *(run.ratio("headway", what) for what in (GOODPUT, P95, AGAIN)))
    for path in run.paths():
        print(path, *(figures(run, path, ("bbr3", "headway"), *what) for what in ((P95, 1e-3, 1), (AGAIN, 100, 2), ("jain", 1, 2))))


def beside_others(section):
    runs = [share(Run(section, n)) for n in (1, 2, 3)]
    for one in zip(*(run.paths() for run in runs)):
        row(one[0], *(figures(run, path, ("bbr3", "headway"), "share", 1, 0, None) for run, path in zip(runs, one)))
    for run, rival in zip(runs, ("cubic", "bbr1", "bbr3")):
        print(rival, run.ratio("headway", GOODPUT))


def harm(section):
    """What a rival has less than beside its own kind, as a share of that, from the runs with the same seed."""
    runs = [Run(section, n) for n in (1, 2, 3)]
    of = lambda run, path, cc: {one["block"]: one for one in goals.on(run.rows, path) if one["cc"] == cc}
    for paths in zip(*(run.paths() for run in runs)):
        cells = []
        for run, path, rival in zip(runs, paths, ("cubic", "bbr1", "bbr3")):
            own = of(run, path, rival)
            for cc in ("bbr3", "headway")[rival == "bbr3":]:
                pairs = [(one, own[block]) for block, one in of(run, path, cc).items()]
                times = lambda name: [float(one[name]) / float(alike[name]) for one, alike in pairs]
                middle, low, high = goals.interval([1 - left for left in times("rival_goodput_bps")])
                cells.append(f"{middle:.2f} [{low:.2f}, {high:.2f}], {statistics.median(times(P95)):.2f}".replace("-0.00", "0.00").replace("-", "−"))
        row(paths[0], *cells)


def each_part_by_itself(section):
    runs = [Run(section, n) for n in (1, 2, 3, 4, 5)]
    share(runs[2])
    plain, lossy, falls = (next(p for p in runs[0].paths() if sign(p)) for sign in (
        lambda p: "loss" not in p and "@" not in p, lambda p: "loss" in p, lambda p: "@" in p))
    names = list(dict.fromkeys(one["cc"] for one in runs[0].rows))
    for cc in sorted(names, key=lambda name: (name == "headway", "headway" in name, name)):
        f = lambda run, path, *what: figures(run, path, (cc,), *what, None)
        two, cubic, eight = (run.paths()[0] for run in runs[1:4])
        nine, fast = runs[4].paths()
        row(f"`{cc}`", *(f"{f(runs[0], p, GOODPUT, 1e-6, 1)}, {f(runs[0], p, P95, 1e-3, 1)}" for p in (plain, lossy)),
            f"{f(runs[0], falls, P95, 1e-3, 0)}, {f(runs[0], falls, 'time_to_90_after_recovery_ms', 1, 0)}",
            f(runs[1], two, "time_to_fair_ms", 1e-3, "{:g}".format), f(runs[2], cubic, "share", 1, 0),
            f"{f(runs[3], eight, AGAIN, 100, 2)}, {f(runs[3], eight, 'jain', 1, 2)}",
            f"{f(runs[4], nine, GOODPUT, 1e-6, 2)}, {f(runs[4], nine, P95, 1e-3, 0)}",
            f"({f(runs[4], fast, GOODPUT, 1e-6, 1)}, {f(runs[4], fast, P95, 1e-3, 0)} at 25 Mbit/s)")


def links_that_vary(section):
    for n, what, candidates in ((1, "links", ("headway", "headway:varying=0", "bbr1")),
                                (2, "links and another trouble", ("headway", "headway:varying=0", "bbr1")),
                                (3, "rows of 2, 4 and 8 flows", ("headway", "headway:varying=0"))):
        run = Run(section, n)
        for cc in candidates:
            row(f"{len(run.paths())} {what}", f"`{cc}`", run.ratio(cc, GOODPUT), run.ratio(cc, P95))
    runs = [share(Run(section, n)) for n in (4, 5, 6)]
    for one in zip(*(run.paths() for run in runs)):
        row(one[0], *(figures(run, path, ("bbr3", "headway", "headway:varying=0"), "share", 1, 0) for run, path in zip(runs, one)))


def by_loss(section):
    run = Run(section, 1)
    kinds = {}
    for path in run.paths():
        kinds.setdefault(short(path), []).append(path)
    for kind, paths in kinds.items():
        row(kind, *(f"{path.split(' ', 3)[3]}: " + figures(run, path, ("bbr3", "bbr1", "headway"), "utilisation", 100, 0) for path in paths))
    for cc in ("headway", "bbr1", "headway:loss_model=0"):
        print(cc, "goodput", run.ratio(cc, GOODPUT), "p95", run.ratio(cc, P95), "sent again", run.ratio(cc, AGAIN))


def losses_of_its_own(section):
    for n in (1, 2, 3):
        run = Run(section, n)
        for path in run.paths():
            again, jain = (figures(run, path, ("bbr3", "headway", "bbr1"), *what) for what in ((AGAIN, 100, 2), ("jain", 1, 2)))
            blind = figures(run, path, (BLIND,), "jain", 1, 2)
            row(path, again, *(() if path.endswith("streams=1") else (jain, f"(without the rule {blind})" if n == 1 else "")))
        for cc in ("headway", "headway:loss_model=0") + ((BLIND,) if n < 3 else ()):
            print(cc, "sent again", run.ratio(cc, AGAIN))


def beside_cubic(section):
    for n in (1, 2):
        run = Run(section, n)
        for path in run.paths():
            row(path, figures(run, path, ("bbr3", "headway", "bbr1"), "rival_goodput_bps", 1e-6, 1))
        for cc in ("headway", "bbr1", "headway:loss_model=0"):
            print(cc, "cubic has", run.ratio(cc, "rival_goodput_bps"))


def one_after_the_other(section):
    three = ("bbr3", "headway", "bbr1")
    run = Run(section, 1)
    for path in run.paths("join"):
        # A run that never has a fair share counts as one that took to its end.
        longest = max(value for cc in three for value in run.values(path, cc, "time_to_fair_ms", 1e-3))
        took = lambda value: "never" if value >= longest > 50 else f"{value:g}"
        row(f"`{path}`", figures(run, path, three, "time_to_fair_ms", 1e-3, took), figures(run, path, three, "jain", 1, 2),
            figures(run, path, three, AGAIN, 100, 2))
    run = Run(section, 2)
    of = ("bbr3", "headway", "headway:loss_model=0")
    for path in run.paths():
        row(path, figures(run, path, of, "jain", 1, 2), figures(run, path, of, AGAIN, 100, 2))
    runs = [Run(section, n) for n in (3, 4, 5, 6, 7)]
    all_of = {}
    candidates = ("bbr3", "headway", "headway:newcomer=0", "bbr1")
    for k in range(len(runs[0].paths())):
        cells = []
        for cc in candidates:
            took = [t for run in runs for t in run.values(run.paths()[k], cc, "time_to_fair_ms", 1e-3)]
            delay = [v for run in runs for v in run.values(run.paths()[k], cc, P95, 1e-3)]
            all_of.setdefault(cc, []).extend(took)
            cells.append(f"{statistics.mean(took):.1f}, {100 * sum(t <= 3 for t in took) / len(took):.0f} %, {statistics.median(delay):.0f} ms")
        row(runs[0].paths()[k], *cells)
    row("all runs", *(f"{statistics.mean(t):.1f}, {100 * sum(x <= 3 for x in t) / len(t):.0f} %" for t in (all_of[cc] for cc in candidates)))
    for n, rival in ((8, "cubic"), (9, "bbr1"), (10, "bbr3")):
        run = share(Run(section, n))
        most = max(abs(run.median(p, "headway", "share") - run.median(p, "headway:newcomer=0", "share")) for p in run.paths())
        print(f"beside {rival}: the room for a newcomer changes the share by at most {most:.1f} points")
    run = share(Run(section, 11))
    for cc in ("bbr3", "bbr1", "bbr3_brake", "headway", "headway:brake=0", "headway:varying=0"):
        shares = [run.values(path, cc, "share") for path in run.paths()]
        deepest = shares[-1]
        row(f"`{cc}`", *(f"{statistics.median(values):.0f}" for values in shares), f"{sum(value < 13 for value in deepest)} of {len(deepest)}")
    run = Run(section, 12)
    print("sent again", run.ratio("headway", AGAIN), run.ratio("headway:loss_model=0", AGAIN),
          "least Jain", min(run.median(p, "headway", "jain") for p in run.paths()))


def the_suites(section):
    count = 0
    for n, suite in enumerate(("bbr", "tcpeval", "pantheon", "ietf", "smoke"), 1):
        run = Run(section, n)
        count += len(run.paths())
        for path in run.paths():
            of = {name: [run.median(path, cc, name) for cc in ("bbr3", "headway")] for name in (GOODPUT, P95, AGAIN, "jain")}
            is_worse = {name: None not in of[name] and WORSE[name](*of[name]) for name in of}
            if any(is_worse.values()):
                cells = []
                for name, factor, kind in ((GOODPUT, 1e-6, "{:.3g}"), (P95, 1e-3, "{:.3g}"), (AGAIN, 100, "{:.3g}"), ("jain", 1, "{:.2f}")):
                    a, b = ("" if v is None else kind.format(v * factor) for v in of[name])
                    cells.append(f"{a}, **{b}**" if is_worse[name] else f"{a}, {b}" if b else "")
                row(f"`{suite}`", f"`{path}`", *cells)
    print(f"of {count} rows")


SECTIONS = {
    "a-flow-by-itself": a_flow_by_itself,
    "the-rate-falls-and-comes-back": the_rate_falls_and_comes_back,
    "traffic-that-pauses": traffic_that_pauses,
    "several-flows": several_flows,
    "beside-others": beside_others,
    "harm-to-the-neighbours": harm,
    "each-part-by-itself": each_part_by_itself,
    "links-that-vary": links_that_vary,
    "random-loss": by_loss,
    "random-loss-and-something-else": by_loss,
    "loss-in-bursts": by_loss,
    "losses-of-its-own": losses_of_its_own,
    "beside-cubic-on-a-path-that-loses-packets": beside_cubic,
    "flows-that-begin-one-after-the-other": one_after_the_other,
    "the-suites": the_suites,
}

if __name__ == "__main__":
    for name, prints in SECTIONS.items():
        if sys.argv[2:] in ([], [name]):
            print(f"\n## {name}\n")
            prints(name)
