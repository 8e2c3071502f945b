// SPDX-License-Identifier: Apache-2.0
#include "lockstep/run.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <chrono>
#include <cstdio>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <mutex>
#include <random>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "comm/call_record.h"
#include "comm/join.h"
#include "comm/stall_watch.h"
#include "lockstep/error.h"
#include "os/environment.h"
#include "os/process.h"
#include "os/terminal.h"
#include "strategy/horovod_options.h"
#include "train/defaults.h"
#include "train/fork_workers.h"
#include "train/gang_choice.h"
#include "train/own_loop.h"
#include "train/replicas.h"
#include "train/session_parts.h"
#include "train/stopped.h"
#include "train/verified.h"
#include "train/verify.h"

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

torch::Device choose_device(const std::string& wanted, int local_rank) {
  const bool has_gpu = torch::cuda::is_available();
  if (wanted == "cuda" && !has_gpu) {
    throw Error(ExitCode::Usage, "cannot train on a GPU: libtorch finds none")
        .fact("asked", "--device cuda", "command line")
        .hint("--device cpu");
  }
  if (wanted == "cpu" || !has_gpu) {
    return torch::kCPU;
  }
  const auto count = static_cast<int>(torch::cuda::device_count());
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(local_rank % count)};
}

// The launcher's, the flag's, or one of our own that all workers share.
std::filesystem::path choose_run_dir(const SessionParts& parts, const std::string& program) {
  std::string directory = parts.flags.run_dir.value_or(parts.placement.place.run_directory);
  if (directory.empty() && parts.communicator->rank() == 0) {
    std::random_device chance;
    directory = fmt::format("runs/{}-{:%Y%m%d-%H%M%S}-{:04x}",
                            program,
                            fmt::localtime(std::time(nullptr)),
                            chance() & 0xffffU);
  }
  return parts.communicator->broadcast_bytes(directory);
}

void find_terminal(SessionParts& parts, const os::Environment& environment) {
  constexpr int kMostColumns = 10000;
  parts.terminal_columns =
      contract::find_number(environment, contract::kTerminalColumns, 1, kMostColumns);
  if (!parts.terminal_columns) {
    parts.terminal_columns = os::find_terminal_columns(1);
    parts.is_terminal_ours = parts.terminal_columns.has_value();
  } else if (parts.placement.place.world_size > 1) {
    // The launcher puts "[0]: " before each line.
    parts.terminal_columns = std::max(20, *parts.terminal_columns - 5);
  }
}

// What every Session of this process is made from.
struct Start {
  train::Flags flags;
  train::GangChoice gang;
  train::StopRequest& stop;
  std::unique_ptr<comm::StallWatch>& watch;  // outlives the sessions, to explain their end
  std::string program;
  int replicas = 1;
};

// `device`: that this worker trains on.
std::unique_ptr<Communicator> connect(const Start& start, torch::Device device) {
  comm::JoinOptions options = start.gang.join;
  options.device = device;
  comm::Joined joined = comm::join_gang_and_store(start.gang.placement, options);
  start.watch = comm::watch_for_stalls(
      *joined.communicator, joined.store, start.gang.placement.place, start.gang.stall);
  return std::move(joined.communicator);
}

// Here and not where a strategy is made: --verify-strategies makes many.
void warn_of_ignored_variables(const train::Flags& flags, const os::Environment& environment) {
  if (flags.strategy != "horovod" && !flags.verify_strategies) {
    return;
  }
  const auto ignored = strategy::horovod::ignored_variables(environment);
  if (!ignored.empty()) {
    log::warn("these variables of Horovod's mean nothing here: {}", join(ignored, ", "));
  }
}

// `gang`: the replica's; null: joins the gang.
std::unique_ptr<SessionParts> open_session(const Start& start,
                                           const cluster::Placement& placement,
                                           Communicator* gang = nullptr) {
  const os::Environment environment = os::environment();
  auto parts = std::make_unique<SessionParts>();
  parts->flags = start.flags;
  parts->placement = placement;
  parts->stop = &start.stop;
  parts->replicas = start.replicas;
  const train::Defaults defaults =
      train::set_defaults(environment, placement.place.local_world_size);
  parts->device = choose_device(parts->flags.device, placement.place.local_rank);
  if (parts->device.is_cuda()) {
    // Kernels and libraries go by what is current on the thread.
    c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).setDevice(parts->device);
  }
  if (gang == nullptr) {
    parts->owned_communicator = connect(start, parts->device);
  }
  parts->communicator = gang == nullptr ? parts->owned_communicator.get() : gang;
  parts->data_dir = parts->flags.data_dir.value_or(
      os::find_variable(environment, contract::kDataDirectory).value_or("data"));
  parts->run_dir = contract::RunDirectory(choose_run_dir(*parts, start.program));
  parts->events.emplace(parts->run_dir.events(parts->communicator->rank()));
  find_terminal(*parts, environment);
  if (const auto text = os::find_variable(environment, contract::kCommandTime)) {
    parts->command_time = std::strtod(text->c_str(), nullptr);
  }
  if (parts->communicator->rank() == 0) {
    log::info("{}", defaults.text());
    if (defaults.is_blas_slow) {
      log::warn("{} is linked, up to 8x slower: apt-get install libopenblas0-pthread",
                defaults.blas);
    }
    warn_of_ignored_variables(parts->flags, environment);
  }
  // The same weights on every worker from the beginning; training draws its own numbers later.
  torch::manual_seed(parts->flags.seed.value_or(1));
  return parts;
}

// What the other workers' calls tell of a failure, if it came of one that did not match theirs.
std::optional<comm::Explanation> explain(const std::unique_ptr<comm::StallWatch>& watch) {
  return watch == nullptr ? std::nullopt : watch->explain();
}

int finish(const comm::Explanation& known) {
  if (known.speaks) {
    std::fflush(stdout);
    fmt::print(stderr, "lockstep: error: {}\n", known.error.what());
    std::fflush(stderr);
  } else {
    // Another worker says it; if the launcher ends this one meanwhile, the better.
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  return static_cast<int>(known.error.code());
}

// Says why this worker ends. When a launcher watches, a failure that all workers share is rank 0's
// to tell, and one that follows from another's is nobody's: the others wait to be stopped, which
// ends them on the spot, and speak only if that does not happen.
void report(const Error& fault, const cluster::Placement& placement) {
  const bool is_watched = placement.origin != cluster::Origin::Alone;
  const bool speaks_first = placement.place.rank == 0 && fault.code() != ExitCode::TryAgain;
  if (is_watched && !speaks_first) {
    // mpirun and srun take their time to end the others.
    const bool is_ours = placement.origin == cluster::Origin::Launcher;
    std::this_thread::sleep_for(std::chrono::milliseconds(is_ours ? 1500 : 5000));
  }
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: error: {}\n", fault.what());
  std::fflush(stderr);
}

int finish(const train::Stopped& news, const cluster::Placement& placement) {
  if (placement.place.rank == 0) {
    log::info("{}", news.sentence());
  }
  return static_cast<int>(news.code());
}

// The end of a process that has failed.
int finish(const std::exception_ptr& failure,
           const cluster::Placement& placement,
           const std::unique_ptr<comm::StallWatch>& watch) {
  try {
    std::rethrow_exception(failure);
  } catch (const train::Stopped& news) {
    return finish(news, placement);
  } catch (const Error& fault) {
    if (const auto known = explain(watch)) {
      return finish(*known);
    }
    report(fault, placement);
    return static_cast<int>(fault.code());
  } catch (const std::exception& fault) {
    if (const auto known = explain(watch)) {
      return finish(*known);
    }
    const std::string text = fault.what();
    const Error wrapped = Error(ExitCode::Bug, "cannot go on: an exception left the program")
                              .fact("reason", text.substr(0, text.find('\n')));
    report(wrapped, placement);
    return static_cast<int>(ExitCode::Bug);
  }
}

void run_body(Session& session, const std::function<void(Session&)>& body) {
  body(session);
  if (session.wants_verification()) {
    train::throw_not_verified();
  }
  train::warn_of_unused_flags(session.parts());
  // Rank 0 serves the store that the others may still read.
  session.communicator().barrier(comm::kEndOfProgram);
  std::fflush(stdout);
}

// Several replicas of the program's body in this process, each with a Session of its own. They end
// together when they are stopped: news is then no failure to any of them.
void run_replicas(Start start, const std::function<void(Session&)>& body) {
  if (start.flags.verify_strategies) {
    train::require_exact_flags(start.flags);
  }
  if (start.flags.convolution == "auto") {
    // The choice is one for the whole process, and replicas would disturb each other's timing.
    start.flags.convolution = "im2col";
  }
  if (start.gang.join.transport == "nccl") {
    throw Error(ExitCode::Usage, "cannot use NCCL between replicas: they add up in main memory")
        .fact("replicas", std::to_string(start.replicas), "in this process")
        .hint("--replicas 1, and lockstep run with a worker for each GPU; or --collective auto");
  }
  // So do their processes.
  const std::unique_ptr<Communicator> outer = connect(start, torch::kCPU);
  const cluster::Placement& placement = start.gang.placement;
  std::mutex mutex;
  std::exception_ptr stopped;
  train::run_replicas(
      start.replicas,
      placement,
      outer.get(),
      [&](const train::Replica& replica) {
        Session session(open_session(start, replica.placement, &replica.communicator));
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
        os::leave(finish(failure, placement, start.watch));
      });
  if (stopped != nullptr) {
    std::rethrow_exception(stopped);
  }
}

}  // namespace

int run(int argc, char** argv, const Program& program, const std::function<void(Session&)>& body) {
  cluster::Placement placement;
  std::optional<train::StopRequest> stop;
  std::unique_ptr<comm::StallWatch> watch;
  try {
    train::accept_fork_offer(os::environment());
    stop.emplace();
    const os::Environment environment = os::environment();
    placement = cluster::read_placement(environment);
    log::open(parse_level(environment),
              placement.place.world_size > 1 ? fmt::format("rank {}", placement.place.rank) : "");
    std::string help;
    std::optional<train::Flags> flags = train::parse_flags(argc, argv, program, help);
    if (!flags) {
      if (placement.place.rank == 0) {
        fmt::print("{}", help);
      }
      return 0;
    }
    const std::string name = std::filesystem::path(argv[0]).filename().string();
    const int replicas = train::choose_replicas(*flags, placement.place);
    Start start{.flags = *flags,
                .gang = train::choose_gang(*flags, environment, placement),
                .stop = *stop,
                .watch = watch,
                .program = name,
                .replicas = replicas};
    if (replicas > 1) {
      run_replicas(std::move(start), body);
      return 0;
    }
    Session session(open_session(start, start.gang.placement));
    run_body(session, body);
    return 0;
  } catch (const train::Verified& news) {
    return news.exit_code();
  } catch (...) {
    return finish(std::current_exception(), placement, watch);
  }
}

}  // namespace lockstep
