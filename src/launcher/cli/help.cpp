// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/help.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <vector>

#include "common/base/text.h"

namespace lockstep::cli {
namespace {

// Fits into 80 columns with a border, as in man pages.
constexpr size_t kPageWidth = 78;

struct Entry {
  std::string name;
  std::string text;
};

// Wraps `text` at spaces; lines after the first are indented by `indent` columns.
std::string wrap(const std::string& text, size_t indent) {
  std::string wrapped;
  size_t column = indent;
  for (const std::string& word : split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > kPageWidth) {
      wrapped += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped;
}

std::string list(const std::string& title, const std::vector<Entry>& entries, size_t width) {
  std::string text = fmt::format("\n{}:\n", title);
  for (const Entry& entry : entries) {
    text += fmt::format("  {:<{}}  {}\n", entry.name, width, wrap(entry.text, width + 4));
  }
  return text;
}

// An option with an optional value is shown as --name[=TYPE], because the value must follow '='.
Entry describe(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  std::string name = names.empty() ? option.get_name() : join(names, ", ");
  if (option.get_expected_max() > 0 && !names.empty()) {
    name += option.get_expected_min() > 0 ? " " + option.get_type_name()
                                          : fmt::format("[={}]", option.get_type_name());
  }
  const std::string& default_value = option.get_default_str();
  return {name,
          option.get_description() +
              (default_value.empty() ? "" : fmt::format(" [{}]", default_value))};
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

// Groups appear in the order in which the options were declared, Help last. The width of the first
// column is common to all groups, so it must be known before the first one is printed.
std::string help_page(const CLI::App& app) {
  std::vector<std::pair<std::string, std::vector<Entry>>> groups;
  size_t width = 0;
  const auto add = [&](const std::string& group, Entry entry) {
    width = std::max(width, entry.name.size());
    auto found = std::find_if(
        groups.begin(), groups.end(), [&group](const auto& one) { return one.first == group; });
    if (found == groups.end()) {
      found = groups.insert(groups.end(), {group, {}});
    }
    found->second.push_back(std::move(entry));
  };
  for (const CLI::App* choice : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (choice->get_group().empty()) {  // internal: started by lockstep itself
      continue;
    }
    add("Subcommands", {choice->get_name(), first_line(choice->get_description())});
    for (const std::string& alias : choice->get_aliases()) {
      add("Subcommands", {alias, "Alias of " + choice->get_name()});
    }
  }
  for (const CLI::Option* option : app.get_options()) {
    const bool is_shown = !option->get_group().empty();  // hidden: the opposite of a shown flag
    if (is_shown && option != app.get_help_ptr()) {
      add(option->get_group(), describe(*option));
    }
  }
  if (app.get_help_ptr() != nullptr) {
    add(app.get_help_ptr()->get_group(), describe(*app.get_help_ptr()));
  }
  std::string page = app.get_description() + "\n";
  for (const auto& [title, entries] : groups) {
    page += list(title, entries, width);
  }
  return page + "\n" + app.get_footer();
}

void polish(CLI::App& app) {
  app.set_help_flag("-h,--help", "Show this page")->group("Help");
  for (CLI::App* choice : app.get_subcommands([](const CLI::App*) { return true; })) {
    polish(*choice);
  }
}

}  // namespace lockstep::cli
