#!/bin/bash
# check-go.sh prints in one clear line what is wrong with this machine's Go, if anything is wrong. Go 1.21 and newer
# fetch the toolchain that go.mod names. Older releases, and GOTOOLCHAIN=local, do not.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
want=$(awk '$1 == "go" { print $2; exit }' go.mod)

if ! command -v "$go" >/dev/null; then
	echo "Go is not installed: get 1.21 or newer (apt-get install golang-go, or https://go.dev/dl)" >&2
	exit 1
fi

# Run go outside the module, so that go.mod does not switch the toolchain.
have=$(cd / && GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null || true)
have=${have#go}
have=${have%% *}

older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

if [ -z "$have" ] || older "$have" 1.21; then
	echo "Go ${have:-of unknown version} is too old: install 1.21 or newer, which fetches Go $want by itself (https://go.dev/dl)" >&2
	exit 1
fi
if older "$have" "$want"; then
	if [ "${GOTOOLCHAIN:-auto}" = local ]; then
		echo "Go $have is older than go.mod's $want, and GOTOOLCHAIN=local forbids to fetch it: run make with GOTOOLCHAIN=auto, or install Go $want" >&2
		exit 1
	fi
fi
