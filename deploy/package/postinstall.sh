#!/bin/sh
# After an installation nothing runs yet; after an upgrade the agent that ran is replaced,
# which leaves pinning in place. deb: configure OLD-VERSION; rpm: 1 or, for an upgrade, 2.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -n "$2" ] || [ "$1" = 2 ]; then
	systemctl try-restart berth-agent.service || true
fi
