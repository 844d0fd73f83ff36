#!/bin/bash
# suite.sh runs tests, and runs each failed top-level test a second time, because tests of kernels, clusters and
# browsers share the machine with other tests. The run fails if a test fails twice. Every test that ran twice has a line
# in bin/stages/again, which `make test` prints: a defect of the test or of Berth.
#
#   suite.sh [--once] PACKAGE... [-- FLAG...]      in the directory of a module; FLAGs of go test
#
# --once omits the second run, for tests that nothing on the machine can disturb.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
again=$root/bin/stages/again
runs=(--rerun-fails=1 --rerun-fails-run-root-test --rerun-fails-max-failures=10 --rerun-fails-report "$again/$$")
if [[ ${1-} == --once ]]; then
	runs=()
	shift
fi
packages=()
while [[ $# -gt 0 && $1 != -- ]]; do
	packages+=("$1")
	shift
done
shift || true
mkdir -p "$again"
exec "${GO:-go}" tool -modfile="$root/tools/go.mod" gotestsum --format standard-quiet \
	${runs[@]+"${runs[@]}"} --packages "${packages[*]}" -- -count=1 -vet=off "$@"
