"""Paths drawn by lot for an examination of `headway`, and its tables.

python3 docs/measurements/headway/drawn.py draw SECTION    prints the paths of a section, one a line
python3 docs/measurements/headway/drawn.py FOLDER          prints the tables, from what drawn.sh has measured

Each number of a path is drawn from a range so that twice as much is as likely as half (a logarithmic scale). The draw is decided
by the seed below and the section's name alone, so everybody gets the same paths.
"""

import math
import random
import statistics
import sys

from tables import AGAIN, GOODPUT, P95, WORSE, Run, row, share

SEED = 20261129


def draw(name):
    lot = random.Random(f"{SEED} {name}")

    def number(low, high):
        return float(f"{math.exp(lot.uniform(math.log(low), math.log(high))):.2g}")

    def plain(low_mbit, high_mbit, low_ms, high_ms, low_bdp, high_bdp):
        rate, rtt, queue = number(low_mbit, high_mbit), number(low_ms, high_ms), number(low_bdp, high_bdp)
        return rate, f"{rate:g}mbit {rtt:g}ms queue={queue:g}bdp"

    def falls():
        rate, path = plain(8, 200, 8, 150, 0.5, 8)
        return f"{path} @10s {rate * number(0.1, 0.7):.3g}mbit @20s {rate:g}mbit"

    def varies():
        return f"trace=cell:{number(1.2, 80):g}mbit {number(15, 150):g}ms queue={number(200, 3000):g}kB"

    sections = {
        "alone": (60, lambda: plain(2, 400, 5, 300, 0.15, 8)[1]),
        "falls": (40, falls),
        "loss": (60, lambda: f"{plain(3, 200, 8, 200, 0.3, 4)[1]} loss={number(0.3, 10):g}%"),
        "varies": (30, varies),
        "beside": (30, lambda: plain(5, 200, 8, 150, 0.2, 16)[1]),
        "newcomer": (40, lambda: plain(5, 200, 8, 150, 0.3, 5)[1]),
        "many": (30, lambda: plain(20, 200, 8, 150, 0.05, 4)[1]),
    }
    count, one = sections[name]
    return [one() for _ in range(count)]


def worse(run, name, unit):
    """On how many paths `headway` is worse than `bbr3`, and where it is so by the most."""
    found = []
    for path in run.paths():
        theirs, own = (run.median(path, cc, name) for cc in ("bbr3", "headway"))
        if None not in (theirs, own) and WORSE[name](theirs, own):
            found.append((own / theirs if theirs else math.inf, path, theirs / unit, own / unit))
    # Of goodput and of Jain's index the smallest ratio is the worst, of all else the largest.
    found.sort(reverse=name not in (GOODPUT, "jain"))
    text = f"{len(found)} of {len(run.paths())}"
    return text + "".join(f"; `{path}` {own:.3g} in place of {theirs:.3g}" for _, path, theirs, own in found[:3])


def tables():
    for name in ("alone", "falls", "loss", "varies", "many"):
        run = Run(name)
        print(f"\n## {name}: to bbr3 over {len(run.paths())} rows: goodput, p95 of the queue, retransmitted, Jain's index\n")
        for cc in ("headway", "bbr1"):
            row(name, f"`{cc}`", run.ratio(cc, GOODPUT), run.ratio(cc, P95), run.ratio(cc, AGAIN), run.ratio(cc, "jain"))
        print("goodput less by more than 3 %:", worse(run, GOODPUT, 1e6), "Mbit/s")
        print("p95 longer by more than 10 % and 0.1 ms:", worse(run, P95, 1e3), "ms")
        print("retransmitted more by a fifth and 0.01 %:", worse(run, AGAIN, 0.01), "%")
        print("Jain's index less by 0.03:", worse(run, "jain", 1))
        if name == "loss":
            lost = {path: float(path.rpartition("loss=")[2].rstrip("%")) for path in run.paths()}
            for low, high in ((0, 1), (1, 3), (3, 6), (6, 11)):
                within = [path for path in run.paths() if low < lost[path] <= high]
                of = [[100 * run.median(path, cc, "utilisation") for path in within] for cc in ("bbr3", "bbr1", "headway")]
                row(f"{low} to {high} %", str(len(within)), *(f"{statistics.median(v):.0f} ({min(v):.0f} to {max(v):.0f})" for v in of))
    print("\n## beside: share of `bbr3` and of `headway`, median over the paths, least and most\n")
    for rival in ("cubic", "bbr1", "bbr3"):
        run = share(Run(f"beside_{rival}"))
        shares = {cc: [run.median(path, cc, "share") for path in run.paths()] for cc in ("bbr3", "headway")}
        row(f"`{rival}`", *(f"{statistics.median(v):.0f} ({min(v):.0f} to {max(v):.0f})" for v in shares.values()),
            *(f"{sum(40 <= x <= 60 for x in v)} of {len(v)}" for v in shares.values()), run.ratio("headway", GOODPUT))
        less = sorted((own - theirs, path, theirs, own) for path, theirs, own in zip(run.paths(), shares["bbr3"], shares["headway"]))
        print(*(f"`{path}` {own:.0f} in place of {theirs:.0f} %" for _, path, theirs, own in less[:3]), sep="; ")
    print("\n## newcomer: s to a fair share, mean, median; within 3 s; never, of all runs; p95, Jain's index to `bbr3`\n")
    for after in (5000, 1700, 3300, 8300):
        run = Run(f"newcomer_{after}")
        for cc in ("bbr3", "bbr1", "headway:newcomer=0", "headway"):
            took = [t / 1e3 for path in run.paths() for t in run.values(path, cc, "time_to_fair_ms")]
            # A run that never comes to a fair share has the time from the second flow's start to its end, in whole bins.
            never = sum(t > 60 - after / 1e3 - 0.6 for t in took)
            row(f"{after / 1e3:g} s", f"`{cc}`", f"{statistics.mean(took):.1f}", f"{statistics.median(took):.1f}",
                f"{100 * sum(t <= 3 for t in took) / len(took):.0f} %", f"{never} of {len(took)}", run.ratio(cc, P95), run.ratio(cc, "jain"))


if __name__ == "__main__":
    if sys.argv[1] == "draw":
        print("\n".join(draw(sys.argv[2])))
    else:
        tables()
