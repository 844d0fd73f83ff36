#!/bin/sh
# After an installation nothing runs yet; after an upgrade the agent that ran is replaced,
# which leaves pinning in place. deb: configure OLD-VERSION; rpm: 1 or, for an upgrade, 2.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
[ -n "$2" ] || [ "$1" = 2 ] || exit 0

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

if ours berth-agent.service; then
	systemctl try-restart berth-agent.service || true
fi
