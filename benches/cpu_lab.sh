#!/usr/bin/env bash
# CPU of a bulk TCP flow with our controllers beside the kernel's own bbr, counted in instructions.
#
#	benches/cpu_lab.sh [KERNEL [HEADWAY [RUNS]]]
#
# In the lab's guest time is a count of executed instructions, and over loopback nothing but the CPU limits a flow. So the
# seconds that a GB takes are the work that it costs, the same on every machine and on every run, where benches/cpu.sh
# needs an idle one. A run of half a second still depends on when it begins, by 1 to 2 %, so each figure is the mean of RUNS (5)
# that begin a millisecond apart. HEADWAY is the program to measure: give an older one to see what a change costs.
set -euo pipefail
cd "$(dirname "$0")/.."
kernel=${1:-6.12} headway=${2:-target/release/headway} runs=${3:-5}
[ -n "${2-}" ] || cargo build --release --locked

one_run() { # CC WAIT
	local load="headway load $1 --as measured" name=measured
	[ "$1" != bbr ] || load="headway list --loaded" name=bbr
	"$headway" in-lab --kernel "$kernel" "$load" "server & iperf3 -s -1 -p 5203" "wait $2" \
		"iperf3 -c 127.0.0.1 -p 5203 -C $name -n 1G -J" "server wait" |
		awk -v name="$name" '
			/"sender_tcp_congestion"/ { is_right = index($0, "\"" name "\"") }
			/"sum_received"/ { inside = 1 }
			inside && /"seconds"/ { gsub(/[^0-9.]/, ""); seconds = $0 }
			inside && /"bytes"/ { gsub(/[^0-9]/, ""); bytes = $0; inside = 0 }
			END { if (!is_right || !bytes) exit 1; printf "%.6f\n", seconds / (bytes / 1e9) }' ||
		{ echo "error: no result for $1: run \`$headway in-lab --kernel $kernel 'headway list'\`" >&2; exit 1; }
}

seconds_per_gb() { # CC
	for ((i = 0; i < runs; i++)); do one_run "$1" $((300 + i)); done |
		awk '{ sum += $1; if (!min || $1 < min) min = $1; if ($1 > max) max = $1 } END { printf "%.4f %.4f %.4f\n", sum / NR, min, max }'
}

read -r theirs least most < <(seconds_per_gb bbr)
echo "bbr (the kernel's own, Linux $kernel): $theirs s/GB of guest CPU ($least to $most)"
for cc in bbr1 bbr3 bbr1_brake bbr3_brake; do
	read -r ours least most < <(seconds_per_gb "$cc")
	echo "$cc: $ours s/GB ($least to $most), ratio to bbr $(awk "BEGIN { printf \"%.3f\", $ours / $theirs }")"
done
