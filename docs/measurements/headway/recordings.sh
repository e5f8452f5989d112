#!/usr/bin/env bash
# Measures `headway` on the recordings of cellular links that come with mahimahi, beside `bbr3` and BBRv1:
#
#   docs/measurements/headway/recordings.sh ~/mahimahi/traces 10 18001      the folder of the recordings, blocks, seed
#
# They are in the folder traces/ of github.com/ravinet/mahimahi. HEADWAY is the program (target/release/headway).
# The results are in the folder `recordings` here.
set -euo pipefail
traces=$(cd "$1" && pwd) blocks=$2 seed=$3
program=$(realpath "${HEADWAY:-target/release/headway}")
mkdir -p recordings
out=$(pwd)/recordings
# A path text names a recording as it is called in its folder.
cd "$traces"

part() {
    local name=$1
    shift
    "$program" bench --in sim --cc bbr3,bbr1,headway,headway:varying=0 --seconds 120 --blocks "$blocks" --seed "$seed" \
        "$@" --out "$out/$name"
}

both_ways() {
    local trace
    for trace; do
        for rtt in 40 80; do
            paths+=(--path "trace=$trace.down ${rtt}ms queue=1.5MB uptrace=$trace.up upqueue=1bdp")
        done
    done
}

# Held out, and those with which something was chosen.
paths=()
both_ways ATT-LTE-driving-2016 TMobile-LTE-short TMobile-UMTS-driving Verizon-EVDO-driving
part held-out "${paths[@]}"
paths=()
both_ways ATT-LTE-driving Verizon-LTE-short
paths+=(--path="trace=TMobile-LTE-driving.down "{40,80}"ms queue=1.5MB")
part chosen "${paths[@]}"
