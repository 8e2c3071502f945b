// SPDX-License-Identifier: Apache-2.0
//
// Precedence of the sources, see Counter::count():
//
//   tasks of an outer launcher > --nproc-per-node N > -np > --nproc-per-node cpu|gpu|auto
//     > devices and slots of hosts > tasks of the Slurm job > its GPUs > (deepspeed: GPUs) > 1
//
// A number that contradicts slots, tasks or GPUs is an error that shows both sources: the usual
// cause is a batch script whose #SBATCH lines and options were changed independently.
#include "launcher/plan/workers.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "common/base/text.h"
#include "launcher/plan/allocation.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

std::string name_of(const cluster::Host& host) {
  return host.name.empty() ? "a node" : host.name;
}

class Counter {
 public:
  Counter(const Request& request,
          const HostEnvironment& here,
          const Sizes& sizes,
          const LaunchTarget& target)
      : request_(request),
        here_(here),
        sizes_(sizes),
        target_(target),
        allocation_(read_allocation(here, target)) {}

  WorkerCounts count() {
    if (target_.mode.value == LaunchMode::Task) {
      take_tasks();
    } else if (sizes_.per_node && sizes_.per_node->rule == WorkerRule::Number) {
      take_number();
    } else if (sizes_.total) {
      take_total();
    } else if (sizes_.per_node) {
      take_rule();
    } else {
      take_offer();
    }
    for (size_t i = 0; i < counts_.per_node.size(); ++i) {
      require_gpus(i);
    }
    return std::move(counts_);
  }

 private:
  bool is_here() const { return target_.mode.value == LaunchMode::Local; }

  void add(int workers, Source source) { counts_.per_node.push_back({workers, std::move(source)}); }

  // Each task becomes one worker.
  void take_tasks() {
    const int mine = target_.rendezvous.local_world_size;
    if (sizes_.per_node && sizes_.per_node->rule == WorkerRule::Number &&
        sizes_.per_node->number != mine) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot start {}: each of the {} on this node becomes one worker",
                              plural(sizes_.per_node->number, "worker"),
                              plural(mine, "task")))
          .fact("requested", sizes_.per_node->provenance.text, sizes_.per_node->provenance.source)
          .fact("found", plural(mine, "task") + " on this node", target_.named_by)
          .hint(fmt::format("drop {}", sizes_.per_node->flag))
          .hint(fmt::format("one task per node: srun --ntasks-per-node=1 {} {} {} PROGRAM",
                            command_of(request_.dialect),
                            sizes_.per_node->flag,
                            sizes_.per_node->number));
    }
    if (sizes_.total && sizes_.total->number != target_.rendezvous.world_size) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot start {}: each of the {} becomes one worker",
                              plural(sizes_.total->number, "worker"),
                              plural(target_.rendezvous.world_size, "task")))
          .fact("requested", sizes_.total->provenance.text, sizes_.total->provenance.source)
          .fact("found", plural(target_.rendezvous.world_size, "task"), target_.named_by)
          .hint("drop -np");
    }
    for (const cluster::Host& host : target_.hosts) {
      add(host.slots.value_or(mine), target_.mode.source);
    }
  }

  void take_number() {
    for (size_t i = 0; i < target_.hosts.size(); ++i) {
      require_slots(i);
      require_tasks(i);
      add(sizes_.per_node->number, sizes_.per_node->source);
    }
  }

  void require_slots(size_t i) const {
    const cluster::Host& host = target_.hosts[i];
    const int requested = sizes_.per_node->number;
    if (!host.slots || requested <= *host.slots || request_.may_share_gpus) {
      return;
    }
    throw Error(
        ExitCode::Usage,
        fmt::format(
            "cannot start {} on {}: not enough slots", plural(requested, "worker"), name_of(host)))
        .fact("requested", sizes_.per_node->provenance.text, sizes_.per_node->provenance.source)
        .fact("found", plural(*host.slots, "slot"), target_.named_by)
        .hint(
            fmt::format("{} {}, or drop it to use every slot", sizes_.per_node->flag, *host.slots));
  }

  // Equal and not only at most: with fewer workers than tasks, cores of the allocation would stay
  // idle without a message.
  void require_tasks(size_t i) const {
    const int requested = sizes_.per_node->number;
    if (allocation_.tasks.empty() || allocation_.tasks[i] == requested) {
      return;
    }
    throw Error(ExitCode::Usage,
                fmt::format("cannot start {} on {}: the job requested {} there",
                            plural(requested, "worker"),
                            name_of(target_.hosts[i]),
                            plural(allocation_.tasks[i], "task")))
        .fact("requested", sizes_.per_node->provenance.text, sizes_.per_node->provenance.source)
        .fact("requested", allocation_.tasks_said, allocation_.source)
        .hint(fmt::format("{} {}, or drop it", sizes_.per_node->flag, allocation_.tasks[i]))
        .hint(fmt::format("submit the job with --ntasks-per-node={}", requested));
  }

  // As in horovodrun, -np fills the slots from the first host on; without slots, equal shares.
  void take_total() {
    const int requested = sizes_.total->number;
    const bool has_slots =
        std::all_of(target_.hosts.begin(), target_.hosts.end(), [](const cluster::Host& host) {
          return host.slots.has_value();
        });
    if (has_slots && target_.mode.value != LaunchMode::Srun) {
      fill_slots(requested);
      return;
    }
    if (std::accumulate(allocation_.tasks.begin(), allocation_.tasks.end(), 0) == requested) {
      for (const int tasks : allocation_.tasks) {
        add(tasks, sizes_.total->source);
      }
      return;
    }
    const auto nodes = static_cast<int>(target_.hosts.size());
    if (requested % nodes != 0) {
      refuse_shares(requested, nodes);
    }
    for (int node = 0; node < nodes; ++node) {
      add(requested / nodes, sizes_.total->source);
    }
  }

  [[noreturn]] void refuse_shares(int requested, int nodes) const {
    Error error(ExitCode::Usage,
                fmt::format("cannot divide {} among {} nodes", plural(requested, "worker"), nodes));
    error.fact("requested", sizes_.total->provenance.text, sizes_.total->provenance.source);
    error.fact("found", fmt::format("{} nodes", nodes), target_.named_by);
    if (!allocation_.tasks.empty()) {
      error.fact("requested", allocation_.tasks_said, allocation_.source);
    }
    error.hint(fmt::format("-np {}", (requested / nodes + 1) * nodes));
    error.hint("unequal numbers: -H host1:3,host2:2");
    throw std::move(error);
  }

  // Hosts that get 0 workers are removed by place_nodes() in plan.cpp.
  void fill_slots(int requested) {
    const int slots = std::accumulate(
        target_.hosts.begin(), target_.hosts.end(), 0, [](int sum, const cluster::Host& host) {
          return sum + *host.slots;
        });
    if (requested > slots) {
      throw Error(
          ExitCode::Usage,
          fmt::format("cannot start {} in {}", plural(requested, "worker"), plural(slots, "slot")))
          .fact("requested", sizes_.total->provenance.text, sizes_.total->provenance.source)
          .fact("found", plural(slots, "slot"), target_.named_by)
          .hint(fmt::format("-np {}, or more slots: -H host1:4,host2:4", slots));
    }
    int left = requested;
    for (const cluster::Host& host : target_.hosts) {
      const int taken = std::min(left, *host.slots);
      add(taken, sizes_.total->source);
      left -= taken;
    }
  }

  // cpu, gpu or auto: counted here for this node; for other nodes from the allocation, if it shows
  // the number, else on the node.
  void take_rule() {
    counts_.rule = sizes_.per_node->rule;
    for (size_t i = 0; i < target_.hosts.size(); ++i) {
      if (is_here()) {
        add_counted_here();
      } else if (!add_counted_by_slurm(i)) {
        add(0, sizes_.per_node->source);
      }
    }
    const bool is_known = std::all_of(counts_.per_node.begin(),
                                      counts_.per_node.end(),
                                      [](const auto& count) { return count.value > 0; });
    if (is_known) {
      counts_.rule = WorkerRule::Number;
    }
  }

  // Devices that --include selects count instead of all GPUs of this node.
  void add_counted_here() {
    const WorkerRule rule = sizes_.per_node->rule;
    const std::string& said = sizes_.per_node->provenance.text;
    const auto chosen = static_cast<int>(target_.hosts.front().gpus.size());
    const int gpus = chosen > 0 ? chosen : here_.gpus;
    if (rule == WorkerRule::Gpu && gpus == 0) {
      Error error(ExitCode::Usage, "cannot start one worker per GPU: this node has no GPU");
      error.fact("requested", said, sizes_.per_node->provenance.source);
      add_missing_gpus(error, here_);
      error.hint(fmt::format("{} cpu", sizes_.per_node->flag));
      throw std::move(error);
    }
    if (rule == WorkerRule::Gpu || (rule == WorkerRule::Auto && gpus > 0)) {
      add(gpus, {sizes_.per_node->source.kind, said + ", one per GPU"});
    } else {
      add(here_.cores, {sizes_.per_node->source.kind, said + ", one per granted core"});
    }
  }

  // Prefers a number that Slurm reports to counting on the node: the plan is then complete before
  // any agent runs, and --dry-run shows it. `auto` without GPUs in the job is left to the node,
  // because its GPUs need not be a resource of Slurm.
  bool add_counted_by_slurm(size_t i) {
    const WorkerRule rule = sizes_.per_node->rule;
    if (rule != WorkerRule::Cpu && allocation_.gpus.value_or(0) > 0) {
      add(*allocation_.gpus, {ValueSource::Probe, allocation_.source + ", its GPUs"});
      return true;
    }
    if (rule == WorkerRule::Cpu && !allocation_.cpus.empty()) {
      add(allocation_.cpus[i], {ValueSource::Probe, allocation_.source + ", its cores"});
      return true;
    }
    return false;
  }

  // Without a requested size: the slots of the hosts or the allocation of Slurm.
  void take_offer() {
    const bool wants_gpus = request_.dialect == Dialect::Deepspeed && is_here() && here_.gpus > 0;
    for (size_t i = 0; i < target_.hosts.size(); ++i) {
      const cluster::Host& host = target_.hosts[i];
      if (!host.gpus.empty()) {
        add(static_cast<int>(host.gpus.size()),
            {ValueSource::Flag, target_.named_by + ", its devices"});
      } else if (host.slots) {
        add(*host.slots, {ValueSource::Flag, target_.named_by + ", its slots"});
      } else if (!allocation_.tasks.empty()) {
        add(allocation_.tasks[i],
            {ValueSource::Probe,
             fmt::format("{}, {}", allocation_.source, allocation_.tasks_said)});
      } else if (allocation_.gpus.value_or(0) > 0) {
        add(*allocation_.gpus, {ValueSource::Probe, allocation_.source + ", its GPUs"});
      } else if (wants_gpus) {
        add(here_.gpus, {ValueSource::Probe, "one per GPU, as in deepspeed"});
      } else {
        add(1, {});
      }
    }
  }

  // Number of GPUs of a node, as far as known here; 0: unknown or none.
  std::pair<int, std::string> known_gpus(size_t i) const {
    const cluster::Host& host = target_.hosts[i];
    if (!host.gpus.empty()) {
      return {static_cast<int>(host.gpus.size()), target_.named_by};
    }
    const bool is_mine =
        target_.mode.value == LaunchMode::Peers && target_.rendezvous.node == static_cast<int>(i);
    if (is_here() || is_mine) {
      return {here_.gpus, "/dev and CUDA_VISIBLE_DEVICES"};
    }
    return {target_.mode.value == LaunchMode::Srun ? allocation_.gpus.value_or(0) : 0,
            allocation_.source};
  }

  // Intentionally without GPUs: one worker per core was requested, or the devices are hidden.
  bool is_without_gpus() const {
    const auto devices = os::find_variable(here_.environment, "CUDA_VISIBLE_DEVICES");
    return (sizes_.per_node && sizes_.per_node->rule == WorkerRule::Cpu) ||
           (devices && (devices->empty() || *devices == "-1"));
  }

  // More workers than GPUs would fail later, with an error of NCCL ("Duplicate GPU detected") or
  // out of memory. Only known numbers are compared; 0 can mean that the GPUs of another node are
  // unknown here.
  void require_gpus(size_t i) const {
    const int workers = counts_.per_node[i].value;
    const auto [gpus, source] = known_gpus(i);
    if (gpus == 0 || workers <= gpus || request_.may_share_gpus || is_without_gpus()) {
      return;
    }
    const Provenance* requested = sizes_.per_node ? &sizes_.per_node->provenance
                                  : sizes_.total  ? &sizes_.total->provenance
                                                  : nullptr;
    throw Error(ExitCode::Usage,
                fmt::format("cannot start {} on {} of {}",
                            plural(workers, "worker"),
                            plural(gpus, "GPU"),
                            name_of(target_.hosts[i])))
        .fact("requested",
              requested != nullptr ? requested->text : plural(workers, "worker"),
              requested != nullptr ? requested->source : describe(counts_.per_node[i].source))
        .fact("found", plural(gpus, "GPU"), source)
        .hint(fmt::format(
            "{} {}", sizes_.per_node ? sizes_.per_node->flag : "--nproc-per-node", gpus))
        .hint("--share-gpus, if workers share GPUs or use none");
  }

  const Request& request_;
  const HostEnvironment& here_;
  const Sizes& sizes_;
  const LaunchTarget& target_;
  Allocation allocation_;
  WorkerCounts counts_;
};

}  // namespace

void add_missing_gpus(Error& error, const HostEnvironment& here) {
  if (here.no_gpus.empty()) {
    error.fact("found", "no GPU", "/dev and CUDA_VISIBLE_DEVICES");
    return;
  }
  error.fact("found", here.no_gpus, "NVML");
  error.hint("nvidia-smi -L lists slices; Slurm grants them with --gres=gpu:PROFILE:COUNT");
  error.hint("root creates slices: nvidia-smi mig -lgip, then nvidia-smi mig -cgi ID -C");
}

WorkerCounts count_workers(const Request& request,
                           const HostEnvironment& here,
                           const Sizes& sizes,
                           const LaunchTarget& target) {
  return Counter(request, here, sizes, target).count();
}

}  // namespace lockstep::plan
