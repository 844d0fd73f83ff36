#!/bin/bash
# properties.sh CHECKS runs the property tests with CHECKS cases each, in the
# packages that have any.
set -euo pipefail
cd "$(dirname "$0")/.."

checks=${1:?usage: properties.sh CHECKS}
go=${GO:-go}

mapfile -t packages < <("$go" list -f '{{$p := .ImportPath}}{{range .TestImports}}{{if eq . "pgregory.net/rapid"}}{{$p}}
{{end}}{{end}}{{range .XTestImports}}{{if eq . "pgregory.net/rapid"}}{{$p}}
{{end}}{{end}}' ./... | sed '/^$/d' | sort -u)
"$go" test -count=1 -timeout 60m "${packages[@]}" -rapid.checks="$checks"
