// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/page.h"

#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/report/advice_rules.h"

// From facts to text, without a decision about layout: a section has labelled lines or a table, and
// both renderers print it. An unknown value is an empty text, and add() omits it, so that no page
// shows "unknown" in a line of its own; RunFacts::missing explains what is absent.
namespace lockstep::report {
namespace {

// Adds nothing if the text is empty.
void add(Section& section, std::string label, std::string text) {
  if (!text.empty()) {
    section.lines.emplace_back(std::move(label), Cell{.text = std::move(text)});
  }
}

std::string command_of(const RunFacts& facts) {
  std::vector<std::string> words;
  words.reserve(facts.run.command.size());
  for (const std::string& word : facts.run.command) {
    words.push_back(quote_for_shell(word));
  }
  return join(words, " ");
}

// At most eight hosts in one line; --json lists all.
std::string workers_of(const RunFacts& facts) {
  constexpr size_t kMaxHosts = 8;
  if (facts.run.world_size == 0 && facts.nodes == 0) {
    return "";
  }
  std::vector<std::string> hosts = facts.hosts;
  if (hosts.size() > kMaxHosts) {
    const std::string rest = fmt::format("{} more", hosts.size() - kMaxHosts + 1);
    hosts.resize(kMaxHosts - 1);
    hosts.push_back(rest);
  }
  return fmt::format("{} on {}{}{}",
                     plural(facts.run.world_size, "worker"),
                     plural(facts.nodes, "node"),
                     hosts.empty() ? "" : ": ",
                     join(hosts, ", "));
}

std::string progress_of(const RunFacts& facts) {
  if (facts.run.step < 0) {
    return "";
  }
  std::string text = fmt::format("step {}", format_count(facts.run.step));
  if (facts.run.steps > 0) {
    text += fmt::format(" of {}", format_count(facts.run.steps));
  }
  return text + (facts.run.loss ? fmt::format(", loss {:.4g}", *facts.run.loss) : "");
}

// The line "outcome" becomes "state" while the run is running, and "end" becomes "now": a report of
// a living run must not read like a result.
Section describe_run(const RunFacts& facts) {
  Section section;
  add(section, "run", facts.run.directory);
  add(section, "job", facts.run.job);
  add(section, "command", command_of(facts));
  add(section,
      "strategy",
      facts.run.strategy +
          (facts.run.transport.empty() ? "" : fmt::format(" over {}", facts.run.transport)));
  add(section, "workers", workers_of(facts));
  add(section, "start", facts.begin > 0 ? format_time(facts.begin) : "");
  if (facts.seconds() > 0) {
    const bool runs = facts.ending.kind == Ending::Kind::Running;
    add(section,
        runs ? "now" : "end",
        fmt::format("{}, after {}", format_time(facts.end), format_duration(facts.seconds())));
  }
  add(section, "outcome", facts.ending.sentence);
  if (facts.ending.kind == Ending::Kind::Running) {
    section.lines.back().first = "state";
  }
  for (const std::string& detail : facts.ending.details) {
    section.lines.emplace_back("", Cell{.text = detail});
  }
  add(section, "progress", progress_of(facts));
  return section;
}

void add_bar(Section& section,
             std::string label,
             const std::optional<double>& share,
             const std::string& of_what) {
  if (share) {
    section.lines.emplace_back(
        std::move(label),
        Cell{.text = fmt::format("{:>5}  {}", percent(*share), of_what), .share = share});
  }
}

// The last host of each node: the cores of the current allocation, not the sum over requeues.
int granted_cores(const RunFacts& facts) {
  int cores = 0;
  for (const monitor::NodeView& node : facts.run.nodes) {
    cores += node.hosts.empty() ? 0 : node.hosts.back().granted;
  }
  return cores;
}

Section describe_efficiency(const RunFacts& facts) {
  Section section{.title = "Efficiency"};
  const int gpus = count_gpus(facts);
  add_bar(section,
          "GPU",
          gpu_utilisation(facts),
          fmt::format("utilization, mean of {}", plural(gpus, "GPU")));
  add_bar(section, "GPU memory", gpu_memory_use(facts), "peak on any GPU");
  add_bar(section,
          "CPU",
          cpu_utilisation(facts),
          fmt::format("of {} busy, mean", plural(granted_cores(facts), "granted core")));
  add_bar(section, "memory", memory_use(facts), "of the limit, peak on any node");
  return section;
}

Section describe_speed(const RunFacts& facts) {
  const Speed& speed = facts.speed;
  Section section{.title = "Speed"};
  if (speed.samples_per_second) {
    add(section,
        "steady",
        fmt::format("{:.4g} samples/s (median){}",
                    *speed.samples_per_second,
                    speed.is_from_output ? ", from the output" : ""));
  }
  if (speed.mean_per_second) {
    add(section,
        "overall",
        fmt::format("{:.4g} samples/s, {} samples, including startup and pauses",
                    *speed.mean_per_second,
                    format_count(*speed.samples)));
  }
  if (speed.steps_per_second) {
    add(section,
        "steps",
        fmt::format("{:.4g} per second, {:.3g} s each (median)",
                    *speed.steps_per_second,
                    1 / *speed.steps_per_second));
  }
  if (speed.first_step_seconds) {
    add(section,
        "first step",
        fmt::format("{} after the command", format_duration(*speed.first_step_seconds)));
  }
  return section;
}

// The best accuracy can be from an earlier step than the last one; a checkpoint of that step is
// what the user wants to keep.
Section describe_learning(const RunFacts& facts) {
  Section section{.title = "Results"};
  if (facts.run.evaluations > 0) {
    std::string last = fmt::format("loss {:.4g}", facts.run.evaluation_loss.value_or(0));
    last += facts.run.accuracy ? fmt::format(", accuracy {:.4g}", *facts.run.accuracy) : "";
    last += facts.run.top5 ? fmt::format(", top-5 {:.4g}", *facts.run.top5) : "";
    add(section,
        "evaluations",
        fmt::format("{}; last: {}", format_count(facts.run.evaluations), last));
  }
  if (facts.best_accuracy) {
    add(section,
        "best",
        fmt::format("accuracy {:.4g} at step {}",
                    facts.best_accuracy->value,
                    format_count(facts.best_accuracy->step)));
  }
  for (const auto& [name, value] : facts.run.output_metrics) {
    add(section, name, fmt::format("{:.6g}, last value in the output", value));
  }
  return section;
}

std::string source_of(const Energy& energy) {
  switch (energy.source) {
    case Energy::Source::Counter:
      return "from the GPU energy counters";
    case Energy::Source::Power:
      return "power times time; the GPUs have no energy counter";
    case Energy::Source::Both:
      return "from the GPU energy counters; power times time where these failed";
    case Energy::Source::Slices:
      return "estimated: each MIG slice counts with its share of the energy of its GPU";
    case Energy::Source::None:
      break;
  }
  return "";
}

//   J per sample x 1000 samples / 3.6e6 J per kWh x 1000 Wh per kWh = Wh per 1000 samples
Section describe_energy(const RunFacts& facts) {
  constexpr double kJoulesPerKwh = 3.6e6;
  constexpr double kThousand = 1000;
  Section section{.title = "GPU energy"};
  if (facts.energy.source == Energy::Source::None) {
    return section;
  }
  add(section,
      "total",
      fmt::format("{:.4g} kWh, {}", facts.energy.joules / kJoulesPerKwh, source_of(facts.energy)));
  if (facts.energy.joules_per_sample) {
    add(section,
        "per 1000 samples",
        fmt::format("{:.4g} Wh",
                    *facts.energy.joules_per_sample * kThousand * kThousand / kJoulesPerKwh));
  }
  return section;
}

Section describe_interruptions(const RunFacts& facts) {
  Section section{.title = "Restarts and checkpoints"};
  add(section,
      "restarts",
      fmt::format("{}{}",
                  facts.run.restarts,
                  facts.requeues > 0
                      ? fmt::format("; the job was requeued {}", plural(facts.requeues, "time"))
                      : ""));
  if (facts.run.checkpoints > 0) {
    add(section,
        "checkpoints",
        fmt::format("{}, last at step {}; training was blocked for {}",
                    facts.run.checkpoints,
                    format_count(facts.run.checkpoint_step),
                    format_duration(facts.run.checkpoint_seconds)));
  } else {
    add(section, "checkpoints", facts.is_trainer ? "none" : "not reported");
  }
  return section;
}

}  // namespace

std::string format_time(double time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(time)));
}

// The order of a reader's questions: what ran and how it ended, how well it used the hardware,
// where the time went, what it achieved.
Page make_page(const RunFacts& facts) {
  Page page{.title = facts.name,
            .advice = advise(facts),
            .untried = untried(facts),
            .missing = facts.missing};
  for (Section section : {describe_run(facts),
                          describe_efficiency(facts),
                          describe_gpus(facts),
                          describe_nodes(facts),
                          describe_split(facts),
                          describe_speed(facts),
                          describe_learning(facts),
                          describe_energy(facts),
                          describe_interruptions(facts),
                          describe_slow_ranks(facts),
                          describe_ranks(facts)}) {
    if (!section.lines.empty() || !section.rows.empty()) {
      page.sections.push_back(std::move(section));
    }
  }
  return page;
}

}  // namespace lockstep::report
