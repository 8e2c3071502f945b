// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/demand_of.h"

#include <string>

#include "common/base/text.h"
#include "launcher/slurm/time_limit.h"

namespace lockstep::slurm {
namespace {

constexpr int64_t kKibi = 1024;
constexpr int64_t kMaxMebibytes = int64_t{1} << 40;

// Value of a key, if the directive has the same value: `sbatch:` can override the key. `sbatch:
// [--partition=x]` replaces the directive that was derived from the key. The source of such a value
// is not the key, so that an error would point to the wrong line; such values are not checked.
std::optional<Requested<std::string>> find_requested(const Job& job,
                                                     const JobSettings& settings,
                                                     const char* key,
                                                     const char* option) {
  const auto said = settings.find_text(key);
  if (!said || job.directive(option) != *said) {
    return std::nullopt;
  }
  return Requested<std::string>{*said, settings.source_of(key)};
}

std::optional<Requested<int>> find_count(const Job& job,
                                         const char* option,
                                         int count,
                                         std::string source) {
  const bool is_ours = job.directive(option) == std::to_string(count);
  return is_ours ? std::optional(Requested<int>{count, std::move(source)}) : std::nullopt;
}

}  // namespace

// Units as in sbatch: K, M, G, T are powers of 1024, and M is the default. The bound keeps the
// product for T within 64 bits.
std::optional<int64_t> find_mebibytes(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789");
  const auto number = find_integer(text.substr(0, end));
  if (!number || *number > kMaxMebibytes) {
    return std::nullopt;
  }
  std::string_view unit = end == std::string_view::npos ? "M" : text.substr(end);
  if (unit.size() == 2 && (unit[1] == 'B' || unit[1] == 'b')) {
    unit.remove_suffix(1);
  }
  if (unit == "K" || unit == "k") {
    return (*number + kKibi - 1) / kKibi;
  }
  if (unit == "M" || unit == "m") {
    return *number;
  }
  if (unit == "G" || unit == "g") {
    return *number * kKibi;
  }
  return unit == "T" || unit == "t" ? std::optional(*number * kKibi * kKibi) : std::nullopt;
}

Demand demand_of(const Job& job, const JobSettings& settings) {
  Demand demand;
  demand.partition = find_requested(job, settings, "partition", "partition");
  demand.account = find_requested(job, settings, "account", "account");
  demand.qos = find_requested(job, settings, "qos", "qos");
  demand.constraint = find_requested(job, settings, "constraint", "constraint");
  demand.nodes = find_count(job, "nodes", job.nodes, settings.source_of("num_nodes"));
  if (find_count(job, "ntasks-per-node", job.tasks_per_node, "") &&
      find_count(job, "cpus-per-task", job.cpus_per_task, "")) {
    demand.cpus_per_node =
        Requested<int>{job.tasks_per_node * job.cpus_per_task, settings.source_of("cpus_per_task")};
  }
  if (job.gpus_per_node > 0 && settings.text("gpu_request") != "none") {
    demand.gpus_per_node = Requested<int>{job.gpus_per_node, settings.source_of("gpus_per_node")};
    if (const auto type = settings.find_text("gpu_type")) {
      demand.gpu_type = Requested<std::string>{*type, settings.source_of("gpu_type")};
    }
  }
  if (const auto memory = find_requested(job, settings, "memory", "mem")) {
    if (const auto mebibytes = find_mebibytes(memory->value)) {
      demand.memory_mib = Requested<int64_t>{*mebibytes, memory->source};
    }
  }
  if (const auto time = find_requested(job, settings, "time", "time")) {
    demand.minutes = Requested<int64_t>{parse_minutes(time->value, time->source), time->source};
  }
  return demand;
}

}  // namespace lockstep::slurm
