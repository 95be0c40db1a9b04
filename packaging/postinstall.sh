#!/bin/sh
# Makes the user of the service. The service does not start by itself: look at /etc/default/halite first.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers halite.conf
elif ! getent passwd halite >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/halite --no-create-home --shell /usr/sbin/nologin halite
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if systemctl --quiet is-active halite.service; then
    systemctl restart halite.service
  fi
fi
