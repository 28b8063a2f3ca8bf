# shellcheck shell=bash
# Sourced by the checks of a release: what is said of each, and roots of their own.

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# check WHAT COMMAND...: says that it holds, or ends with what the command said.
check() {
  local what=$1 said
  shift
  said=$("$@" 2>&1) || die "not so: $what"$'\n'"$said"
  printf '  %s\n' "$what"
}

# silent COMMAND...: it succeeds and says nothing.
silent() {
  local said
  said=$("$@" 2>&1) && [[ -z $said ]] && return
  printf '%s\n' "$said"
  return 1
}

# tells WHAT COMMAND...: it fails, and says this among other things.
tells() {
  local what=$1 said
  shift
  if said=$("$@" 2>&1); then return 1; fi
  grep -qF "$what" <<<"$said" && return
  printf '%s\n' "$said"
  return 1
}

# A Debian 12 with nothing but apt, as Debian's own images have it, from where this machine has its packages.
base_root() {
  local root=$1
  [[ ! -e $root/etc/debian_version ]] || return 0
  say "making a bare Debian in $root"
  local sources=/etc/apt/sources.list.d/debian.sources
  [[ -e $sources ]] || sources=/etc/apt/sources.list
  rm -rf "$root.new"
  mmdebstrap --quiet --variant=minbase bookworm "$root.new" "$sources"
  mv "$root.new" "$root"
}

# in_root ROOT COMMAND...: with processes and mounts of its own; the network is that of the machine, or with FF_ALONE=yes
# one without a way out. FF_AS is the user it runs as (UID:GID), FF_BIND a directory that is there as /mnt.
in_root() {
  local root=$1
  shift
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --pid --fork --kill-child ${FF_ALONE:+--net} bash -euc '
    [[ -z ${FF_ALONE:-} ]] || ip link set lo up
    mount -t proc proc "$0/proc"
    mount --bind /dev "$0/dev"
    [[ -z ${FF_BIND:-} ]] || mount --bind "$FF_BIND" "$0/mnt"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      chroot --userspec="${FF_AS:-0:0}" "$0" "$@"' "$root" "$@"
}
