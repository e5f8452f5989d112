#!/usr/bin/env bash
# Measures the goals that `headway` was built for, each beside `bbr3` and BBRv1:
#
#   docs/measurements/headway/goals.sh sim 200 14001 goals-sim     in the simulator: 200 blocks, seed, folder
#   docs/measurements/headway/goals.sh lab 10 1 goals-lab          in real Linux TCP, in the lab
#   python3 docs/measurements/headway/goals.py goals-sim           prints the table
#
# HEADWAY is the program (target/release/headway), ONLY the names of the parts to run (all), CC the candidates, KERNEL the lab's kernel
# (the newest that was fetched). What is there already is not measured again, and an interrupted part goes on.
set -euo pipefail
. "$(dirname "$0")/measure.sh"
place=$1 blocks=$2 seed=$3 folder=$4
only=${ONLY:-loss beside_loss small policer join queue faster vary share_cubic share_bbr3 share_bbr1 rtt}
bbr1=bbr1
[ "$place" = sim ] || bbr1=bbr
kernel=${KERNEL:+--kernel $KERNEL}

part() {
    local name=$1
    shift
    [[ " $only " == *" $name "* ]] || return 0
    measure "$folder" "$name" bench --in "$place" $kernel --cc "${CC:-bbr3,$bbr1,headway}" --blocks "$blocks" --seed "$seed" "$@"
}

path='50mbit 40ms'
part loss --path="$path queue=1bdp loss="{1,2,3,5,10}% --seconds 30
part beside_loss --path="$path queue=1bdp loss="{0.5,1,3}% --against cubic --seconds 60
part small --path="$path queue=0.1bdp" --streams 8 --seconds 30
part policer --path="$path policer=20mbit/50kB" --streams 1,2,4,8 --seconds 30
part join --path="$path queue="{0.5,1,4}bdp --streams 2 --stagger 3s --seconds 60
part queue --path="$path queue=1bdp" --streams 1,2,8 --seconds 30
part faster --path="$path queue=1bdp @8s 12500kbit @20s 50mbit" --seconds 30
part vary --path lte-att,lte-tmo,wifi-var --seconds 60
for rival in cubic bbr3 "$bbr1"; do
    part "share_${rival/%bbr/bbr1}" --path="$path queue="{0.25,1,4,16}bdp --against "$rival" --seconds 60
done
part rtt --path='20mbit 20ms queue='{1,4,16}bdp --against same+140ms --seconds 120
