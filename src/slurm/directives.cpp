// SPDX-License-Identifier: Apache-2.0
#include "slurm/directives.h"

#include <array>
#include <fmt/format.h>
#include <map>
#include <string_view>

#include "base/text.h"
#include "slurm/demand_of.h"

namespace lockstep::slurm {
namespace {

using Directives = std::map<std::string, std::string>;

// Keys that are handed on as they are, and what sbatch calls them.
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

// GPUs of each node or task: "4", "a100:4".
std::string gpus_of(const JobSettings& settings, const Job& job, bool is_per_task) {
  const std::string type = settings.text("gpu_type");
  require_plain(settings, "gpu_type", type);
  const int count = is_per_task ? job.gpus_per_node / job.tasks_per_node : job.gpus_per_node;
  if (is_per_task && count * job.tasks_per_node != job.gpus_per_node) {
    throw settings.refuse("gpu_request", "cannot give each task the same number of GPUs")
        .fact("GPUs",
              fmt::format("{} on each node", job.gpus_per_node),
              settings.source_of("gpus_per_node"))
        .fact("tasks", fmt::format("{} on each node", job.tasks_per_node))
        .hint("gpu_request: gpus-per-node");
  }
  return type.empty() ? std::to_string(count) : fmt::format("{}:{}", type, count);
}

// No shell reads the lines of sbatch's: "$HOME/a.out" would be a directory of the name '$HOME'.
void require_literal(const JobSettings& settings, std::string_view key, const std::string& value) {
  require_plain(settings, key, value);
  if (value.find_first_of("$`") != std::string::npos || value.starts_with("~/")) {
    throw settings.refuse(key, fmt::format("cannot have the shell replace something in {}", key))
        .fact("reason", "sbatch reads it, and takes '$', '`' and '~' as they are")
        .hint("write it out; in file names, %u is the user, %x the job's name");
  }
}

// It becomes part of file names, and of the script's own text.
void require_name(const JobSettings& settings, const std::string& name) {
  require_literal(settings, "job_name", name);
  if (name.find_first_of("/%") != std::string::npos) {
    throw settings.refuse("job_name", "cannot name files after this job")
        .fact("reason", "its name has '/' or '%'")
        .hint("a name without them");
  }
}

void check_memory(const JobSettings& settings) {
  const auto memory = settings.find_text("memory");
  if (memory && !find_mebibytes(*memory)) {
    throw Error(ExitCode::Usage, fmt::format("cannot understand memory '{}'", *memory))
        .fact("expected", "a whole number with K, M, G or T behind it; M where there is none")
        .fact("found", fmt::format("'{}'", *memory), settings.source_of("memory"))
        .hint("memory: 64G");
  }
}

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

// The launcher's line counts on the sizes.
void refuse_size(const JobSettings& settings, const std::string& name, const std::string& text) {
  static const std::map<std::string, std::string> kSizes = {
      {"nodes", "num_nodes"},
      {"ntasks", "workers_per_node"},
      {"ntasks-per-node", "workers_per_node"}};
  if (const auto size = kSizes.find(name); size != kSizes.end()) {
    throw Error(ExitCode::Usage, fmt::format("cannot take --{} from 'sbatch'", name))
        .fact("found", fmt::format("'{}'", text), settings.source_of("sbatch"))
        .fact("reason", "the line that starts the workers knows the keys alone")
        .hint(fmt::format("{}: COUNT", size->second));
  }
}

// "--switches=2", "--nice": what it is called and what it says.
void add_raw(const JobSettings& settings, const std::string& text, Directives& directives) {
  const size_t equals = text.find('=');
  const std::string name = text.starts_with("--") ? text.substr(2, equals - 2) : "";
  const bool is_name =
      !name.empty() &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!is_name) {
    throw Error(ExitCode::Usage, fmt::format("cannot hand on '{}' to sbatch", text))
        .fact("expected", "--name or --name=value")
        .fact("found", fmt::format("'{}'", text), settings.source_of("sbatch"))
        .hint("sbatch: [\"--switches=1\"]");
  }
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (value.find(" -") != std::string::npos) {
    throw Error(ExitCode::Usage, "cannot hand on several options to sbatch as one")
        .fact("found", fmt::format("'{}'", text), settings.source_of("sbatch"))
        .hint("sbatch: [--nice=10, --hold]");
  }
  refuse_size(settings, name, text);
  require_literal(settings, "sbatch", value);
  directives[name] = value;
}

}  // namespace

void require_plain(std::string_view key, std::string_view value, std::string_view source) {
  if (value.find_first_of("\"\\\r\n") != std::string_view::npos) {
    throw Error(ExitCode::Usage, fmt::format("cannot put {} into a line of sbatch's", key))
        .fact("reason", "it has a quote, a backslash or a line break", source)
        .hint("a value without them");
  }
}

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
  // What has been written stays when the job begins again.
  directives["open-mode"] = "append";
  directives[job.is_requeued ? "requeue" : "no-requeue"] = "";
  if (job.signal_seconds > 0) {
    directives["signal"] = fmt::format("B:USR1@{}", job.signal_seconds);
  }
  for (const std::string& text : settings.lines("sbatch")) {
    add_raw(settings, text, directives);
  }
  return {directives.begin(), directives.end()};
}

}  // namespace lockstep::slurm
