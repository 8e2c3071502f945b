// SPDX-License-Identifier: Apache-2.0
//
// The tables in the order in which find_hint() consults them. A stronger kind of evidence comes
// first:
//
//   SIGKILL and the OOM counters              counted by the kernel
//   kSignalsFromOutside                       the signal explains itself, the output rarely does
//   kCertain, kLikely in the exception        the text of the exception is the cause
//   kCertain in the last lines                texts that appear only if they are the cause
//   kCodes                                    conventions of shells and of lockstep
//   kLikely in the last lines                 texts that also appear as harmless warnings
//   kSignalsFromWithin                        crashes: only a debugger shows more
//   the OOM counters alone                    a child process of the worker was killed
//
// A hint that is wrong costs more than none. A new pattern needs a text that libraries print in
// this case only, and a test. Ids are part of failure.json and must not change.
#include "launcher/supervisor/failure/hint.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fmt/format.h>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "launcher/supervisor/failure/failure.h"

namespace lockstep::supervisor {
namespace {

// A pattern in the output of a worker. "{}" in `text` is replaced by the word after the needle, up
// to a quote, colon or blank.
struct Said {
  std::string_view id;
  std::array<std::string_view, 4> needles;  // any of them matches; empty ones are ignored
  std::string_view text;
};

// A hint for an exit status.
struct Died {
  int number;  // a signal or an exit code
  std::string_view id;
  std::string_view text;
};

// The first match wins: a cause is listed before its consequences, and a specific pattern before a
// general one.
constexpr auto kCertain = std::to_array<Said>({
    {"cuda-out-of-memory",
     {"CUDA out of memory", "CUDA error: out of memory", "HIP out of memory"},
     "use a smaller batch per worker, or accumulate gradients; nvidia-smi lists other processes "
     "on the GPU"},
    {"gpu-shared-by-ranks",
     {"Duplicate GPU detected", "CUDA error: invalid device ordinal"},
     "--nproc-per-node gpu: there are more workers than GPUs, or the program ignores LOCAL_RANK"},
    {"gpu-sick",
     {"uncorrectable ECC error", "GPU has fallen off the bus", "CUDA error: unspecified launch"},
     "use another node: this GPU is faulty (nvidia-smi -q); notify the administrators"},
    {"gpu-not-shared",
     {"device(s) is/are busy or unavailable",
      "devices are busy or unavailable",
      "MPS client failed to connect",
      "MPS server is not ready"},
     "nvidia-smi -q -d COMPUTE,PIDS: another user holds the GPU in exclusive mode, or its MPS "
     "server "
     "failed; use another GPU"},
    {"gpu-too-new-or-old",
     {"no kernel image is available for execution on the device"},
     "build the program for this GPU: nvidia-smi --query-gpu=compute_cap --format=csv"},
    {"driver-too-old",
     {"CUDA driver version is insufficient", "The NVIDIA driver on your system is too old"},
     "build the program for an older CUDA, or use a node with a newer driver (nvidia-smi)"},
    {"no-gpu",
     {"Found no NVIDIA driver",
      "no CUDA-capable device is detected",
      "No CUDA GPUs are available",
      "libcuda.so"},
     "use a node with a GPU (srun --gpus-per-node=1); in a container add --nv or --gpus all"},
    {"cuda-wrong-access",
     {"device-side assert triggered", "an illegal memory access was encountered"},
     "--env CUDA_LAUNCH_BLOCKING=1: the traceback then shows the line that failed"},
    {"memory-not-lockable",
     {"ibv_reg_mr", "ibv_create_qp", "ibv_create_cq", "RLIMIT_MEMLOCK"},
     "ulimit -l unlimited before lockstep run (in Slurm PropagateResourceLimitsExcept=MEMLOCK)"},
    {"shared-memory-full",
     {"insufficient shared memory (shm)",
      "Error while creating shared memory segment",
      "unable to write to file </torch_",
      "unable to mmap"},
     "increase /dev/shm (df -h /dev/shm; docker run --shm-size=8g), or set DataLoader "
     "num_workers=0"},
    {"data-worker-killed",
     {"is killed by signal: Killed"},
     "use fewer DataLoader workers, or more memory (--mem): the kernel killed a worker"},
    {"out-of-memory",
     {"DefaultCPUAllocator: can't allocate memory",
      "DefaultCPUAllocator: not enough memory",
      "std::bad_alloc",
      "MemoryError"},
     "use fewer workers per node (--nproc-per-node), a smaller batch, or more memory (--mem)"},
    {"too-many-files",
     {"Too many open files"},
     "ulimit -n 65536 before lockstep run, or fewer DataLoader workers"},
    {"disk-full",
     {"No space left on device", "Disk quota exceeded"},
     "check df -h and quota: the disk that the program writes to is full"},
    {"port-in-use",
     {"Address already in use", "EADDRINUSE"},
     "omit --master-port: each run then uses a free port"},
    {"local-rank-argument",
     {"unrecognized arguments: --local-rank", "unrecognized arguments: --local_rank"},
     "--use-env: the program then reads the variable LOCAL_RANK"},
    {"module-not-found",
     {"No module named '", "No module named "},
     "activate the program's Python environment first (source venv/bin/activate); it lacks {}"},
    {"glibc-too-old",
     {"version `GLIBC_"},
     "build the program on this system, or run it in a container: glibc {} is not installed"},
    {"library-too-old",
     {"version `CXXABI", "version `GLIBCXX", "version `GOMP"},
     "module load the compiler that built the program: its C++ library is newer"},
    {"library-not-found",
     {"error while loading shared libraries: "},
     "make {} available on every node (module load, LD_LIBRARY_PATH); ldd PROGRAM lists missing "
     "libraries"},
    {"library-not-found",
     {"cannot open shared object file"},
     "make that library available on every node (module load, LD_LIBRARY_PATH)"},
    {"wrong-architecture",
     {"Exec format error", "exec format error"},
     "build the program for this architecture: uname -m and file PROGRAM must agree"},
    {"nccl-timeout",
     {"Watchdog caught collective operation timeout", "NCCL timeout", "ncclRemoteError"},
     "in the first step: --network-interfaces NAME; later: compare the logs, a rank is slow or "
     "called another collective"},
    {"nccl-network",
     {"unhandled system error",
      "ncclSystemError",
      "Bootstrap : no socket interface found",
      "socketStartConnect"},
     "--network-interfaces NAME, an interface on all nodes; --env NCCL_DEBUG=INFO shows the "
     "choice of NCCL"},
    {"gloo-network",
     {"connectFullMesh failed",
      "Unable to find address for",
      "gloo/transport/tcp/pair.cc] connect",
      "Unable to find interface for"},
     "--network-interfaces NAME, an interface on all nodes (ip -brief address lists them)"},
    {"master-not-reached",
     {"The client socket has timed out after",
      "The client socket has failed to connect",
      "Timed out waiting for clients",
      "Wait timeout after"},
     "--network-interfaces NAME, an interface on all nodes: rank 0 was not reachable"},
    {"libuv-not-built",
     {"use_libuv was requested but PyTorch was buil"},
     "--env USE_LIBUV=0; torchrun ignores it, so start the program with lockstep run instead"},
    {"horovod-not-built",
     {"Extension horovod."},
     "HOROVOD_WITH_PYTORCH=1 pip install --no-cache-dir horovod: Horovod lacks PyTorch support"},
});

constexpr auto kCodes = std::to_array<Died>({
    {126,
     "not-executable",
     "chmod +x PROGRAM; a script needs a first line such as #!/usr/bin/env python3"},
    {127, "command-not-found", "give the full path of the command, or module load it first"},
    {75, "asks-again", "--max-restarts 3: a restart continues from the checkpoint"},
});

// Texts that often appear in a log without being the cause.
constexpr auto kLikely = std::to_array<Said>({
    {"no-such-file",
     {"No such file or directory", "FileNotFoundError"},
     "use an absolute path on a shared file system; relative paths start in the directory of "
     "lockstep run"},
    {"no-permission",
     {"Permission denied", "PermissionError"},
     "check that path with ls -l: the program has no permission to use it"},
    {"peer-lost",
     {"Connection closed by peer",
      "Connection reset by peer",
      "Broken pipe",
      "Horovod has been shut down"},
     "check the logs of the other ranks: one of them exited first"},
});

// Signals whose cause the output of the program rarely explains.
constexpr auto kSignalsFromOutside = std::to_array<Died>({
    {SIGBUS,
     "shared-memory-full",
     "increase /dev/shm (df -h /dev/shm; docker run --shm-size=8g), or set DataLoader "
     "num_workers=0"},
    {SIGILL,
     "wrong-cpu",
     "build the program on this node type: it was built for another CPU (-march=native)"},
    {SIGXCPU, "cpu-time", "ulimit -t unlimited: the CPU time limit was exceeded"},
    {SIGXFSZ, "file-size", "ulimit -f unlimited: the file size limit was exceeded"},
    {SIGKILL,
     "killed",
     "check dmesg, or under Slurm sacct -j JOB --format=State,MaxRSS, for the sender of SIGKILL"},
    {SIGTERM,
     "stopped",
     "find the sender of SIGTERM: scancel, an administrator, or a timeout in a wrapper"},
});

constexpr auto kSignalsFromWithin = std::to_array<Died>({
    {SIGSEGV,
     "crashed",
     "--env PYTHONFAULTHANDLER=1 shows the Python line; ulimit -c unlimited keeps a core for gdb"},
    {SIGABRT, "aborted", "read the lines above: a failed assertion or an uncaught exception"},
    {SIGFPE, "arithmetic", "ulimit -c unlimited keeps a core for gdb; often a division by zero"},
});

constexpr std::string_view kMemory =
    "use fewer workers per node (--nproc-per-node), a smaller batch, or more memory (--mem)";

FailureHint find_by_number(int number, std::span<const Died> table) {
  const auto found = std::find_if(
      table.begin(), table.end(), [number](const Died& rule) { return rule.number == number; });
  return found == table.end() ? FailureHint{}
                              : FailureHint{std::string(found->id), std::string(found->text)};
}

// The quotes and the colon end "libfoo.so.1: cannot open", "'torch'" and "`GLIBC_2.38'".
std::string_view word_at(std::string_view line, size_t start) {
  line.remove_prefix(start);
  return line.substr(0, line.find_first_of("'\"`: \t"));
}

// The advice of a rule, if it matches one of the lines. Needles are tried in their order before
// lines: a rule lists the more specific form first.
std::optional<FailureHint> find_in(const Said& rule, std::span<const std::string_view> lines) {
  for (const std::string_view needle : rule.needles) {
    for (const std::string_view line : lines) {
      const size_t at = needle.empty() ? std::string_view::npos : line.find(needle);
      if (at != std::string_view::npos) {
        const std::string_view word = word_at(line, at + needle.size());
        return FailureHint{std::string(rule.id), fmt::format(fmt::runtime(rule.text), word)};
      }
    }
  }
  return std::nullopt;
}

FailureHint find_by_words(std::span<const Said> table, std::span<const std::string_view> lines) {
  for (const Said& rule : table) {
    if (auto advice = find_in(rule, lines)) {
      return *advice;
    }
  }
  return {};
}

}  // namespace

FailureHint find_hint(const Failure& failure) {
  const os::ExitStatus status = failure.status;
  const OutOfMemory memory = failure.out_of_memory;
  if (status.signal == SIGKILL && memory != OutOfMemory::No) {
    return {"out-of-memory", std::string(kMemory)};
  }
  std::vector<std::string_view> exception;
  if (failure.exception) {
    exception.emplace_back(failure.exception->text);
  }
  const std::vector<std::string_view> lines(failure.last_lines.begin(), failure.last_lines.end());

  FailureHint advice = find_by_number(status.signal, kSignalsFromOutside);
  const auto try_next = [&advice](const auto& find) {
    if (advice.id.empty()) {
      advice = find();
    }
  };
  // The text of an exception is the cause. Other lines may be warnings that did no harm.
  try_next([&] { return find_by_words(kCertain, exception); });
  try_next([&] { return find_by_words(kLikely, exception); });
  try_next([&] { return find_by_words(kCertain, lines); });
  try_next([&] { return find_by_number(status.signal == 0 ? status.code : 0, kCodes); });
  try_next([&] { return find_by_words(kLikely, lines); });
  try_next([&] { return find_by_number(status.signal, kSignalsFromWithin); });
  if (advice.id.empty() && memory == OutOfMemory::Yes) {
    // The worker exited by itself: the OOM killer hit one of its child processes.
    return {"out-of-memory", std::string(kMemory)};
  }
  return advice;
}

}  // namespace lockstep::supervisor
