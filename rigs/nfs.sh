# shellcheck shell=bash disable=SC2154 # dir, root and lock are those of rigs/rig
# The rig `nfs`: nfs-ganesha serving a folder by NFS version 3. Sourced by rigs/rig.
#
# It exports .ferry/rig/nfs/export as /ferry, and a megabyte of memory as /ferry-small, on its own
# ports of the loopback device. The server requires a portmapper: an rpcbind in its own network
# namespace, which only the server reaches, by a socket in their common /run. The URI gives clients
# the ports.

nfs_plugins=/usr/lib/$(uname -m)-linux-gnu/ganesha

nfs_servers() { printf 'ganesha\n'; }
nfs_victims() { nfs_servers; }

nfs_uri() {
  local port
  port=$(<"$dir/port")
  printf 'nfs://127.0.0.1/ferry?nfsport=%s&mountport=%s\n' "$port" $((port + 1))
}

# [--memory]: export memory, which is lost when the server ends.
nfs_up() {
  local memory=
  case ${1:-} in
    '') ;;
    --memory) memory=yes ;;
    *) usage "rig up nfs takes no \"$1\"" ;;
  esac
  need ganesha.nfsd nfs-ganesha "$nfs_plugins/libfsalvfs.so" nfs-ganesha-vfs rpcbind rpcbind \
    unshare util-linux ip iproute2 ss iproute2
  if process ganesha >/dev/null; then return; fi
  mkdir -p "$dir/export" "$dir/small"
  [[ -s $dir/port ]] || free_ports 20490 2 >"$dir/port"
  nfs_configuration >"$dir/ganesha.conf"
  # On a restart, the old portmapper still runs, with another /run.
  stop_process rpcbind 2
  rm -f "$dir/rpcbind.pid"
  setsid unshare --mount --propagation private "$BASH" "$root/rigs/nfs_namespace.sh" "$dir" "$memory" \
    {lock}>&- </dev/null >"$dir/start.log" 2>&1 &
  note_process ganesha $!
  if ! within 20 nfs_healthy || ! process ganesha >/dev/null; then
    nfs_down
    tail -n 5 "$dir/start.log" "$dir/ganesha.log" >&2 || true
    die "the NFS server did not come up; $dir holds its logs"
  fi
}

nfs_configuration() {
  local port flusher=
  port=$(<"$dir/port")
  # Newer servers end where the kernel does not let them be known as one that writes back.
  [[ ! $(ganesha.nfsd -v) =~ V([0-9]+) || ${BASH_REMATCH[1]} -lt 6 ]] ||
    flusher='Allow_Set_Io_Flusher_Fail = true;'
  cat <<END
NFS_CORE_PARAM {
  Bind_addr = 127.0.0.1;
  NFS_Port = $port;
  MNT_Port = $((port + 1));
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Enable_UDP = false;
  Protocols = 3;
  Mount_Path_Pseudo = true;
  Plugins_Dir = "$nfs_plugins";
  $flusher
}
NFSV4 {
  RecoveryRoot = "$dir/recovery";
  Graceless = true;
}
$(nfs_export 1 export /ferry)
$(nfs_export 2 small /ferry-small)
END
}

# NUMBER FOLDER NAME
nfs_export() {
  cat <<END
EXPORT {
  Export_Id = $1;
  Path = "$dir/$2";
  Pseudo = "$3";
  Protocols = 3;
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  # The tests change files without the server's knowledge.
  Attr_Expiration_Time = 0;
  FSAL { Name = VFS; }
}
END
}

nfs_healthy() {
  local port
  port=$(<"$dir/port")
  [[ -f $dir/rpcbind.pid ]] && ! [[ -f $dir/rpcbind.process ]] &&
    note_process rpcbind "$(<"$dir/rpcbind.pid")"
  process ganesha >/dev/null || return 0 # it has ended: no use waiting
  (exec 3<>"/dev/tcp/127.0.0.1/$port" && exec 3<>"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null
}

nfs_down() {
  stop_process ganesha 5
  stop_process rpcbind 2
}
