#!/usr/bin/env bash
# Runs the commands of headway.md that measure in the simulator with the page's seed, section by section:
#
#   docs/measurements/headway/simulator.sh headway-sim            what a command measures is in headway-sim/SECTION/1, 2, …
#   python3 docs/measurements/headway/tables.py headway-sim       prints the tables
#
# The commands are read from the page, so that they are the ones that a reader sees. HEADWAY is the program
# (target/release/headway). What is there already is not measured again, and an interrupted command goes on.
set -euo pipefail
. "$(dirname "$0")/measure.sh"
seed=35001
page=$(dirname "$0")/../headway.md
folder=$1

headway() {
    n=$((n + 1))
    measure "$folder" "$section/$n" "$@"
}

# Each block of commands becomes one, after the name of its section as a link would spell it.
blocks=$(awk -v seed="--seed $seed" '
    /^## / { name = tolower(substr($0, 4)); gsub(/[^a-z0-9 -]/, "", name); gsub(/ /, "-", name) }
    /^```sh$/ { inside = 1; text = ""; next }
    /^```$/ { if (inside && text ~ /--in sim/ && index(text, seed)) print "section=" name "; n=${counts[$section]:-0}\n" text "counts[$section]=$n"; inside = 0 }
    inside { text = text $0 "\n" }
' "$page")
declare -A counts
eval "$blocks"
