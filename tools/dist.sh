#!/bin/bash
# dist.sh OUT VERSION LDFLAGS builds what is shipped, into the directory OUT: static
# binaries for amd64 and arm64, .deb and .rpm, and their checksums. The same commit gives the
# same bytes, wherever the tree is: dates are that of the commit, and no path gets in.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
OUT=$(cd "$1" && pwd)
VERSION=$2 ldflags=$3
go=${GO:-go}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export OUT VERSION SOURCE_DATE_EPOCH CGO_ENABLED=0 LC_ALL=C TZ=UTC
umask 022
# A package's version begins with a digit and has no hyphen. Without a tag it sorts before all
# releases, by the day of the commit.
PACKAGE_VERSION=$(sed 's/^v//; s/-/./g' <<<"$VERSION")
case "$PACKAGE_VERSION" in
[0-9]*.[0-9]*.[0-9]*) ;;
*) PACKAGE_VERSION="0.0.0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).$PACKAGE_VERSION" ;;
esac
export PACKAGE_VERSION
rm -rf "$OUT"/*

for arch in amd64 arm64; do
	GOOS=linux GOARCH=$arch "$go" build -ldflags "$ldflags" -o "$OUT/berth-linux-$arch" ./cmd/berth
done

"$go" -C tools/dist run ./pages "$OUT/pages" "$VERSION" "$SOURCE_DATE_EPOCH"
gzip -9n "$OUT"/pages/man/*.1
find "$OUT" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

# nfpm reads its files relative to the tree, and its own module is elsewhere.
nfpm=$(mktemp -d)
trap 'rm -rf "$nfpm"' EXIT
"$go" -C tools/dist build -o "$nfpm/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
for arch in amd64 arm64; do
	for kind in deb rpm; do
		ARCH=$arch "$nfpm/nfpm" package --config deploy/package/nfpm.yaml --packager "$kind" --target "$OUT" >&2
	done
done
rm -rf "$OUT/pages"
(cd "$OUT" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
