#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Fills a directory with an Apptainer for a lab's nodes, once; seconds, and about 80 MB.
#
#   fetch-apptainer.sh DIRECTORY
#
# Debian has Apptainer in sid only, and there it wants a newer C library than this machine may have.
# So the packages come from sid, by the mirror that apt uses anyway, are unpacked and never
# installed, and the programs are told to use the C library that came with them. Leaves with 77, and
# the reason as the last line, where that cannot be done. DIRECTORY is complete or not there.
set -euo pipefail
complete=$1
# Where a node sees what does not lie in Apptainer's own places; node.sh knows it too.
libraries=/opt/lockstep-lab/apptainer/lib

cannot() {
  echo "$*" >&2
  exit 77
}

# The mirror of this machine's own Debian packages, without those of another origin.
find_mirror() {
  local format
  # shellcheck disable=SC2016  # the dollars are apt's
  format='$(LABEL) $(COMPONENT) $(REPO_URI)'
  apt-get indextargets --format "$format" 'Created-By: Packages' 2>/dev/null |
    sed -n 's/^Debian main //p' | head -n 1
}

# apt with sources, lists and archives of its own: nothing that this machine's apt knows changes.
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
  # apt takes a list that it could not read for a warning.
  if ! private_apt update >"$work/log" 2>&1 || grep -q '^[EW]:' "$work/log"; then
    cannot "the list of Debian sid could not be read: $(tail -n 1 "$work/log")"
  fi
  (cd "$work/packages" && private_apt download apptainer libc6 libseccomp2 libsqlite3-0) \
    >"$work/log" 2>&1 || cannot "Apptainer could not be fetched: $(tail -n 1 "$work/log")"
  local package
  for package in "$work"/packages/*.deb; do
    dpkg -x "$package" "$work/all"
  done
}

# Only what the nodes need, in the places where Apptainer looks for itself.
arrange() { # FROM TO
  local own program loader
  own=$(cd "$1" && find usr/lib* -type d -name apptainer -path '*lib*' | head -n 1)
  [[ -n $own ]] || cannot "the package apptainer looks other than expected"
  mkdir -p "$2/usr/bin" "$2/$(dirname "$own")" "$2/etc" "$2/lib"
  cp -a "$1/usr/bin/apptainer" "$2/usr/bin/"
  cp -a "$1/$own" "$2/$own"
  cp -a "$1/etc/apptainer" "$2/etc/"
  find "$1" -not -type d -name '*.so*' -not -path "*/apptainer/*" -not -path '*/gconv/*' \
    -exec cp -pL {} "$2/lib/" \; # a link may lie elsewhere than its target
  loader=$(cd "$2/lib" && find . -name 'ld-linux*.so.*' -printf '%f\n' | head -n 1)
  while read -r program; do
    patchelf --set-interpreter "$libraries/$loader" --force-rpath --set-rpath "$libraries" \
      "$program"
  done < <(echo "$2/usr/bin/apptainer" && find "$2/$own/bin" -type f)
  # As root it asks for every capability, and not every root has them all.
  sed -i 's/^root default capabilities = .*/root default capabilities = no/' \
    "$2/etc/apptainer/apptainer.conf"
}

main() {
  local program
  [[ ! -d $complete ]] || exit 0
  for program in patchelf mksquashfs newuidmap squashfuse dpkg apt-get; do
    command -v "$program" >/dev/null || cannot "$program is not installed; type: tools/setup.sh slurm"
  done
  mirror=$(find_mirror)
  [[ -n $mirror ]] || cannot "apt knows no mirror of Debian"
  mkdir -p "$(dirname "$complete")"
  # One at a time; the second finds it done.
  exec 8>"$complete.lock"
  flock -w 300 8 || cannot "somebody else has been fetching Apptainer for five minutes"
  [[ ! -d $complete ]] || exit 0
  work=$(mktemp -d "$complete.XXXXXX")
  trap 'rm -rf "${work:?}"' EXIT
  download
  arrange "$work/all" "$work/done"
  chmod -R go+rX "$work/done"
  mv "$work/done" "$complete"
}

main
