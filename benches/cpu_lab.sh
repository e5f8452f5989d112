#!/usr/bin/env bash
# What a TCP flow costs with our controllers and with the kernel's own, in instructions of the whole machine, sender and
# receiver together, counted by the emulator: the same figures on every machine and on every run, idle or not.
#
#	benches/cpu_lab.sh [KERNELS [HEADWAY [RUNS]]]
#	benches/cpu_lab.sh profile CC [KERNEL [HEADWAY]]
#
# The flow is iperf3's over loopback in the lab's guest: 1 GB as fast as it goes, 1 Gbit/s for 1 s, and 100 Mbit/s for 8 s. A flow
# of a second still depends on when it begins, by 1 to 2 %, so each figure is the mean of RUNS (5) that begin a millisecond
# apart, and 3 s after the controller was loaded, when the kernel has freed what the loading took: 5 million instructions on 6.1.
# KERNELS is a list with commas (6.1,6.12,7.2). HEADWAY is the program to measure: give an older one to see what a
# change costs. `profile` says which functions the instructions of the bulk flow are in.
set -euo pipefail
cd "$(dirname "$0")/.."
loads=("-n 1G" "-n 125M --fq-rate 1G" "-n 100M --fq-rate 100M")
titles=("bulk, 1 GB" "1 Gbit/s" "100 Mbit/s")

load_of() { # CC: the command that loads it; sets `name`
	name=$1
	case $1 in
	bbr1* | bbr3* | headway)
		name=measured
		command="headway load $1 --as measured"
		;;
	*) command="headway list --loaded" ;;
	esac
}

if [ "${1-}" = profile ]; then
	kernel=${3:-6.12} headway=${4:-target/release/headway}
	[ -n "${4-}" ] || cargo build --release --locked
	load_of "${2:?which controller?}"
	"$headway" in-lab --kernel "$kernel" --tool iperf3,perf "$command" "server & iperf3 -s -1 -p 5203" "wait 3000" \
		"perf record -q -a -F 20000 -e cpu-clock -o /tmp/perf iperf3 -c 127.0.0.1 -p 5203 -C $name -n 1G" \
		"perf report -q -i /tmp/perf --stdio --sort symbol --percent-limit 0.4" "server wait" |
		grep -E '^ +[0-9.]+%'
	exit
fi

kernels=${1:-6.1,6.12,7.2} headway=${2:-target/release/headway} runs=${3:-5}
[ -n "${2-}" ] || cargo build --release --locked

# One flow in a guest of its own, because what a flow leaves behind would be in the figure of the next: prints a line
# `INSTRUCTIONS BYTES ACKS`.
one_flow() { # KERNEL CC WAIT LOAD
	local name command
	load_of "$2"
	"$headway" in-lab --kernel "$1" --tool iperf3,cat "$command" "server & iperf3 -s -1 -p 5203" "wait $3" \
		"cat /proc/net/netstat" count "iperf3 -c 127.0.0.1 -p 5203 -C $name -J $4" count "server wait" \
		"cat /proc/net/netstat" | awk -v name="$name" '
		/"sender_tcp_congestion"/ { is_right = index($0, "\"" name "\"") > 0 }
		/"sum_received"/ { inside = 1 }
		inside && /"bytes"/ { gsub(/[^0-9]/, ""); bytes = $0; inside = 0 }
		# The first line with a name has the columns, the second their values.
		/^TcpExt:/ && !has_head { for (i = 2; i <= NF; i++) at[$i] = i; has_head = 1; next }
		/^TcpExt:/ { acks[++m] = $at["TCPPureAcks"] + $at["TCPHPAcks"]; has_head = 0 }
		/^counted / && !instructions { instructions = $2 }
		END {
			if (!is_right || !bytes || !instructions || m != 2) exit 1
			print instructions, bytes, acks[2] - acks[1]
		}'
}

# A line for each load. A guest that the host gives no CPU for 30 s is given up and worth another try, as in `headway bench`; what
# fails for another reason would fail again.
one_run() { # KERNEL CC WAIT
	local load line
	for load in "${loads[@]}"; do
		line=$(one_flow "$@" "$load" 2>"$why") ||
			{ grep -q "did nothing for" "$why" && line=$(one_flow "$@" "$load" 2>"$why"); } || {
			cat "$why" >&2
			echo "error: no result for $2: run \`$headway in-lab --kernel $1 'headway list'\`" >&2
			exit 1
		}
		echo "$line"
	done
}

why=$(mktemp) # what a guest that failed has said
trap 'rm -f "$why"' EXIT
trap 'exit 130' INT TERM HUP
echo "instructions of the whole machine, mean of $runs runs"
printf '%-10s %-11s %-10s %14s %10s %10s %8s\n' kernel load controller "per byte" "per ACK" bytes/ACK "to bbr"
for kernel in ${kernels//,/ }; do
	for cc in bbr cubic bbr1 bbr1_brake bbr3 bbr3_brake headway; do
		for ((i = 0; i < runs; i++)); do one_run "$kernel" $cc $((3000 + i)) | awk -v cc=$cc '{ print NR, cc, $0 }'; done
	done | awk -v kernel="$kernel" -v titles="$(IFS=';'; echo "${titles[*]}")" '
		{ instructions[$1, $2] += $3; bytes[$1, $2] += $4; acks[$1, $2] += $5; if (!seen[$2]++) order[++n] = $2 }
		END {
			split(titles, title, ";")
			for (load = 1; load <= 3; load++)
				for (i = 1; i <= n; i++) {
					cc = order[i]
					per_byte = instructions[load, cc] / bytes[load, cc]
					if (cc == "bbr") base = per_byte
					printf "%-10s %-11s %-10s %14.4f %10.0f %10.0f %8.3f\n", kernel, title[load], cc, per_byte,
						instructions[load, cc] / acks[load, cc], bytes[load, cc] / acks[load, cc], per_byte / base
				}
		}'
done
