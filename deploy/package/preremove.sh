#!/bin/sh
# Removing the package puts every original value back; upgrading it touches nothing.
# deb: remove, or upgrade VERSION; rpm: 0, or 1 for an upgrade.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now berth-agent.service berth-tune.service berth-ahead.service || true
fi
if ! /usr/bin/berth rollback; then
	echo "berth: some values were not put back; see above, and /var/lib/berth" >&2
fi
