# shellcheck shell=bash disable=SC2154 # dir, root and lock are those of rigs/rig, ceph_osds of ceph.sh
# The network of the rig `ceph` with --osd-mbps: each OSD has its own network namespace, which ends
# with it, behind a link with a rate limit in each direction. Sourced by rigs/ceph.sh.
#
# The links join a bridge, whose address the other servers and the clients use. It is in
# 198.18.0.0/15, which is reserved for network tests. The system sees only the bridge and the links,
# and `down` removes them; forwarding and the firewall are untouched. `$dir/network` holds "NUMBER
# MBPS": of the bridge, and of each link.

ceph_limited() { [[ -s $dir/network ]]; }
ceph_network_number() { cut -d ' ' -f 1 "$dir/network"; }
ceph_network_mbps() { cut -d ' ' -f 2 "$dir/network"; }
ceph_bridge() { printf 'ferry-%s' "$(ceph_network_number)"; }
# NAME: of an OSD.
ceph_link() { printf 'ferry-%s-%s' "$(ceph_network_number)" "${1#osd.}"; }
# HOST: its address.
ceph_address() { printf '198.18.%s.%s' "$(ceph_network_number)" "$1"; }
# NAME: of an OSD.
ceph_osd_address() { ceph_address $((10 + ${1#osd.})); }

# MBPS: picks an unused network. The search starts elsewhere for each checkout.
ceph_choose_network() {
  local number tries
  read -r number _ < <(printf '%s' "$root" | cksum)
  for ((tries = 0; tries < 256; tries++, number++)); do
    ip link show "ferry-$((number % 256))" >/dev/null 2>&1 && continue
    [[ -z $(ip -4 route show root "198.18.$((number % 256)).0/24") ]] || continue
    printf '%s %s\n' $((number % 256)) "$1" >"$dir/network"
    return
  done
  die "no free network in 198.18.0.0/16 was found"
}

# The bridge, unless it exists.
ceph_network_up() {
  local bridge
  bridge=$(ceph_bridge)
  if ip link show "$bridge" >/dev/null 2>&1; then return; fi
  if ! { ip link add "$bridge" type bridge &&
    ip address add "$(ceph_address 1)/24" dev "$bridge" &&
    ip link set "$bridge" up; }; then
    ceph_fail "the bridge $bridge could not be made"
  fi
}

# NAME PID: links the OSD in PID's namespace. This side limits traffic to the OSD, the namespace's
# side (rigs/ceph_namespace.sh) traffic from it.
ceph_connect() {
  local link
  link=$(ceph_link "$1")
  within 10 ceph_is_apart "$2" || ceph_fail "$1 got no network namespace"
  if ! { ip link add "$link" type veth peer name osd netns "$2" &&
    ip link set "$link" master "$(ceph_bridge)" up &&
    ceph_limit "$link"; }; then
    ceph_fail "$1 could not be connected"
  fi
}

# PID: whether it has its own network namespace.
ceph_is_apart() { [[ $(readlink "/proc/$1/ns/net") != "$(readlink /proc/self/ns/net)" ]]; }

# LINK
ceph_limit() {
  tc qdisc add dev "$1" root tbf rate "$(ceph_network_mbps)mbit" burst 256kb latency 100ms
}

# A link disappears with the namespace on its other side, shortly after the OSD.
ceph_network_down() {
  local name
  ceph_limited || return 0
  for name in "${ceph_osds[@]}"; do
    ip link delete "$(ceph_link "$name")" 2>/dev/null || true
  done
  ip link delete "$(ceph_bridge)" 2>/dev/null || true
}
