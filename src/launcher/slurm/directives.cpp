// SPDX-License-Identifier: Apache-2.0
//
// From keys of the job file to #SBATCH directives:
//
//   kPlain               passed on unchanged (account, partition, time, ...)
//   sizes                nodes, ntasks, ntasks-per-node, cpus-per-task: from Job, never from text
//   GPUs                 in one of three forms, see ask_for_gpus()
//   logs                 with the job id in the file name
//   fixed                open-mode, requeue or no-requeue, signal
//   `sbatch:` items      added last, so that they override all of the above except sizes
#include "launcher/slurm/directives.h"

#include <array>
#include <fmt/format.h>
#include <map>
#include <string_view>

#include "common/base/text.h"
#include "launcher/slurm/demand_of.h"

namespace lockstep::slurm {
namespace {

using Directives = std::map<std::string, std::string>;

// Keys that are passed to sbatch unchanged, with the name of the sbatch option.
struct Plain {
  const char* key;
  const char* option;
};
constexpr auto kPlain = std::to_array<Plain>({{"account", "account"},
                                              {"partition", "partition"},
                                              {"qos", "qos"},
                                              {"reservation", "reservation"},
                                              {"dependency", "dependency"},
                                              {"array", "array"},
                                              {"begin", "begin"},
                                              {"mail_user", "mail-user"},
                                              {"comment", "comment"},
                                              {"constraint", "constraint"},
                                              {"nodelist", "nodelist"},
                                              {"exclude", "exclude"},
                                              {"memory", "mem"},
                                              {"time", "time"}});

void require_plain(const JobSettings& settings, std::string_view key, std::string_view value) {
  slurm::require_plain(key, value, settings.source_of(key));
}

// GPUs per node or task: "4", "a100:4". "gpu_type" becomes part of the value: a100:4.
std::string gpus_of(const JobSettings& settings, const Job& job, bool is_per_task) {
  const std::string type = settings.text("gpu_type");
  require_plain(settings, "gpu_type", type);
  const int count = is_per_task ? job.gpus_per_node / job.tasks_per_node : job.gpus_per_node;
  if (is_per_task && count * job.tasks_per_node != job.gpus_per_node) {
    throw settings.refuse("gpu_request", "GPUs cannot be divided evenly among the tasks")
        .fact("GPUs",
              fmt::format("{} per node", job.gpus_per_node),
              settings.source_of("gpus_per_node"))
        .fact("tasks", fmt::format("{} per node", job.tasks_per_node))
        .hint("gpu_request: gpus-per-node");
  }
  return type.empty() ? std::to_string(count) : fmt::format("{}:{}", type, count);
}

// No shell expands #SBATCH lines: "$HOME/a.out" would be a directory with the name '$HOME'.
void require_literal(const JobSettings& settings, std::string_view key, const std::string& value) {
  require_plain(settings, key, value);
  if (value.find_first_of("$`") != std::string::npos || value.starts_with("~/")) {
    throw settings.refuse(key, fmt::format("shell expansion is not available in {}", key))
        .fact("reason", "sbatch does not expand '$', '`' and '~'")
        .hint("write the value out; in file names, %u is the user and %x the job name");
  }
}

// The job name becomes part of file names and of the script.
void require_name(const JobSettings& settings, const std::string& name) {
  require_literal(settings, "job_name", name);
  if (name.find_first_of("/%") != std::string::npos) {
    throw settings.refuse("job_name", "job_name cannot be part of a file name")
        .fact("reason", "it contains '/' or '%'")
        .hint("use a name without these characters");
  }
}

void check_memory(const JobSettings& settings) {
  const auto memory = settings.find_text("memory");
  if (memory && !find_mebibytes(*memory)) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for memory", *memory))
        .fact("expected", "an integer with the unit K, M, G or T; M without a unit")
        .fact("found", fmt::format("'{}'", *memory), settings.source_of("memory"))
        .hint("memory: 64G");
  }
}

// Sites differ: some accept only --gres=gpu:4, others only --gpus-per-node. --gpus-per-task binds
// each task to its GPUs, which then all have index 0. "none" leaves the choice to `sbatch:` or to
// the partition, for example on nodes that are always allocated whole.
void ask_for_gpus(const JobSettings& settings, const Job& job, Directives& directives) {
  static const std::vector<std::string> kWays = {"gpus-per-node", "gres", "gpus-per-task", "none"};
  const std::string way = settings.one_of("gpu_request", kWays);
  std::string gres = settings.text("gres");
  require_plain(settings, "gres", gres);
  if (job.gpus_per_node > 0 && way != "none") {
    const std::string amount = gpus_of(settings, job, way == "gpus-per-task");
    if (way == "gres") {
      gres = fmt::format("gpu:{}{}{}", amount, gres.empty() ? "" : ",", gres);
    } else {
      directives[way] = amount;
    }
  }
  if (!gres.empty()) {
    directives["gres"] = gres;
  }
}

// The launch command depends on these sizes, so they must come from the keys.
void refuse_size(const JobSettings& settings, const std::string& name, const std::string& text) {
  static const std::map<std::string, std::string> kSizes = {
      {"nodes", "num_nodes"},
      {"ntasks", "workers_per_node"},
      {"ntasks-per-node", "workers_per_node"}};
  if (const auto size = kSizes.find(name); size != kSizes.end()) {
    throw Error(ExitCode::Usage, fmt::format("--{} is not allowed in 'sbatch'", name))
        .fact("found", fmt::format("'{}'", text), settings.source_of("sbatch"))
        .fact("reason", "the launch command is derived from the keys")
        .hint(fmt::format("{}: COUNT", size->second));
  }
}

// Parses "--switches=2" or "--nice" into name and value. The whole item is one option with '='.
// "--nice 10" would need the argument rules of sbatch, and " -" usually means two options in one
// item.
void add_raw(const JobSettings& settings, const std::string& text, Directives& directives) {
  const size_t equals = text.find('=');
  const std::string name = text.starts_with("--") ? text.substr(2, equals - 2) : "";
  const bool is_name =
      !name.empty() &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!is_name) {
    throw Error(ExitCode::Usage, fmt::format("'{}' is not an sbatch option", text))
        .fact("expected", "--name or --name=value")
        .fact("found", fmt::format("'{}'", text), settings.source_of("sbatch"))
        .hint("sbatch: [\"--switches=1\"]");
  }
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (value.find(" -") != std::string::npos) {
    throw Error(ExitCode::Usage, "each sbatch option must be a separate list item")
        .fact("found", fmt::format("'{}'", text), settings.source_of("sbatch"))
        .hint("sbatch: [--nice=10, --hold]");
  }
  refuse_size(settings, name, text);
  require_literal(settings, "sbatch", value);
  directives[name] = value;
}

}  // namespace

// The value is written in double quotes in a comment line; there is no escape for these characters.
void require_plain(std::string_view key, std::string_view value, std::string_view source) {
  if (value.find_first_of("\"\\\r\n") != std::string_view::npos) {
    throw Error(ExitCode::Usage, fmt::format("{} contains a character that is not allowed", key))
        .fact("reason", "an #SBATCH line cannot contain quotes, backslashes or line breaks", source)
        .hint("use a value without these characters");
  }
}

// Without the id, two jobs of the same name would write to the same file. %A and %a are the ids of
// an array and of its task. A dot in a directory name or at the beginning of a file name does not
// begin an extension.
std::string with_job_id(const std::string& path, bool is_array) {
  for (const std::string_view pattern : {"%j", "%A", "%J"}) {
    if (path.find(pattern) != std::string::npos) {
      return path;
    }
  }
  if (path == "/dev/null") {
    return path;
  }
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = path.rfind('.');
  const size_t at = dot == std::string::npos || dot <= name ? path.size() : dot;
  return path.substr(0, at) + (is_array ? "-%A_%a" : "-%j") + path.substr(at);
}

Pairs make_directives(const JobSettings& settings, const Job& job) {
  Directives directives;
  for (const Plain& plain : kPlain) {
    if (const auto value = settings.find_text(plain.key)) {
      if (plain.option == std::string_view("comment")) {
        require_plain(settings, plain.key, *value);
      } else {
        require_literal(settings, plain.key, *value);
      }
      directives[plain.option] = *value;
    }
  }
  check_memory(settings);
  require_name(settings, job.name);
  directives["job-name"] = job.name;
  directives["nodes"] = std::to_string(job.nodes);
  directives["ntasks"] = std::to_string(job.nodes * job.tasks_per_node);
  directives["ntasks-per-node"] = std::to_string(job.tasks_per_node);
  directives["cpus-per-task"] = std::to_string(job.cpus_per_task);
  ask_for_gpus(settings, job, directives);
  for (const Plain& log : {Plain{"std_out", "output"}, Plain{"err_out", "error"}}) {
    if (const auto path = settings.find_text(log.key)) {
      require_literal(settings, log.key, *path);
      directives[log.option] = with_job_id(*path, job.is_array);
    }
  }
  if (const auto types = settings.list("mail_type"); !types.empty()) {
    directives["mail-type"] = join(types, ",");
    require_plain(settings, "mail_type", directives["mail-type"]);
  }
  if (settings.flag("exclusive")) {
    directives["exclusive"] = "";
  }
  // A requeued job must not truncate the output of its previous start.
  directives["open-mode"] = "append";
  directives[job.is_requeued ? "requeue" : "no-requeue"] = "";
  if (job.signal_seconds > 0) {
    // B: the signal goes to the batch script only, not to the steps. Slurm may send it up to 30 s
    // late.
    directives["signal"] = fmt::format("B:USR1@{}", job.signal_seconds);
  }
  for (const std::string& text : settings.lines("sbatch")) {
    add_raw(settings, text, directives);
  }
  return {directives.begin(), directives.end()};
}

}  // namespace lockstep::slurm
