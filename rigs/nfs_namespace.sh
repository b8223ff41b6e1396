#!/usr/bin/env bash
# DIR MEMORY: runs in the mount namespace of the rig `nfs`. Becomes the NFS server.
set -euo pipefail
dir=$1
# The mount of the rig beside would stay here when that ends, or is lost.
umount --lazy "$dir/../ceph/mount" 2>/dev/null || true
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/ganesha /run/rpcbind
if [[ -n $2 ]]; then mount -t tmpfs -o mode=755 tmpfs "$dir/export"; fi
# shellcheck disable=SC2016
unshare --net "$BASH" -c 'ip link set lo up; echo $$ >"$1"; exec rpcbind -f' - "$dir/rpcbind.pid" &
until [[ -S /run/rpcbind.sock ]]; do
  kill -0 $! || exit 1
  sleep 0.02
done
mount -t tmpfs -o mode=755,size=1m tmpfs "$dir/small"
# The number that shows clients a restart. The server's own counts whole seconds, too coarse for a
# rig.
epoch=$(($(date +%s%N) / 10000000 & 0x7fffffff))
exec ganesha.nfsd -E "$epoch" -F -f "$dir/ganesha.conf" -L "$dir/ganesha.log" -p "$dir/ganesha.pid" -N EVENT
