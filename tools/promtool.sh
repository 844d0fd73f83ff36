#!/bin/bash
# promtool.sh DIR [PROGRAM] prints the path of promtool, or of the program prometheus: from PATH, or from Debian's
# package prometheus. The script unpacks the package into the directory DIR and does not install it, because the package
# would start a server.
set -euo pipefail
dir=$1 program=${2:-promtool}

if command -v "$program"; then
	exit 0
fi
if [ ! -x "$dir/usr/bin/$program" ]; then
	mkdir -p "$dir"
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	(cd "$scratch" && apt-get download prometheus >&2 && dpkg -x prometheus_*.deb unpacked)
	cp -r "$scratch/unpacked/." "$dir"
fi
echo "$dir/usr/bin/$program"
