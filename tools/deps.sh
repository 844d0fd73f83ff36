#!/bin/bash
# deps.sh installs the Debian or Ubuntu packages that `make test` needs: an
# emulator for the virtual machines and what builds their kernel. Only missing
# packages are installed. Without root it prints the line to run instead.
set -euo pipefail

packages=(qemu-system-x86 gcc make flex bison bc libelf-dev libssl-dev xz-utils cpio kmod)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "no dpkg here: make sure that these exist in your distribution's form: ${packages[*]} and the source of a Linux 6.12 kernel" >&2
	exit 0
fi

installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

# The kernel's source: 6.12 where the release has it, else the newest there is.
source_package() {
	local have
	have=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 'linux-source-*' 2>/dev/null |
		awk '$2 == "installed" { print $1 }' | sort -V)
	if grep -qx linux-source-6.12 <<<"$have"; then
		echo linux-source-6.12
		return
	fi
	local known
	known=$(apt-cache search --names-only '^linux-source-[0-9.]+$' | awk '{ print $1 }' | sort -V)
	if grep -qx linux-source-6.12 <<<"$known"; then
		echo linux-source-6.12
	else
		printf '%s\n' "$known" "$have" | sed '/^$/d' | sort -V | tail -n 1
	fi
}

missing() {
	local package
	for package in "${packages[@]}" "$(source_package)"; do
		if [ -n "$package" ] && ! installed "$package"; then
			echo "$package"
		fi
	done
}

# Package lists may be absent on a fresh machine; then the source's name is not
# known yet, and the lists are fetched first.
mapfile -t need < <(missing)
if [ -n "$(source_package)" ] && [ "${#need[@]}" -eq 0 ]; then
	exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
	if [ -z "$(source_package)" ]; then
		need+=(linux-source)
	fi
	echo "these packages are missing; run this line, then make again:" >&2
	echo "  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends ${need[*]}'" >&2
	exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update
if [ -z "$(source_package)" ]; then
	echo "this release has no linux-source package: the virtual machines need the source of Linux 6.12 or newer" >&2
	exit 1
fi
mapfile -t need < <(missing)
if [ "${#need[@]}" -gt 0 ]; then
	apt-get install -y --no-install-recommends "${need[@]}"
fi
