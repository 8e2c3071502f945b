// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/sweep.h"

#include <fmt/format.h>
#include <string>

#include "common/base/text.h"
#include "common/contract/strategy_kind.h"
#include "launcher/config/yaml.h"

namespace lockstep::slurm {
namespace {

const std::vector<std::string>& modes() {
  static const std::vector<std::string> kModes = {"single", "runall", "scaling-test"};
  return kModes;
}

std::vector<std::string> node_counts(const JobSettings& settings) {
  std::vector<std::string> counts = settings.list("scalability_nodes");
  for (const std::string& count : counts) {
    const auto number = find_integer(count);
    if (!number || *number < 1) {
      throw settings.refuse("scalability_nodes", fmt::format("invalid node count '{}'", count))
          .hint("scalability_nodes: [1, 2, 4]");
    }
  }
  if (counts.empty()) {
    throw settings.refuse("scalability_nodes", "scaling-test requires node counts")
        .hint("scalability_nodes: [1, 2, 4]");
  }
  return counts;
}

// Jobs of a sweep need different names because file names contain the job name.
void tell_apart(JobSettings& settings, const std::string& mark) {
  if (!settings.has("job_name")) {
    return;
  }
  const std::string name = settings.text("job_name");
  if (name.find(mark) == std::string::npos) {
    settings.set("job_name", config::scalar(name + "-" + mark, "mode"));
  }
}

}  // namespace

// Each job is a copy of the settings with two keys overridden; references such as ${num_nodes} in
// names and paths then resolve to different texts.
std::vector<JobSettings> expand_mode(const JobSettings& settings) {
  const std::string mode = settings.one_of("mode", modes());
  if (mode == "single") {
    return {settings};
  }
  const std::vector<std::string> counts = mode == "runall"
                                              ? std::vector<std::string>{settings.text("num_nodes")}
                                              : node_counts(settings);
  std::vector<JobSettings> jobs;
  for (const std::string& strategy : contract::itwinai_strategy_names()) {
    for (const std::string& count : counts) {
      JobSettings one = settings;
      one.set("distributed_strategy", config::scalar(strategy, "mode"));
      one.set("num_nodes", config::scalar(count, "scalability_nodes"));
      tell_apart(one, strategy);
      if (mode == "scaling-test") {
        tell_apart(one, count + "x" + settings.text("gpus_per_node"));
      }
      jobs.push_back(std::move(one));
    }
  }
  return jobs;
}

}  // namespace lockstep::slurm
