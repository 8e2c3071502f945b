// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/examine.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "common/os/files.h"
#include "launcher/doctor/collect.h"
#include "launcher/doctor/questions.h"
#include "launcher/doctor/survey.h"
#include "launcher/plan/plan.h"
#include "lockstep/error.h"

// Upper bounds of the phases, which run one after the other: 10 s for each command of Slurm, the
// patience of the user to gather, 2 s for each node that does not report its clock, 10 s for each
// of two rounds of trials, 45 s for facts, 2 s to leave. A healthy cluster needs a small part of
// each.
namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

// Python can take 20 s, and a slow file system also delays the other programs.
constexpr std::chrono::seconds kFactsTime(45);

// A file that shows other nodes whether they share a directory. The name has the time and a random
// part, so two examinations do not see each other's files. The file exists until all answers have
// arrived.
class Token {
 public:
  Token(const fs::path& directory, const std::string& id) {
    try {
      const fs::path path = directory / (".lockstep-doctor-" + id);
      os::replace_file(path, "");
      path_ = path.string();
    } catch (const Error&) {  // not writable: skip the test
      path_.clear();
    }
  }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  ~Token() {
    std::error_code ignored;
    if (!path_.empty()) {
      fs::remove(path_, ignored);
    }
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::optional<plan::LaunchPlan> find_plan(const plan::HostEnvironment& here) {
  try {
    return plan_of_survey(here, "lockstep doctor");
  } catch (const Error&) {  // collect_slurm() stores the reason
    return std::nullopt;
  }
}

// Slots of the trials are indices into cross_node.nodes: both have the order of survey_.present().
void keep_networks(CrossNodeFacts& cross_node,
                   const Survey& survey,
                   const plan::NetworkChoice& choice) {
  const supervisor::NetworkTrials& trials = survey.trials();
  for (size_t i = 0; i < trials.networks().size(); ++i) {
    cross_node.networks.push_back(plan::label_of(trials.offers(), trials.networks()[i]));
    std::vector<std::string> addresses;
    for (size_t slot = 0; slot < cross_node.nodes.size(); ++slot) {
      addresses.push_back(trials.address_of(static_cast<int>(slot), static_cast<int>(i)).text);
    }
    cross_node.addresses.push_back(std::move(addresses));
  }
  cross_node.trials = trials.trials();
  cross_node.chosen = choice.network.value_or(-1);
  cross_node.reason = choice.reason;
  cross_node.details = choice.details;
}

// Collects the facts of all nodes of a job.
class Examination {
 public:
  Examination(Facts& facts,
              const plan::HostEnvironment& here,
              const plan::LaunchPlan& plan,
              const ExamineOptions& options)
      : facts_(facts),
        here_(here),
        plan_(plan),
        options_(options),
        survey_(plan, here.environment) {}

  // Returns the nodes to exclude in a second try; empty on success.
  std::vector<std::string> run() {
    facts_.cross_node.fault = survey_.gather(options_.patience);
    if (auto without = survey_.unreachable();
        !without.empty() && without.size() < plan_.nodes.size()) {
      return without;
    }
    const std::vector<std::string> missing = survey_.missing();
    facts_.cross_node.missing.insert(
        facts_.cross_node.missing.end(), missing.begin(), missing.end());
    const std::vector<int> present = survey_.present();
    for (const int node : present) {
      facts_.cross_node.nodes.push_back(name_of(node));
    }
    if (present.size() > 1) {
      for (const auto& [node, clock] : survey_.measure_clocks()) {
        facts_.cross_node.clocks[name_of(node)] = {.offset = clock.seconds,
                                                   .precision = clock.precision};
      }
      const plan::NetworkChoice choice = survey_.try_networks({});
      keep_networks(facts_.cross_node, survey_, choice);
    }
    ask();
    survey_.finish();
    return {};
  }

 private:
  std::string name_of(int node) const { return plan_.nodes.at(static_cast<size_t>(node)).name; }

  void ask() {
    const std::string home = os::find_variable(here_.environment, "HOME").value_or("/");
    const std::string id = fmt::format("{}-{}", here_.timestamp, here_.short_id);
    const Token in_home(home, id + "-h");
    const Token in_directory(here_.directory, id + "-d");
    const std::string question = facts_question({.is_quick = options_.is_quick,
                                                 .names = facts_.cross_node.nodes,
                                                 .file_in_home = in_home.path(),
                                                 .file_in_directory = in_directory.path()});
    const std::vector<int> asked = survey_.present();
    const auto answers =
        survey_.ask([&question](int) { return std::string(question); }, kFactsTime);
    for (const int node : asked) {
      const auto answer = answers.find(node);
      if (answer == answers.end()) {
        facts_.cross_node.silent.push_back(name_of(node));
        continue;
      }
      facts_.nodes.push_back(parse_node_facts(answer->second));
      facts_.nodes.back().name = name_of(node);
    }
  }

  Facts& facts_;
  const plan::HostEnvironment& here_;
  const plan::LaunchPlan& plan_;
  const ExamineOptions& options_;
  Survey survey_;
};

// If srun cannot reach one node, it ends the agents of all nodes. The examination then starts again
// without that node.
void examine_job(Facts& facts,
                 const plan::HostEnvironment& here,
                 plan::LaunchPlan plan,
                 const ExamineOptions& options) {
  const std::vector<std::string> without = Examination(facts, here, plan, options).run();
  if (without.empty()) {
    return;
  }
  facts.cross_node.missing = without;
  std::erase_if(plan.nodes, [&without](const plan::PlannedNode& node) {
    return std::find(without.begin(), without.end(), node.name) != without.end();
  });
  Examination(facts, here, plan, options).run();
}

}  // namespace

// A failure of the survey is a finding, not an exception: the facts of this machine are still
// useful.
Facts examine(const plan::HostEnvironment& here, const ExamineOptions& options) {
  Facts facts;
  facts.version = options.version;
  facts.host = here.node;
  facts.is_quick = options.is_quick;
  facts.slurm = collect_slurm(here, options.is_quick);
  const auto plan = find_plan(here);
  if (plan && plan->mode.value == plan::LaunchMode::Srun) {
    try {
      examine_job(facts, here, *plan, options);
    } catch (const Error& error) {  // no srun or no control plane: report it as a finding
      facts.cross_node.fault = error.what();
    }
  }
  if (facts.nodes.empty()) {
    CollectOptions own;
    own.is_quick = options.is_quick;
    facts.nodes.push_back(collect_node(here.environment, own));
  }
  return facts;
}

}  // namespace lockstep::doctor
