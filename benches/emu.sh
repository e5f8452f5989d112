#!/bin/sh
# The highest TCP throughput through an emulated path, one stream, beside mahimahi where it is installed.
#
#   benches/emu.sh [SECONDS [ROUNDS]]        as root, on an idle machine
#
# Every figure is the best of ROUNDS runs, taken in turn; a busy machine only ever lowers a figure.
# CC chooses the sender's congestion control (default: the kernel's; mahimahi runs as an ordinary user, who may
# use only what net.ipv4.tcp_allowed_congestion_control lists).
set -eu
seconds=${1:-4} rounds=${2:-3} cc=${CC:-$(cat /proc/sys/net/ipv4/tcp_congestion_control)}
[ "$(id -u)" = 0 ] || { echo "error: making namespaces needs root" >&2; exit 1; }
cd "$(dirname "$0")/.."
for tool in iperf3 setpriv; do
    command -v $tool >/dev/null || { echo "error: $tool is not installed" >&2; exit 1; }
done
cargo build --release --quiet -p headway-cli
headway=$PWD/target/release/headway
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$work"

# A mahimahi trace: N chances to send 1500 bytes, evenly over one second.
trace() { awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) print int(i * 1000 / n) }' | sed '$s/.*/1000/'; }
trace 833333 >"$work/10gbit"
trace 83333 >"$work/1gbit"
chmod 644 "$work"/*

# Mbit/s that the receiver counted, from the JSON of iperf3; 0 and a message when the run failed.
mbit() {
    awk -v errors="$work/errors" '
        /"error"/ { print >>errors }
        /"sum_received"/ { f = 1 }
        f && /"bits_per_second"/ { n = int($2 / 1e6); f = 0 }
        END { print n + 0 }'
}

run_headway() {
    # shellcheck disable=SC2016 # expanded inside
    timeout $((seconds + 20)) "$headway" emu "$1" --far 'exec iperf3 -s >/dev/null 2>&1' -- \
        sh -c 'iperf3 -c "$HEADWAY_PEER" "$@" -J' sh -t "$seconds" -C "$cc" 2>>"$work/errors" | mbit
}

# mahimahi wants to be set-uid root, started by a user, with forwarding on: in a namespace of its own.
cat >"$work/mahimahi" <<'END'
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
iperf3 -s >/dev/null 2>&1 & server=$!
seconds=$1 cc=$2
shift 2
setpriv --reuid=65534 --regid=65534 --clear-groups "$@" \
    sh -c 'iperf3 -c "$MAHIMAHI_BASE" "$@" -J' sh -t "$seconds" -C "$cc"
kill $server
END
run_mahimahi() {
    # shellcheck disable=SC2086 # a list of words
    timeout $((seconds + 20)) unshare --net sh "$work/mahimahi" "$seconds" "$cc" $1 2>>"$work/errors" | mbit
}

best() { [ "$1" -gt "$2" ] && echo "$1" || echo "$2"; }

row() { # title, path text, mahimahi program, its command line
    ours=0 theirs=0 i=0
    while [ $i -lt "$rounds" ]; do
        ours=$(best "$ours" "$(run_headway "$2")")
        if command -v "$3" >/dev/null; then theirs=$(best "$theirs" "$(run_mahimahi "$4")"); fi
        i=$((i + 1))
    done
    if [ "$theirs" -gt 0 ]; then ratio=$(awk "BEGIN { printf \"%.1f\", $ours / $theirs }"); else theirs=- ratio=-; fi
    printf '%-24s %14s %15s %7s\n' "$1" "$ours" "$theirs" "$ratio"
}

echo "best of $rounds runs of $seconds s, one $cc stream, $(nproc) cores, Linux $(uname -r)"
printf '%-24s %14s %15s %7s\n' path 'headway Mbit/s' 'mahimahi Mbit/s' ratio
row 'unshaped' 'unlimited 0ms' mm-delay 'mm-delay 0'
row '10 Gbit/s' '10gbit 0ms queue=1000pkt' mm-link \
    "mm-link --uplink-queue=droptail --uplink-queue-args=packets=1000 $work/10gbit $work/10gbit --"
row '1 Gbit/s x 20 ms' '1gbit 20ms queue=1bdp' mm-link \
    "mm-delay 10 mm-link --uplink-queue=droptail --uplink-queue-args=bytes=2500000 $work/1gbit $work/1gbit --"
sed -i '/ packets, /d' "$work/errors" # the tally that every run of headway ends with
[ ! -s "$work/errors" ] || { echo "messages of the runs:" >&2; sort "$work/errors" | uniq -c >&2; }
