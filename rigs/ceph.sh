# shellcheck shell=bash disable=SC2154 # dir, root and lock are those of rigs/rig
# The rig `ceph`: a Ceph cluster with CephFS. Sourced by rigs/rig.
#
# One monitor, one manager, four OSDs and one MDS, on the loopback device (with --osd-mbps, on a
# bridge: rigs/ceph_network.sh), with one copy of each object and no authentication. Their
# configuration names all their files, in .ferry/rig/ceph; /etc/ceph, /var/lib/ceph and /run/ceph
# are unused.

ceph_osds=(osd.0 osd.1 osd.2 osd.3)

# shellcheck source=rigs/ceph_network.sh
source "$root/rigs/ceph_network.sh"

ceph_servers() { printf '%s\n' mon mgr "${ceph_osds[@]}" mds; }

# The servers that the tests kill, freeze and thaw: all that hold files.
ceph_victims() { printf '%s\n' "${ceph_osds[@]}" mds; }

ceph_uri() { printf 'ceph:/?conf=%s\n' "$dir/ceph.conf"; }

# [--disk]: the OSDs store in files (BlueStore) instead of memory, which is lost when they end.
# [--mount]: also mounts the file system with ceph-fuse. [--osd-mbps N]: limits each OSD to N Mbit/s
# each way.
ceph_up() {
  local store=memstore mount='' mbps=''
  while (($#)); do
    case $1 in
      --disk) store=bluestore ;;
      --mount) mount=yes ;;
      --osd-mbps)
        mbps=${2:-}
        [[ $mbps =~ ^[1-9][0-9]{0,5}$ ]] ||
          usage "--osd-mbps takes Mbit/s from 1 to 999999, not \"$mbps\""
        shift
        ;;
      *) usage "rig up ceph takes no \"$1\"" ;;
    esac
    shift
  done
  need ceph-mon ceph-mon ceph-mgr ceph-mgr ceph-osd ceph-osd ceph-mds ceph-mds ceph ceph-common \
    ss iproute2 ip iproute2 tc iproute2 unshare util-linux uuidgen uuid-runtime
  [[ -z $mount ]] || need ceph-fuse ceph-fuse
  # An existing cluster keeps its network.
  if [[ -n $mbps && -e $dir/made && $(<"$dir/made") == bluestore ]] || runs ceph; then
    if [[ -n $mbps ]] && { ! ceph_limited || [[ $(ceph_network_mbps) != "$mbps" ]]; }; then
      die "the rig ceph is there with another rate for its OSDs; ./ferry rig down ceph comes first"
    fi
  fi
  if ! runs ceph; then
    # A cluster in memory is lost; make a new one.
    if [[ -e $dir/made && $(<"$dir/made") == bluestore ]]; then
      store=bluestore
    else
      ceph_make "$store" "$mbps"
    fi
    ceph_start_all
    printf '%s\n' "$store" >"$dir/made"
  fi
  [[ -z $mount ]] || ceph_mount
}

ceph_down() {
  local name
  local -a stopping=()
  if mountpoint -q "$dir/mount"; then umount -l "$dir/mount"; fi
  stop_process fuse 2
  for name in mds "${ceph_osds[@]}" mgr mon; do
    stop_process "$name" 2 &
    stopping+=($!)
  done
  wait "${stopping[@]}"
  ceph_network_down
}

# WHY
ceph_fail() {
  local name
  for name in $(ceph_servers); do
    process "$name" >/dev/null || tail -n 3 "$dir/$name.out" >&2 || true
  done
  ceph_down
  die "the Ceph cluster did not come up: $1; $dir holds its logs"
}

# STORE MBPS: an empty cluster; only its monitor runs.
ceph_make() {
  local name fsid port
  ceph_down
  rm -rf "$dir"/{mon,mgr,mds,made,network} "${ceph_osds[@]/#/$dir/}"
  mkdir -p "$dir"/{mon,mgr,mds} "${ceph_osds[@]/#/$dir/}"
  fsid=$(uuidgen)
  port=$(free_ports 23300 1)
  if [[ -n $2 ]]; then
    ceph_choose_network "$2"
    ceph_network_up
  fi
  ceph_configuration "$1" "$fsid" "$port" >"$dir/ceph.conf"
  rm -f "$dir/monmap"
  monmaptool --create --fsid "$fsid" --addv a "[v2:$(ceph_home):$port]" "$dir/monmap" \
    >"$dir/mon.out" 2>&1 || ceph_fail "monmaptool failed"
  ceph-mon -c "$dir/ceph.conf" --mkfs -i a --monmap "$dir/monmap" >>"$dir/mon.out" 2>&1 ||
    ceph_fail "the monitor's store could not be made"
  ceph_start mon ceph-mon -i a
  for name in "${ceph_osds[@]}"; do uuidgen >"$dir/$name/wanted"; done
  # Make the pools before the OSDs, so that nothing has to move.
  {
    for name in "${ceph_osds[@]}"; do
      printf 'osd new %s %s\n' "$(<"$dir/$name/wanted")" "${name#osd.}"
    done
    printf 'osd pool create metadata 8 8\nosd pool create data 32 32\nosd pool create small 8 8\n'
    printf 'fs new ferry metadata data\nfs add_data_pool ferry small\n'
    printf 'osd pool set-quota small max_bytes 4194304\n'
  } | ceph_ask >"$dir/make.out" 2>&1 || ceph_fail "the monitor refused a command, see make.out"
  local -a making=()
  for name in "${ceph_osds[@]}"; do
    ceph-osd -c "$dir/ceph.conf" -i "${name#osd.}" --mkfs --osd-uuid "$(<"$dir/$name/wanted")" \
      >"$dir/$name.out" 2>&1 &
    making+=($!)
  done
  wait "${making[@]}" || ceph_fail "the stores of the OSDs could not be made"
}

# The address of all servers except OSDs with a rate limit.
ceph_home() { if ceph_limited; then ceph_address 1; else printf '127.0.0.1'; fi; }

ceph_start_all() {
  local name
  if ceph_limited; then ceph_network_up; fi
  # Otherwise the monitor considers killed ones healthy for a while.
  if [[ -e $dir/made ]]; then
    ceph_start mon ceph-mon -i a
    {
      for name in "${ceph_osds[@]}"; do
        process "$name" >/dev/null || printf 'osd down %s\n' "${name#osd.}"
      done
      process mds >/dev/null || printf 'mds fail a\n'
    } | ceph_ask >"$dir/again.out" 2>&1 || true
  fi
  ceph_start mon ceph-mon -i a
  ceph_start mgr ceph-mgr -i a
  for name in "${ceph_osds[@]}"; do ceph_start_osd "$name"; done
  ceph_start mds ceph-mds -i a
  # The MDS waits 45 s for clients of before that do not come back.
  within 120 ceph_healthy || ceph_fail "it was not healthy within 120 s"
}

# NAME COMMAND...: starts it in the background, unless it runs.
ceph_start() {
  local name=$1
  shift
  if process "$name" >/dev/null; then return; fi
  setsid "$1" -c "$dir/ceph.conf" -f "${@:2}" {lock}>&- </dev/null >"$dir/$name.out" 2>&1 &
  note_process "$name" $!
}

# NAME
ceph_start_osd() {
  local name=$1
  local -a osd=(ceph-osd -c "$dir/ceph.conf" -f -i "${name#osd.}")
  if ! ceph_limited; then
    ceph_start "$name" ceph-osd -i "${name#osd.}"
  elif ! process "$name" >/dev/null; then
    # The link of a killed one may still be disappearing.
    ip link delete "$(ceph_link "$name")" 2>/dev/null || true
    setsid unshare --net "$BASH" "$root/rigs/ceph_namespace.sh" "$(ceph_osd_address "$name")" \
      "$(ceph_network_mbps)" "${osd[@]}" {lock}>&- </dev/null >"$dir/$name.out" 2>&1 &
    note_process "$name" $!
    ceph_connect "$name" $!
  fi
}

# Standard input: monitor commands, one per line. Fails if one is refused.
ceph_ask() { timeout 60 ceph -c "$dir/ceph.conf" --connect-timeout 30; }

# PID: ends its sessions; the OSDs refuse its requests from now on.
ceph_evict() {
  timeout 60 ceph -c "$dir/ceph.conf" tell mds.a client evict "client_metadata.pid=$1" \
    </dev/null >"$dir/evict.out" 2>&1 || die "the MDS evicted nobody; $dir/evict.out says why"
}

# All placement groups clean, and the MDS active.
ceph_healthy() {
  local said
  said=$(printf 'pg stat\nmds stat\n' | ceph_ask 2>&1) || return 1
  [[ $said =~ ([0-9]+)' pgs: '([0-9]+)' active+clean;' && ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]] &&
    [[ $said == *'up:active'* ]]
}

ceph_mount() {
  if mountpoint -q "$dir/mount"; then return; fi
  mkdir -p "$dir/mount"
  # ceph-fuse 16.2 may return what it has read ahead long after it was overwritten.
  setsid ceph-fuse -c "$dir/ceph.conf" --client_readahead_min=0 -f "$dir/mount" {lock}>&- \
    </dev/null >"$dir/fuse.out" 2>&1 &
  note_process fuse $!
  within 30 mountpoint -q "$dir/mount" || die "ceph-fuse did not mount; $dir/fuse.out says why"
}

# STORE FSID PORT
ceph_configuration() {
  local home name
  home=$(ceph_home)
  cat <<END
[global]
  fsid = $2
  mon_host = [v2:$home:$3]
  public_addr = $home
  cluster_addr = $home
  ms_bind_msgr1 = false
  auth_cluster_required = none
  auth_service_required = none
  auth_client_required = none
  keyring = /dev/null
  run_dir = $dir
  admin_socket =
  crash_dir = $dir
  log_file = $dir/\$name.log
  mon_cluster_log_file = $dir/cluster.log
  osd_pool_default_size = 1
  osd_pool_default_min_size = 1
  osd_pool_default_pg_autoscale_mode = off
  osd_crush_chooseleaf_type = 0
  mon_allow_pool_size_one = true
  mon_warn_on_pool_no_redundancy = false
[mon]
  mon_data = $dir/mon
  mon_data_avail_crit = 1
  mon_data_avail_warn = 2
[mgr]
  mgr_data = $dir/mgr
  mgr_initial_modules =
  mgr_stats_period = 1
[osd]
  osd_data = $dir/\$name
  osd_journal = $dir/\$name/journal
  osd_objectstore = $1
  memstore_device_bytes = 4294967296
  bluestore_block_size = 8589934592
  bluestore_cache_autotune = false
  bluestore_cache_size = 67108864
  osd_memory_target = 939524096
  osd_crush_update_on_start = true
  osd_class_update_on_start = false
  # An OSD may serve an object for as long as the others of its copies have agreed to, 16 s. With one
  # copy nobody answers, so that one that was frozen for longer would serve some objects no more.
  osd_pool_default_read_lease_ratio = 1000
[mds]
  mds_data = $dir/mds
  # Its commands, including those over the network, go through this.
  admin_socket = $dir/mds.socket
[client]
  # The kernel notices other clients' writes late.
  fuse_disable_pagecache = true
END
  # Its count of bytes is one word without a lock. With several threads it can fall below zero, and
  # the cluster takes itself for full.
  if [[ $1 == memstore ]]; then
    printf '[osd]\n  osd_op_num_shards = 1\n  osd_op_num_threads_per_shard = 1\n'
  fi
  if ! ceph_limited; then return; fi
  for name in "${ceph_osds[@]}"; do
    printf '[%s]\n  public_addr = %s\n  cluster_addr = %s\n' "$name" \
      "$(ceph_osd_address "$name")" "$(ceph_osd_address "$name")"
  done
}
