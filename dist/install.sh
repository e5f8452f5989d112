#!/bin/sh
# Installs Headway from this folder, or takes it away again:
#
#   sudo ./install.sh                       below /usr/local
#   PREFIX=$HOME/.local ./install.sh        without root, and without the units that bring things back at boot
#   sudo ./install.sh --uninstall           the same PREFIX again
#
# DESTDIR is a root directory that a package is made from; nothing is started or enabled there.
set -eu
umask 022

prefix=${PREFIX:-/usr/local}
root=${DESTDIR:-}
here=$(cd "$(dirname "$0")" && pwd)
doc=$root$prefix/share/doc/headway
list=$doc/files
units="headway.service headway-late.service"

fail() { # WHAT HINT [CODE]
	printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
	exit "${3:-1}"
}

# systemd reads units of programs below these two alone. Elsewhere, and without root, there are none.
with_units() {
	case $prefix in
	/usr | /usr/local) [ -n "$root" ] || [ "$(id -u)" = 0 ] ;;
	*) false ;;
	esac
}

running() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

put() { # MODE FILE PLACE-BELOW-PREFIX
	mkdir -p "$root$prefix/$(dirname "$3")"
	# A program that runs is replaced, not written over.
	rm -f "$root$prefix/$3"
	cp "$2" "$root$prefix/$3"
	chmod "$1" "$root$prefix/$3"
	echo "$3" >>"$list.new"
}

may_write() {
	mkdir -p "$doc" 2>/dev/null && [ -w "$doc" ] ||
		fail "cannot write below $root$prefix" "run this as root, or choose a folder of yours: PREFIX=\$HOME/.local ./install.sh"
}

clear_away() { # what LIST names and KEEP does not
	while read -r file; do
		grep -qxF "$file" "$2" 2>/dev/null || rm -f "$root$prefix/$file"
	done <"$1"
}

install() {
	[ "$(uname -s)" = Linux ] && [ "$(uname -m)" = x86_64 ] ||
		fail "this program is for Linux on x86_64, and this is $(uname -s) on $(uname -m)" "build it from the source instead: make install"
	if [ -z "$root" ] && [ "$prefix" = /usr ]; then
		fail "/usr belongs to this system's packages" "install the .deb or .rpm, or leave PREFIX at /usr/local" 2
	fi
	may_write
	: >"$list.new"
	for file in $(cd "$here" && find bin share -type f | LC_ALL=C sort); do
		mode=644
		[ "$file" != bin/headway ] || mode=755
		put "$mode" "$here/$file" "$file"
	done
	if with_units; then
		for unit in $units; do
			put 644 "$here/lib/systemd/system/$unit" "lib/systemd/system/$unit"
			sed -i -e "s|/usr/bin/headway|$prefix/bin/headway|" -e "s| /usr/bin\$| $prefix/bin|" \
				"$root$prefix/lib/systemd/system/$unit"
		done
		mkdir -p "$root/etc/headway/enabled.d"
		cp "$here/etc/headway/enabled.d/README" "$root/etc/headway/enabled.d/README"
	fi
	[ ! -f "$list" ] || clear_away "$list" "$list.new"
	mv "$list.new" "$list"
	if with_units && running; then
		systemctl daemon-reload
		# shellcheck disable=SC2086 # two names
		systemctl enable --quiet $units
	fi
	echo "installed $root$prefix/bin/headway; next: headway doctor"
	with_units || echo "note: without units; what is enabled does not come back at boot (sudo ./install.sh adds them)"
}

uninstall() {
	[ -f "$list" ] || fail "nothing is installed below $root$prefix" "name the PREFIX that it was installed with"
	may_write
	if with_units && [ -z "$root" ]; then
		"$prefix/bin/headway" disable --all ||
			fail "what headway enabled could not be taken back, so the program stays" "headway status says what is in force"
		if running; then
			# shellcheck disable=SC2086 # two names
			systemctl disable --quiet $units || true
		fi
		rm -rf /etc/headway /var/lib/headway /run/headway
	fi
	clear_away "$list" /dev/null
	rm -f "$list"
	rmdir "$doc" 2>/dev/null || true
	if with_units && running; then systemctl daemon-reload; fi
	echo "removed what was installed below $root$prefix"
}

case $prefix in
/*) ;;
*) fail "PREFIX must be an absolute path, not \`$prefix\`" "for example PREFIX=\$HOME/.local" 2 ;;
esac
case "$#:${1:-}" in
0:) install ;;
1:--uninstall) uninstall ;;
1:-h | 1:--help) sed -n 's/^# \{0,1\}//; 2,/^set/{/^set/!p}' "$0" ;;
*) fail "unknown argument: $*" "./install.sh, or ./install.sh --uninstall" 2 ;;
esac
