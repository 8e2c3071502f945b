// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "launcher/slurm/env_build.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

namespace fs = std::filesystem;

// Whether `path` is `directory` or below it. weakly_canonical resolves links in the part of the
// path that exists: home directories are often links to another file system.
bool is_inside(const fs::path& path, const fs::path& directory) {
  std::error_code ignored;
  const fs::path inner = fs::weakly_canonical(path, ignored);
  const fs::path outer = fs::weakly_canonical(directory, ignored);
  const fs::path relative = inner.lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

std::optional<fs::path> find_home(const os::Environment& environment) {
  const auto home = os::find_variable(environment, "HOME");
  if (!home || home->empty() || *home == "/") {
    return std::nullopt;
  }
  return fs::path(*home);
}

void require_file(const EnvBuild& build,
                  std::string_view key,
                  const std::string& name,
                  const os::Environment& environment) {
  const auto path = name.empty() ? std::nullopt : find_expanded(name, environment);
  std::error_code ignored;
  if (path && !fs::is_regular_file(*path, ignored)) {
    throw Error(ExitCode::Usage, fmt::format("the {} file does not exist", key))
        .fact("file", path->string(), build.position_of(key))
        .fact("reason", fs::exists(*path, ignored) ? "not a regular file" : "no such file")
        .hint(fmt::format("{}: a path relative to this directory", key));
  }
}

// Removes NAME or {NAME}, the text after a dollar, from the front of `text`. Returns its value. A
// small subset of shell expansion. Anything else in braces, such as ${A:-b}, is not understood and
// makes the caller skip the check; the script itself expands it correctly.
std::optional<std::string> take_variable(std::string_view& text,
                                         const os::Environment& environment) {
  const bool has_brace = text.starts_with('{');
  text.remove_prefix(has_brace ? 1 : 0);
  const auto* const end = std::find_if_not(text.begin(), text.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_';
  });
  const auto length = static_cast<size_t>(end - text.begin());
  auto value = os::find_variable(environment, text.substr(0, length));
  text.remove_prefix(length);
  if (has_brace && !text.starts_with('}')) {
    return std::nullopt;
  }
  text.remove_prefix(has_brace ? 1 : 0);
  return value;
}

}  // namespace

std::optional<fs::path> find_expanded(std::string_view text, const os::Environment& environment) {
  std::string expanded;
  if (text.starts_with("~/")) {
    const auto home = os::find_variable(environment, "HOME");
    if (!home) {
      return std::nullopt;
    }
    expanded = *home;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const size_t dollar = text.find('$');
    expanded += text.substr(0, dollar);
    if (dollar == std::string_view::npos) {
      break;
    }
    text.remove_prefix(dollar + 1);
    const auto value = take_variable(text, environment);
    if (!value) {
      return std::nullopt;
    }
    expanded += *value;
  }
  return fs::path(expanded);
}

// Apptainer keeps all layers of an image in its cache, many gigabytes, by default in the home
// directory, where quotas are small.
void choose_cache(EnvBuild& build, const os::Environment& environment, const fs::path& here) {
  const auto home = find_home(environment);
  const auto is_in_home = [&](const std::string& directory) {
    const auto path = find_expanded(directory, environment);
    return home && path && is_inside(here / *path, *home);
  };
  if (!build.cache_dir.empty()) {
    if (is_in_home(build.cache_dir) && !build.may_cache_in_home) {
      throw Error(ExitCode::Usage, "the cache would fill the quota of the home directory")
          .fact("cache_dir", build.cache_dir, build.position_of("cache_dir"))
          .fact("home", home->string(), "HOME")
          .hint("cache_dir: $SCRATCH/cache, or cache_in_home: true");
    }
    return;
  }
  if (build.kind == BuildKind::Venv) {
    return;  // pip uses its default
  }
  std::vector<std::string> candidates = {
      (fs::path(build.path).parent_path() / "apptainer-cache").string()};
  for (const char* name : {"SCRATCH", "TMPDIR"}) {
    if (os::find_variable(environment, name)) {
      candidates.push_back(fmt::format("${}/apptainer-cache", name));
    }
  }
  const auto chosen = build.may_cache_in_home
                          ? candidates.begin()
                          : std::find_if_not(candidates.begin(), candidates.end(), is_in_home);
  build.cache_dir = chosen == candidates.end() ? "/tmp/apptainer-cache-${USER:-unknown}" : *chosen;
}

// The same conditions are checked again by the script, on the node and at the time of the build.
// This check only reports them early.
void check_files(const EnvBuild& build, const os::Environment& environment, bool is_forced) {
  require_file(build, "requirements", build.requirements, environment);
  require_file(build, "definition", build.definition, environment);
  const auto path = find_expanded(build.path, environment);
  std::error_code ignored;
  if (!is_forced && path && fs::exists(*path, ignored)) {
    const bool is_unfinished = fs::exists(*path / "lockstep.unfinished", ignored);
    throw Error(ExitCode::Usage,
                is_unfinished ? "another build of this environment has started"
                              : "the environment already exists")
        .fact("path", path->string(), build.position_of("path"))
        .hint(is_unfinished ? "--force, if no job is still building it"
                            : "--force to replace it, or another path");
  }
}

}  // namespace lockstep::slurm
