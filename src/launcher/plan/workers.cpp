// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/workers.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "common/base/text.h"
#include "launcher/plan/grant.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

std::string name_of(const cluster::Host& host) {
  return host.name.empty() ? "a node" : host.name;
}

class Counter {
 public:
  Counter(const Request& request,
          const Surroundings& here,
          const Sizes& sizes,
          const Ground& ground)
      : request_(request),
        here_(here),
        sizes_(sizes),
        ground_(ground),
        grant_(read_grant(here, ground)) {}

  WorkerCounts count() {
    if (ground_.way.value == Way::Task) {
      take_tasks();
    } else if (sizes_.per_node && sizes_.per_node->rule == WorkerRule::Number) {
      take_number();
    } else if (sizes_.in_all) {
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
  bool is_here() const { return ground_.way.value == Way::Here; }

  void add(int workers, Source source) { counts_.per_node.push_back({workers, std::move(source)}); }

  // Each task becomes one worker.
  void take_tasks() {
    const int mine = ground_.meeting.local_world_size;
    if (sizes_.per_node && sizes_.per_node->rule == WorkerRule::Number &&
        sizes_.per_node->number != mine) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot start {}: each of the {} on this node becomes one worker",
                              plural(sizes_.per_node->number, "worker"),
                              plural(mine, "task")))
          .fact("asked", sizes_.per_node->quote.text, sizes_.per_node->quote.who)
          .fact("found", plural(mine, "task") + " on this node", ground_.told_by)
          .hint(fmt::format("drop {}", sizes_.per_node->flag))
          .hint(fmt::format("one task per node: srun --ntasks-per-node=1 {} {} {} PROGRAM",
                            command_of(request_.dialect),
                            sizes_.per_node->flag,
                            sizes_.per_node->number));
    }
    if (sizes_.in_all && sizes_.in_all->number != ground_.meeting.world_size) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot start {}: each of the {} becomes one worker",
                              plural(sizes_.in_all->number, "worker"),
                              plural(ground_.meeting.world_size, "task")))
          .fact("asked", sizes_.in_all->quote.text, sizes_.in_all->quote.who)
          .fact("found", plural(ground_.meeting.world_size, "task"), ground_.told_by)
          .hint("drop -np");
    }
    for (const cluster::Host& host : ground_.hosts) {
      add(host.slots.value_or(mine), ground_.way.source);
    }
  }

  void take_number() {
    for (size_t i = 0; i < ground_.hosts.size(); ++i) {
      require_slots(i);
      require_tasks(i);
      add(sizes_.per_node->number, sizes_.per_node->source);
    }
  }

  void require_slots(size_t i) const {
    const cluster::Host& host = ground_.hosts[i];
    const int asked = sizes_.per_node->number;
    if (!host.slots || asked <= *host.slots || request_.may_share_gpus) {
      return;
    }
    throw Error(
        ExitCode::Usage,
        fmt::format(
            "cannot start {} on {}: not enough slots", plural(asked, "worker"), name_of(host)))
        .fact("asked", sizes_.per_node->quote.text, sizes_.per_node->quote.who)
        .fact("found", plural(*host.slots, "slot"), ground_.told_by)
        .hint(
            fmt::format("{} {}, or drop it to use every slot", sizes_.per_node->flag, *host.slots));
  }

  void require_tasks(size_t i) const {
    const int asked = sizes_.per_node->number;
    if (grant_.tasks.empty() || grant_.tasks[i] == asked) {
      return;
    }
    throw Error(ExitCode::Usage,
                fmt::format("cannot start {} on {}: the job requested {} there",
                            plural(asked, "worker"),
                            name_of(ground_.hosts[i]),
                            plural(grant_.tasks[i], "task")))
        .fact("asked", sizes_.per_node->quote.text, sizes_.per_node->quote.who)
        .fact("asked", grant_.tasks_said, grant_.who)
        .hint(fmt::format("{} {}, or drop it", sizes_.per_node->flag, grant_.tasks[i]))
        .hint(fmt::format("submit the job with --ntasks-per-node={}", asked));
  }

  // As in horovodrun, -np fills the slots from the first host on; without slots, equal shares.
  void take_total() {
    const int asked = sizes_.in_all->number;
    const bool has_slots =
        std::all_of(ground_.hosts.begin(), ground_.hosts.end(), [](const cluster::Host& host) {
          return host.slots.has_value();
        });
    if (has_slots && ground_.way.value != Way::Srun) {
      fill_slots(asked);
      return;
    }
    if (std::accumulate(grant_.tasks.begin(), grant_.tasks.end(), 0) == asked) {
      for (const int tasks : grant_.tasks) {
        add(tasks, sizes_.in_all->source);
      }
      return;
    }
    const auto nodes = static_cast<int>(ground_.hosts.size());
    if (asked % nodes != 0) {
      refuse_shares(asked, nodes);
    }
    for (int node = 0; node < nodes; ++node) {
      add(asked / nodes, sizes_.in_all->source);
    }
  }

  [[noreturn]] void refuse_shares(int asked, int nodes) const {
    Error error(ExitCode::Usage,
                fmt::format("cannot divide {} among {} nodes", plural(asked, "worker"), nodes));
    error.fact("asked", sizes_.in_all->quote.text, sizes_.in_all->quote.who);
    error.fact("found", fmt::format("{} nodes", nodes), ground_.told_by);
    if (!grant_.tasks.empty()) {
      error.fact("asked", grant_.tasks_said, grant_.who);
    }
    error.hint(fmt::format("-np {}", (asked / nodes + 1) * nodes));
    error.hint("unequal numbers: -H host1:3,host2:2");
    throw std::move(error);
  }

  void fill_slots(int asked) {
    const int slots = std::accumulate(
        ground_.hosts.begin(), ground_.hosts.end(), 0, [](int sum, const cluster::Host& host) {
          return sum + *host.slots;
        });
    if (asked > slots) {
      throw Error(
          ExitCode::Usage,
          fmt::format("cannot start {} in {}", plural(asked, "worker"), plural(slots, "slot")))
          .fact("asked", sizes_.in_all->quote.text, sizes_.in_all->quote.who)
          .fact("found", plural(slots, "slot"), ground_.told_by)
          .hint(fmt::format("-np {}, or more slots: -H host1:4,host2:4", slots));
    }
    int left = asked;
    for (const cluster::Host& host : ground_.hosts) {
      const int taken = std::min(left, *host.slots);
      add(taken, sizes_.in_all->source);
      left -= taken;
    }
  }

  // cpu, gpu or auto: counted here for this node; for other nodes from the allocation, if it shows
  // the number, else on the node.
  void take_rule() {
    counts_.rule = sizes_.per_node->rule;
    for (size_t i = 0; i < ground_.hosts.size(); ++i) {
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

  void add_counted_here() {
    const WorkerRule rule = sizes_.per_node->rule;
    const std::string& said = sizes_.per_node->quote.text;
    const auto chosen = static_cast<int>(ground_.hosts.front().gpus.size());
    const int gpus = chosen > 0 ? chosen : here_.gpus;
    if (rule == WorkerRule::Gpu && gpus == 0) {
      throw Error(ExitCode::Usage, "cannot start one worker per GPU: this node has no GPU")
          .fact("asked", said, sizes_.per_node->quote.who)
          .fact("found", "no GPU", "/dev and CUDA_VISIBLE_DEVICES")
          .hint(fmt::format("{} cpu", sizes_.per_node->flag));
    }
    if (rule == WorkerRule::Gpu || (rule == WorkerRule::Auto && gpus > 0)) {
      add(gpus, {sizes_.per_node->source.origin, said + ", one per GPU"});
    } else {
      add(here_.cores, {sizes_.per_node->source.origin, said + ", one per granted core"});
    }
  }

  bool add_counted_by_slurm(size_t i) {
    const WorkerRule rule = sizes_.per_node->rule;
    if (rule != WorkerRule::Cpu && grant_.gpus.value_or(0) > 0) {
      add(*grant_.gpus, {Origin::Probe, grant_.who + ", its GPUs"});
      return true;
    }
    if (rule == WorkerRule::Cpu && !grant_.cpus.empty()) {
      add(grant_.cpus[i], {Origin::Probe, grant_.who + ", its cores"});
      return true;
    }
    return false;
  }

  // Without a requested size: the slots of the hosts or the allocation of Slurm.
  void take_offer() {
    const bool wants_gpus = request_.dialect == Dialect::Deepspeed && is_here() && here_.gpus > 0;
    for (size_t i = 0; i < ground_.hosts.size(); ++i) {
      const cluster::Host& host = ground_.hosts[i];
      if (!host.gpus.empty()) {
        add(static_cast<int>(host.gpus.size()), {Origin::Flag, ground_.told_by + ", its devices"});
      } else if (host.slots) {
        add(*host.slots, {Origin::Flag, ground_.told_by + ", its slots"});
      } else if (!grant_.tasks.empty()) {
        add(grant_.tasks[i], {Origin::Probe, fmt::format("{}, {}", grant_.who, grant_.tasks_said)});
      } else if (grant_.gpus.value_or(0) > 0) {
        add(*grant_.gpus, {Origin::Probe, grant_.who + ", its GPUs"});
      } else if (wants_gpus) {
        add(here_.gpus, {Origin::Probe, "one per GPU, as in deepspeed"});
      } else {
        add(1, {});
      }
    }
  }

  // Number of GPUs of a node, as far as known here; 0: unknown or none.
  std::pair<int, std::string> known_gpus(size_t i) const {
    const cluster::Host& host = ground_.hosts[i];
    if (!host.gpus.empty()) {
      return {static_cast<int>(host.gpus.size()), ground_.told_by};
    }
    const bool is_mine =
        ground_.way.value == Way::Peers && ground_.meeting.node == static_cast<int>(i);
    if (is_here() || is_mine) {
      return {here_.gpus, "/dev and CUDA_VISIBLE_DEVICES"};
    }
    return {ground_.way.value == Way::Srun ? grant_.gpus.value_or(0) : 0, grant_.who};
  }

  // Intentionally without GPUs: one worker per core was requested, or the devices are hidden.
  bool is_without_gpus() const {
    const auto devices = os::find_variable(here_.environment, "CUDA_VISIBLE_DEVICES");
    return (sizes_.per_node && sizes_.per_node->rule == WorkerRule::Cpu) ||
           (devices && (devices->empty() || *devices == "-1"));
  }

  void require_gpus(size_t i) const {
    const int workers = counts_.per_node[i].value;
    const auto [gpus, who] = known_gpus(i);
    if (gpus == 0 || workers <= gpus || request_.may_share_gpus || is_without_gpus()) {
      return;
    }
    const Quote* asked = sizes_.per_node ? &sizes_.per_node->quote
                         : sizes_.in_all ? &sizes_.in_all->quote
                                         : nullptr;
    throw Error(ExitCode::Usage,
                fmt::format("cannot start {} on {} of {}",
                            plural(workers, "worker"),
                            plural(gpus, "GPU"),
                            name_of(ground_.hosts[i])))
        .fact("asked",
              asked != nullptr ? asked->text : plural(workers, "worker"),
              asked != nullptr ? asked->who : describe(counts_.per_node[i].source))
        .fact("found", plural(gpus, "GPU"), who)
        .hint(fmt::format(
            "{} {}", sizes_.per_node ? sizes_.per_node->flag : "--nproc-per-node", gpus))
        .hint("--share-gpus, if workers share GPUs or use none");
  }

  const Request& request_;
  const Surroundings& here_;
  const Sizes& sizes_;
  const Ground& ground_;
  Grant grant_;
  WorkerCounts counts_;
};

}  // namespace

WorkerCounts count_workers(const Request& request,
                           const Surroundings& here,
                           const Sizes& sizes,
                           const Ground& ground) {
  return Counter(request, here, sizes, ground).count();
}

}  // namespace lockstep::plan
