#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds, tests and measures lockstep on a machine with a GPU and a CUDA wheel of PyTorch. The
# machine needs neither network access nor Debian packages.
#
#   tools/device.sh pack            on a Debian machine with network access: collects headers,
#                                   static libraries and GoogleTest in build-deps/
#   tools/device.sh [CTEST OPTION]  on the machine with the GPU: builds in build-device/, runs the
#                                   tests with the label device, then the benchmarks, and prints a
#                                   table of their results
#
# Copy build-deps/ together with the tree. Environment variables:
#
#   JOBS     number of parallel compilers [all cores]
#   TARGETS  targets to build [those that the tests and benchmarks need]
#   TESTS    tests to run: device, all or none [device]
#   BENCH    benchmarks to run, or none [kernels gpt2 fp8 resnet50 resnet18 jpeg mnist accuracy
#            start allreduce]. Also: sizes (GPT-2 355M, 774M and 1.5B), loader (decoding on the CPU)
#   RESULTS  directory for the output of the benchmarks [build-device/results]
#   DATA     directory with MNIST [generated digits]
set -euo pipefail
cd "$(dirname "$0")/.."

# Copies headers to build-deps/include from the places where the compiler finds them. For a header
# in a directory, copies the whole directory.
pack_headers() {
  local header found
  for header in fmt/format.h spdlog/spdlog.h nlohmann/json.hpp CLI/CLI.hpp yaml-cpp/yaml.h xxhash.h \
    zlib.h zconf.h pcre2.h jpeglib.h jconfig.h jmorecfg.h jerror.h; do
    found=$(echo "#include <$header>" | g++ -std=c++20 -DPCRE2_CODE_UNIT_WIDTH=8 -M -x c++ - |
      awk -v end="/$header" '{ for (i = 1; i <= NF; ++i)
        if (!found && substr($i, length($i) - length(end) + 1) == end) found = $i }
        END { print found }')
    if [[ $header == */* ]]; then
      cp -rL "$(dirname "$found")" build-deps/include/
    else
      cp -L "$found" build-deps/include/
    fi
  done
}

# Some dependencies are not header-only: copies static libraries of Debian for both architectures.
pack_libraries() {
  local state architecture library package
  state=$(mktemp -d)
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  mkdir -p build-deps/lib/x86_64 build-deps/lib/aarch64
  for architecture in amd64 arm64; do
    local options=(-qq -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
      -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache"
      -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    for package in libyaml-cpp-dev libpcre2-dev libjpeg62-turbo-dev; do
      (cd "$state" && apt-get "${options[@]}" download "$package:$architecture")
      dpkg -x "$state/$package"_*_"$architecture".deb "$state/$architecture"
    done
  done
  for library in libyaml-cpp.a libpcre2-8.a libjpeg.a; do
    cp "$state"/amd64/usr/lib/*/"$library" build-deps/lib/x86_64/
    cp "$state"/arm64/usr/lib/*/"$library" build-deps/lib/aarch64/
  done
  rm -rf "$state"
}

pack() {
  tools/setup.sh launcher training test
  rm -rf build-deps
  mkdir -p build-deps/include
  pack_headers
  pack_libraries
  cp -r /usr/src/googletest build-deps/googletest
  du -sh build-deps
}

require() {
  if ! command -v "$1" >/dev/null; then
    echo "device: $1 is not installed" >&2
    exit 69
  fi
}

configure() {
  local torch options
  torch=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')
  python3 -c 'import torch
print("device: PyTorch", torch.__version__, "CUDA", torch.version.cuda, "devices",
      torch.cuda.device_count())'
  options=(-DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$torch${CMAKE_PREFIX_PATH:+;$CMAKE_PREFIX_PATH}"
    "-DLOCKSTEP_PYTHON=$(command -v python3)")
  if [[ -d build-deps ]]; then
    options+=(-DLOCKSTEP_HEADER_ONLY_DEPS=ON)
  fi
  if command -v ninja >/dev/null; then
    options+=(-G Ninja)
  fi
  if command -v nvidia-smi >/dev/null; then
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | head -n 1)
    options+=("-DTORCH_CUDA_ARCH_LIST=$capability" "-DCMAKE_CUDA_ARCHITECTURES=${capability//./}")
  fi
  cmake -S . -B build-device "${options[@]}"
}

# The tests with the label device. TESTS=all builds all targets instead.
DEVICE_TESTS="kernels_test models_test models_device_test data_device_test optim_device_test train_device_test nccl_test
distributed_worker verify_worker"

build() {
  local targets=()
  if [[ -n ${TARGETS:-} ]]; then
    read -ra targets <<<"$TARGETS"
  elif [[ $TESTS != all ]]; then
    read -rd '' -a targets <<<"lockstep lockstep-bench mnist gpt2 kernels_bench $DEVICE_TESTS" || true
  fi
  cmake --build build-device --parallel "${JOBS:-$(nproc)}" ${targets:+--target "${targets[@]}"}
}

# Compiles the models of the peers in the background during build and tests: torch.compile stores
# its result in a cache, and the measurements start with it. Errors show in the measurement itself.
GPT2_124M=(--layers 12 --heads 12 --width 768 --positions 1024 --vocabulary 50257 --context 1024)
compile_peers() {
  local peers=benchmarks/peers one=(--device cuda --warmup 1 --steps 1)
  if [[ " $BENCH " == *" gpt2 "* ]]; then
    python3 $peers/gpt2.py "${GPT2_124M[@]}" "${one[@]}" --batch 64
  fi
  if [[ " $BENCH " == *" resnet50 "* ]]; then
    python3 $peers/resnet.py "${one[@]}" --batch 256
  fi
  if [[ " $BENCH " == *" resnet18 "* ]]; then
    python3 $peers/resnet.py "${one[@]}" --batch 256 --net resnet18 --small-images \
      --mode compile-graph
  fi
}

# Runs one benchmark and stores its output in a file. A failure does not stop the others.
measure() {
  local name=$1 started=$SECONDS
  shift
  rm -f "$RESULTS/$name".*
  echo "device: $*"
  if ! "$@" >"$RESULTS/$name.txt" 2>"$RESULTS/$name.err"; then
    echo "device: $name failed:" >&2
    tail -n 20 "$RESULTS/$name.err" >&2
    FAILED=1
    return 0
  fi
  cat "$RESULTS/$name.txt"
  echo "device: $name: $((SECONDS - started)) s"
}

# Prints the event of the worker that has the time from the command to the end of the first step.
measure_start() {
  local run
  run=$(mktemp -d)
  build-device/bin/lockstep run --nproc-per-node 1 --run-dir "$run/run" -- build-device/bin/mnist \
    --device cuda --generated-digits --steps 2 --no-validation --no-checkpoint >/dev/null
  grep -h first_step "$run"/run/events/* | tail -n 1
  rm -rf "$run"
}

benchmark() {
  local bin=build-device/bin each gpus size
  local digits=(--generated-digits)
  if [[ -n ${DATA:-} ]]; then
    digits=(--data-dir "$DATA")
  fi
  mkdir -p "$RESULTS"
  for each in $BENCH; do
    case $each in
      kernels) measure kernels build-device/bench/kernels_bench ;;
      gpt2)
        # 200 steps in total, for the loss curve.
        measure gpt2 $bin/lockstep-bench gpt2 --batch 64 --warmup 5 --steps 65 --peer \
          --curve "$RESULTS/gpt2.csv" --json "$RESULTS/gpt2.json"
        ;;
      fp8)
        measure fp8 $bin/lockstep-bench gpt2 --batch 64 --warmup 5 --steps 40 --precision fp8 \
          --json "$RESULTS/fp8.json"
        ;;
      sizes)
        for size in 355M:64 774M:32 1.5B:16; do
          measure "gpt2-${size%:*}" $bin/lockstep-bench gpt2 --size "${size%:*}" \
            --batch "${size#*:}" --warmup 4 --steps 6 --peer --json "$RESULTS/gpt2-${size%:*}.json"
        done
        ;;
      resnet50)
        measure resnet50 $bin/lockstep-bench resnet50 --warmup 8 --steps 64 --peer \
          --curve "$RESULTS/resnet50.csv" --json "$RESULTS/resnet50.json"
        ;;
      resnet18)
        measure resnet18 $bin/lockstep-bench resnet50 --net resnet18 --small-images --size 64 \
          --warmup 8 --steps 100 --peer --peer-mode compile-graph --json "$RESULTS/resnet18.json"
        ;;
      jpeg)
        measure jpeg $bin/lockstep-bench loader --generated --jpeg gpu --threads 1,2 \
          --json "$RESULTS/jpeg.json"
        ;;
      loader)
        measure loader $bin/lockstep-bench loader --generated --threads "1,$(nproc)" --peer \
          --json "$RESULTS/loader.json"
        ;;
      mnist) measure mnist $bin/lockstep-bench mnist --device cuda --peer --json "$RESULTS/mnist.json" ;;
      accuracy)
        measure accuracy $bin/lockstep-bench mnist --device cuda --accuracy 99 \
          --net classic "${digits[@]}" --peer --json "$RESULTS/accuracy.json"
        ;;
      start) measure start measure_start ;;
      allreduce)
        gpus=$(nvidia-smi --list-gpus | wc -l)
        if ((gpus > 1)); then
          measure allreduce $bin/lockstep-bench allreduce --workers "$gpus" --device cuda --peer \
            --json "$RESULTS/allreduce.json"
        else
          echo "device: allreduce skipped: requires at least two GPUs"
        fi
        ;;
      *)
        echo "device: unknown benchmark '$each'" >&2
        exit 64
        ;;
    esac
  done
  python3 tools/device_table.py "$RESULTS"
}

run() {
  TESTS=${TESTS:-device}
  BENCH=${BENCH:-kernels gpt2 fp8 resnet50 resnet18 jpeg mnist accuracy start allreduce}
  RESULTS=${RESULTS:-build-device/results}
  if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    PATH=$PATH:/usr/local/cuda/bin
  fi
  require cmake
  require python3
  local started=$SECONDS
  FAILED=0
  configure
  echo "device: configured in $((SECONDS - started)) s"
  (renice -n 19 "$BASHPID" && compile_peers) >/dev/null 2>&1 &
  started=$SECONDS
  build
  echo "device: built in $((SECONDS - started)) s"
  case $TESTS in
    device) tools/run_tests.sh build-device 3 -L device "$@" || FAILED=1 ;;
    all) tools/run_tests.sh build-device 4 -LE house "$@" || FAILED=1 ;;
  esac
  wait # for compile_peers: it would disturb the measurements
  if [[ $BENCH != none ]]; then
    benchmark
  fi
  return $FAILED
}

case ${1:-} in
  pack) pack ;;
  -h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" ;;
  *) run "$@" ;;
esac
