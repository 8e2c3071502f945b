#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Downloads Apptainer for the nodes of a lab into a directory, once. Takes seconds and about 80 MB.
#
#   fetch-apptainer.sh DIRECTORY
#
# Debian has Apptainer only in sid, built for a newer C library than this machine may have. So the
# packages are downloaded from sid, through the mirror of apt, and unpacked but never installed. The
# programs are patched to use the C library of these packages. Exits with 77, with the reason on the
# last line, if that is impossible. DIRECTORY is complete or absent.
set -euo pipefail
complete=$1
# Path on the nodes of files outside the usual places of Apptainer; extras.sh uses the same path.
libraries=/opt/lockstep-lab/apptainer/lib

cannot() {
  echo "$*" >&2
  exit 77
}

# The mirror of the Debian packages of this machine.
find_mirror() {
  local format
  # shellcheck disable=SC2016  # apt expands these dollars
  format='$(LABEL) $(COMPONENT) $(REPO_URI)'
  apt-get indextargets --format "$format" 'Created-By: Packages' 2>/dev/null |
    sed -n 's/^Debian main //p' | head -n 1
}

# apt with separate sources, lists and archives, so that the state of the system is unchanged.
private_apt() {
  apt-get -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -qq "$@"
}

download() {
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  mkdir -p "$work"/{lists/partial,cache/archives/partial,packages,all}
  echo "deb [signed-by=$keys] $mirror sid main" >"$work/sources.list"
  # apt reports an unreadable list only as a warning.
  if ! private_apt update >"$work/log" 2>&1 || grep -q '^[EW]:' "$work/log"; then
    cannot "cannot read the package list of Debian sid: $(tail -n 1 "$work/log")"
  fi
  (cd "$work/packages" && private_apt download apptainer libc6 libseccomp2 libsqlite3-0) \
    >"$work/log" 2>&1 || cannot "cannot download Apptainer: $(tail -n 1 "$work/log")"
  local package
  for package in "$work"/packages/*.deb; do
    dpkg -x "$package" "$work/all"
  done
}

# Copies only the files that the nodes need, to the places where Apptainer finds them.
arrange() { # FROM TO
  local own program loader
  own=$(cd "$1" && find usr/lib* -type d -name apptainer -path '*lib*' | head -n 1)
  [[ -n $own ]] || cannot "unexpected layout of the package apptainer"
  mkdir -p "$2/usr/bin" "$2/$(dirname "$own")" "$2/etc" "$2/lib"
  cp -a "$1/usr/bin/apptainer" "$2/usr/bin/"
  cp -a "$1/$own" "$2/$own"
  cp -a "$1/etc/apptainer" "$2/etc/"
  find "$1" -not -type d -name '*.so*' -not -path "*/apptainer/*" -not -path '*/gconv/*' \
    -exec cp -pL {} "$2/lib/" \; # a link and its target can be in different directories
  loader=$(cd "$2/lib" && find . -name 'ld-linux*.so.*' -printf '%f\n' | head -n 1)
  while read -r program; do
    patchelf --set-interpreter "$libraries/$loader" --force-rpath --set-rpath "$libraries" \
      "$program"
  done < <(echo "$2/usr/bin/apptainer" && find "$2/$own/bin" -type f)
  # By default it requests all capabilities for root, which fails in restricted containers.
  sed -i 's/^root default capabilities = .*/root default capabilities = no/' \
    "$2/etc/apptainer/apptainer.conf"
}

main() {
  local program
  [[ ! -d $complete ]] || exit 0
  for program in patchelf mksquashfs newuidmap squashfuse dpkg apt-get; do
    command -v "$program" >/dev/null || cannot "$program is not installed; run: tools/setup.sh slurm"
  done
  mirror=$(find_mirror)
  [[ -n $mirror ]] || cannot "apt has no Debian mirror"
  mkdir -p "$(dirname "$complete")"
  # Serialize downloads; the second process finds the directory complete.
  exec 8>"$complete.lock"
  flock -w 300 8 || cannot "another process has been downloading Apptainer for five minutes"
  [[ ! -d $complete ]] || exit 0
  work=$(mktemp -d "$complete.XXXXXX")
  trap 'rm -rf "${work:?}"' EXIT
  download
  arrange "$work/all" "$work/done"
  chmod -R go+rX "$work/done"
  mv "$work/done" "$complete"
}

main
