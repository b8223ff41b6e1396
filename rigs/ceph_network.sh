# shellcheck shell=bash disable=SC2154 # dir, root and lock are those of rigs/rig, ceph_osds of ceph.sh
# The network of the rig `ceph` with --osd-mbps: each OSD in a network namespace of its own, which
# ends with the OSD, behind a link with a rate limit in each direction. Sourced by rigs/ceph.sh.
#
# The links hang on a bridge, from whose address the other servers and the clients reach the OSDs. It
# is in 198.18.0.0/15, which is set aside for tests of networks and is in use nowhere. The bridge, the
# links and what they carry are all that the system sees of it, and `down` removes them; neither
# forwarding nor its firewall is touched. `$dir/network` holds "NUMBER MBPS": of the bridge, of each
# link (Mbit/s).

ceph_limited() { [[ -s $dir/network ]]; }
ceph_network_number() { cut -d ' ' -f 1 "$dir/network"; }
ceph_network_mbps() { cut -d ' ' -f 2 "$dir/network"; }
ceph_bridge() { printf 'ferry-%s' "$(ceph_network_number)"; }
# NAME: of an OSD, as of the next.
ceph_link() { printf 'ferry-%s-%s' "$(ceph_network_number)" "${1#osd.}"; }
# HOST: its address.
ceph_address() { printf '198.18.%s.%s' "$(ceph_network_number)" "$1"; }
# NAME: of an OSD.
ceph_osd_address() { ceph_address $((10 + ${1#osd.})); }

# MBPS: chooses a network that is not there yet. The search begins elsewhere for each checkout.
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

# The bridge, unless it is there.
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

# NAME PID: gives the OSD in the namespace of PID its link. The rates are of what goes to the OSD here,
# and of what comes from it in the namespace (rigs/ceph_namespace.sh).
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

# PID: whether it has a network namespace of its own.
ceph_is_apart() { [[ $(readlink "/proc/$1/ns/net") != "$(readlink /proc/self/ns/net)" ]]; }

# LINK
ceph_limit() {
  tc qdisc add dev "$1" root tbf rate "$(ceph_network_mbps)mbit" burst 256kb latency 100ms
}

# A link is gone when the namespace on its other side is, a little after the OSD.
ceph_network_down() {
  local name
  ceph_limited || return 0
  for name in "${ceph_osds[@]}"; do
    ip link delete "$(ceph_link "$name")" 2>/dev/null || true
  done
  ip link delete "$(ceph_bridge)" 2>/dev/null || true
}
