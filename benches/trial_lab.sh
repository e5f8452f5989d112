#!/usr/bin/env bash
# Does a trial find in real Linux TCP what is true there? In guests of the lab clients load files from nginx through a
# bottleneck that they share. What moving everybody changes is known from guests in which everybody has the one controller and
# from guests in which everybody has the other; each further guest makes one trial of both. The last lines say how many of
# the trials' intervals have the truth in them, and what connections side by side say instead.
#
#	benches/trial_lab.sh [SEEDS [HEADWAY [KERNEL]]]     SEEDS: a number, or FIRST-LAST
#	COST=1 benches/trial_lab.sh ...                     instead: what do the clients notice of a trial? Each guest runs twice,
#	                                                    with a trial of the first controller against itself and with none
#
# Trials that are in target/trial-lab already are not made again, so other settings need another folder: RESULTS=DIR. A trial
# takes about half as much CPU time as virtual time. CC=bbr,bbr3 tries others than cubic,bbr1; SLOTS, SLOT, BURN and PATH_TEXT
# change the rest, and TRUTHS how many guests show the truth (0: none).
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-10} headway=${2:-target/release/headway} kernel=${3:-6.12}
[ -n "${2-}" ] || cargo build --release --locked
CC=${CC:-cubic,bbr1} SLOTS=${SLOTS:-20} SLOT=${SLOT:-3000} BURN=${BURN:-600ms} TRUTHS=${TRUTHS:-8}
PATH_TEXT=${PATH_TEXT:-100mbit 60ms up=12mbit upqueue=1bdp uploss=3%}
case $seeds in *-*) ;; *) seeds=1-$seeds ;; esac
first=${seeds%-*} last=${seeds#*-}
for tool in nginx strip perl jq; do
	command -v $tool >/dev/null || { echo "error: $tool is not installed" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
# The guest unpacks the program into its memory: without what only debuggers read that takes a tenth of the time.
strip -o "$work/headway" "$headway"
results=${RESULTS:-target/trial-lab}
mkdir -p "$work/root/etc" "$work/root/tmp" "$work/root/run/files" "$work/root/var/log/nginx" "$results"
printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$work/root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$work/root/etc/group"
for kb in 100 150 220; do head -c "${kb}000" /dev/zero >"$work/root/run/files/$kb"; done
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
# One process, since starting programs costs a guest more than what they do. Without modules, which would have to come along:
# 2 is AF_INET, 1 SOCK_STREAM, 2048 SOCK_NONBLOCK, and the system call 228 clock_gettime.
cat >"$work/root/clients.pl" <<'END'
# Each of so many clients loads a file, thinks for 0.5 s in the mean, and loads the next. The log has a line for each download:
# when it ended, how long it took, bytes.
my ($clients, $seed, $peer) = @ARGV;
srand($seed);
$SIG{PIPE} = 'IGNORE';
my @sizes = (100, 150, 220);
my $to = pack('S n C4 x8', 2, 8480, split(/\./, $peer));
my $clock = pack('x16');
sub now { syscall(228, 1, $clock); my ($s, $ns) = unpack('q q', $clock); $s + $ns / 1e9 }
sub later { now() - 0.5 * log(1 - rand()) }
my (%open, $data);
open(my $log, '>', '/tmp/downloads.txt') or die "log: $!";
select((select($log), $| = 1)[0]);
my @due = map { later() } 1 .. $clients;
while (1) {
	my $t = now();
	@due = sort { $a <=> $b } @due;
	while (@due && $due[0] <= $t) {
		shift @due;
		socket(my $s, 2, 1 | 2048, 0) or die "socket: $!";
		connect($s, $to);
		$open{fileno($s)} = [$s, 0, $t, 0];
	}
	my ($read, $write) = ('', '');
	vec($open{$_}[1] ? $read : $write, $_, 1) = 1 for keys %open;
	select($read, $write, undef, @due ? $due[0] - $t : undef);
	for my $fd (keys %open) {
		my $went = 1;
		if (vec($write, $fd, 1)) {
			$went = syswrite($open{$fd}[0], "GET /$sizes[rand @sizes] HTTP/1.0\r\n\r\n");
			$open{$fd}[1] = 1;
		} elsif (vec($read, $fd, 1)) {
			$went = sysread($open{$fd}[0], $data, 65536);
			$open{$fd}[3] += $went;
		}
		next if $went;
		printf $log "%.6f %.6f %d\n", now(), now() - $open{$fd}[2], $open{$fd}[3];
		close $open{$fd}[0];
		delete $open{$fd};
		push @due, later();
	}
}
END
cat >"$work/root/init.sh" <<'END'
exec 2>&1
export PATH=/bin
. /plan
export SEED
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/web /var/lib/nginx
ip link set lo up
echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save
(echo 0 >/sys/fs/cgroup/web/cgroup.procs; exec nginx -e stderr -c /nginx.conf) &
sleep 0.5
/init emu "$PATH_TEXT" --seed "$SEED" -- bash -c 'exec perl /clients.pl 10 $SEED $HEADWAY_PEER' &
sleep 2
read -r began _ </proc/uptime
if [ "$CC" = none ]; then
	sleep $((SLOTS * SLOT / 1000))
else
	/init trial --cc "$CC" --cgroup web --port 8480 --for $((SLOTS * SLOT))ms --slot "${SLOT}ms" --burn-in "$BURN" --canary 0 \
		--max-harm 100 --seed "$SEED" --quiet --out /tmp/trial
	for file in trial.json connections.txt slots.txt ended.json; do
		echo "FILE $file"
		cat "/tmp/trial/$file"
	done
fi
echo "FILE downloads.txt"
echo "# began $began"
cat /tmp/downloads.txt
echo "FILE end"
# The server and the clients would hold the guest up for ever.
kill -9 -1
END
trial() { # FOLDER CONTROLLERS SEED
	local out=$results/$1
	[ -d "$out" ] && return
	{
		declare -p SLOTS SLOT BURN PATH_TEXT
		echo "CC=$2 SEED=$3"
	} >"$work/root/plan"
	"$work/headway" in-lab --kernel "$kernel" --tool bash,mount,mkdir,ip,nginx,perl,sleep,cat --root "$work/root" "bash /init.sh" \
		>"$work/said" || { tail -n 5 "$work/said" >&2; exit 1; }
	rm -rf "$out.part"
	mkdir -p "$out.part"
	awk -v out="$out.part" '/^FILE / { file = out "/" $2; next } file { print >file }' "$work/said"
	[ "$2" = none ] || [ -e "$out.part/ended.json" ] || { tail -n 20 "$work/said" >&2; exit 1; }
	mv "$out.part" "$out"
	[ "$2" = none ] || "$work/headway" report "$out" >/dev/null
	echo "$1: $(grep -vc '#' "$out/downloads.txt") downloads" >&2
}
if [ -n "${COST-}" ]; then
	for seed in $(seq "$first" "$last"); do
		trial "with-$seed" "${CC%,*},${CC%,*}" "$seed"
		trial "without-$seed" none "$seed"
		for side in with without; do
			# Bytes a second, and of the downloads' times the median and the 99th percentile.
			awk -v length_s=$((SLOTS * SLOT / 1000)) '$2 == "began" { from = $3; next }
				$1 >= from && $1 < from + length_s { print $2; bytes += $3 } END { print "bytes " bytes / length_s }' \
				"$results/$side-$seed/downloads.txt" | sort -n |
				awk '$1 == "bytes" { rate = $2; next } { at[n++] = $1 } END { print rate, at[int(n * 0.5)], at[int(n * 0.99)] }'
		done | paste -s -d ' ' -
	done | awk '
		{ for (i = 1; i <= 3; i++) { change = log($i / $(i + 3)); sum[i] += change; squares[i] += change ^ 2; least[i] += change < 0 } }
		END {
			if (NR < 2) { print "two pairs at the least say how much they differ"; exit }
			split("throughput,download time at the median,download time at p99", name, ",")
			for (i = 1; i <= 3; i++) {
				mean = sum[i] / NR; error = sqrt((squares[i] / NR - mean ^ 2) / (NR - 1))
				printf "%s with a trial: %.4f times that without, standard error %.4f, lower in %d of %d pairs\n", name[i], exp(mean), error, least[i], NR
			}
		}'
	exit
fi
for seed in $(seq "$TRUTHS"); do
	# Seeds of their own, so that no trial is held against its own requests.
	trial "first-$seed" "${CC%,*},${CC%,*}" $((1000 + seed))
	trial "second-$seed" "${CC#*,},${CC#*,}" $((1000 + seed))
done
for seed in $(seq "$first" "$last"); do trial "$seed" "$CC" "$seed"; done

# From here on everything is a ratio of the second controller to the first. An improvement of a metric is a share of the
# first's value, negative where a metric that should be low has risen.
metrics=(goodput_bytes_s:1 rtt_above_min_p50_us:-1)
[ "$TRUTHS" -gt 0 ] || metrics=()
echo "controllers $CC, path \`$PATH_TEXT\`, $SLOTS slots of $SLOT ms, burn-in $BURN"
for metric in "${metrics[@]}"; do
	pick=".effects[] | select(.metric == \"${metric%:*}\")"
	{
		for seed in $(seq "$TRUTHS"); do
			echo truth $(for side in first second; do jq "$pick | .baseline.median, .candidate.median" "$results/$side-$seed/results.json"; done)
		done
		for seed in $(seq "$first" "$last"); do
			echo "$seed" $(jq "$pick | .improvement, .low, .high, (.side_by_side.improvement // empty)" "$results/$seed/results.json")
		done
	} | awk -v metric="${metric%:*}" -v sign="${metric#*:}" '
		function ratio(improvement) { return 1 + sign * improvement }
		$1 == "truth" && NF == 5 { logs = log($4 * $5 / $2 / $3) / 2; sum += logs; squares += logs * logs; truths++; next }
		NF >= 4 {
			truth = exp(sum / truths); n++
			low = ratio($3); high = ratio($4)
			if (low > high) { swap = low; low = high; high = swap }
			covers = low <= truth && truth <= high
			held += covers; at += log(ratio($2)); wide += log(high / low)
			if (NF > 4) { beside += log(ratio($5)); besides++ }
			if (!covers) printf "  seed %s misses it: %.3f [%.3f, %.3f]\n", $1, ratio($2), low, high
		}
		END {
			if (!n) { print metric ": no trial has an interval"; exit }
			error = truths > 1 ? sqrt((squares / truths - (sum / truths) ^ 2) / (truths - 1)) : 0
			printf "%s: truth %.3f times (standard error %.1f %%), held by %d of %d intervals, which say %.3f in the mean and reach from %.2f to %.2f times their middle; side by side says %.3f\n",
				metric, truth, 100 * error, held, n, exp(at / n), exp(-wide / n / 2), exp(wide / n / 2), besides ? exp(beside / besides) : 0
		}'
done
for seed in $(seq "$first" "$last"); do jq '[.spill_over[] | select(.is_found)] | length > 0' "$results/$seed/results.json"; done |
	awk '$1 == "true" { n++ } END { printf "spill-over is found in %d of %d\n", n, NR }'
