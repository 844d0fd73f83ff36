#!/bin/sh
# Removing the package puts every original value back; upgrading it touches nothing.
# deb: remove, or upgrade VERSION; rpm: 0, or 1 for an upgrade.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac

# ours reports whether a unit starts the package's program. systemd prefers a unit of the administrator in /etc.
ours() {
	[ -f "/etc/systemd/system/$1" ] || return 0
	while read -r line; do
		case "$line" in
		ExecStart*[=@:+!-]"/usr/bin/berth "*) return 0 ;;
		esac
	done <"/etc/systemd/system/$1"
	return 1
}

if [ -d /run/systemd/system ]; then
	for unit in berth-agent.service berth-tune.service berth-ahead.service; do
		if ours "$unit"; then
			systemctl disable --now "$unit" || true
		else
			echo "berth: /etc/systemd/system/$unit does not start /usr/bin/berth; the unit is left as it is" >&2
		fi
	done
fi
if ! /usr/bin/berth rollback; then
	echo "berth: some values were not put back; see above, and /var/lib/berth" >&2
fi
