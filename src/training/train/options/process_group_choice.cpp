// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/process_group_choice.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/strategy/properties.h"

namespace lockstep::train {
namespace {

constexpr int kMaxSeconds = 1 << 30;

// The transport that Horovod's variables select, if any.
std::optional<std::string> find_horovod_transport(const os::Environment& environment) {
  // In Horovod the first selects the library that moves tensors, the second the one that
  // negotiates. Here one transport does both, and the first variable has precedence.
  for (const std::string_view name : {"HOROVOD_CPU_OPERATIONS", "HOROVOD_CONTROLLER"}) {
    const auto value = os::find_variable(environment, name);
    if (!value || value->empty()) {
      continue;
    }
    const std::string transport = to_lower(*value);
    if (transport != "mpi" && transport != "gloo") {
      throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for {}", *value, name))
          .fact("expected", "mpi, gloo")
          .fact("found", *value, "environment")
          .hint(fmt::format("{}=gloo, or --transport NAME instead", name));
    }
    return transport;
  }
  return std::nullopt;
}

// Command line, then variables, then defaults. An interface of the launcher precedes that of
// Horovod.
void heed_horovod(const Flags& flags,
                  const os::Environment& environment,
                  ProcessGroupChoice& choice) {
  const auto transport = find_horovod_transport(environment);
  // lockstep's launcher sets HOROVOD_CONTROLLER=gloo for Python programs; it is not a user choice.
  const bool is_our_advice = choice.placement.launched_by == cluster::LaunchedBy::Launcher &&
                             environment.contains(contract::kRunId) && transport == "gloo";
  if (flags.transport == "auto" && transport && !is_our_advice) {
    choice.join.transport = *transport;
  }
  if (choice.placement.worker.interface.empty()) {
    choice.placement.worker.interface =
        os::find_variable(environment, "HOROVOD_GLOO_IFACE").value_or("");
  }
  const auto timeout =
      contract::find_number(environment, "HOROVOD_GLOO_TIMEOUT_SECONDS", 1, kMaxSeconds);
  if (timeout && !flags.timeout) {
    choice.join.timeout = std::chrono::seconds(*timeout);
  }
}

// `!(x >= 0)` also rejects NaN.
comm::StallOptions choose_stall(const Flags& flags, const os::Environment& environment) {
  comm::StallOptions stall;
  const auto check =
      contract::find_number(environment, "HOROVOD_STALL_CHECK_TIME_SECONDS", 0, kMaxSeconds);
  const auto disable = os::find_variable(environment, "HOROVOD_STALL_CHECK_DISABLE");
  const auto shutdown =
      contract::find_number(environment, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0, kMaxSeconds);
  if (flags.stall_warning) {
    stall.warning = *flags.stall_warning;
  } else if (disable && !disable->empty() && *disable != "0") {
    stall.warning = 0;
  } else if (check) {
    stall.warning = *check;
  }
  if (!(stall.warning >= 0)) {
    throw Error(ExitCode::Usage, "--stall-warning must not be negative")
        .fact("--stall-warning", fmt::format("{}", stall.warning), "command line")
        .hint("--stall-warning 10, or 0 to disable the warning");
  }
  stall.shutdown = shutdown.value_or(0);
  return stall;
}

}  // namespace

ProcessGroupChoice choose_process_group(const Flags& flags,
                                        const os::Environment& environment,
                                        cluster::Placement placement) {
  ProcessGroupChoice choice{.placement = std::move(placement),
                            .join = {.transport = flags.transport},
                            .stall = choose_stall(flags, environment)};
  if (flags.timeout) {
    choice.join.timeout = std::chrono::milliseconds(static_cast<int64_t>(*flags.timeout * 1000));
  }
  if (strategy::has(flags.strategy, &strategy::Properties::has_horovod_options)) {
    heed_horovod(flags, environment, choice);
  }
  return choice;
}

}  // namespace lockstep::train
