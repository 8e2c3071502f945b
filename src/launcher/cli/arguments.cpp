// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/arguments.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/text.h"
#include "launcher/cli/spellings.h"
#include "lockstep/error.h"

// Why the words are read before CLI11 sees them:
//
// - The program and its arguments must stay untouched: `lockstep run train.py --help` is a question
//   to train.py.
// - torchrun, horovodrun and deepspeed accept names that CLI11 cannot declare: `_` for `-`, `-np`
//   as one word, unique abbreviations (argparse).
// - Errors must name the closest option and exit with 64.
//
// What CLI11 gets is unambiguous: main names, values joined with `=`, no program.
//
//   words:   run -np 4 --cycle-time-ms 5 train.py --lr 0.1
//   CLI11:   run --num-proc=4 --env=HOROVOD_CYCLE_TIME=5
//   program: train.py --lr 0.1
namespace lockstep::cli {
namespace {

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : full_name(*app.get_parent()) + " " + app.get_name();
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
    for (const std::string& name : option->get_snames()) {
      names.push_back("-" + name);
    }
  }
  return names;
}

// The option with the smallest edit distance, otherwise one with the same beginning: the word can
// be an abbreviation. `--network-inter` is far from `--network-interfaces` by edits, but shares its
// beginning.
std::optional<std::string> find_meant(const std::string& word,
                                      const std::vector<std::string>& options) {
  constexpr size_t kMinCommon = 5;  // "--abc"
  if (auto closest = find_closest(word, options)) {
    return closest;
  }
  const auto found = std::find_if(options.begin(), options.end(), [&word](const auto& option) {
    const auto differ = std::mismatch(word.begin(), word.end(), option.begin(), option.end());
    const auto common = static_cast<size_t>(differ.first - word.begin());
    return common >= kMinCommon && common + 2 >= word.size();
  });
  return found == options.end() ? std::nullopt : std::optional(*found);
}

constexpr int64_t kMaxMebibytes = 1 << 20;

// Reads the words in one pass: options of the command, its subcommands, then the program. The state
// is the selected command (chosen) and the position. A word that selects a subcommand changes which
// options are known, so the order of words matters: `lockstep --json status` is an error.
class Reader {
 public:
  Reader(const CLI::App& app, const std::vector<std::string>& words) : words_(words) {
    result_.chosen = &app;
  }

  Arguments read() {
    while (at_ < words_.size() && result_.program.empty()) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        take_rest();
      } else if (word.size() > 1 && word.front() == '-') {
        take_option(word);
      } else {
        take_plain(word);
      }
    }
    result_.is_incomplete =
        !result_.wants_help && !is_version_ && !subcommands_of(*result_.chosen).empty();
    return result_;
  }

 private:
  // Order of the lookups: variables of horovodrun, own names, names of other launchers,
  // abbreviations, and last a letter with its value. A declared option always wins over one of
  // another launcher.
  void take_option(const std::string& word) {
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    }
    if (name.starts_with("--")) {
      std::replace(name.begin(), name.end(), '_', '-');
    }
    if (const ForVariable* variable = find_variable(name)) {
      take_variable(*variable, std::move(value));
      return;
    }
    const CLI::Option* option = find_option(name);
    if (option == nullptr && !word.starts_with("--")) {
      // "-r3": the value follows the letter directly. Flags take no value, so "-m3" is unknown.
      option = result_.chosen->get_option_no_throw(word.substr(0, 2));
      value = word.substr(2);
      option = option != nullptr && option->get_expected_max() == 0 ? nullptr : option;
    }
    if (option == nullptr) {
      refuse_option(word.substr(0, equals), name);
    }
    ++at_;
    result_.wants_help = result_.wants_help || option == result_.chosen->get_help_ptr();
    is_version_ = is_version_ || option->check_lname("version");
    if (option->get_expected_max() == 0) {
      require_no_value(*option, value);
      result_.words.push_back(name_of(*option));
      return;
    }
    if (option->get_expected_min() == 0 && !value && !is_value_next(*option)) {
      value = option->get_default_str();
    }
    take_value(*option, word.substr(0, equals), std::move(value));
  }

  // Whether the next word is the value of an option whose value is optional. If the next word can
  // be the program, the value must follow '='. The exception is an option whose type is not a
  // placeholder (DIR) but the word itself (mps).
  bool is_value_next(const CLI::Option& option) const {
    if (at_ >= words_.size() || words_[at_].starts_with('-')) {
      return false;
    }
    if (!result_.chosen->get_prefix_command()) {
      return true;
    }
    const std::string word = option.get_type_name();
    const bool is_placeholder = std::any_of(
        word.begin(), word.end(), [](char letter) { return letter >= 'A' && letter <= 'Z'; });
    return !is_placeholder && words_[at_] == word;
  }

  // An empty value is rejected: it is almost always an unset shell variable (--nnodes "$N"), and
  // the error names the option. A value that begins with `-` is accepted, as in `--lr -1`.
  void take_value(const CLI::Option& option,
                  const std::string& written,
                  std::optional<std::string> value) {
    if (!value && at_ < words_.size()) {
      value = words_[at_++];
    }
    if (!value || value->empty()) {
      throw Error(ExitCode::Usage, fmt::format("{} requires a value", written))
          .fact("expected", fmt::format("{} {}", written, option.get_type_name()))
          .hint(full_name(*result_.chosen) + " --help");
    }
    const std::string name = name_of(option);
    result_.words.push_back(name + (name.starts_with("--") ? "=" : "") + *value);
  }

  // Only `lockstep run` has options that set variables; its declared options have precedence.
  const ForVariable* find_variable(const std::string& name) const {
    const bool is_run = result_.chosen->get_prefix_command();
    return is_run && result_.chosen->get_option_no_throw(name) == nullptr ? find_for_variable(name)
                                                                          : nullptr;
  }

  // Rewrites the option to --env NAME=VALUE.
  void take_variable(const ForVariable& option, std::optional<std::string> value) {
    ++at_;
    if (!option.value.empty()) {
      if (value) {
        refuse_value(option.name, *value);
      }
      value = option.value;
    } else if (!value && at_ < words_.size()) {
      value = words_[at_++];
    }
    if (!value || value->empty()) {
      throw Error(ExitCode::Usage, fmt::format("{} requires a value", option.name))
          .fact("expected", fmt::format("a value for {}", option.variable))
          .hint(full_name(*result_.chosen) + " --help");
    }
    if (option.factor != 1) {
      const auto number = find_integer(*value);
      if (!number || *number < 0 || *number > kMaxMebibytes) {
        throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for {}", *value, option.name))
            .fact("expected", fmt::format("a whole number from 0 to {}", kMaxMebibytes))
            .hint(fmt::format("{} 64", option.name));
      }
      value = std::to_string(*number * option.factor);
    }
    result_.words.push_back(fmt::format("--env={}={}", option.variable, *value));
  }

  [[noreturn]] static void refuse_value(std::string_view name, const std::string& value) {
    throw Error(ExitCode::Usage, fmt::format("{} does not take a value", name))
        .fact("found", fmt::format("'{}'", value), "command line")
        .hint(name);
  }

  void require_no_value(const CLI::Option& option, const std::optional<std::string>& value) const {
    if (value) {
      refuse_value(name_of(option), *value);
    }
  }

  // Finds an option by its name, by its name in another launcher, or by a unique abbreviation. An
  // option that is known but not supported is an error with a reason and an alternative, not an
  // unknown option: a user who migrates a script learns what to replace.
  const CLI::Option* find_option(const std::string& name) const {
    if (const CLI::Option* option = result_.chosen->get_option_no_throw(name)) {
      return option;
    }
    const bool is_run = result_.chosen->get_prefix_command();  // also under the name torchrun etc.
    if (const auto alias = find_alias(is_run ? "run" : result_.chosen->get_name(), name)) {
      return result_.chosen->get_option_no_throw(std::string(*alias));
    }
    if (!is_run) {
      return nullptr;
    }
    if (const Foreign* foreign = find_foreign(name)) {
      throw Error(ExitCode::Usage, fmt::format("{} is not supported: {}", name, foreign->why))
          .fact("found", fmt::format("an option of {}", foreign->owner), "command line")
          .hint(foreign->instead);
    }
    return find_begun(name);
  }

  // At least two letters: `--a` would change its meaning with every new option.
  const CLI::Option* find_begun(const std::string& name) const {
    constexpr size_t kMinimum = 4;  // "--ab"
    std::vector<std::string> begun;
    for (const std::string& one : option_names(*result_.chosen)) {
      if (name.size() >= kMinimum && name.starts_with("--") && one.starts_with(name)) {
        begun.push_back(one);
      }
    }
    if (begun.size() > 1) {
      throw Error(ExitCode::Usage, fmt::format("ambiguous option '{}'", name))
          .fact("found", fmt::format("'{}', which matches several options", name), "command line")
          .hint(join(begun, ", "));
    }
    return begun.empty() ? nullptr : result_.chosen->get_option_no_throw(begun.front());
  }

  // The spelling that is passed to CLI11: the long name if there is one.
  static std::string name_of(const CLI::Option& option) {
    return option.get_lnames().empty() ? "-" + option.get_snames().front()
                                       : "--" + option.get_lnames().front();
  }

  // A word without a hyphen is, in this order, the program, a subcommand or a positional argument.
  // A command has exactly one of the three.
  void take_plain(const std::string& word) {
    if (result_.chosen->get_prefix_command()) {
      take_rest();
      return;
    }
    const auto subcommands = subcommands_of(*result_.chosen);
    if (!subcommands.empty()) {
      take_subcommand(word, subcommands);
      return;
    }
    const auto& options = result_.chosen->get_options();
    const auto places = std::count_if(options.begin(), options.end(), [](const auto* option) {
      return option->get_positional();
    });
    // The last positional argument of some commands is a list.
    const bool is_list = std::any_of(options.begin(), options.end(), [](const auto* option) {
      return option->get_positional() && option->get_items_expected_max() > 1;
    });
    if (plain_words_ >= places && !is_list) {
      throw Error(ExitCode::Usage, fmt::format("unexpected argument '{}'", word))
          .fact("found", fmt::format("'{}', one argument too many", word), "command line")
          .hint(full_name(*result_.chosen) + " --help");
    }
    ++plain_words_;
    result_.words.push_back(word);
    ++at_;
  }

  void take_subcommand(const std::string& word, const std::vector<const CLI::App*>& choices) {
    std::vector<std::string> names;
    for (const CLI::App* choice : choices) {
      if (choice->check_name(word)) {  // its name or an alias
        result_.chosen = choice;
        result_.words.push_back(choice->get_name());
        ++at_;
        return;
      }
      if (!choice->get_group().empty()) {  // internal subcommands are not suggested
        names.push_back(choice->get_name());
        names.insert(names.end(), choice->get_aliases().begin(), choice->get_aliases().end());
      }
    }
    const std::string name = full_name(*result_.chosen);
    throw Error(ExitCode::Usage, fmt::format("unknown subcommand '{} {}'", name, word))
        .fact("available", join(names, ", "))
        .hint(fmt::format("{} {}", name, find_closest(word, names).value_or("--help")));
  }

  // After `--`, a command without a program still gets the words, as positional arguments.
  void take_rest() {
    auto& rest = result_.chosen->get_prefix_command() ? result_.program : result_.words;
    rest.insert(rest.end(), words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    at_ = words_.size();
  }

  [[noreturn]] void refuse_option(const std::string& written, const std::string& name) const {
    const std::string command = full_name(*result_.chosen);
    const auto closest = find_meant(name, option_names(*result_.chosen));
    throw Error(ExitCode::Usage, fmt::format("unknown option '{}'", written))
        .fact("found",
              fmt::format("'{}', which is not an option of {}", written, command),
              "command line")
        .hint(closest.value_or(command + " --help"));
  }

  const std::vector<std::string>& words_;
  size_t at_ = 0;
  std::ptrdiff_t plain_words_ = 0;
  bool is_version_ = false;
  Arguments result_;
};

}  // namespace

Arguments read_arguments(const CLI::App& app, const std::vector<std::string>& words) {
  return Reader(app, words).read();
}

}  // namespace lockstep::cli
