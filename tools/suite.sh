#!/bin/bash
# Runs tests, and those that fail once more: the tests of kernels, clusters and browsers share
# their machine with others. A test that fails twice fails. Each one that needed a second run has
# a line in bin/again, which `make test` prints: it is a defect, of the test or of Berth.
#
#   suite.sh PACKAGE... [-- FLAG...]      in the directory of a module; FLAGs of go test
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packages=()
while [[ $# -gt 0 && $1 != -- ]]; do
	packages+=("$1")
	shift
done
shift || true
mkdir -p "$root/bin/again"
exec "${GO:-go}" tool -modfile="$root/tools/go.mod" gotestsum --format standard-quiet \
	--rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-report "$root/bin/again/$$" \
	--packages "${packages[*]}" -- -count=1 -vet=off "$@"
