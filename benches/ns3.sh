#!/usr/bin/env bash
# How much faster our simulator is than ns-3: builds ns3_bbr.cc, times it and ours in the same run, one after the
# other, and prints the ratio of simulated data packets per second: of wall time, and of CPU time, which hardly
# depends on what else the machine is doing.
#
#   benches/ns3.sh [SECONDS]        simulated seconds, default 60; ours simulates the same span
#
# Needs ns-3 3.37 (Debian and Ubuntu: libns3-dev) and a C++ compiler; installs nothing. NS3_ROOT names another
# prefix than /usr, for packages unpacked elsewhere.
set -euo pipefail

seconds=${1:-60}
repeat=10
root=${NS3_ROOT:-/usr}
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
build=$top/target/ns3

missing() {
    echo "error: $1" >&2
    echo "hint: apt-get install --no-install-recommends $2" >&2
    exit 1
}

[ -e "$root/include/ns3/core-module.h" ] || missing "no headers of ns-3 under $root/include" "libns3-dev g++"
library=$(find "$root/lib" -name libns3-core.so 2>/dev/null | head -n 1)
[ -n "$library" ] || missing "no libraries of ns-3 under $root/lib" "libns3-dev g++"
command -v g++ >/dev/null || missing "no C++ compiler" "g++"
libdir=$(dirname "$library")

echo "building ns3_bbr.cc and the simulator benchmark" >&2
mkdir -p "$build"
g++ -std=c++17 -O3 -I"$root/include" "$here/ns3_bbr.cc" -o "$build/ns3_bbr" \
    -L"$libdir" -Wl,-rpath,"$libdir" -Wl,-rpath-link,"$libdir" \
    -lns3-applications -lns3-point-to-point -lns3-internet -lns3-network -lns3-core
(cd "$top" && cargo build --quiet --release -p headway-cc --bench sim)

# Each is timed once by the wall clock; ours, which takes a fraction of a second, is the best of ten runs.
TIMEFORMAT='%R %U %S'
times=$({ time LD_LIBRARY_PATH=$libdir "$build/ns3_bbr" --seconds="$seconds" >"$build/out.txt"; } 2>&1)
ours=$(cd "$top" && cargo bench --quiet -p headway-cc --bench sim -- bbr1 "$seconds" "$repeat" 1 | grep -v '^#')

echo "$(cat "$build/out.txt") $times $ours" | awk -v seconds="$seconds" '{
    # ns-3: packets, goodput, wall, user, system; ours: cc, flows, rate, seconds, packets, wall, cpu, …
    cpu = $4 + $5
    print "# simulator simulated_s data_packets wall_s cpu_s packets_per_s"
    printf "ns-3 %s %d %.3f %.3f %.0f\n", seconds, $1, $3, cpu, $1 / $3
    printf "headway %s %d %.3f %.3f %.0f\n", $9, $10, $11, $12, $10 / $11
    printf "# goodput in ns-3: %.1f Mbit/s\n", $2 / 1e6
    printf "# ratio of packets per second of wall time: %.0f, of CPU time: %.0f\n", \
        ($10 / $11) / ($1 / $3), ($10 / $12) / ($1 / cpu)
}'
