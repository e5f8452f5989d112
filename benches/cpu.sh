#!/usr/bin/env bash
# CPU seconds per GB of bbr3 (ours, BPF) beside the kernel's own bbr, on the running kernel: a bulk transfer over loopback,
# and a flow paced at 1 Gbit/s. Needs root and an idle machine: it counts the work of the whole machine. Everything runs in
# a network namespace of its own, which ends with the script.
#
#	benches/cpu.sh [ROUNDS [SECONDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-10} seconds=${2:-10} headway=$PWD/target/release/headway

if [ "${IN_NAMESPACE-}" != 1 ]; then
	[ "$(id -u)" = 0 ] || { echo "error: needs root" >&2; exit 1; }
	cargo build --release --locked
	exec env IN_NAMESPACE=1 unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$rounds" "$seconds"
fi
export PATH=$PATH:$HOME/.cargo/bin
ip link set lo up
mount -t bpf none /sys/fs/bpf
name=hwcpu
"$headway" load bbr3 --as $name >/dev/null
trap '"$headway" unload $name >/dev/null' EXIT

# Work of the whole machine in seconds: what its CPUs did not spend idle, which the kernel measures; the time they were
# busy it only samples at every tick.
busy() { awk -v cpus="$(nproc)" -v tick="$(getconf CLK_TCK)" 'FILENAME ~ /uptime/ { up = $1 } /^cpu /{ idle = ($5 + $6) / tick }
	END { printf "%.3f", up * cpus - idle }' /proc/uptime /proc/stat; }

# Prints CPU seconds per GB and Mbit/s of one transfer.
transfer() { # CC [IPERF3-ARGUMENT ...]
	local cc=$1 before after
	shift
	iperf3 -s -1 -p 5203 >/dev/null 2>&1 &
	local server=$!
	until ss -tln | grep -q :5203; do sleep 0.05; done
	before=$(busy)
	iperf3 -c 127.0.0.1 -p 5203 -C "$cc" -t "$seconds" -J "$@" >"$json"
	after=$(busy)
	wait $server || true
	grep -q "\"sender_tcp_congestion\":[[:space:]]*\"$cc\"" "$json" || { echo "error: not sent with $cc" >&2; exit 1; }
	awk -v before="$before" -v after="$after" '
		/"sum_received"/ { inside = 1 }
		inside && /"bytes"/ { gsub(/[^0-9]/, ""); bytes = $0 }
		inside && /"bits_per_second"/ { sub(/.*:/, ""); rate = $0 + 0; exit }
		END { printf "%.4f %.0f\n", (after - before) / (bytes / 1e9), rate / 1e6 }' "$json"
}

json=$(mktemp)
trap '"$headway" unload $name >/dev/null; rm -f "$json"' EXIT
median() { sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

compare() { # TITLE [IPERF3-ARGUMENT ...]
	local title=$1 all
	shift
	all=$(for ((i = 0; i < rounds; i++)); do
		for cc in bbr $name; do echo "$cc $(transfer $cc "$@")"; done
	done)
	local theirs ours
	theirs=$(awk '$1 == "bbr" { print $2 }' <<<"$all" | median)
	ours=$(awk '$1 != "bbr" { print $2 }' <<<"$all" | median)
	echo "$title: bbr $theirs s/GB at $(awk '$1 == "bbr" { print $3 }' <<<"$all" | median) Mbit/s," \
		"bbr3 $ours s/GB at $(awk '$1 != "bbr" { print $3 }' <<<"$all" | median) Mbit/s," \
		"ratio of medians $(awk "BEGIN { printf \"%.3f\", $ours / $theirs }") ($rounds rounds of $seconds s)"
}
compare "loopback, bulk"
compare "loopback, paced at 1 Gbit/s" --fq-rate 1G
