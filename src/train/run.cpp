// SPDX-License-Identifier: Apache-2.0
#include "lockstep/run.h"

#include <chrono>
#include <cstdio>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <random>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "comm/join.h"
#include "lockstep/error.h"
#include "os/environment.h"
#include "os/terminal.h"
#include "train/defaults.h"
#include "train/fork_workers.h"
#include "train/session_parts.h"
#include "train/stopped.h"

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

std::unique_ptr<SessionParts> open_session(train::Flags flags,
                                           const cluster::Placement& placement,
                                           train::StopRequest& stop,
                                           const std::string& program) {
  const os::Environment environment = os::environment();
  auto parts = std::make_unique<SessionParts>();
  parts->flags = std::move(flags);
  parts->placement = placement;
  parts->stop = &stop;
  const train::Defaults defaults =
      train::set_defaults(environment, placement.place.local_world_size);
  parts->owned_communicator = comm::join_gang(
      placement,
      {.transport = parts->flags.transport,
       .timeout = std::chrono::milliseconds(static_cast<int64_t>(parts->flags.timeout * 1000))});
  parts->communicator = parts->owned_communicator.get();
  parts->device = choose_device(parts->flags.device, placement.place.local_rank);
  parts->data_dir = parts->flags.data_dir.value_or(
      os::find_variable(environment, contract::kDataDirectory).value_or("data"));
  parts->run_dir = contract::RunDirectory(choose_run_dir(*parts, program));
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
  }
  // The same weights on every worker from the beginning; training draws its own numbers later.
  torch::manual_seed(parts->flags.seed.value_or(1));
  return parts;
}

// Says why this worker ends. When a launcher watches, a failure that all workers share is rank 0's
// to tell, and one that follows from another's is nobody's: the others wait to be stopped, which
// ends them on the spot, and speak only if that does not happen.
void report(const Error& fault, const cluster::Placement& placement) {
  const bool is_watched = placement.origin != cluster::Origin::Alone;
  const bool speaks_first = placement.place.rank == 0 && fault.code() != ExitCode::TryAgain;
  if (is_watched && !speaks_first) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
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

}  // namespace

int run(int argc, char** argv, const Program& program, const std::function<void(Session&)>& body) {
  cluster::Placement placement;
  std::optional<train::StopRequest> stop;
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
    Session session(open_session(std::move(*flags), placement, *stop, name));
    body(session);
    // Rank 0 serves the store that the others may still read.
    session.communicator().barrier();
    std::fflush(stdout);
    return 0;
  } catch (const train::Stopped& news) {
    return finish(news, placement);
  } catch (const Error& fault) {
    report(fault, placement);
    return static_cast<int>(fault.code());
  } catch (const std::exception& fault) {
    const std::string text = fault.what();
    const Error wrapped = Error(ExitCode::Bug, "cannot go on: an exception left the program")
                              .fact("reason", text.substr(0, text.find('\n')));
    report(wrapped, placement);
    return static_cast<int>(ExitCode::Bug);
  }
}

}  // namespace lockstep
