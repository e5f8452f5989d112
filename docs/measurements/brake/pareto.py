"""Draws docs/measurements/brake/pareto.svg: what each change of a parameter gives and takes after drops.

python3 docs/measurements/brake/pareto.py docs/measurements/brake/search.csv > docs/measurements/brake/pareto.svg
"""

import csv
import sys

WIDTH, HEIGHT, LEFT, TOP = 700, 390, 70, 70
PANEL_W, PANEL_H = 540, 250
X, Y = (0.365, 0.420), (0.981, 1.002)
CHOSEN, FINE, ACTS = "#b2182b", "#1f4e9c", "#9a9a9a"
# Beyond this the brake acts where nothing is wrong.
MOST_ROUNDS, LEAST_THROUGHPUT = 1.0, 0.99


def at(x, y):
    return (
        LEFT + (x - X[0]) / (X[1] - X[0]) * PANEL_W,
        TOP + (Y[1] - y) / (Y[1] - Y[0]) * PANEL_H,
    )


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'


def dot(row, colour, size, fill):
    x, y = at(float(row["p99_ratio"]), float(row["bytes_ratio"]))
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{fill}" stroke="{colour}"><title>{row["cc"]}</title></circle>'


def label(row, turn):
    """The setting, where it stands apart from the others."""
    x, y = at(float(row["p99_ratio"]), float(row["bytes_ratio"]))
    setting = row["cc"].partition(":brake_")[2]
    return text(x + 8, y + 3, setting, f'font-size="10" fill="#444444" transform="rotate({turn} {x:.1f} {y:.1f})"')


def front(rows):
    """Those that no other beats in both, from the least delay on."""
    best = -1.0
    for row in sorted(rows, key=lambda r: float(r["p99_ratio"])):
        if float(row["bytes_ratio"]) > best:
            best = float(row["bytes_ratio"])
            yield row


def main(file):
    rows = list(csv.DictReader(open(file)))
    steady = {r["cc"]: r for r in rows if (r["suite"], r["group"]) == ("steady", "all")}
    drops = [r for r in rows if (r["suite"], r["group"]) == ("drops", "1bdp or more")]
    inside = [r for r in drops if X[0] <= float(r["p99_ratio"]) <= X[1]]

    def is_quiet(row):
        s = steady[row["cc"]]
        return float(s["braked_rounds_percent"]) <= MOST_ROUNDS and float(s["bytes_ratio"]) >= LEAST_THROUGHPUT

    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img" '
        'aria-label="Queueing delay after a drop against throughput, for each change of a parameter">'
    )
    print(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>')
    print(f'<rect x="{LEFT}" y="{TOP}" width="{PANEL_W}" height="{PANEL_H}" fill="none" stroke="#cccccc"/>')
    for tick in range(37, 43):
        x, _ = at(tick / 100, Y[0])
        print(text(x, TOP + PANEL_H + 16, f"{tick / 100:.2f}", 'text-anchor="middle" fill="#666666"'))
    for tick in range(982, 1003, 4):
        _, y = at(X[0], tick / 1000)
        print(f'<line x1="{LEFT}" x2="{LEFT + PANEL_W}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eeeeee"/>')
        print(text(LEFT - 6, y + 4, f"{tick / 1000:.3f}", 'text-anchor="end" fill="#666666"'))
    print(text(LEFT, TOP - 12, "throughput, of the plain controller&#8217;s", 'fill="#444444"'))
    below = "p99 queueing delay in the 10 s after a drop, of the plain controller&#8217;s (less is better)"
    print(text(LEFT + PANEL_W / 2, TOP + PANEL_H + 34, below, 'text-anchor="middle" fill="#444444"'))
    points = " ".join("{:.1f},{:.1f}".format(*at(float(r["p99_ratio"]), float(r["bytes_ratio"]))) for r in front(filter(is_quiet, inside)))
    print(f'<polyline points="{points}" fill="none" stroke="{FINE}" stroke-dasharray="4 3"/>')
    apart = [r for r in inside if not 0.372 <= float(r["p99_ratio"]) <= 0.385 or float(r["bytes_ratio"]) < 0.995 or float(r["bytes_ratio"]) > 0.998]
    apart.sort(key=lambda r: float(r["p99_ratio"]))
    print("\n".join(label(row, (35, -35)[n % 2]) for n, row in enumerate(apart)))
    for row in sorted(inside, key=lambda r: ":" not in r["cc"]):
        plain = ":" not in row["cc"]
        colour = CHOSEN if plain else FINE if is_quiet(row) else ACTS
        print(dot(row, colour, 6 if plain else 4, colour if is_quiet(row) else "#ffffff"))
    x = LEFT
    for colour, fill, words in [
        (CHOSEN, CHOSEN, "chosen"),
        (FINE, FINE, "one parameter changed"),
        (ACTS, "#ffffff", "acts where nothing is wrong"),
    ]:
        print(f'<circle cx="{x + 6}" cy="{HEIGHT - 14}" r="5" fill="{fill}" stroke="{colour}"/>')
        print(text(x + 16, HEIGHT - 10, words))
        x += 40 + 7 * len(words)
    print("</svg>")


main(sys.argv[1])
