// SPDX-License-Identifier: Apache-2.0
#include "agent/advice.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fmt/format.h>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "agent/failure.h"

namespace lockstep::agent {
namespace {

// A pattern of what a worker said. `text` may hold "{}": the word that follows the needle, up to a
// quote, colon or blank.
struct Said {
  std::string_view id;
  std::array<std::string_view, 4> needles;  // any of them; empty ones count for nothing
  std::string_view text;
};

// A way of dying.
struct Died {
  int number;  // a signal, or a code
  std::string_view id;
  std::string_view text;
};

// The order is that of trust: the first that fits wins, so that a cause stands above what follows
// from it, and a precise text above a general one.
constexpr auto kCertain = std::to_array<Said>({
    {"cuda-out-of-memory",
     {"CUDA out of memory", "CUDA error: out of memory", "HIP out of memory"},
     "a smaller batch per worker, or accumulate gradients; nvidia-smi shows who else is on the "
     "GPU"},
    {"gpu-shared-by-ranks",
     {"Duplicate GPU detected", "CUDA error: invalid device ordinal"},
     "--nproc-per-node gpu: there are more workers than GPUs, or the program ignores LOCAL_RANK"},
    {"gpu-sick",
     {"uncorrectable ECC error", "GPU has fallen off the bus", "CUDA error: unspecified launch"},
     "another node: this GPU is ill (nvidia-smi -q shows it); tell the administrators"},
    {"gpu-too-new-or-old",
     {"no kernel image is available for execution on the device"},
     "a build of the program for this GPU: nvidia-smi --query-gpu=compute_cap --format=csv"},
    {"driver-too-old",
     {"CUDA driver version is insufficient", "The NVIDIA driver on your system is too old"},
     "a build of the program for an older CUDA, or a node with a newer driver (nvidia-smi)"},
    {"no-gpu",
     {"Found no NVIDIA driver",
      "no CUDA-capable device is detected",
      "No CUDA GPUs are available",
      "libcuda.so"},
     "a node with a GPU (srun --gpus-per-node=1); in a container its switch (--nv, --gpus all)"},
    {"cuda-wrong-access",
     {"device-side assert triggered", "an illegal memory access was encountered"},
     "--env CUDA_LAUNCH_BLOCKING=1: the traceback then shows the line that is to blame"},
    {"memory-not-lockable",
     {"ibv_reg_mr", "ibv_create_qp", "ibv_create_cq", "RLIMIT_MEMLOCK"},
     "ulimit -l unlimited before lockstep run (in Slurm PropagateResourceLimitsExcept=MEMLOCK)"},
    {"shared-memory-full",
     {"insufficient shared memory (shm)",
      "Error while creating shared memory segment",
      "unable to write to file </torch_",
      "unable to mmap"},
     "a larger /dev/shm (df -h /dev/shm; docker run --shm-size=8g), or DataLoader num_workers=0"},
    {"data-worker-killed",
     {"is killed by signal: Killed"},
     "fewer DataLoader workers, or more memory for the job (--mem): the kernel killed one"},
    {"out-of-memory",
     {"DefaultCPUAllocator: can't allocate memory",
      "DefaultCPUAllocator: not enough memory",
      "std::bad_alloc",
      "MemoryError"},
     "fewer workers per node (--nproc-per-node), a smaller batch, or more memory (--mem)"},
    {"too-many-files",
     {"Too many open files"},
     "ulimit -n 65536 before lockstep run, or fewer DataLoader workers"},
    {"disk-full",
     {"No space left on device", "Disk quota exceeded"},
     "df -h and quota: the disk that the program writes to is full"},
    {"port-in-use",
     {"Address already in use", "EADDRINUSE"},
     "drop --master-port: a free port is found for each run"},
    {"local-rank-argument",
     {"unrecognized arguments: --local-rank", "unrecognized arguments: --local_rank"},
     "--use-env: the program then finds LOCAL_RANK among its variables"},
    {"module-not-found",
     {"No module named '", "No module named "},
     "activate the program's Python environment first (source venv/bin/activate); it lacks {}"},
    {"glibc-too-old",
     {"version `GLIBC_"},
     "build the program on this system, or run it in its container: glibc {} is not here"},
    {"library-too-old",
     {"version `CXXABI", "version `GLIBCXX", "version `GOMP"},
     "module load the compiler that built the program: its C++ library is newer than this one"},
    {"library-not-found",
     {"error while loading shared libraries: "},
     "module load, or LD_LIBRARY_PATH, for {} on every node; ldd PROGRAM shows what is missing"},
    {"library-not-found",
     {"cannot open shared object file"},
     "module load, or LD_LIBRARY_PATH, for that library on every node"},
    {"wrong-architecture",
     {"Exec format error", "exec format error"},
     "a build of the program for this machine: uname -m and file PROGRAM must agree"},
    {"nccl-timeout",
     {"Watchdog caught collective operation timeout", "NCCL timeout", "ncclRemoteError"},
     "at the first step --network-interfaces NAME; later a rank is slow or left the path of the "
     "others: compare their logs"},
    {"nccl-network",
     {"unhandled system error",
      "ncclSystemError",
      "Bootstrap : no socket interface found",
      "socketStartConnect"},
     "--network-interfaces NAME, one that all nodes share; --env NCCL_DEBUG=INFO shows NCCL's "
     "choice"},
    {"gloo-network",
     {"connectFullMesh failed",
      "Unable to find address for",
      "gloo/transport/tcp/pair.cc] connect",
      "Unable to find interface for"},
     "--network-interfaces NAME, one that all nodes share (ip -brief address lists them)"},
    {"master-not-reached",
     {"The client socket has timed out after",
      "The client socket has failed to connect",
      "Timed out waiting for clients",
      "Wait timeout after"},
     "--network-interfaces NAME, one that all nodes share: rank 0 was not reached"},
    {"horovod-not-built",
     {"Extension horovod."},
     "HOROVOD_WITH_PYTORCH=1 pip install --no-cache-dir horovod: it was built without"},
});

constexpr auto kCodes = std::to_array<Died>({
    {126,
     "not-executable",
     "chmod +x PROGRAM; a script needs a first line such as #!/usr/bin/env python3"},
    {127, "command-not-found", "the whole path of the command, or module load it before the run"},
    {75, "asks-again", "--max-restarts 3: it is then started again from its checkpoint"},
});

// What often stands in a log without being the cause.
constexpr auto kLikely = std::to_array<Said>({
    {"no-such-file",
     {"No such file or directory", "FileNotFoundError"},
     "an absolute path on a file system that every node sees; relative ones start where lockstep "
     "run was typed"},
    {"no-permission",
     {"Permission denied", "PermissionError"},
     "ls -l of that path: the program may not use it"},
    {"peer-lost",
     {"Connection closed by peer",
      "Connection reset by peer",
      "Broken pipe",
      "Horovod has been shut down"},
     "the other ranks' logs: one of them left first"},
});

// Deaths that a program's last words seldom explain.
constexpr auto kSignalsFromOutside = std::to_array<Died>({
    {SIGBUS,
     "shared-memory-full",
     "a larger /dev/shm (df -h /dev/shm; docker run --shm-size=8g), or DataLoader num_workers=0"},
    {SIGILL,
     "wrong-cpu",
     "a build on this kind of node: the program was built for another CPU (-march=native)"},
    {SIGXCPU, "cpu-time", "ulimit -t unlimited: the limit of processor time has passed"},
    {SIGXFSZ, "file-size", "ulimit -f unlimited: the limit of a file's size has passed"},
    {SIGKILL,
     "killed",
     "dmesg, under Slurm sacct -j JOB --format=State,MaxRSS: somebody sent SIGKILL"},
    {SIGTERM, "stopped", "ask who sent SIGTERM: scancel, an administrator, a wrapper's timeout"},
});

constexpr auto kSignalsFromWithin = std::to_array<Died>({
    {SIGSEGV,
     "crashed",
     "--env PYTHONFAULTHANDLER=1 shows the Python line; ulimit -c unlimited keeps a core for gdb"},
    {SIGABRT, "aborted", "the lines above: the program ended itself on an assertion or exception"},
    {SIGFPE, "arithmetic", "ulimit -c unlimited keeps a core for gdb: a division by zero"},
});

constexpr std::string_view kMemory =
    "fewer workers per node (--nproc-per-node), a smaller batch, or more memory (--mem)";

Advice find_by_number(int number, std::span<const Died> table) {
  const auto found = std::find_if(
      table.begin(), table.end(), [number](const Died& rule) { return rule.number == number; });
  return found == table.end() ? Advice{} : Advice{std::string(found->id), std::string(found->text)};
}

std::string_view word_at(std::string_view line, size_t start) {
  line.remove_prefix(start);
  return line.substr(0, line.find_first_of("'\"`: \t"));
}

// The advice of a rule that fits one of the lines.
std::optional<Advice> find_in(const Said& rule, std::span<const std::string_view> lines) {
  for (const std::string_view needle : rule.needles) {
    for (const std::string_view line : lines) {
      const size_t at = needle.empty() ? std::string_view::npos : line.find(needle);
      if (at != std::string_view::npos) {
        const std::string_view word = word_at(line, at + needle.size());
        return Advice{std::string(rule.id), fmt::format(fmt::runtime(rule.text), word)};
      }
    }
  }
  return std::nullopt;
}

Advice find_by_words(std::span<const Said> table, std::span<const std::string_view> lines) {
  for (const Said& rule : table) {
    if (auto advice = find_in(rule, lines)) {
      return *advice;
    }
  }
  return {};
}

}  // namespace

Advice advise(const Failure& failure) {
  const os::ExitStatus status = failure.status;
  const OutOfMemory memory = judge_memory(failure);
  if (status.signal == SIGKILL && memory != OutOfMemory::No) {
    return {"out-of-memory", std::string(kMemory)};
  }
  std::vector<std::string_view> exception;
  if (failure.exception) {
    exception.emplace_back(failure.exception->text);
  }
  const std::vector<std::string_view> lines(failure.last_lines.begin(), failure.last_lines.end());

  Advice advice = find_by_number(status.signal, kSignalsFromOutside);
  const auto otherwise = [&advice](const auto& find) {
    if (advice.id.empty()) {
      advice = find();
    }
  };
  // What an exception says is the cause; what other lines say may be a warning that was survived.
  otherwise([&] { return find_by_words(kCertain, exception); });
  otherwise([&] { return find_by_words(kLikely, exception); });
  otherwise([&] { return find_by_words(kCertain, lines); });
  otherwise([&] { return find_by_number(status.signal == 0 ? status.code : 0, kCodes); });
  otherwise([&] { return find_by_words(kLikely, lines); });
  otherwise([&] { return find_by_number(status.signal, kSignalsFromWithin); });
  if (advice.id.empty() && memory == OutOfMemory::Yes) {
    // The worker left by itself: a process that it had started was the victim.
    return {"out-of-memory", std::string(kMemory)};
  }
  return advice;
}

}  // namespace lockstep::agent
