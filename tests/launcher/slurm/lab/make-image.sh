#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds a small container image on a node of a lab, without network access:
#
#   make-image.sh IMAGE.sif
#
# It contains a shell, cat, ls, id and env, with their libraries. With -B /usr -B /etc it has the
# programs of the node, including Python. The file /image identifies the container.
set -euo pipefail
image=$1
tree=$(mktemp -d)
trap 'rm -rf "${tree:?}"' EXIT
chmod 755 "$tree"
mkdir -p "$tree"/{usr/bin,usr/lib,usr/lib64,dev,etc,home,opt,proc,root,sys,tmp,var/tmp,work}
for name in bin lib lib64; do
  ln -s "usr/$name" "$tree/$name"
done
for program in dash cat ls id env; do
  path=$(readlink -f "$(command -v "$program")")
  cp "$path" "$tree/usr/bin/$program"
  # Copy libraries under the names that the loader uses.
  while read -r library; do
    mkdir -p "$tree/$(dirname "$library")"
    cp -L "$library" "$tree/$library"
  done < <(ldd "$path" | grep -oE '/[^ ]+')
done
ln -s dash "$tree/usr/bin/sh"
echo "root:x:0:0:root:/root:/bin/sh" >"$tree/etc/passwd"
echo "root:x:0:" >"$tree/etc/group"
: >"$tree/etc/localtime"
: >"$tree/etc/resolv.conf"
: >"$tree/etc/hosts"
echo "made by $(basename "$0")" >"$tree/image"
apptainer --quiet build --force "$image" "$tree"
