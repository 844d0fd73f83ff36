#!/bin/bash
# promtool.sh prints the path of promtool: from PATH, or from Debian's package prometheus. The script unpacks the
# package into the directory $1 and does not install it, because the package would start a server.
set -euo pipefail

if command -v promtool; then
	exit 0
fi
dir=$1
if [ ! -x "$dir/usr/bin/promtool" ]; then
	mkdir -p "$dir"
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	(cd "$scratch" && apt-get download prometheus >&2 && dpkg -x prometheus_*.deb unpacked)
	cp -r "$scratch/unpacked/." "$dir"
fi
echo "$dir/usr/bin/promtool"
