"""Prints the table of docs/measurements/quic.md from results: ours against noq's own BBRv3, row by row.

python3 docs/measurements/quic/rows.py docs/measurements/quic/sim.csv
OURS=headway THEIRS=bbr3 python3 docs/measurements/quic/rows.py docs/measurements/headway/quic.csv

OURS and THEIRS name another pair. Takes any results.csv of `headway bench --transport noq --cc bbr3,noq-bbr3[,noq-cubic]` over the paths of `--suite quinn`.
"""

import csv
import math
import os
import re
import statistics
import sys

STREAMS = [1, 4, 8, 16]
OURS, THEIRS, CUBIC = os.environ.get("OURS", "bbr3"), os.environ.get("THEIRS", "noq-bbr3"), "noq-cubic"
# What counts as the same goodput, as the same queue, and as better.
SAME_GOODPUT, SAME_QUEUE, SAME_QUEUE_US = 0.99, 1.02, 500
BETTER_GOODPUT, BETTER_QUEUE = 1.10, 0.75


def short(path):
    loss = [word for word in path.split() if word.startswith("loss=")]
    return f"`… {loss[0]}`" if path.startswith("100mbit 180ms") and loss else f"`{path}`"


def read(files):
    """Path -> streams -> controller -> block -> (goodput, p95 of the queue)."""
    rows = {}
    for file in files:
        for r in csv.DictReader(open(file)):
            if r["status"] != "ok":
                continue
            path = re.sub(r" (streams=\d+|\d+ streams)$", "", r["path"])
            cells = rows.setdefault(path, {}).setdefault(int(r["streams"]), {}).setdefault(r["cc"], {})
            cells[r["block"]] = (float(r["goodput_bps"]), float(r["queue_delay_p95_us"]))
    return rows


def ratio(ours, theirs, what):
    """Hodges-Lehmann estimate of the ratio, from the blocks that both have."""
    logs = [math.log(max(ours[b][what], 1) / max(theirs[b][what], 1)) for b in ours if b in theirs]
    pairs = [(x + y) / 2 for i, x in enumerate(logs) for y in logs[i:]]
    return math.exp(statistics.median(pairs))


def median(cells, what):
    return statistics.median(c[what] for c in cells.values())


def percent(ratios):
    return ", ".join(f"{100 * (r - 1):+.0f}" for r in ratios) + " %"


def main(files):
    rows = read(files)
    has_cubic = any(CUBIC in cells for at in rows.values() for cells in at.values())
    columns = f"path | seeds | goodput, Mbit/s (`{THEIRS}`) | gain | p95 of the queue, ms (`{THEIRS}`) | change"
    columns = columns.split(" | ") + [f"of `{CUBIC}`, goodput"] * has_cubic
    print(f"| {' | '.join(columns)} |")
    print(f"| {' | '.join(['---'] * len(columns))} |")
    count = {"rows": 0, "goodput": 0, "better": 0, "queue": 0}
    for path, at in rows.items():
        streams = [s for s in STREAMS if s in at]
        goodput = [ratio(at[s][OURS], at[s][THEIRS], 0) for s in streams]
        queue = [ratio(at[s][OURS], at[s][THEIRS], 1) for s in streams]
        cubic = [ratio(at[s][OURS], at[s][CUBIC], 0) for s in streams if CUBIC in at[s]]
        for s, g, q in zip(streams, goodput, queue):
            longer = median(at[s][OURS], 1) - median(at[s][THEIRS], 1)
            count["rows"] += 1
            count["goodput"] += g >= SAME_GOODPUT
            count["better"] += g >= SAME_GOODPUT and (g >= BETTER_GOODPUT or q <= BETTER_QUEUE)
            count["queue"] += g >= SAME_GOODPUT and (q <= SAME_QUEUE or longer <= SAME_QUEUE_US)
        one = at[streams[0]]
        seeds = min(len(at[s][c]) for s in streams for c in (OURS, THEIRS))
        print(
            f"| {short(path)} | {seeds} | {median(one[OURS], 0) / 1e6:.3g} ({median(one[THEIRS], 0) / 1e6:.3g}) "
            f"| {percent(goodput)} | {median(one[OURS], 1) / 1e3:.1f} ({median(one[THEIRS], 1) / 1e3:.1f}) "
            f"| {percent(queue)} |" + f" {', '.join(f'{r:.1f}' for r in cubic)} |" * has_cubic
        )
    print(
        f"\n{count['rows']} rows: the same goodput or more on {count['goodput']}, of these better on {count['better']}; "
        f"goodput the same or more and the queue no longer on {count['queue']}."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
