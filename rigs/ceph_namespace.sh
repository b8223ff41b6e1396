#!/usr/bin/env bash
# ADDRESS MBPS COMMAND...: runs in an OSD's network namespace. Waits for its link, limits outgoing
# traffic to MBPS Mbit/s, and becomes the OSD.
set -euo pipefail
for ((tries = 0; tries < 500; tries++)); do
  if ip link show osd >/dev/null 2>&1; then break; fi
  sleep 0.02
done
ip link set lo up
ip address add "$1/24" dev osd
ip link set osd up
tc qdisc add dev osd root tbf rate "$2mbit" burst 256kb latency 100ms
exec "${@:3}"
