// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/option_table.h"

#include <algorithm>
#include <array>
#include <gmock/gmock.h>
#include <map>
#include <set>

#include "common/base/text.h"
#include "common/contract/strategy_kind.h"
#include "lockstep/error.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Returns the names at the start of a line of --help: "-s", "--strategy".
std::vector<std::string> names_in(std::string line) {
  std::replace(line.begin(), line.end(), ',', ' ');
  std::vector<std::string> names;
  for (const std::string& word : split(line, ' ')) {
    if (word.starts_with('-')) {
      names.push_back(word);
    } else if (!word.empty()) {
      break;
    }
  }
  return names;
}

// Returns the message of the error for these options and two workers; empty without one.
std::string fault_of(const std::string& strategy, const Option& option) {
  // Values that only strategies with the option accept. Other options accept a number.
  const std::map<std::string, const char*> texts = {
      {"--compression", "fp16"}, {"--auto-shard", "file"}, {"--collective", "ring"}};
  const std::string name = option.name();
  std::vector<const char*> words = {"mnist", "-s", strategy.c_str(), name.c_str()};
  if (!option.syntax.value.empty()) {
    words.push_back(texts.contains(name) ? texts.at(name) : "2");
  }
  try {
    std::string help;
    const auto flags = parse_flags(static_cast<int>(words.size()), words.data(), {}, help);
    resolve(TrainerOptions{}, flags.value(), 2, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OptionTable, HasEveryOptionOfTheCommandLineOnce) {
  const std::array words = {"mnist", "--help"};
  std::string help;
  parse_flags(2, words.data(), {}, help);
  std::vector<std::string> in_help;
  for (const std::string& line : split(help, '\n')) {
    const auto names = names_in(line);
    in_help.insert(in_help.end(), names.begin(), names.end());
  }

  std::vector<std::string> in_table = {"-h", "--help"};
  for (const Option& option : option_table()) {
    const auto names = split(option.syntax.names, ',');
    in_table.insert(in_table.end(), names.begin(), names.end());
  }

  EXPECT_EQ(in_help, in_table);
  EXPECT_EQ(std::set(in_table.begin(), in_table.end()).size(), in_table.size());
}

TEST(OptionTable, ExplainsEveryOption) {
  for (const Option& option : option_table()) {
    SCOPED_TRACE(option.name());
    const bool is_flag = std::holds_alternative<bool Flags::*>(option.syntax.field) ||
                         std::holds_alternative<std::optional<bool> Flags::*>(option.syntax.field);

    EXPECT_FALSE(option.text.empty());
    EXPECT_THAT(help_text(option), AllOf(Not(HasSubstr("{")), Not(HasSubstr("()"))));
    EXPECT_FALSE(option.syntax.group.empty());
    EXPECT_EQ(option.syntax.value.empty(), is_flag);
    EXPECT_EQ(option.support.scope == Scope::Every, option.support.property == nullptr);
  }
}

TEST(OptionTable, MakesStrategiesRejectOptionsThatTheyDoNotSupport) {
  for (const Option& option : option_table()) {
    for (const std::string& strategy : contract::strategy_names()) {
      SCOPED_TRACE(option.name() + " with -s " + strategy);
      if (option.support.property == nullptr) {
        continue;
      }
      const std::string fault = fault_of(strategy, option);
      if (strategy::has(strategy, option.support.property)) {
        EXPECT_THAT(fault, Not(StartsWith("cannot use")));
      } else {
        EXPECT_THAT(fault, AllOf(StartsWith("cannot use " + option.name()), HasSubstr(strategy)));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train
