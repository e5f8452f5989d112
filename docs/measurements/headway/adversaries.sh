#!/usr/bin/env bash
# Measures what could break `headway`, beside `bbr3` and BBRv1, in the simulator:
#
#   docs/measurements/headway/adversaries.sh 10 19001 adversaries       blocks, seed, folder
#   python3 docs/measurements/headway/adversaries.py adversaries       prints the table
#
# HEADWAY is the program (target/release/headway). What is there already is not measured again.
set -euo pipefail
. "$(dirname "$0")/measure.sh"
blocks=$1 seed=$2 folder=$3

attack() {
    local name=$1
    shift
    measure "$folder" "$name" bench --in sim --cc bbr3,bbr1,headway --blocks "$blocks" --seed "$seed" "$@"
}

path='60mbit 35ms queue=1bdp'
attack loss --seconds 50 --path="$path "{'@15s loss=4% @35s loss=0%','loss=square:0%/5%/6s','reorder=3%/10ms','jitter=5ms reorder'} \
    --path="60mbit 35ms queue="{'codel loss=1%','codel ecn loss=1%','1bdp ce=3ms','1bdp policer=20mbit/50kB loss=1%'}
attack loss_of_several --seconds 50 --streams 2,8,32 --path="60mbit 35ms queue="{'0.05bdp loss=1%','1bdp loss=1%','1bdp policer=20mbit/50kB loss=1%'}
attack late_cubic --seconds 60 --against cubic --stagger 15s --path="60mbit 35ms queue="{1,4}'bdp loss=1%'
attack acks --seconds 40 --path="$path "{'up=400kbit','up=400kbit upqueue=10pkt','upjitter=10ms','uploss=10%','ackagg=20ms','jitter=10ms/50ms'}
attack route --seconds 50 --path="$path "{'@15s 53ms @30s 35ms','@15s 18ms @30s 35ms','@15s 70ms','@15s 0mbit @17s 60mbit'}
attack steps --seconds 50 --path="60mbit 35ms queue=2bdp "{'@15s 66mbit','@15s 54mbit','@15s 90mbit @30s 60mbit','@15s 30mbit @30s 60mbit','@15s 6mbit @30s 60mbit','@10s 600mbit'} \
    --path='60mbit 35ms queue=2bdp '{'repeat=700ms @350ms 20mbit','repeat=2s @1s 20mbit','repeat=5s @2s 6mbit'}
attack extremes --seconds 30 --path={'1gbit 200us queue=1bdp','1mbit 40ms queue=4pkt','500kbit 100ms queue=8bdp','2mbit 10ms queue=2bdp','60mbit 400ms queue=1bdp','60mbit 35ms queue=1pkt','60mbit 35ms queue=50bdp'}
attack application --seconds 40 --on-off 1s/1s --path="$path" --path="60mbit 35ms queue=1bdp loss=1%" --path leo
attack leo --seconds 60 --path leo --streams 1,4
