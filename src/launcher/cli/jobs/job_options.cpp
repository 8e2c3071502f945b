// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/jobs/job_options.h"

#include <cctype>
#include <string_view>

#include "launcher/slurm/keys.h"

namespace lockstep::cli {
namespace {

using slurm::Key;
using slurm::KeyType;

// The default that --help shows. Defaults with ${...} are not shown: their option texts explain
// them.
std::string default_of(const Key& key) {
  const bool is_plain = key.default_value.find("${") == std::string_view::npos;
  return is_plain ? std::string(key.default_value) : "";
}

// "Unload all modules" becomes "Do not unload all modules".
std::string negated(std::string_view help) {
  std::string text(help);
  text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  return "Do not " + text;
}

// Every flag has both forms, because the command line must be able to override either value of the
// job file. Only the form that changes the default is shown in --help.
void add_switch(CLI::App& app, const Key& key, JobFlags& flags) {
  const std::string flag = slurm::flag_of(key.name);
  const std::string name(key.name);
  const std::string opposite = "--no-" + flag.substr(2);
  // A flag that is on by default is shown in its negative form only.
  const bool is_on = key.default_value == "true";
  const auto set = [&flags, name](const char* word) {
    return [&flags, name, word](int64_t) {
      flags[name] = config::scalar(word);
    };
  };
  app.add_flag_function(flag, set("true"), std::string(key.help))
      ->group(is_on ? "" : std::string(slurm::heading_of(key.group)));
  app.add_flag_function(opposite, set("false"), negated(key.help))
      ->group(is_on ? std::string(slurm::heading_of(key.group)) : "");
}

// A repeated option replaces a single value (the last one wins) and extends a list. A list on the
// command line replaces the list of the job file as a whole.
void add_value(CLI::App& app, const Key& key, JobFlags& flags) {
  const bool is_many = key.type == KeyType::Lines || key.type == KeyType::Map;
  const std::string name(key.name);
  CLI::Option* option = app.add_option_function<std::vector<std::string>>(
      slurm::flag_of(key.name),
      [&flags, name, is_many](const std::vector<std::string>& texts) {
        config::TreeNode& node = flags[name];
        if (!is_many) {
          node = config::scalar(texts.back());
          return;
        }
        node.kind = config::TreeNode::Kind::List;
        node.position.file = "command line";
        for (const std::string& text : texts) {
          node.items.push_back(config::scalar(text));
        }
      },
      std::string(key.help));
  option->type_name(std::string(key.value))
      ->group(std::string(slurm::heading_of(key.group)))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->expected(1);
  if (const std::string text = default_of(key); !text.empty()) {
    option->default_str(text);
  }
}

}  // namespace

void add_job_options(CLI::App& app, JobFlags& flags) {
  for (const Key& key : slurm::keys()) {
    if (key.name == "save_script" || key.name == "submit_job") {
      continue;
    }
    if (key.type == KeyType::Flag) {
      add_switch(app, key, flags);
    } else {
      add_value(app, key, flags);
    }
  }
}

}  // namespace lockstep::cli
