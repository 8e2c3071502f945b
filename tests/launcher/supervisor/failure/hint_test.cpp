// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/failure/hint.h"

#include <csignal>
#include <gmock/gmock.h>

#include "common/base/text.h"
#include "launcher/supervisor/failure/failure.h"

namespace lockstep::supervisor {
namespace {

using ::testing::HasSubstr;

Failure died(os::ExitStatus status, std::string_view log = "") {
  Failure failure;
  failure.status = status;
  failure.last_lines = split(log, '\n');
  failure.exception = find_exception(failure.last_lines);
  return failure;
}

// The last output of a worker that exits with code 1, and the expected advice.
struct Excerpt {
  const char* log;
  const char* id;
  const char* text;  // a part of the advice
};

constexpr Excerpt kExcerpts[] = {
    {R"(Traceback (most recent call last):
  File "train.py", line 42, in <module>
    loss.backward()
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 39.39 GiB total)",
     "cuda-out-of-memory",
     "smaller batch"},
    {R"(terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: out of memory)",
     "cuda-out-of-memory",
     "nvidia-smi"},
    {R"(torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/ProcessGroupNCCL.cpp:1275, invalid usage
Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3000)",
     "gpu-shared-by-ranks",
     "--nproc-per-node gpu"},
    {"RuntimeError: CUDA error: invalid device ordinal", "gpu-shared-by-ranks", "LOCAL_RANK"},
    {"RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu-sick", "another node"},
    {"RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
     "gpu-not-shared",
     "exclusive mode"},
    {"CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
     "gpu-not-shared",
     "MPS server failed"},
    {"RuntimeError: CUDA error: no kernel image is available for execution on the device",
     "gpu-too-new-or-old",
     "compute_cap"},
    {"RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
     "driver-too-old",
     "older CUDA"},
    {"RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA "
     "GPU",
     "no-gpu",
     "--gpus-per-node"},
    {"ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
     "no-gpu",
     "--nv"},
    {"RuntimeError: CUDA error: device-side assert triggered",
     "cuda-wrong-access",
     "CUDA_LAUNCH_BLOCKING=1"},
    {"node-b:77:90 [0] transport/net_ib.cc:640 NCCL WARN Call to ibv_create_cq failed with error "
     "Cannot allocate memory",
     "memory-not-lockable",
     "ulimit -l unlimited"},
    {"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible "
     "that "
     "dataloader's workers are out of shared memory.\n"
     "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
     "shared "
     "memory (shm).",
     "shared-memory-full",
     "/dev/shm"},
    {"node-a:81:99 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment "
     "/dev/shm/nccl-Ab12 (size 9637888)",
     "shared-memory-full",
     "--shm-size"},
    {"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ",
     "data-worker-killed",
     "--mem"},
    {"RuntimeError: [enforce fail at alloc_cpu.cpp:66] . DefaultCPUAllocator: can't allocate "
     "memory: "
     "you tried to allocate 40000000000 bytes.",
     "out-of-memory",
     "--nproc-per-node"},
    {"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
     "out-of-memory",
     "--mem"},
    {"OSError: [Errno 24] Too many open files: '/data/img_1.jpg'", "too-many-files", "ulimit -n"},
    {"OSError: [Errno 122] Disk quota exceeded", "disk-full", "quota"},
    {"RuntimeError: [Errno 28] No space left on device", "disk-full", "df -h"},
    {"RuntimeError: The server socket has failed to listen on any local network address. The "
     "server "
     "socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
     "port-in-use",
     "omit --master-port"},
    {"usage: train.py [-h] [--epochs EPOCHS]\n"
     "train.py: error: unrecognized arguments: --local-rank=1",
     "local-rank-argument",
     "--use-env"},
    {R"(Traceback (most recent call last):
  File "train.py", line 1, in <module>
    import torchvision
ModuleNotFoundError: No module named 'torchvision')",
     "module-not-found",
     "it lacks torchvision"},
    {"/usr/bin/python3: No module named horovod", "module-not-found", "it lacks horovod"},
    {"./train: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by "
     "./train)",
     "glibc-too-old",
     "glibc 2.34 is not installed"},
    {"./train: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by ./train)",
     "library-too-old",
     "module load"},
    {"./train: error while loading shared libraries: libtorch.so: cannot open shared object file: "
     "No "
     "such file or directory",
     "library-not-found",
     "make libtorch.so available on every node"},
    {"OSError: libcublas.so.11: cannot open shared object file: No such file or directory",
     "library-not-found",
     "module load"},
    {"sh: 1: ./train: Exec format error", "wrong-architecture", "uname -m"},
    {"[E ProcessGroupNCCL.cpp:474] [Rank 0] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600113 milliseconds before "
     "timing out.",
     "nccl-timeout",
     "--network-interfaces NAME"},
    {"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
     "ProcessGroupNCCL.cpp:1691, unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
     "Net : Connect to 172.17.0.1<45123> failed : No route to host",
     "nccl-network",
     "--network-interfaces NAME"},
    {"node-a:1:9 [0] misc/socket.cc:538 NCCL WARN socketStartConnect: Connect to 10.0.0.2<33221> "
     "failed : Software caused connection abort",
     "nccl-network",
     "NCCL_DEBUG=INFO"},
    {"RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/"
     "pair.cc:144] no error",
     "gloo-network",
     "ip -brief address"},
    {"[W socket.cpp:601] [c10d] The client socket has failed to connect to [node-a]:29500 (errno: "
     "113 "
     "- No route to host).",
     "master-not-reached",
     "rank 0 was not reachable"},
    {"RuntimeError: use_libuv was requested but PyTorch was build without libuv support",
     "libuv-not-built",
     "USE_LIBUV=0"},
    {"ImportError: Extension horovod.torch has not been built: /v/mpi_lib_v2.so not found",
     "horovod-not-built",
     "HOROVOD_WITH_PYTORCH=1"},
    {"FileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'",
     "no-such-file",
     "shared file system"},
    {"PermissionError: [Errno 13] Permission denied: '/scratch/other/x'", "no-permission", "ls -l"},
    {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer "
     "[10.0.0.2]:31337",
     "peer-lost",
     "exited first"},
};

TEST(FailureHint, FitsWhatTheWorkerSaid) {
  for (const Excerpt& excerpt : kExcerpts) {
    const FailureHint advice = find_hint(died({.code = 1, .signal = 0}, excerpt.log));
    EXPECT_EQ(advice.id, excerpt.id) << excerpt.log;
    EXPECT_THAT(advice.text, HasSubstr(excerpt.text)) << excerpt.log;
  }
}

TEST(FailureHint, FitsHowTheWorkerDied) {
  const struct {
    os::ExitStatus status;
    const char* id;
    const char* text;
  } cases[] = {
      {{.code = 126, .signal = 0}, "not-executable", "chmod +x"},
      {{.code = 127, .signal = 0}, "command-not-found", "full path"},
      {{.code = 75, .signal = 0}, "asks-again", "--max-restarts"},
      {{.code = 0, .signal = SIGKILL}, "killed", "sacct"},
      {{.code = 0, .signal = SIGBUS}, "shared-memory-full", "/dev/shm"},
      {{.code = 0, .signal = SIGILL}, "wrong-cpu", "built for another CPU"},
      {{.code = 0, .signal = SIGXCPU}, "cpu-time", "ulimit -t"},
      {{.code = 0, .signal = SIGXFSZ}, "file-size", "ulimit -f"},
      {{.code = 0, .signal = SIGTERM}, "stopped", "scancel"},
      {{.code = 0, .signal = SIGSEGV}, "crashed", "PYTHONFAULTHANDLER=1"},
      {{.code = 0, .signal = SIGABRT}, "aborted", "assertion"},
      {{.code = 0, .signal = SIGFPE}, "arithmetic", "division by zero"},
  };
  for (const auto& [status, id, text] : cases) {
    const FailureHint advice = find_hint(died(status));
    EXPECT_EQ(advice.id, id);
    EXPECT_THAT(advice.text, HasSubstr(text));
  }
}

TEST(FailureHint, IsLessMemoryAfterTheOomKiller) {
  Failure perhaps = died({.code = 0, .signal = SIGKILL}, "FileNotFoundError: not the cause");
  perhaps.out_of_memory = OutOfMemory::Perhaps;
  Failure childs = died({.code = 1, .signal = 0}, "a pool lost its process");
  childs.out_of_memory = OutOfMemory::Yes;

  for (const Failure& failure : {perhaps, childs}) {
    EXPECT_EQ(find_hint(failure).id, "out-of-memory");
    EXPECT_THAT(find_hint(failure).text, HasSubstr("a smaller batch"));
  }
}

TEST(FailureHint, BelievesAnExceptionMoreThanWarningsAroundIt) {
  const Failure failure =
      died({.code = 1, .signal = 0},
           R"(Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1
Traceback (most recent call last):
  File "train.py", line 1, in <module>
FileNotFoundError: [Errno 2] No such file or directory: 'x')");

  EXPECT_EQ(find_hint(failure).id, "no-such-file");
}

TEST(FailureHint, PutsAMissingLibraryAboveTheCodeThatItLeaves) {
  EXPECT_EQ(find_hint(died({.code = 127, .signal = 0},
                           "./a: error while loading shared libraries: libx.so.1: cannot open"))
                .id,
            "library-not-found");
}

TEST(FailureHint, IsAbsentIfTheCauseIsUnknown) {
  EXPECT_EQ(find_hint(died({.code = 3, .signal = 0}, "the answer is 42")), FailureHint{});
}

}  // namespace
}  // namespace lockstep::supervisor
