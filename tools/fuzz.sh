#!/bin/bash
# fuzz.sh TIME runs every fuzz target of the module for TIME each. Go fuzzes one target at a time, so the script lists
# the targets first.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:?usage: fuzz.sh TIME}
go=${GO:-go}

count=0
while read -r dir; do
	package="./${dir#"$PWD"/}"
	while read -r target; do
		echo "fuzz $package $target $time"
		"$go" test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time"
		count=$((count + 1))
	done < <(cd "$dir" && grep -hoE '^func Fuzz[A-Za-z0-9_]+' ./*_test.go | awk '{ print $2 }')
done < <(grep -rlE --include='*_test.go' --exclude-dir=testdata '^func Fuzz' "$PWD" | xargs -r dirname | sort -u)
echo "fuzzed $count targets"
[ "$count" -gt 0 ]
