#!/usr/bin/env bash
# Are adaptive NAPI weights worth a patched kernel? From the kernels' sources to the reports: docs/explanation/napi.md has the
# answer and names these parts.
#
#	benches/napi.sh [DIR [PART…]]		every part, with its report below DIR (napi)
#
# kernels  three kernels of the distribution's 6.12: stock, patched, and patched with an early return. They are kept.
# hosts    stock against patched, and against patched with a braked BBRv1, over the suite `hosts`
# return   what the early return does to a network card
# stock    what a stock kernel offers for the same wish
# noise    the published measurement, a mean ping over loopback, against itself: on the running kernel, needs root
#
# HEADWAY is the program to measure with (target/release/headway).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-napi} headway=${HEADWAY:-target/release/headway}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- kernels hosts return stock noise
[ -n "${HEADWAY-}" ] || cargo build --release --locked
patches=scripts/patches
build() { basename "$("$headway" kernel build 6.12 "$@")"; }
stock=$(build)

bench() { # NAME FLAGS…: one report, which goes on where an earlier call was interrupted
	local name=$1
	shift
	echo "== $name"
	"$headway" bench --out "$out/$name" "$@"
}

for part; do
	case $part in
	kernels) echo "$stock $(build $patches/napi-weight.patch) $(build $patches/napi-weight-return.patch)" ;;
	hosts)
		patched=$(build $patches/napi-weight.patch)
		bench hosts --in lab --suite hosts --cc "cubic@$stock,cubic@$patched,bbr1_brake@$patched"
		;;
	return)
		patched=$(build $patches/napi-weight.patch)
		early=$(build $patches/napi-weight-return.patch)
		bench return --in lab --blocks 1 --path e1000 --seconds 1 --cc "cubic@$stock,cubic@$patched,cubic@$early" || true
		;;
	stock)
		ccs=cubic@$stock
		for setting in device.napi_defer_hard_irqs=2/device.gro_flush_timeout=20000 device.threaded=1 net.core.busy_read=50 \
			net.core.netdev_budget=64 net.core.dev_weight=16; do
			ccs+=,cubic@$stock/$setting
		done
		bench stock-requests --in lab --path e1000 --requests tcp --streams 1,64 --seconds 1 --cc "$ccs"
		;;
	noise) bench noise --in here --path loopback --idle --seconds 5 --blocks 20 --cc cubic,cubic#2 ;;
	*) echo "benches/napi.sh: there is no part \`$part\`" >&2 && exit 2 ;;
	esac
done
