// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/env_build.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <map>

#include "common/base/text.h"
#include "launcher/config/value.h"
#include "launcher/slurm/directives.h"
#include "launcher/slurm/time_limit.h"
#include "launcher/slurm/variables.h"

namespace lockstep::slurm {
namespace {

using Words = std::vector<std::string>;

const Words kForBoth = {"kind",         "path",      "where",         "modules",    "module_use",
                        "module_purge", "cache_dir", "cache_in_home", "http_proxy", "https_proxy",
                        "no_proxy",     "env",       "job_name",      "std_out",    "account",
                        "partition",    "time",      "cpus_per_task", "memory",     "gpus_per_node",
                        "constraint",   "qos",       "reservation"};
const Words kForVenv = {"python",
                        "system_site_packages",
                        "packages",
                        "requirements",
                        "pip_options",
                        "horovod",
                        "nccl_home"};
const Words kForApptainer = {"definition", "image", "build_options"};

// Typed access to the entries of an environment file. A key with the value null counts as absent,
// as in job files.
class Entries {
 public:
  explicit Entries(const config::TreeNode& map) : map_(map) {}

  const config::TreeNode* find(std::string_view key) const {
    const config::TreeNode* node = map_.find(key);
    return node == nullptr || node->kind == config::TreeNode::Kind::Null ? nullptr : node;
  }
  std::string text(std::string_view key, std::string_view default_value = "") const {
    const config::TreeNode* node = find(key);
    return node == nullptr ? std::string(default_value) : config::read_text(*node, key);
  }
  bool flag(std::string_view key, bool default_value) const {
    const config::TreeNode* node = find(key);
    return node == nullptr ? default_value : config::read_flag(*node, key);
  }
  Words list(std::string_view key) const {
    const config::TreeNode* node = find(key);
    return node == nullptr ? Words() : config::read_list(*node, key);
  }
  Words lines(std::string_view key) const {
    const config::TreeNode* node = find(key);
    return node == nullptr ? Words() : config::read_lines(*node, key);
  }
  std::string position(std::string_view key) const {
    const config::TreeNode* node = find(key);
    return node == nullptr ? "default" : config::describe(node->position);
  }
  // Whether the value is `second` rather than `first`, the default; other words are an error.
  bool is_second(std::string_view key, std::string_view first, std::string_view second) const {
    const std::string word = text(key, first);
    if (word != first && word != second) {
      throw config::invalid_value(*find(key), key, fmt::format("{} or {}", first, second));
    }
    return word == second;
  }
  const config::TreeNode& map() const { return map_; }

 private:
  const config::TreeNode& map_;
};

// A key of the other kind would have no effect, which its author does not expect.
void require_no(const Entries& entries, const Words& keys, std::string_view kind) {
  for (const std::string& key : keys) {
    if (const config::TreeNode* node = entries.find(key)) {
      throw Error(ExitCode::Usage,
                  fmt::format("{} has no effect on {} {}", key, kind == "image" ? "an" : "a", kind))
          .fact("found", fmt::format("{}: ...", key), config::describe(node->position))
          .hint(fmt::format("kind: {}, or remove {}", kind == "venv" ? "apptainer" : "venv", key));
    }
  }
}

// Both the build and the secrets are derived from this list, so that no variable is forgotten.
Pairs all_variables(const Entries& entries) {
  Pairs variables;
  if (const config::TreeNode* node = entries.find("env")) {
    variables = config::read_pairs(*node, "env");
  }
  require_names(variables, entries.position("env"));
  for (const char* name : {"http_proxy", "https_proxy", "no_proxy"}) {
    if (const std::string value = entries.text(name); !value.empty()) {
      add_proxy(variables, name, value);
    }
  }
  return variables;
}

void read_stage(const Entries& entries, Job& job) {
  job.modules = entries.list("modules");
  job.module_use = entries.list("module_use");
  job.is_module_purge = entries.flag("module_purge", true);
  take_variables(all_variables(entries), job);
}

// pip expects "--find-links wheels" as two arguments; a list item can contain both.
Words options_of(const Entries& entries, std::string_view key) {
  Words words;
  for (const std::string& line : entries.lines(key)) {
    const size_t blank = line.find(' ');
    if (line.starts_with('-') && blank != std::string::npos) {
      words.push_back(line.substr(0, blank));
      words.push_back(line.substr(line.find_first_not_of(' ', blank)));
    } else {
      words.push_back(line);
    }
  }
  return words;
}

// The value is true, false or a version. A version must contain a dot, which distinguishes it from
// the flag `horovod: 1`.
void read_horovod(const Entries& entries, EnvBuild& build) {
  const std::string text = entries.text("horovod", "false");
  const bool is_version = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0 &&
                          text.find('.') != std::string::npos;
  build.has_horovod = is_version || entries.flag("horovod", false);
  build.horovod_version = is_version ? text : "";
  build.nccl_home = entries.text("nccl_home");
  if (!build.nccl_home.empty() && !build.has_horovod) {
    throw Error(ExitCode::Usage, "nccl_home requires horovod")
        .fact("found", fmt::format("nccl_home: {}", build.nccl_home), entries.position("nccl_home"))
        .hint("horovod: true");
  }
}

void read_venv(const Entries& entries, EnvBuild& build) {
  require_no(entries, kForApptainer, "venv");
  build.python = entries.text("python", "python3");
  build.has_system_packages = entries.flag("system_site_packages", false);
  build.packages = entries.lines("packages");
  build.requirements = entries.text("requirements");
  build.pip_options = options_of(entries, "pip_options");
  read_horovod(entries, build);
}

void read_image(const Entries& entries, EnvBuild& build) {
  require_no(entries, kForVenv, "image");
  build.definition = entries.text("definition");
  build.source = entries.text("image");
  build.build_options = options_of(entries, "build_options");
  if (build.definition.empty() == build.source.empty()) {
    throw Error(ExitCode::Usage, "the image needs exactly one source")
        .fact("expected", "either definition or image")
        .fact("found",
              build.source.empty() ? "neither" : "both",
              build.source.empty() ? config::describe(entries.map().position)
                                   : entries.position("image"))
        .hint("image: docker://pytorch/pytorch");
  }
}

std::string directive_of(const Entries& entries,
                         std::string_view key,
                         std::string_view default_value) {
  std::string value = entries.text(key, default_value);
  require_plain(key, value, entries.position(key));
  return value;
}

int whole_of(const Entries& entries, std::string_view key, int default_value, int minimum) {
  const config::TreeNode* node = entries.find(key);
  return node == nullptr ? default_value
                         : static_cast<int>(config::read_whole(
                               *node, key, {.minimum = minimum, .maximum = 4096}));
}

// The build is an ordinary Slurm job on one node with one task. Compute nodes often have no access
// to the Internet; the keys for proxies, or `where: local`, cover that.
void read_job(const Entries& entries, EnvBuild& build) {
  std::map<std::string, std::string> directives;
  for (const char* key : {"account", "partition", "constraint", "qos", "reservation"}) {
    directives[key] = directive_of(entries, key, "");
  }
  directives["mem"] = directive_of(entries, "memory", "");
  directives["time"] = directive_of(entries, "time", "01:00:00");
  if (!find_time_limit(directives["time"])) {
    throw config::invalid_value(*entries.find("time"), "time", "MINUTES, HH:MM:SS or D-HH:MM:SS")
        .hint("time: 01:00:00");
  }
  std::string file = std::filesystem::path(build.path).filename().string();
  if (file.ends_with(".sif")) {
    file.resize(file.size() - 4);
  }
  build.job.name = directive_of(entries, "job_name", "env-" + file);
  build.job.gpus_per_node = whole_of(entries, "gpus_per_node", 0, 0);
  directives["job-name"] = build.job.name;
  directives["nodes"] = "1";
  directives["ntasks"] = "1";
  directives["cpus-per-task"] = std::to_string(whole_of(entries, "cpus_per_task", 8, 1));
  directives["gpus-per-node"] =
      build.job.gpus_per_node == 0 ? "" : std::to_string(build.job.gpus_per_node);
  directives["output"] = with_job_id(
      directive_of(entries, "std_out", "slurm-job-logs/" + build.job.name + ".out"), false);
  std::erase_if(directives, [](const auto& directive) { return directive.second.empty(); });
  // A requeued build would find its own unfinished environment and fail.
  directives["no-requeue"] = "";
  build.job.directives = {directives.begin(), directives.end()};
}

// A trailing slash would make "$target.lockstep-before" a name inside the directory.
std::string read_path(const Entries& entries) {
  std::string path = entries.text("path");
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  if (path.find_first_of("\r\n") != std::string::npos) {
    throw config::invalid_value(*entries.find("path"), "path", "a path without line breaks")
        .hint("path: envs/torch");
  }
  if (path.empty() || path == "/" || path == "." || path == "..") {
    throw Error(ExitCode::Usage, "path must name a new directory or file")
        .fact("found",
              path.empty() ? "no path" : fmt::format("path: {}", path),
              path.empty() ? config::describe(entries.map().position) : entries.position("path"))
        .hint("path: envs/torch");
  }
  return path;
}

}  // namespace

std::string EnvBuild::position_of(std::string_view key) const {
  for (const auto& [name, position] : positions) {
    if (name == key) {
      return position;
    }
  }
  return "default";
}

EnvBuild read_env_build(const config::TreeNode& map) {
  Words known = kForBoth;
  known.insert(known.end(), kForVenv.begin(), kForVenv.end());
  known.insert(known.end(), kForApptainer.begin(), kForApptainer.end());
  if (map.kind != config::TreeNode::Kind::Map) {
    throw config::invalid_value(map, "the whole file", "keys and values").hint("path: envs/torch");
  }
  config::require_known(map, known);
  const Entries entries(map);
  EnvBuild build;
  build.path = read_path(entries);
  build.kind =
      entries.is_second("kind", "venv", "apptainer") ? BuildKind::Apptainer : BuildKind::Venv;
  build.is_submitted = !entries.is_second("where", "slurm", "local");
  build.cache_dir = entries.text("cache_dir");
  build.may_cache_in_home = entries.flag("cache_in_home", false);
  for (const char* key : {"path", "requirements", "definition", "cache_dir"}) {
    build.positions.emplace_back(key, entries.position(key));
  }
  if (build.kind == BuildKind::Venv) {
    read_venv(entries, build);
  } else {
    read_image(entries, build);
  }
  read_stage(entries, build.job);
  read_job(entries, build);
  return build;
}

Pairs secrets_of_env_build(const config::TreeNode& map) {
  return secrets_among(all_variables(Entries(map)));
}

}  // namespace lockstep::slurm
