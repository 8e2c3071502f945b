// SPDX-License-Identifier: Apache-2.0
#include "training/comm/nccl.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <condition_variable>
#include <cstring>
#include <cuda_runtime_api.h>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <nccl.h>
#include <set>
#include <string>
#include <thread>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/environment.h"
#include "common/os/peer_watch.h"
#include "lockstep/error.h"
#include "training/comm/call_record.h"

namespace lockstep::comm {
namespace {

ncclDataType_t to_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return ncclFloat32;
    case torch::kFloat64:
      return ncclFloat64;
    case torch::kHalf:
      return ncclFloat16;
    case torch::kBFloat16:
      return ncclBfloat16;
    case torch::kInt32:
      return ncclInt32;
    case torch::kInt64:
      return ncclInt64;
    default:
      break;
  }
  LOCKSTEP_CHECK(type == torch::kUInt8);
  return ncclUint8;
}

ncclRedOp_t to_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::Max:
      return ncclMax;
    case Reduction::Min:
      return ncclMin;
    case Reduction::Sum:
      break;
  }
  return ncclSum;
}

// An NCCL communicator, and a thread that watches the other workers. A GPU kernel that waits for a
// worker which has exited would wait forever, and every thread that synchronizes with this GPU too.
// If a worker is lost, the thread aborts the NCCL communicator, which ends the kernel.
class Connection {
 public:
  // All workers must construct theirs together.
  Connection(Communicator& host, torch::Device device) : device_(device) {
    const c10::cuda::CUDAGuard guard(device_);
    ncclUniqueId id{};
    if (host.rank() == 0) {
      require(ncclGetUniqueId(&id), "the rendezvous");
    }
    const std::string bytes = host.broadcast_bytes(std::string(id.internal, sizeof(id.internal)));
    std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
    add_neighbours(host);
    ncclComm_t made = nullptr;
    require(ncclCommInitRank(&made, host.size(), id, host.rank()), "connecting the workers");
    comm_ = made;
    watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }

  // Other workers may still wait for the last messages of this worker, so it synchronizes with its
  // GPU first. A worker that has failed does not wait.
  ~Connection() {
    const c10::cuda::CUDAGuard guard(device_);
    const bool has_failed = std::uncaught_exceptions() > exceptions_;
    if (!is_lost_ && !has_failed) {
      cudaDeviceSynchronize();
    }
    watch_.request_stop();
    watch_.join();
    if (ncclComm_t left = comm_.exchange(nullptr); left != nullptr) {
      has_failed ? ncclCommAbort(left) : ncclCommDestroy(left);
    }
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  template <typename Start>
  void run(std::string_view call, const Start& start) {
    const std::lock_guard lock(mutex_);
    throw_if_lost(call);
    const c10::cuda::CUDAGuard guard(device_);
    require(start(comm_, c10::cuda::getCurrentCUDAStream(device_.index()).stream()), call);
  }

 private:
  // Only processes of this machine can be watched by pid. The loss of a worker elsewhere shows as
  // an asynchronous error of NCCL, or through the launcher.
  void add_neighbours(Communicator& host) {
    const std::string mine = fmt::format("{}\n{}", os::machine_identity(), os::process_id());
    const std::vector<std::string> all = host.all_gather_bytes(mine);
    for (int rank = 0; rank < host.size(); ++rank) {
      const std::string& text = all[static_cast<size_t>(rank)];
      const auto end = text.find('\n');
      if (rank != host.rank() && text.substr(0, end) == os::machine_identity() && text != mine &&
          peers_.add(std::stoi(text.substr(end + 1)))) {
        ranks_.push_back(rank);
      }
    }
  }

  // Mutex and condition variable are local: no other thread notifies, only the stop token ends the
  // pause early.
  void watch(const std::stop_token& stop) {
    constexpr auto kPause = std::chrono::milliseconds(100);
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, kPause, [&stop] { return stop.stop_requested(); })) {
      const std::string reason = find_loss();
      if (!reason.empty()) {
        give_up(reason);
        return;
      }
    }
  }

  std::string find_loss() {
    if (const auto ended = peers_.find_ended()) {
      return fmt::format("rank {} has exited", ranks_[static_cast<size_t>(*ended)]);
    }
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(comm_, &state) == ncclSuccess &&
        (state == ncclSuccess || state == ncclInProgress)) {
      return "";
    }
    return ncclGetErrorString(state);
  }

  // Ends the waiting kernels, and with them the threads that wait for the GPU.
  void give_up(const std::string& reason) {
    reason_ = reason;
    is_lost_ = true;
    // A call in progress holds mutex_ and may itself wait for the lost worker; only the abort ends
    // it. So the lock is tried for one second and then ignored.
    std::unique_lock lock(mutex_, std::defer_lock);
    for (int i = 0; i < 100 && !lock.try_lock(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const c10::cuda::CUDAGuard guard(device_);
    ncclCommAbort(comm_.exchange(nullptr));
  }

  void throw_if_lost(std::string_view call) const {
    if (is_lost_) {
      throw Error(ExitCode::TryAgain, fmt::format("cannot finish {}: lost another worker", call))
          .fact("reason", reason_, "NCCL watch thread")
          .hint("check the output of the other worker");
    }
  }

  void require(ncclResult_t result, std::string_view call) const {
    if (result == ncclSuccess || result == ncclInProgress) {
      return;
    }
    throw_if_lost(call);
    const bool is_peers = result == ncclRemoteError || result == ncclSystemError;
    throw Error(is_peers ? ExitCode::TryAgain : ExitCode::Unavailable,
                fmt::format("cannot finish {} over NCCL", call))
        .fact("reason", ncclGetErrorString(result), "NCCL")
        .fact("details", trim(ncclGetLastError(comm_)).empty() ? "none" : ncclGetLastError(comm_))
        .hint("set NCCL_DEBUG=INFO for details, or use --transport auto, gloo or mpi");
  }

  torch::Device device_;
  int exceptions_ = std::uncaught_exceptions();
  std::atomic<ncclComm_t> comm_ = nullptr;  // null after give_up()
  os::PeerWatch peers_;
  std::vector<int> ranks_;  // ranks of the processes in peers_
  std::mutex mutex_;        // held during a call
  std::string reason_;      // must be set before is_lost_
  std::atomic<bool> is_lost_ = false;
  std::jthread watch_;
};

// GPU tensors go over NCCL, CPU tensors and everything else over `host`, another transport between
// the same workers. Calls on GPU tensors return when they are queued on the current stream.
class NcclRank final : public Communicator {
 public:
  NcclRank(std::unique_ptr<Communicator> host,
           torch::Device device,
           std::shared_ptr<StreamWaits> waits)
      : host_(std::move(host)), device_(device) {
    CommunicatorAccess::calls(*this).set_stream_waits(std::move(waits));
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string_view kind() const override { return "nccl"; }
  std::optional<torch::Device> device() const override { return device_; }

 protected:
  bool notices_different_calls() const override { return false; }

  // Each of these calls delays the compute stream: work queued later waits for it. Calls through
  // the host also block the thread that fills the stream. Both are counted as waiting.
  void do_barrier() override {
    const StreamWaiting waiting(CommunicatorAccess::calls(*this));
    host_->barrier();
  }

  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    const StreamWaiting waiting(CommunicatorAccess::calls(*this));
    if (!tensor.is_cuda()) {
      host_->all_reduce(tensor, reduction);
      return;
    }
    keep(tensor);
    connection().run("all-reduce", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(tensor.data_ptr(),
                           tensor.data_ptr(),
                           count(tensor),
                           to_type(tensor.scalar_type()),
                           to_op(reduction),
                           comm,
                           stream);
    });
  }

  // As bytes, as in do_all_gather(): these calls compute nothing, so any type can be sent.
  void do_broadcast(torch::Tensor& tensor, int root) override {
    const StreamWaiting waiting(CommunicatorAccess::calls(*this));
    if (!tensor.is_cuda()) {
      host_->broadcast(tensor, root);
      return;
    }
    keep(tensor);
    connection().run("broadcast", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(
          tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes(), ncclUint8, root, comm, stream);
    });
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    const StreamWaiting waiting(CommunicatorAccess::calls(*this));
    if (!output.is_cuda()) {
      host_->all_gather_into(output, input);
      return;
    }
    keep(output);
    keep(input);
    connection().run("all-gather", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(
          input.data_ptr(), output.data_ptr(), input.nbytes(), ncclUint8, comm, stream);
    });
  }

  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    const StreamWaiting waiting(CommunicatorAccess::calls(*this));
    if (!output.is_cuda()) {
      output.copy_(host_->reduce_scatter(input.view({size(), -1})).view({-1}));
      return;
    }
    keep(output);
    keep(input);
    connection().run("reduce-scatter", [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduceScatter(input.data_ptr(),
                               output.data_ptr(),
                               count(output),
                               to_type(input.scalar_type()),
                               ncclSum,
                               comm,
                               stream);
    });
  }

  std::unique_ptr<Communicator> do_subset(int count) override {
    // The subset gets an NCCL communicator of its own on its first GPU call, with its own
    // ncclUniqueId. ncclCommSplit() would need NCCL 2.18 and a call on all ranks of this one.
    std::unique_ptr<Communicator> part = host_->subset(count);
    return part == nullptr
               ? nullptr
               : std::make_unique<NcclRank>(
                     std::move(part), device_, CommunicatorAccess::calls(*this).stream_waits());
  }

 private:
  static size_t count(const torch::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

  // Keeps the memory of the tensor from being reused before the message is sent, even if the caller
  // releases the tensor.
  void keep(const torch::Tensor& tensor) const {
    tensor.record_stream(c10::cuda::getCurrentCUDAStream(device_.index()).unwrap());
  }

  // Created on first use: many process groups exchange only small CPU messages and never need NCCL.
  // The constructor makes collective calls on host_. They match, because the first call with a GPU
  // tensor is the same collective on all workers.
  Connection& connection() {
    if (connection_ == nullptr) {
      connection_ = std::make_unique<Connection>(*host_, device_);
    }
    return *connection_;
  }

  std::unique_ptr<Communicator> host_;
  torch::Device device_;
  std::unique_ptr<Connection> connection_;
};

// Identifies a physical GPU across processes; empty for a CPU.
std::string identity_of(torch::Device device) {
  if (!device.is_cuda()) {
    return "";
  }
  std::array<char, 32> bus{};
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device.index()) !=
      cudaSuccess) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot use {}: unknown CUDA device", device.str()));
  }
  return fmt::format("{} {}", os::machine_identity(), bus.data());
}

// For tests and small machines. NCCL rejects two workers on one GPU of one host, and identifies a
// host by NCCL_HOSTID. A different identifier for each worker passes this check.
void pretend_to_be_apart(int rank, bool on_one_machine) {
  const os::Environment environment = os::environment();
  const auto set = [&](const std::string& name, const std::string& value) {
    if (!environment.contains(name)) {
      os::set_variable(name, value);
    }
  };
  set("NCCL_HOSTID", fmt::format("lockstep-{}-{}", os::process_id(), rank));
  set("NCCL_IB_DISABLE", "1");
  if (on_one_machine) {
    set("NCCL_SOCKET_IFNAME", "lo");
  }
}

}  // namespace

bool has_nccl() {
  return true;
}

std::unique_ptr<Communicator> join_nccl(std::unique_ptr<Communicator> host,
                                        torch::Device device,
                                        bool insist) {
  if (host->size() == 1) {
    return host;
  }
  const std::vector<std::string> gpus = host->all_gather_bytes(identity_of(device));
  if (const auto without = std::find(gpus.begin(), gpus.end(), ""); without != gpus.end()) {
    if (insist) {
      throw Error(ExitCode::Usage, "cannot use NCCL: a worker has no GPU")
          .fact("rank", std::to_string(without - gpus.begin()))
          .hint("--transport auto");
    }
    return host;
  }
  if (std::set<std::string>(gpus.begin(), gpus.end()).size() < gpus.size()) {
    if (!insist) {
      if (host->rank() == 0) {
        log::info("workers share a GPU: using {} instead of NCCL", host->kind());
      }
      return host;
    }
    const auto is_here = [](const std::string& gpu) {
      return gpu.starts_with(os::machine_identity() + " ");
    };
    pretend_to_be_apart(host->rank(), std::all_of(gpus.begin(), gpus.end(), is_here));
  }
  return std::make_unique<NcclRank>(std::move(host), device, std::make_shared<StreamWaits>(device));
}

}  // namespace lockstep::comm
