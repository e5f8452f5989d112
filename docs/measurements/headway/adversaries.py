"""Prints the table of what could break `headway`, from what adversaries.sh has measured: medians over the blocks.

python3 docs/measurements/headway/adversaries.py FOLDER
"""

import csv
import pathlib
import re
import statistics
import sys

CANDIDATES = ["bbr3", "bbr1", "headway"]
# What a column shows: the name in results.csv, the factor, and the digits.
COLUMNS = [("goodput_bps", 1e-6, 2), ("queue_delay_p95_us", 1e-3, 1), ("retransmit_rate", 100, 2)]
PARTS = "loss loss_of_several late_cubic acks route steps extremes application leo".split()


def medians(rows, name, factor, digits):
    of = [[float(row[name]) * factor for row in rows if row["cc"] == cc and row[name]] for cc in CANDIDATES]
    values = [f"{statistics.median(values):.{digits}f}" if values else "–" for values in of]
    return f"{values[0]}, {values[1]}, **{values[2]}**"


def main(folder):
    print("| path | flows | goodput, Mbit/s | p95 of the queue, ms | sent again, % | Jain |")
    print("| --- | --- | --- | --- | --- | --- |")
    for part in PARTS:
        rows = list(csv.DictReader(open(folder / part / "results.csv")))
        kinds = {}
        for row in rows:
            path = re.sub(r" (streams=\d+|\d+ streams|on-off=\S+|against.*|stagger.*)$", "", row["path"])
            kinds.setdefault((path, int(row["streams"])), []).append(row)
        for (path, streams), own in sorted(kinds.items(), key=lambda kind: kind[0]):
            jain = medians(own, "jain", 1, 2) if streams > 1 or own[0]["rival_goodput_bps"] else ""
            flows = f"{streams}, and `cubic` 15 s later" if own[0]["rival_goodput_bps"] else f"{streams}"
            if part == "application":
                flows += ", 1 s on, 1 s off"
            cells = [medians(own, *column) for column in COLUMNS]
            print(f"| `{path}` | {flows} | " + " | ".join(cells) + f" | {jain} |")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
