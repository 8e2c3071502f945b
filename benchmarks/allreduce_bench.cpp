// SPDX-License-Identifier: Apache-2.0

// Measures an all-reduce of floats, 4 KB to 100 MB, over the transport of the workers. With one
// worker it measures memcpy. benchmarks/allreduce_bench.py starts it and creates a table from its
// output:
//
//   kind workers bytes median_us
//
//   build/bin/lockstep run --nproc-per-node 2 -- build/bench/allreduce_bench --transport gloo

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <iostream>
#include <lockstep/lockstep.h>
#include <vector>

#include "common/base/median.h"
#include "tools/bench/allreduce_calls.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

struct Limits {
  int64_t most_bytes;
  double seconds;  // per size
};

double microseconds_of(const std::function<void()>& call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void measure(Session& session, const Limits& limits) {
  Communicator& comm = session.communicator();
  for (const int64_t kilobytes : {4, 16, 64, 256, 1024, 4096, 10240, 25600, 102400}) {
    if (kilobytes * 1024 > limits.most_bytes) {
      break;
    }
    torch::Tensor tensor = torch::zeros({kilobytes * 256});
    torch::Tensor copy = torch::zeros_like(tensor);
    const bool is_alone = comm.size() == 1;
    const auto call = [&] {
      if (is_alone) {
        std::memcpy(copy.data_ptr(), tensor.data_ptr(), tensor.nbytes());
      } else {
        comm.all_reduce(tensor);
      }
    };
    bench::require_right_sums(comm, tensor);
    std::vector<double> first(4);
    std::generate(first.begin(), first.end(), [&] { return microseconds_of(call); });
    std::vector<double> times(
        static_cast<size_t>(bench::calls_for(comm, median(first) * 1e-6, limits.seconds)));
    std::generate(times.begin(), times.end(), [&] { return microseconds_of(call); });
    bench::require_right_sums(comm, tensor);
    if (comm.rank() == 0) {
      std::cout << fmt::format("{} {} {} {:.3f}\n",
                               is_alone ? "memcpy" : comm.kind(),
                               comm.size(),
                               kilobytes * 1024,
                               median(times))
                << std::flush;
    }
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const lockstep::Program program{.about = "Measures an all-reduce, 4 KB to 100 MB",
                                  .options = {{"--most-bytes", "104857600", "Largest message"},
                                              {"--seconds", "1", "Seconds per size"}}};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    lockstep::measure(session,
                      {.most_bytes = std::stoll(session.option("--most-bytes")),
                       .seconds = std::stod(session.option("--seconds"))});
  });
}
