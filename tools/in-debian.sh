#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command on another Debian release, in a copy of this checkout.
#
#   tools/in-debian.sh RELEASE COMMAND [ARGUMENT...]
#   tools/in-debian.sh trixie make demo
#
# RELEASE is a release that debootstrap supports: bookworm, trixie, sid. The first call builds the
# tree build-debian/RELEASE with debootstrap (about two minutes, 400 MB). Later calls reuse it
# together with everything that was installed or built in it. `rm -rf build-debian/RELEASE` removes
# it.
#
# The copy is /lockstep in the tree. It contains the tracked files and the untracked files that git
# does not ignore, so uncommitted changes are tested as well. Needs root: the command runs in
# separate mount and pid namespaces, so no mount and no process outlives it.
#
# DEBIAN_MIRROR  mirror for debootstrap [default of debootstrap]
set -euo pipefail
export LC_ALL=C.UTF-8

usage() {
  sed -n '5,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
}

die() { # EXIT_CODE MESSAGE...
  local code=$1
  shift
  echo "in-debian: $*" >&2
  exit "$code"
}

# Second stage, inside the namespaces: mounts /dev, /proc and other file systems and makes the tree
# the root. Uses pivot_root because the kernel does not allow user namespaces, which containers
# need, in a chroot.
enter() { # TREE COMMAND...
  local tree=$1 directory
  shift
  mount --make-rprivate /
  mount --bind "$tree" "$tree"
  for directory in dev sys; do
    mount --rbind "/$directory" "$tree/$directory"
  done
  mount -t proc proc "$tree/proc"
  mount -t tmpfs -o mode=755 tmpfs "$tree/run"
  mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"
  mkdir "$tree/run/old-root"
  cd "$tree"
  pivot_root . run/old-root
  umount -l /run/old-root
  rmdir /run/old-root
  cd /lockstep
  export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  exec "$@"
}

if [[ ${1:-} == --enter ]]; then
  shift
  enter "$@"
fi
case ${1:-} in
  -h | --help)
    usage
    exit 0
    ;;
esac
if [[ $# -lt 2 ]]; then
  usage >&2
  exit 64
fi
release=$1
shift
[[ $release =~ ^[a-z]+$ ]] || die 64 "'$release' is not the name of a Debian release; use bookworm, trixie or sid"
[[ $EUID -eq 0 ]] || die 77 "needs root, because it mounts file systems; run it with sudo"
cd "$(dirname "$0")/.."
tree=$PWD/build-debian/$release

# Builds the tree under a temporary name, so that an incomplete tree is never used.
make_tree() {
  local log=$tree.log
  command -v debootstrap >/dev/null || tools/setup.sh distributions
  [[ -e /usr/share/debootstrap/scripts/$release ]] ||
    die 64 "debootstrap does not support the release '$release'; use bookworm, trixie or sid"
  mkdir -p build-debian
  rm -rf "$tree.new"
  echo "in-debian: building build-debian/$release with debootstrap"
  local started=$SECONDS
  debootstrap --variant=minbase --include=make,git,ca-certificates "$release" "$tree.new" \
    ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    die 69 "debootstrap failed; see $log"
  }
  mv "$tree.new" "$tree"
  echo "in-debian: built in $((SECONDS - started)) s"
}

# Copies the name resolution and the local certificate authorities of this machine to the tree. A
# mirror can be a snapshot, whose lists of sid have expired.
configure_tree() {
  local file
  echo 'Acquire::Check-Valid-Until "false";' >"$tree/etc/apt/apt.conf.d/90lockstep"
  for file in resolv.conf hosts hostname; do
    [[ ! -e /etc/$file ]] || cp -L "/etc/$file" "$tree/etc/$file"
  done
  if [[ -n $(ls /usr/local/share/ca-certificates 2>/dev/null) &&
    ! -e $tree/usr/local/share/ca-certificates/.copied ]]; then
    cp -rL /usr/local/share/ca-certificates/. "$tree/usr/local/share/ca-certificates/"
    chroot "$tree" update-ca-certificates >/dev/null 2>&1
    touch "$tree/usr/local/share/ca-certificates/.copied"
  fi
}

# Updates the copy. Files that differ get the current time, because a changed file of the checkout
# can be older than the object file in the copy. Files that no longer exist in the checkout are
# removed from the copy.
copy_checkout() {
  local copy=$tree/lockstep list file
  list=$(mktemp)
  mkdir -p "$copy"
  git ls-files -z --cached --others --exclude-standard | sort -zu |
    while IFS= read -rd '' file; do
      [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"
    done >"$list"
  if [[ -e $copy/.copied ]]; then
    (
      cd "$copy"
      comm -z -23 .copied "$list" | xargs -0r rm -f --
      comm -z -23 .copied "$list" | xargs -0r dirname -z -- | sort -zu |
        xargs -0r rmdir -p --ignore-fail-on-non-empty -- 2>/dev/null || : # already removed
    )
  fi
  while IFS= read -rd '' file; do
    if [[ -L $file || ! -f $copy/$file || -x $file && ! -x $copy/$file ]] || ! cmp -s "$file" "$copy/$file"; then
      rm -f "$copy/$file"
      cp --parents --no-dereference "$file" "$copy"
    fi
  done <"$list"
  mv "$list" "$copy/.copied"
}

[[ -d $tree ]] || make_tree
configure_tree
copy_checkout
exec unshare --mount --pid --fork --kill-child -- "$PWD/tools/in-debian.sh" --enter "$tree" "$@"
