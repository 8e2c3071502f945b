// SPDX-License-Identifier: Apache-2.0
#include "lockstep/run.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <cstdio>
#include <fmt/format.h>
#include <mutex>
#include <random>
#include <torch/cuda.h>
#include <torch/utils.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/environment.h"
#include "common/os/host.h"
#include "common/os/process.h"
#include "common/os/terminal.h"
#include "lockstep/error.h"
#include "training/comm/call_record.h"
#include "training/comm/join.h"
#include "training/comm/stall_watch.h"
#include "training/strategy/horovod/options.h"
#include "training/strategy/properties.h"
#include "training/train/options/defaults.h"
#include "training/train/options/process_group_choice.h"
#include "training/train/run/fork_workers.h"
#include "training/train/run/replicas.h"
#include "training/train/run/report_failure.h"
#include "training/train/session/own_loop.h"
#include "training/train/session/session_parts.h"
#include "training/train/session/stopped.h"
#include "training/train/verify/verified.h"
#include "training/train/verify/verify.h"

namespace lockstep {
namespace {

using train::SessionParts;

log::Level parse_level(const os::Environment& environment) {
  const std::string name = os::find_variable(environment, contract::kLogLevel).value_or("info");
  if (name == "debug") {
    return log::Level::Debug;
  }
  if (name == "warn") {
    return log::Level::Warn;
  }
  return name == "error" ? log::Level::Error : log::Level::Info;
}

// Modulo: more workers than visible GPUs share them; and if the launcher has set
// CUDA_VISIBLE_DEVICES to one GPU for each worker, every local rank maps to index 0.
torch::Device choose_device(const std::string& wanted, int local_rank) {
  const bool has_gpu = torch::cuda::is_available();
  if (wanted == "cuda" && !has_gpu) {
    throw Error(ExitCode::Usage, "cannot train on a GPU: libtorch finds none")
        .fact("requested", "--device cuda", "command line")
        .hint("--device cpu");
  }
  if (wanted == "cpu" || !has_gpu) {
    return torch::kCPU;
  }
  const auto count = static_cast<int>(torch::cuda::device_count());
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(local_rank % count)};
}

// --run-dir, otherwise the directory of the launcher, otherwise a new one that rank 0 selects for
// all workers. The random part separates programs that start in the same second.
std::filesystem::path choose_run_dir(const SessionParts& parts, const std::string& program) {
  std::string directory = parts.flags.run_dir.value_or(parts.placement.worker.run_directory);
  if (directory.empty() && parts.communicator->rank() == 0) {
    std::random_device chance;
    directory =
        fmt::format("runs/{}-{}-{:04x}", program, os::local_timestamp(), chance() & 0xffffU);
  }
  return parts.communicator->broadcast_bytes(directory);
}

void set_terminal(SessionParts& parts, const os::Environment& environment) {
  constexpr int kMaxColumns = 10000;
  parts.terminal_columns =
      contract::find_number(environment, contract::kTerminalColumns, 1, kMaxColumns);
  if (!parts.terminal_columns) {
    parts.terminal_columns = os::find_terminal_columns(1);
    parts.is_terminal_ours = parts.terminal_columns.has_value();
  } else if (parts.placement.worker.world_size > 1) {
    // The launcher prefixes each line with "[0]: ".
    parts.terminal_columns = std::max(20, *parts.terminal_columns - 5);
  }
}

// Values that all Sessions of this process share.
struct Start {
  train::Flags flags;
  train::ProcessGroupChoice group;
  train::StopRequest& stop;
  std::unique_ptr<comm::StallWatch>& watch;  // outlives the sessions, to explain their failure
  std::string program;
  int replicas = 1;
};

// Joins the process group. `device` is the device on which this worker trains.
std::unique_ptr<Communicator> connect(const Start& start, torch::Device device) {
  comm::JoinOptions options = start.group.join;
  options.device = device;
  comm::Joined joined = comm::join_process_group(start.group.placement, options);
  start.watch = comm::watch_for_stalls(
      *joined.communicator, joined.store, start.group.placement.worker, start.group.stall);
  return std::move(joined.communicator);
}

// Called once per process and not for each strategy, because --verify-strategies creates many.
void warn_of_ignored_variables(const train::Flags& flags, const os::Environment& environment) {
  if (!strategy::has(flags.strategy, &strategy::Properties::has_horovod_options) &&
      !flags.verify_strategies) {
    return;
  }
  const auto ignored = strategy::horovod::ignored_variables(environment);
  if (!ignored.empty()) {
    log::warn("ignoring these Horovod variables: {}", join(ignored, ", "));
  }
}

// `group` is the process group of a replica. If it is null, the function joins the process group of
// the run.
std::unique_ptr<SessionParts> open_session(const Start& start,
                                           const cluster::Placement& placement,
                                           Communicator* group = nullptr) {
  const os::Environment environment = os::environment();
  auto parts = std::make_unique<SessionParts>();
  parts->flags = start.flags;
  parts->placement = placement;
  parts->stop = &start.stop;
  parts->replicas = start.replicas;
  const train::Defaults defaults =
      train::set_defaults(environment, placement.worker.local_world_size);
  parts->device = choose_device(parts->flags.device, placement.worker.local_rank);
  if (parts->device.is_cuda()) {
    // Kernels and libraries use the current device of the thread.
    c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).setDevice(parts->device);
  }
  if (group == nullptr) {
    parts->owned_communicator = connect(start, parts->device);
  }
  parts->communicator = group == nullptr ? parts->owned_communicator.get() : group;
  parts->data_dir = parts->flags.data_dir.value_or(
      os::find_variable(environment, contract::kDataDirectory).value_or("data"));
  parts->run_dir = contract::RunDirectory(choose_run_dir(*parts, start.program));
  parts->events.emplace(parts->run_dir.events(parts->communicator->rank()));
  set_terminal(*parts, environment);
  if (const auto text = os::find_variable(environment, contract::kCommandTime)) {
    parts->command_time = std::strtod(text->c_str(), nullptr);
  }
  if (parts->communicator->rank() == 0) {
    log::info("{}", defaults.text());
    if (defaults.is_blas_slow) {
      log::warn("{} is linked, which is up to 8x slower: apt-get install libopenblas0-pthread",
                defaults.blas);
    }
    warn_of_ignored_variables(parts->flags, environment);
  }
  // The same seed on every worker, so that all create the same initial weights. Training seeds each
  // rank differently later (seed_worker).
  torch::manual_seed(parts->flags.seed.value_or(1));
  return parts;
}

void run_body(Session& session, const std::function<void(Session&)>& body) {
  body(session);
  if (session.wants_verification()) {
    train::throw_not_verified();
  }
  train::warn_of_unused_flags(SessionAccess::parts(session));
  // Rank 0 hosts the store, which other ranks may still read.
  session.communicator().barrier(comm::kEndOfProgram);
  std::fflush(stdout);
}

// Runs several replicas of the program's body in this process, each with its own Session. A stop
// request ends all replicas in the same step. Stopped must not count as a failure of one replica,
// which would abort the others; it is rethrown when all have ended.
void run_replicas(Start start, const std::function<void(Session&)>& body) {
  if (start.flags.verify_strategies) {
    train::require_exact_flags(start.flags);
  }
  if (start.flags.convolution == "auto") {
    // The setting is global to the process, and replicas would disturb each other's measurement.
    start.flags.convolution = "im2col";
  }
  if (start.group.join.transport == "nccl") {
    throw Error(ExitCode::Usage,
                "cannot use NCCL between replicas: they reduce gradients in host memory")
        .fact("replicas", std::to_string(start.replicas), "in this process")
        .hint("--replicas 1, and lockstep run with one worker per GPU; or --collective auto");
  }
  // Processes with replicas communicate through host memory as well.
  const std::unique_ptr<Communicator> outer = connect(start, torch::kCPU);
  const cluster::Placement& placement = start.group.placement;
  std::mutex mutex;
  std::exception_ptr stopped;
  train::run_replicas(
      start.replicas,
      placement,
      outer.get(),
      [&](const train::Replica& replica) {
        Session session =
            SessionAccess::open(open_session(start, replica.placement, &replica.communicator));
        replica.wait_for_turn();
        torch::manual_seed(start.flags.seed.value_or(1));
        try {
          run_body(session, body);
        } catch (const train::Stopped&) {
          const std::lock_guard lock(mutex);
          stopped = std::current_exception();
        }
      },
      [&](const std::exception_ptr& failure) {
        os::leave(train::report_failure(
            failure, {.spec = placement.worker, .watch = start.watch.get(), .stop = &start.stop}));
      });
  if (stopped != nullptr) {
    std::rethrow_exception(stopped);
  }
}

}  // namespace

// Order at start: fork before any thread; then variables; then the signal mask, which threads
// inherit; then everything else. `stop` and `watch` are declared outside the try block, because
// report_failure() uses them to explain a failure of a session that has been destroyed by then.
int run(int argc, char** argv, const Program& program, const std::function<void(Session&)>& body) {
  cluster::Placement placement;
  std::optional<train::StopRequest> stop;
  std::unique_ptr<comm::StallWatch> watch;
  try {
    train::accept_fork_offer(os::environment());
    for (const auto& [name, value] : train::process_variables(os::environment())) {
      os::set_variable(name, value);
    }
    stop.emplace();
    const os::Environment environment = os::environment();
    placement = cluster::read_placement(environment);
    log::open(parse_level(environment),
              placement.worker.world_size > 1 ? fmt::format("rank {}", placement.worker.rank) : "");
    std::string help;
    std::optional<train::Flags> flags = train::parse_flags(argc, argv, program, help);
    if (!flags) {
      if (placement.worker.rank == 0) {
        fmt::print("{}", help);
      }
      return 0;
    }
    const std::string name = std::filesystem::path(argv[0]).filename().string();
    const int replicas = train::choose_replicas(*flags, placement.worker);
    Start start{.flags = *flags,
                .group = train::choose_process_group(*flags, environment, placement),
                .stop = *stop,
                .watch = watch,
                .program = name,
                .replicas = replicas};
    if (replicas > 1) {
      run_replicas(std::move(start), body);
      return 0;
    }
    Session session = SessionAccess::open(open_session(start, start.group.placement));
    run_body(session, body);
    return 0;
  } catch (const train::Verified& news) {
    return news.exit_code();
  } catch (...) {
    return train::report_failure(
        std::current_exception(),
        {.spec = placement.worker, .watch = watch.get(), .stop = stop ? &*stop : nullptr});
  }
}

}  // namespace lockstep
