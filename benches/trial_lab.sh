#!/usr/bin/env bash
# Does a trial find in real Linux TCP what is true there? Guests of the lab in which clients load files from nginx through one
# bottleneck: one trial with the first controller alone, one with the second alone, which together say what moving everybody
# changes, and the trial of both. Prints for each seed the trial's interval, and at the end how many hold the truth.
#
#	benches/trial_lab.sh [SEEDS [HEADWAY [KERNEL]]]     SEEDS: a number, or FIRST-LAST
#
# Folders of trials that are in target/trial-lab already are not made again. A seed takes some minutes of one core, because
# two minutes of virtual time pass in each of its three trials. CC=bbr,bbr3 tries others than cubic,bbr3; SLOTS, SLOT, BURN
# and PATH_TEXT change the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-10} headway=${2:-target/release/headway} kernel=${3:-6.12}
[ -n "${2-}" ] || cargo build --release --locked
CC=${CC:-cubic,bbr3} SLOTS=${SLOTS:-36} SLOT=${SLOT:-4} BURN=${BURN:-1500ms}
PATH_TEXT=${PATH_TEXT:-100mbit 30ms up=8mbit upqueue=120kB}
first=${seeds%-*} last=${seeds#*-}
[ "$first" != "$last" ] || first=1
for tool in nginx strip; do
	command -v $tool >/dev/null || { echo "error: $tool is not installed" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
# The guest unpacks the program into its memory: without what only debuggers read that takes a tenth of the time.
strip -o "$work/headway" "$headway"
results=target/trial-lab
mkdir -p "$work/root/etc" "$work/root/tmp" "$work/root/run/files" "$work/root/var/log/nginx" "$work/root/var/lib/headway" "$results"
printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$work/root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$work/root/etc/group"
for kb in 66 100 150 220; do head -c "${kb}000" /dev/zero >"$work/root/run/files/$kb"; done
cat >"$work/root/nginx.conf" <<'END'
daemon off;
master_process off;
pid /run/nginx.pid;
error_log stderr crit;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    keepalive_timeout 0;
    server { listen 8480; root /run/files; }
}
END
# Loads a file, thinks for a second in the mean, and again.
cat >"$work/root/clients.sh" <<'END'
client() {
	RANDOM=$1
	local sizes=(66 66 66 100 100 150 150 220)
	while :; do
		sleep "0.$((RANDOM % 9 + 1))"
		exec 3<>"/dev/tcp/$HEADWAY_PEER/8480" || continue
		printf 'GET /%s HTTP/1.0\r\n\r\n' "${sizes[RANDOM % 8]}" >&3
		cat <&3 >/dev/null
		exec 3>&-
	done
}
for i in 1 2 3 4 5 6 7 8; do client $((SEED * 100 + i)) & done
wait
END
cat >"$work/root/init.sh" <<'END'
exec 2>&1
export PATH=/bin
. /plan
mount -t cgroup2 none /sys/fs/cgroup
mkdir /sys/fs/cgroup/web
ip link set lo up
echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save
(echo 0 >/sys/fs/cgroup/web/cgroup.procs; exec nginx -e stderr -c /nginx.conf) &
sleep 0.5
/init emu "$PATH_TEXT" --seed "$SEED" -- bash /clients.sh &
sleep 2
for what in first second both; do
	case $what in
	first) cc=${CC%,*},${CC%,*} ;;
	second) cc=${CC#*,},${CC#*,} ;;
	both) cc=$CC ;;
	esac
	/init trial --cc "$cc" --cgroup web --port 8480 --for $((SLOTS * SLOT))s --slot "$SLOT" --burn-in "$BURN" --canary 0 \
		--max-harm 100 --seed "$SEED" --quiet --out "/tmp/$what"
	for file in trial.json connections.txt slots.txt ended.json; do
		echo "FILE $what/$file"
		cat "/tmp/$what/$file"
	done
done
echo "FILE end"
END
export CC SLOTS SLOT BURN PATH_TEXT
one() { # SEED
	local out=$results/$1
	[ -d "$out" ] && return
	{
		declare -p CC SLOTS SLOT BURN PATH_TEXT
		echo "SEED=$1"
	} >"$work/root/plan"
	"$work/headway" in-lab --kernel "$kernel" --tool bash,mount,mkdir,ip,nginx,sleep,cat --root "$work/root" "bash /init.sh" \
		>"$work/said" || { tail -n 5 "$work/said" >&2; exit 1; }
	rm -rf "$out.part"
	mkdir -p "$out.part/first" "$out.part/second" "$out.part/both"
	awk -v out="$out.part" '/^FILE / { file = out "/" $2; next } file { print >file }' "$work/said"
	[ -e "$out.part/both/ended.json" ] || { tail -n 20 "$work/said" >&2; exit 1; }
	mv "$out.part" "$out"
}
for seed in $(seq "$first" "$last"); do
	began=$(date +%s)
	one "$seed"
	echo "seed $seed: $(($(date +%s) - began)) s, $(grep -vc '#' "$results/$seed/both/connections.txt") connections" >&2
done

# `LOW IMPROVEMENT HIGH SIDE-BY-SIDE BASELINE` of a metric, as results.json has them at the depth of an effect.
effect() { # FOLDER METRIC
	"$headway" report "$1" >/dev/null
	awk -v metric="$2" '
		/^  "effects": / { inside = 1 }
		inside && /^      "(low|high|improvement)": / { gsub(/[",:]/, ""); of[$1] = $2 }
		inside && /^      "(baseline|side_by_side)": / { gsub(/[",:]/, ""); part = $1 }
		inside && part == "baseline" && /^        "median": / { gsub(/,/, ""); base = $2; part = "" }
		inside && part == "side_by_side" && /^        "improvement": / { gsub(/,/, ""); side = $2; part = "" }
		inside && /^      "metric": / { wanted = index($0, "\"" metric "\"") }
		inside && /^    }/ { if (wanted) { print of["low"] + 0, of["improvement"], of["high"] + 0, side + 0, base; exit } }' "$1/results.json"
}

# The truth is that of all seeds together, which no single one knows as well. Improvements are log ratios where it is counted with.
for metric in goodput_bytes_s rtt_above_min_p95_us; do
	for seed in $(seq "$first" "$last"); do
		echo "$seed" $(for what in first second both; do effect "$results/$seed/$what" $metric; done)
	done | awk -v metric=$metric -v lower="$([ $metric = goodput_bytes_s ] && echo 0 || echo 1)" '
		NF == 16 && $12 != $14 {
			ratio = lower ? $6 / $11 : $11 / $6
			sum += log(ratio); n++
			low[n] = $12; at[n] = $13; high[n] = $14; side[n] = $15; seed[n] = $1; own[n] = ratio - 1
		}
		END {
			if (!n) { print metric ": no seed has an interval"; exit }
			truth = exp(sum / n) - 1
			for (i = 1; i <= n; i++) {
				covers = low[i] <= truth && truth <= high[i]
				held += covers; off += side[i]
				printf "%s seed %s: %+.1f %% [%+.1f, %+.1f], alone %+.1f %%, side by side %+.1f %%%s\n", metric, seed[i], 100 * at[i],
					100 * low[i], 100 * high[i], 100 * own[i], 100 * side[i], covers ? "" : "  MISSED"
			}
			printf "%s: truth %+.1f %%, held by %d of %d intervals; side by side says %+.1f %% in the mean\n", metric, 100 * truth, held, n, 100 * off / n
		}'
done
