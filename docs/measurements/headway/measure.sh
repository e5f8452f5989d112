# For the scripts beside it, which read this file: runs one command of the program.
#
#   measure FOLDER NAME ARGUMENTS...       what it measures is in FOLDER/NAME, and what it says in FOLDER/NAME.log
#
# HEADWAY is the program (target/release/headway). What is there already is not measured again.
measure() {
    local out=$1/$2 name=$2
    shift 2
    [ -e "$out/results.csv" ] && return 0
    mkdir -p "$(dirname "$out")"
    echo "$name" >&2
    "${HEADWAY:-target/release/headway}" "$@" --out "$out" >"$out.log" 2>&1 || echo "failed: $out.log" >&2
}
