// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/options.h"

#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::strategy::horovod {
namespace {

// Variables of Horovod 0.28 that have no meaning here.
constexpr std::array kIgnored = {"HOROVOD_ADASUM_MPI_CHUNK_SIZE",
                                 "HOROVOD_AUTOTUNE_BAYES_OPT_NUM_SAMPLES",
                                 "HOROVOD_BATCH_D2D_MEMCOPIES",
                                 "HOROVOD_CCL_BGT_AFFINITY",
                                 "HOROVOD_CCL_CACHE",
                                 "HOROVOD_DISABLE_GROUP_FUSION",
                                 "HOROVOD_DISABLE_NVTX_RANGES",
                                 "HOROVOD_DYNAMIC_PROCESS_SETS",
                                 "HOROVOD_ELASTIC",
                                 "HOROVOD_ENABLE_ASYNC_COMPLETION",
                                 "HOROVOD_ENABLE_XLA_OPS",
                                 "HOROVOD_HIERARCHICAL_ALLGATHER",
                                 "HOROVOD_LOG_HIDE_TIME",
                                 "HOROVOD_LOG_LEVEL",
                                 "HOROVOD_MPI_THREADS_DISABLE",
                                 "HOROVOD_NUM_NCCL_STREAMS",
                                 "HOROVOD_THREAD_AFFINITY",
                                 "HOROVOD_TORUS_ALLREDUCE"};

// Reads variables of Horovod. A malformed number is an Error; Horovod would read it as 0.
class Variables {
 public:
  explicit Variables(const os::Environment& environment) : environment_(environment) {}

  void text(const char* name, std::string& into) const {
    if (const auto value = os::find_variable(environment_, name)) {
      into = *value;
    }
  }

  // Horovod treats every number above 0 as true.
  void flag(const char* name, bool& into) const {
    int64_t number = 0;
    if (read(name, "0 or 1", number)) {
      into = number > 0;
    }
  }

  void whole(const char* name, int64_t minimum, int64_t& into) const {
    const std::string expected = fmt::format("a whole number of at least {}", minimum);
    int64_t number = 0;
    if (read(name, expected, number)) {
      require(number >= minimum, name, expected);
      into = number;
    }
  }

  void whole(const char* name, int minimum, int& into) const {
    int64_t number = into;
    whole(name, minimum, number);
    require(number <= 1'000'000, name, "a whole number of at most 1000000");
    into = static_cast<int>(number);
  }

  void number(const char* name, double minimum, double& into) const {
    const std::string expected = fmt::format("a number of at least {:g}", minimum);
    double value = 0;
    if (read(name, expected, value)) {
      require(std::isfinite(value) && value >= minimum, name, expected);
      into = value;
    }
  }

 private:
  template <typename Number>
  bool read(const char* name, const std::string& expected, Number& into) const {
    const auto value = os::find_variable(environment_, name);
    if (!value) {
      return false;
    }
    const std::string_view text = trim(*value);
    const auto [rest, fault] = std::from_chars(text.data(), text.data() + text.size(), into);
    require(fault == std::errc() && rest == text.data() + text.size(), name, expected);
    return true;
  }

  void require(bool is_right, const char* name, const std::string& expected) const {
    if (is_right) {
      return;
    }
    throw Error(ExitCode::Usage, fmt::format("invalid value for {}", name))
        .fact("expected", expected)
        .fact("found",
              fmt::format("'{}'", os::find_variable(environment_, name).value_or("")),
              "environment")
        .hint(fmt::format("unset {}", name));
  }

  const os::Environment& environment_;
};

// `what` is a format string for the number: "a cycle time of {:g} ms".
void require_not_negative(const char* what, double found, const char* hint) {
  if (std::isfinite(found) && found >= 0) {
    return;
  }
  throw Error(ExitCode::Usage,
              fmt::format("-s horovod does not accept {}", fmt::format(fmt::runtime(what), found)))
      .fact("expected", "a number of at least 0")
      .hint(hint);
}

}  // namespace

HorovodOptions with_environment(HorovodOptions options, const os::Environment& environment) {
  const Variables variables(environment);
  variables.whole("HOROVOD_FUSION_THRESHOLD", int64_t{0}, options.fusion_bytes);
  variables.number("HOROVOD_CYCLE_TIME", 0, options.cycle_ms);
  variables.whole("HOROVOD_CACHE_CAPACITY", int64_t{0}, options.cache_capacity);
  variables.text("HOROVOD_TIMELINE", options.timeline);
  variables.flag("HOROVOD_TIMELINE_MARK_CYCLES", options.mark_cycles);
  variables.number("HOROVOD_STALL_CHECK_TIME_SECONDS", 0, options.stall_warning);
  variables.number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0, options.stall_shutdown);
  bool no_check = false;
  variables.flag("HOROVOD_STALL_CHECK_DISABLE", no_check);
  // Horovod's flag disables both the warning and the shutdown, regardless of the times.
  if (no_check) {
    options.stall_warning = 0;
    options.stall_shutdown = 0;
  }
  variables.flag("HOROVOD_AUTOTUNE", options.autotune);
  variables.text("HOROVOD_AUTOTUNE_LOG", options.autotune_log);
  variables.whole("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", 0, options.autotune_warmup_samples);
  variables.whole("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", 1, options.autotune_steps_per_sample);
  variables.whole("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", 1, options.autotune_max_samples);
  variables.number("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", 0, options.autotune_noise);
  // In Horovod, DYNAMIC waits for hvd.start_timeline(), which has no counterpart here.
  if (options.timeline == "DYNAMIC") {
    throw Error(ExitCode::Usage, "the timeline cannot be started during training")
        .fact("found", "HOROVOD_TIMELINE=DYNAMIC", "environment")
        .hint("HOROVOD_TIMELINE=timeline.json");
  }
  return options;
}

std::vector<std::string> ignored_variables(const os::Environment& environment) {
  std::vector<std::string> found;
  for (const char* name : kIgnored) {
    if (os::find_variable(environment, name)) {
      found.emplace_back(name);
    }
  }
  return found;
}

void require_sense(const StrategyOptions& options, int workers) {
  const HorovodOptions& horovod = options.horovod;
  const std::vector<std::string> reductions = {"average", "sum", "adasum"};
  if (std::find(reductions.begin(), reductions.end(), horovod.reduction) == reductions.end()) {
    throw Error(ExitCode::Usage, fmt::format("unknown reduction '{}'", horovod.reduction))
        .fact("requested", fmt::format("--reduction {}", horovod.reduction), "command line")
        .fact("available", join(reductions, ", "))
        .hint(fmt::format("--reduction {}",
                          find_closest(horovod.reduction, reductions).value_or("average")));
  }
  if (options.compression == Compression::PowerSgd) {
    throw Error(ExitCode::Usage, "-s horovod does not support PowerSGD")
        .fact("requested", "--compression powersgd", "command line")
        .hint("-s ddp --compression powersgd, or --compression bf16");
  }
  // adasum_tree() combines pairs. (workers & (workers - 1)) clears the lowest bit and is 0 for
  // powers of two only.
  const bool is_adasum = horovod.reduction == "adasum";
  if (is_adasum && (workers & (workers - 1)) != 0) {
    throw Error(ExitCode::Usage,
                fmt::format("Adasum needs 2, 4, 8, 16 ... workers, not {}", workers))
        .fact("requested", "--reduction adasum", "command line")
        .fact("expected", "2, 4, 8, 16 ... workers")
        .hint("another number of workers, or --reduction average");
  }
  if (horovod.predivide_factor != 1 && horovod.reduction != "average") {
    throw Error(ExitCode::Usage,
                fmt::format("--gradient-predivide-factor cannot be used with --reduction {}",
                            horovod.reduction))
        .fact("requested",
              fmt::format("--gradient-predivide-factor {:g}", horovod.predivide_factor),
              "command line")
        .hint("--reduction average");
  }
  if (!std::isfinite(horovod.predivide_factor) || horovod.predivide_factor <= 0) {
    throw Error(ExitCode::Usage,
                fmt::format("--gradient-predivide-factor must be above 0, not {:g}",
                            horovod.predivide_factor))
        .fact("expected", "a number above 0")
        .hint(fmt::format("--gradient-predivide-factor {}", workers));
  }
  require_not_negative("a fusion buffer of {:g} bytes",
                       static_cast<double>(horovod.fusion_bytes),
                       "--fusion-threshold-mb 128");
  require_not_negative("a cycle time of {:g} ms", horovod.cycle_ms, "--cycle-time-ms 1");
  require_not_negative("a cache of {:g} tensors",
                       static_cast<double>(horovod.cache_capacity),
                       "--cache-capacity 1024");
}

}  // namespace lockstep::strategy::horovod
