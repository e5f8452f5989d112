#!/usr/bin/env bash
# Examines `headway` in the simulator on paths that were drawn by lot, beside `bbr3` and BBRv1:
#
#   docs/measurements/headway/drawn.sh 6 38001 drawn            blocks, seed, folder
#   python3 docs/measurements/headway/drawn.py drawn           prints the tables
#
# HEADWAY is the program (target/release/headway). What is there already is not measured again.
set -euo pipefail
here=$(dirname "$0")
. "$here/measure.sh"
blocks=$1 seed=$2 folder=$3

examine() { # NAME SECTION ARGUMENTS...
    local name=$1 section=$2 paths
    shift 2
    mapfile -t paths < <(python3 "$here/drawn.py" draw "$section" | sed 's/^/--path=/')
    measure "$folder" "$name" bench --in sim --blocks "$blocks" --seed "$seed" "$@" "${paths[@]}"
}

for section in alone falls loss varies; do
    examine "$section" "$section" --cc bbr3,bbr1,headway --seconds 40
done
examine many many --cc bbr3,bbr1,headway --streams 4,16 --seconds 40
for rival in cubic bbr1 bbr3; do
    examine "beside_$rival" beside --cc bbr3,headway --against "$rival" --seconds 60
done
# After 5 s BBRv3 drains the queue (ProbeRTT), and who comes at that moment finds the path empty: so other moments, too.
for after in 5000 1700 3300 8300; do
    examine "newcomer_$after" newcomer --cc bbr3,bbr1,headway,headway:newcomer=0 --streams 2 --stagger "${after}ms" --seconds 60
done
