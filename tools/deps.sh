#!/bin/bash
# deps.sh installs the Debian or Ubuntu packages that `make test` and `make cluster` need: an emulator for the virtual
# machine, the tools that connect pods, rpm, a browser, and tmux. With "all" it also installs the packages of the verify
# targets: the tools that build a kernel and the root file system of a node, and an emulator of arm64's programs.
# test/kernel/vm lists the missing packages. Without root, deps.sh prints the command to run instead.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
which=${1-}
missing() { "$go" run ./test/kernel/vm deps $which; }
# The network may fail for a moment, and another installation may be under way.
apt() { apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"; }

if ! command -v apt-get >/dev/null; then
	need=$(missing)
	[ -z "$need" ] && exit 0
	echo "no apt-get here: install what these Debian packages hold: $need" >&2
	exit 1
fi

# The tests download the stock kernel of the release. This requires recent package lists.
lists=/var/lib/apt/lists/partial
recent() { [ -n "$(find "$lists" -maxdepth 0 -mtime -1 2>/dev/null)" ]; }

if [ "$(id -u)" -ne 0 ]; then
	need=$(missing)
	if [ -n "$need" ] || [ ! -d "$lists" ]; then
		echo "these packages are missing; run this line, then make again:" >&2
		echo "  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends $need'" >&2
		exit 1
	fi
	exit 0
fi

export DEBIAN_FRONTEND=noninteractive
need=$(missing)
if [ -n "$need" ]; then
	apt update
	need=$(missing) # now that the lists name the source package
	# shellcheck disable=SC2086 # a list of words
	apt install -y --no-install-recommends $need
elif ! recent; then
	apt update || echo "deps: going on with the old package lists" >&2
fi
