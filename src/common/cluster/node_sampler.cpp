// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/node_sampler.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/cluster/available_memory.h"
#include "common/cluster/cgroup.h"
#include "common/cluster/cores.h"
#include "common/cluster/counters.h"
#include "common/os/host.h"
#include "common/os/processors.h"

namespace lockstep::cluster {
namespace {

// Counters can decrease: a worker was restarted under the same number, or a process of its tree
// ended between two readings. The rate is then 0 instead of negative.
double rate(double now, double before, double seconds) {
  return seconds > 0 ? std::max(0.0, now - before) / seconds : 0;
}

}  // namespace

NodeSampler::NodeSampler(Options options)
    : options_(std::move(options)),
      processors_(os::usable_processor_numbers()),
      granted_(granted_cores()),
      has_quota_(find_cpu_quota(read_kernel_text(options_.root / "proc/self/cgroup"),
                                options_.root / "sys/fs/cgroup")
                     .has_value()),
      nvml_(options_.nvml),
      trees_(options_.root / "proc") {}

// With a CPU quota instead of a CPU set, the processors are shared with other users. Only the
// cgroup knows which part of their time this job used.
double NodeSampler::count_busy_seconds(const std::string& membership) const {
  const auto used = has_quota_
                        ? find_cgroup_cpu_seconds(membership, options_.root / "sys/fs/cgroup")
                        : std::nullopt;
  return used ? *used : busy_seconds(read_kernel_text(options_.root / "proc/stat"), processors_);
}

// The time is taken once, before the counters are read, and is used for all rates of the sample.
// Counters of interfaces are passed on as totals since boot; readers compute rates, because samples
// can be missing.
contract::NodeSample NodeSampler::sample(std::span<const WatchedWorker> workers) {
  const auto now = Clock::now();
  const double seconds = before_ ? std::chrono::duration<double>(now - *before_).count() : 0;
  const std::string membership = read_kernel_text(options_.root / "proc/self/cgroup");
  contract::NodeSample sample;
  sample.time = wall_time();
  sample.node = options_.node;
  sample.host = os::host_name();
  sample.granted = granted_;
  const double busy = count_busy_seconds(membership);
  sample.cores = rate(busy, busy_before_, seconds);
  sample.memory_limit_bytes = memory_limit_bytes(read_kernel_text(options_.root / "proc/meminfo"),
                                                 membership,
                                                 options_.root / "sys/fs/cgroup");
  sample.interfaces = read_interfaces(options_.root / "sys");
  sample.gpus = nvml_.sample(now);
  sample.no_gpus = nvml_.why_not();
  add_workers(sample, workers, seconds);
  before_ = now;
  busy_before_ = busy;
  return sample;
}

// A worker is identified by its process number; after a restart the number is new, so that its
// first rate is 0. The memory of the node is the sum over its workers, not that of the machine.
void NodeSampler::add_workers(contract::NodeSample& sample,
                              std::span<const WatchedWorker> workers,
                              double seconds) {
  std::vector<int> roots;
  for (const WatchedWorker& worker : workers) {
    roots.push_back(worker.pid);
  }
  const std::vector<TreeUse> uses = trees_.look(roots);
  std::map<int, double> cpu;
  for (size_t i = 0; i < workers.size(); ++i) {
    const WatchedWorker& worker = workers[i];
    const TreeUse& use = uses[i];
    const auto before = cpu_before_.find(worker.pid);
    cpu[worker.pid] = use.cpu_seconds;
    if (use.processes == 0) {
      continue;  // it has just ended
    }
    sample.memory_bytes += use.memory_bytes;
    sample.workers.push_back(
        {.rank = worker.rank,
         .pid = worker.pid,
         .cores = before == cpu_before_.end() ? 0 : rate(use.cpu_seconds, before->second, seconds),
         .memory_bytes = use.memory_bytes,
         .read_bytes = use.read_bytes,
         .written_bytes = use.written_bytes,
         .gpus = name_gpus(worker.visible_gpus, sample.gpus)});
  }
  cpu_before_ = std::move(cpu);
}

// The UUID in CUDA_VISIBLE_DEVICES can be abbreviated ("GPU-3f2a"), so prefixes match.
std::vector<int> name_gpus(const std::optional<std::string>& visible,
                           std::span<const contract::GpuSample> gpus) {
  std::vector<int> named;
  if (!visible) {
    for (const contract::GpuSample& gpu : gpus) {
      named.push_back(gpu.index);
    }
    return named;
  }
  for (const std::string& word : split(*visible, ',')) {
    const auto number = find_integer(word);
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const contract::GpuSample& one) {
      return number ? one.index == *number : !word.empty() && one.uuid.starts_with(word);
    });
    if (gpu == gpus.end()) {
      break;  // CUDA stops at the first invalid entry
    }
    named.push_back(gpu->index);
  }
  return named;
}

}  // namespace lockstep::cluster
