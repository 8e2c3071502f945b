// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "launcher/report/advice.h"

// docs/report.md describes the fields. Unknown numbers are null instead of 0 or -1, so that a
// script cannot average them by accident.
//
//   format, run, end, efficiency, time, speed, energy, results,
//   hosts[] -> gpus[],  ranks[] -> split,  slow_ranks[], advice[], untried[], missing[]
namespace lockstep::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

template <typename Value>
Json maybe(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// 0 stands for an unknown time in RunFacts.
Json unless_zero(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

std::string_view name_of(Ending::Kind kind) {
  switch (kind) {
    case Ending::Kind::Running:
      return "running";
    case Ending::Kind::Done:
      return "done";
    case Ending::Kind::Failed:
      return "failed";
    case Ending::Kind::Cancelled:
      return "cancelled";
    case Ending::Kind::Requeued:
      return "requeued";
    case Ending::Kind::Lost:
      return "lost";
    case Ending::Kind::Unknown:
      break;
  }
  return "unknown";
}

std::string_view name_of(Energy::Source source) {
  switch (source) {
    case Energy::Source::Counter:
      return "counter";
    case Energy::Source::Power:
      return "power";
    case Energy::Source::Both:
      return "counter and power";
    case Energy::Source::Slices:
      return "slices";
    case Energy::Source::None:
      break;
  }
  return "none";
}

Json write(const Split& split) {
  return {{"data", maybe(split.data)},
          {"compute", maybe(split.compute)},
          {"exchange", maybe(split.exchange)},
          {"update", maybe(split.update)},
          {"checkpoint", maybe(split.checkpoint)},
          {"other", maybe(split.other)}};
}

Json write(const std::optional<Worst>& worst) {
  return worst ? Json{{"rank", worst->rank}, {"share", worst->share}} : Json(nullptr);
}

Json write(const std::optional<Best>& best) {
  return best ? Json{{"value", best->value}, {"step", best->step}} : Json(nullptr);
}

Json write(const monitor::GpuTotals& gpu) {
  Json ranks = Json::array();
  for (const auto& [rank, samples] : gpu.ranks) {
    ranks.push_back(rank);
  }
  return {{"index", gpu.last.index},
          {"uuid", gpu.last.uuid},
          {"name", gpu.last.name},
          {"ranks", ranks},
          {"utilisation", maybe(gpu.utilisation.mean())},
          {"peak_memory_bytes", maybe(gpu.peak_memory_bytes)},
          {"memory_total_bytes", maybe(gpu.last.memory_total_bytes)},
          {"power_watts", maybe(gpu.power_watts.mean())},
          {"energy_joules", gpu.counted_joules + gpu.estimated_joules},
          {"hottest", maybe(gpu.hottest)},
          {"slowed_share",
           gpu.busy_seconds > 0 ? Json(gpu.slowed_seconds / gpu.busy_seconds) : Json(nullptr)},
          {"new_ecc_errors", gpu.new_ecc_errors},
          {"xid", maybe(gpu.xid)}};
}

Json write(const monitor::HostTotals& host, int node) {
  Json interfaces = Json::object();
  for (const auto& [name, bytes] : host.interfaces) {
    interfaces[name] = {{"received_bytes", bytes.received_bytes}, {"sent_bytes", bytes.sent_bytes}};
  }
  Json gpus = Json::array();
  for (const monitor::GpuTotals& gpu : host.gpus) {
    gpus.push_back(write(gpu));
  }
  return {{"node", node},
          {"host", host.host},
          {"seconds", host.seconds},
          {"granted_cores", host.granted},
          {"busy_cores", maybe(host.cores.mean())},
          {"worker_cores", maybe(host.worker_cores.mean())},
          {"peak_memory_bytes", host.peak_memory_bytes},
          {"memory_limit_bytes", host.memory_limit_bytes},
          {"interfaces", interfaces},
          {"gpus", gpus},
          {"no_gpus", host.no_gpus}};
}

Json write(const monitor::RankView& rank) {
  const auto split = split_of(rank.totals);
  return {{"rank", rank.rank},
          {"node", rank.node < 0 ? Json(nullptr) : Json(rank.node)},
          {"steps", rank.totals.steps},
          {"seconds", rank.totals.seconds},
          {"cores", maybe(rank.totals.cores.mean())},
          {"peak_memory_bytes", maybe(rank.peak_memory_bytes)},
          {"split", split ? write(*split) : Json(nullptr)}};
}

Json write_run(const RunFacts& facts) {
  return {{"name", facts.name},
          {"run_id", facts.run.run_id},
          {"directory", facts.run.directory},
          {"job", facts.run.job},
          {"command", facts.run.command},
          {"strategy", facts.run.strategy},
          {"transport", facts.run.transport},
          {"workers", facts.run.world_size},
          {"nodes", facts.nodes},
          {"begin", unless_zero(facts.begin)},
          {"end", unless_zero(facts.end)},
          {"seconds", facts.seconds()},
          {"step", facts.run.step < 0 ? Json(nullptr) : Json(facts.run.step)},
          {"steps", facts.run.steps == 0 ? Json(nullptr) : Json(facts.run.steps)},
          {"loss", maybe(facts.run.loss)},
          {"restarts", facts.run.restarts},
          {"requeues", facts.requeues},
          {"checkpoints", facts.run.checkpoints},
          {"checkpoint_stall_seconds", facts.run.checkpoint_seconds}};
}

Json write_results(const RunFacts& facts) {
  return {{"evaluations", facts.run.evaluations},
          {"loss", maybe(facts.run.evaluation_loss)},
          {"accuracy", maybe(facts.run.accuracy)},
          {"top5", maybe(facts.run.top5)},
          {"best_accuracy", write(facts.best_accuracy)},
          {"best_loss", write(facts.best_loss)},
          {"output", facts.run.output_metrics}};
}

// One entry for each host that has been a node: after a requeue, two entries can have the same
// "node". The number is the index in the snapshot, as in "ranks".
Json write_hosts(const RunFacts& facts) {
  Json hosts = Json::array();
  for (size_t i = 0; i < facts.run.nodes.size(); ++i) {
    for (const monitor::HostTotals& host : facts.run.nodes[i].hosts) {
      hosts.push_back(write(host, static_cast<int>(i)));
    }
  }
  return hosts;
}

Json write_ranks(const RunFacts& facts) {
  Json ranks = Json::array();
  for (const monitor::RankView& rank : facts.run.ranks) {
    ranks.push_back(write(rank));
  }
  return ranks;
}

Json write_slow(const RunFacts& facts) {
  Json slow = Json::array();
  for (const SlowRank& one : facts.slow) {
    slow.push_back({{"rank", one.rank},
                    {"host", one.host},
                    {"percent", one.percent},
                    {"share", one.share},
                    {"since", maybe(one.since)}});
  }
  return slow;
}

Json write_advice(const RunFacts& facts) {
  Json advice = Json::array();
  for (const Advice& one : advise(facts)) {
    advice.push_back(
        {{"rule", one.rule}, {"seen", one.seen}, {"means", one.means}, {"try", one.tries}});
  }
  return advice;
}

}  // namespace

std::string report_json(const RunFacts& facts) {
  const Json json = {{"format", kFormat},
                     {"run", write_run(facts)},
                     {"end",
                      {{"kind", name_of(facts.ending.kind)},
                       {"sentence", facts.ending.sentence},
                       {"details", facts.ending.details},
                       {"exit_code", maybe(facts.ending.exit_code)},
                       {"is_time_limit", facts.ending.is_time_limit},
                       {"slurm", facts.job.state}}},
                     {"efficiency",
                      {{"gpu", maybe(gpu_utilisation(facts))},
                       {"gpu_memory", maybe(gpu_memory_use(facts))},
                       {"cpu", maybe(cpu_utilisation(facts))},
                       {"memory", maybe(memory_use(facts))}}},
                     {"time",
                      {{"rank_0", write(facts.split.leader)},
                       {"mean", write(facts.split.mean)},
                       {"worst_data", write(facts.split.data)},
                       {"worst_exchange", write(facts.split.exchange)}}},
                     {"speed",
                      {{"samples_per_second", maybe(facts.speed.samples_per_second)},
                       {"steps_per_second", maybe(facts.speed.steps_per_second)},
                       {"mean_samples_per_second", maybe(facts.speed.mean_per_second)},
                       {"samples", maybe(facts.speed.samples)},
                       {"first_step_seconds", maybe(facts.speed.first_step_seconds)}}},
                     {"energy",
                      {{"joules", facts.energy.joules},
                       {"source", name_of(facts.energy.source)},
                       {"joules_per_sample", maybe(facts.energy.joules_per_sample)}}},
                     {"results", write_results(facts)},
                     {"hosts", write_hosts(facts)},
                     {"ranks", write_ranks(facts)},
                     {"slow_ranks", write_slow(facts)},
                     {"advice", write_advice(facts)},
                     {"untried", untried(facts)},
                     {"missing", facts.missing}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::report
