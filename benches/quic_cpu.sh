#!/usr/bin/env bash
# CPU time per GB over loopback of our controllers, and of the stack's own BBR, beside its own CUBIC, as `cargo bench
# --bench quic` has it, in a guest whose CPU executes one instruction a nanosecond: within about a per cent the same on every
# run, however busy the machine is.
#
#   benches/quic_cpu.sh [MB]
#
# Twice: with the kernel's default receive buffer (212,992 bytes), where a controller that ignores loss overruns the
# receiver and pays for that, and with the one that `headway bench` asks for (8 MiB).
set -euo pipefail
cd "$(dirname "$0")/.."
mb=${1:-60}
[[ $# -le 1 && $mb =~ ^[1-9][0-9]{0,5}$ ]] || { echo "usage: benches/quic_cpu.sh [MB], a whole number from 1; not: $*" >&2; exit 2; }
tmp=$(mktemp -d)
guest=
trap '${guest:+kill $guest} 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
scripts/install
kernel=$(scripts/kernel fetch 6.12)/vmlinuz
bench=$(cargo bench --locked -q --no-run -p headway-cc --bench quic --message-format=json |
	sed -n 's/.*"executable":"\([^"]*quic-[^"]*\)".*/\1/p' | tail -n 1)
mkdir "$tmp/root"
"$bench" list >"$tmp/root/list"
transfers=$((2 * $(wc -l <"$tmp/root/list"))) # each with two buffers
cp "$bench" "$tmp/root/bench"
ldd "$bench" | grep -o '/[^ ]*\.so[^ ]*' | xargs -I{} cp --parents -L {} "$tmp/root"
# The first process: loopback up, the transfers one after the other, the end.
cat >"$tmp/init.c" <<'C'
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	static const char *const buffers[2] = { "212992", "8388608" };
	char stack[16], cc[32];
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	mkdir("/dev", 0755);
	mkdir("/proc", 0755);
	mount("dev", "/dev", "devtmpfs", 0, 0);
	mount("proc", "/proc", "proc", 0, 0);
	for (int to = 0, from = open("/dev/ttyS0", O_RDWR); to < 3; to++)
		dup2(from, to);
	ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &lo);
	for (int b = 0; b < 2; b++) {
		FILE *f = fopen("/proc/sys/net/core/rmem_default", "w"), *list = fopen("/list", "r");

		fputs(buffers[b], f);
		fclose(f);
		while (fscanf(list, "%15s %31s", stack, cc) == 2) {
			printf("result %s %s %s ", buffers[b], stack, cc);
			fflush(stdout);
			if (!fork()) {
				execl("/bench", "bench", "one", stack, cc, getenv("mb"), (char *)0);
				_exit(127);
			}
			wait(NULL);
		}
		fclose(list);
	}
	reboot(RB_AUTOBOOT);
}
C
cc -static -O1 -o "$tmp/root/init" "$tmp/init.c"
(cd "$tmp/root" && find . | cpio -o -H newc --quiet) >"$tmp/initramfs"
timeout $((600 + 15 * mb)) qemu-system-x86_64 -M microvm,acpi=off,x-option-roms=off -no-user-config -nodefaults -display none \
	-no-reboot -smp 1 -m 1024M -accel tcg,thread=single -icount shift=0,sleep=off \
	-cpu max,-rdrand,-rdseed,-cx16,-erms,-fsrm -kernel "$kernel" -initrd "$tmp/initramfs" -serial stdio \
	-append "console=ttyS0 quiet panic=-1 reboot=t tsc=reliable tsc_early_khz=1000000 nokaslr mitigations=off \
mb=$mb" </dev/null >"$tmp/console" &
guest=$!
wait $guest || true # what it printed tells
guest=
tr -d '\r' <"$tmp/console" | awk -v mb="$mb" -v transfers="$transfers" '
	BEGIN { print "receive buffer, stack, controller: CPU time, ratio to the stack'"'"'s CUBIC, bytes sent for each that arrives" }
	/^result [0-9]+ [a-z]+ [a-z0-9-]+ [0-9.]+ [0-9]+$/ {
		if ($4 ~ /-cubic$/) base = $5
		printf "%7d  %-5s %-11s %.2f s/GB  ratio %.3f  sent %.3f times\n", $2, $3, $4, $5 * 1000 / mb, $5 / base, $6 / mb / 1e6
		n++
	}
	END { if (n != transfers) exit 1 }' || {
	cat "$tmp/console" >&2
	echo "error: the guest did not finish its $transfers transfers" >&2
	exit 1
}
