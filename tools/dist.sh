#!/bin/bash
# dist.sh OUT VERSION LDFLAGS builds the release into the directory OUT: static binaries for amd64 and arm64, their bills
# of materials and the licenses of their modules, images, the kubectl plugin, the chart, .deb and .rpm, and all
# checksums. The same commit gives the same bytes, wherever the tree is: all dates are the commit's date, and no file
# contains a path of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
OUT=$(cd "$1" && pwd)
VERSION=$2 ldflags=$3
go=${GO:-go}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# Settings of the caller (go env -w) must not change what is built. They may say where modules come from and are kept.
for name in GOPROXY GOSUMDB GOPRIVATE GONOPROXY GONOSUMDB GOINSECURE GOAUTH GOMODCACHE GOCACHE; do
	value=$("$go" env "$name")
	export "$name=$value"
done
export OUT VERSION SOURCE_DATE_EPOCH CGO_ENABLED=0 GOENV=off LC_ALL=C TZ=UTC
export GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT='' GOFIPS140=off
umask 022
# A package's version begins with a digit and has no hyphen. Without a tag, the version sorts before all releases, by
# the day of the commit.
PACKAGE_VERSION=$(sed 's/^v//; s/-/./g' <<<"$VERSION")
case "$PACKAGE_VERSION" in
[0-9]*.[0-9]*.[0-9]*) ;;
*) PACKAGE_VERSION="0.0.0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).$PACKAGE_VERSION" ;;
esac
export PACKAGE_VERSION
# Helm and krew accept only semantic versions. Without a tag, the version sorts in the same way; a hash is not a number.
if [[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	SEMVER=${VERSION#v}
else
	SEMVER="0.0.0-$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d)-$VERSION"
fi
rm -rf "$OUT"/*

kubernetes=$("$go" -C cmd/berth-scheduler list -m -f '{{.Version}}' k8s.io/kubernetes)
for arch in amd64 arm64; do
	export GOOS=linux GOARCH=$arch
	"$go" build -ldflags "$ldflags" -o "$OUT/berth-linux-$arch" ./cmd/berth
	"$go" -C cmd/berth-scheduler build -ldflags "$ldflags -X k8s.io/component-base/version.gitVersion=$kubernetes" \
		-o "$OUT/berth-scheduler-linux-$arch" .
done
unset GOOS GOARCH

# nfpm reads its files relative to the tree, but its module is in tools/dist: build the tools first.
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$go" -C tools/dist build -o "$tools" ./sbom ./notices ./krew ./pages github.com/goreleaser/nfpm/v2/cmd/nfpm
"$go" -C tools/image build -o "$tools" ./pack

# pack refuses a program or an image that is too large to ship.
for name in berth berth-scheduler; do
	"$tools/notices" "$OUT/$name-THIRD_PARTY_NOTICES" "$OUT/$name-linux-amd64" "$OUT/$name-linux-arm64"
	"$tools/pack" "$OUT/$name-oci.tar" "$name" "$VERSION" "$SOURCE_DATE_EPOCH" \
		"amd64=$OUT/$name-linux-amd64" "arm64=$OUT/$name-linux-arm64" >&2
	for arch in amd64 arm64; do
		"$tools/sbom" "$OUT/$name-linux-$arch.cdx.json" "$name" "$VERSION" "$SOURCE_DATE_EPOCH" "$OUT/$name-linux-$arch"
	done
done

pack() { tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "${@:2}" | gzip -9n; }
for arch in amd64 arm64; do
	install -D "$OUT/berth-linux-$arch" "$tools/plugin-$arch/kubectl-berth"
	install -m 0644 LICENSE "$tools/plugin-$arch/LICENSE"
	install -m 0644 "$OUT/berth-THIRD_PARTY_NOTICES" "$tools/plugin-$arch/THIRD_PARTY_NOTICES"
	pack "$tools/plugin-$arch" LICENSE THIRD_PARTY_NOTICES kubectl-berth >"$OUT/kubectl-berth-linux-$arch.tar.gz"
done
"$tools/krew" "$VERSION" "v$SEMVER" \
	"amd64=$OUT/kubectl-berth-linux-amd64.tar.gz" "arm64=$OUT/kubectl-berth-linux-arm64.tar.gz" >"$OUT/krew.yaml"

# Replace the chart's symbolic links by their target files.
mkdir "$tools/chart"
cp -rL deploy/chart "$tools/chart/berth"
chmod -R u=rwX,go=rX "$tools/chart"
sed -i "s/^version: .*/version: $SEMVER/; s/^appVersion: .*/appVersion: \"$VERSION\"/" "$tools/chart/berth/Chart.yaml"
pack "$tools/chart" berth >"$OUT/berth-chart-$SEMVER.tgz"

"$tools/pages" "$OUT/pages" "$VERSION" "$SOURCE_DATE_EPOCH"
gzip -9n "$OUT"/pages/man/*.1
find "$OUT" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

for arch in amd64 arm64; do
	for kind in deb rpm; do
		ARCH=$arch "$tools/nfpm" package --config deploy/package/nfpm.yaml --packager "$kind" --target "$OUT" >&2
	done
done
rm -rf "$OUT/pages"
(cd "$OUT" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
