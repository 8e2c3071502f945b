// SPDX-License-Identifier: Apache-2.0
#include "training/comm/mpi.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "common/base/check.h"
#include "lockstep/error.h"
#include "training/comm/chunked_reduction.h"

#if LOCKSTEP_HAVE_MPI
#include <mpi.h>
#endif

namespace lockstep::comm {

bool has_mpi() {
  return LOCKSTEP_HAVE_MPI != 0;
}

#if LOCKSTEP_HAVE_MPI
namespace {

// MPI uses int for counts, so longer tensors are sent in pieces.
constexpr int64_t kMaxElements = 1 << 30;
static_assert(kMaxElements <= std::numeric_limits<int>::max());

void check(int status, std::string_view call) {
  if (status == MPI_SUCCESS) {
    return;
  }
  std::string reason(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(status, reason.data(), &length);
  reason.resize(static_cast<size_t>(length));
  throw Error(ExitCode::TryAgain, fmt::format("cannot finish {}", call))
      .fact("reason", reason, "MPI");
}

MPI_Datatype to_datatype(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return MPI_FLOAT;
    case torch::kFloat64:
      return MPI_DOUBLE;
    case torch::kInt32:
      return MPI_INT32_T;
    case torch::kInt64:
      return MPI_INT64_T;
    default:
      break;
  }
  LOCKSTEP_CHECK(type == torch::kUInt8);
  return MPI_UINT8_T;
}

MPI_Op to_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::Max:
      return MPI_MAX;
    case Reduction::Min:
      return MPI_MIN;
    case Reduction::Sum:
      break;
  }
  return MPI_SUM;
}

// Calls `body(bytes, count)` for pieces of at most kMaxElements elements of `width` bytes.
template <typename Body>
void in_pieces(void* data, int64_t total, int64_t width, const Body& body) {
  for (int64_t done = 0; done < total; done += kMaxElements) {
    body(static_cast<char*>(data) + done * width,
         static_cast<int>(std::min(kMaxElements, total - done)));
  }
}

class MpiRank final : public Communicator {
 public:
  // All processes of mpirun. The destructor calls MPI_Finalize. MPI_THREAD_MULTIPLE is a request;
  // threads_ is what the library grants, and overlaps() and do_subset() depend on it.
  MpiRank() : owns_mpi_(true) {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads_), "starting MPI");
    comm_ = MPI_COMM_WORLD;
    look_around();
  }

  // A subgroup.
  MpiRank(MPI_Comm comm, int threads) : comm_(comm), threads_(threads) { look_around(); }

  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;

  ~MpiRank() override {
    // After a failure the other workers may never reach MPI_Finalize, which would block. run() then
    // calls MPI_Abort.
    if (std::uncaught_exceptions() > 0) {
      return;
    }
    if (owns_mpi_) {
      MPI_Finalize();
    } else {
      MPI_Comm_free(&comm_);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view kind() const override { return "mpi"; }
  // Overlapped calls move to another thread, one at a time: MPI must accept calls of several
  // threads, but not concurrent ones.
  bool overlaps() const override { return threads_ >= MPI_THREAD_SERIALIZED; }

 protected:
  bool notices_different_calls() const override { return false; }

  void do_barrier() override { check(MPI_Barrier(comm_), "barrier"); }

  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    if (is_half(tensor.scalar_type())) {
      const torch::Tensor flat = tensor.view({-1});
      for (int64_t done = 0; done < flat.numel(); done += kMaxElements) {
        torch::Tensor piece = flat.narrow(0, done, std::min(kMaxElements, flat.numel() - done));
        chunked_all_reduce(piece, reduction, size_, chunk_exchange());
      }
      return;
    }
    const auto type = to_datatype(tensor.scalar_type());
    const auto width = static_cast<int64_t>(tensor.element_size());
    in_pieces(tensor.data_ptr(), tensor.numel(), width, [&](void* piece, int count) {
      check(MPI_Allreduce(MPI_IN_PLACE, piece, count, type, to_op(reduction), comm_), "all-reduce");
    });
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    in_pieces(
        tensor.data_ptr(), static_cast<int64_t>(tensor.nbytes()), 1, [&](void* piece, int count) {
          check(MPI_Bcast(piece, count, MPI_BYTE, root, comm_), "broadcast");
        });
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    const auto bytes = static_cast<int64_t>(input.nbytes());
    if (bytes <= kMaxElements) {
      check(MPI_Allgather(input.data_ptr(),
                          static_cast<int>(bytes),
                          MPI_BYTE,
                          output.data_ptr(),
                          static_cast<int>(bytes),
                          MPI_BYTE,
                          comm_),
            "all-gather");
      return;
    }
    // Too long for the int counts of MPI_Allgather. Its pieces would interleave the outputs of the
    // workers, so each worker broadcasts its part instead.
    for (int peer = 0; peer < size_; ++peer) {
      torch::Tensor part = output.narrow(0, peer * input.numel(), input.numel());
      if (peer == rank_) {
        part.copy_(input);
      }
      do_broadcast(part, peer);
    }
  }

  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    if (static_cast<int64_t>(output.nbytes()) > kMaxElements) {
      torch::Tensor sum = input.clone();
      do_all_reduce(sum, Reduction::Sum);
      output.copy_(sum.narrow(0, rank_ * output.numel(), output.numel()));
      return;
    }
    if (is_half(input.scalar_type())) {
      chunked_reduce_scatter(output, input, size_, chunk_exchange());
      return;
    }
    check(MPI_Reduce_scatter_block(input.data_ptr(),
                                   output.data_ptr(),
                                   static_cast<int>(output.numel()),
                                   to_datatype(input.scalar_type()),
                                   MPI_SUM,
                                   comm_),
          "reduce-scatter");
  }

  std::unique_ptr<Communicator> do_subset(int count) override {
    // The second communicator is used by another thread, so two threads would call MPI
    // concurrently.
    if (threads_ < MPI_THREAD_MULTIPLE && count == size_) {
      throw Error(ExitCode::Unavailable,
                  "cannot create a second communicator: MPI lacks thread support")
          .fact("MPI_Init_thread returned", std::to_string(threads_), "MPI")
          .hint("start with lockstep run, or drop --transport mpi");
    }
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, rank_ < count ? 0 : MPI_UNDEFINED, rank_, &part), "splitting");
    return part == MPI_COMM_NULL ? nullptr : std::make_unique<MpiRank>(part, threads_);
  }

 private:
  ChunkExchange chunk_exchange() {
    return {
        .all_to_all =
            [this](torch::Tensor& output, torch::Tensor& input) {
              // Fits an int: the callers pass at most kMaxElements 16-bit values for at least two
              // workers, or parts of at most kMaxElements bytes.
              const auto bytes = static_cast<int>(static_cast<int64_t>(input.nbytes()) / size_);
              check(
                  MPI_Alltoall(
                      input.data_ptr(), bytes, MPI_BYTE, output.data_ptr(), bytes, MPI_BYTE, comm_),
                  "all-to-all");
            },
        .all_gather =
            [this](torch::Tensor& output, const torch::Tensor& input) {
              do_all_gather(output, input);
            }};
  }

  void look_around() {
    // By default MPI ends the process on an error.
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }

  bool owns_mpi_ = false;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int threads_ = MPI_THREAD_SINGLE;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> join_mpi() {
  return std::make_unique<MpiRank>();
}

#else

std::unique_ptr<Communicator> join_mpi() {
  throw Error(ExitCode::Usage, "cannot use MPI: this build of lockstep does not support it")
      .hint("install libopenmpi-dev and build again, or start the program with lockstep run");
}

#endif

}  // namespace lockstep::comm
