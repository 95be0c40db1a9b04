#!/bin/sh
# Stops the service when the package goes away, not when it is upgraded. The samples in /var/lib/halite stay.
set -e
case "$1" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now halite.service
  fi
  ;;
esac
