// SPDX-License-Identifier: Apache-2.0
//
// The pattern is compiled twice: on the leader for an early error message, and on each agent for
// matching. PCRE2 and not std::regex, whose libstdc++ implementation recurses per character and
// overflows the stack on long lines.
#include "launcher/plan/metric.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <pcre2.h>

#include "launcher/plan/parse_options.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

constexpr std::string_view kFlag = "--metric";
constexpr std::string_view kExample = R"(--metric 'loss=loss: ([0-9.e+-]+)')";
constexpr size_t kLongestName = 64;
// Limits one match to a few milliseconds. A reasonable pattern needs a thousandth of it.
constexpr uint32_t kMaxSteps = 100'000;

std::string describe_fault(int fault) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(fault, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Always in the form of the command line, because some metrics come from a job file.
std::string as_given(const OptionValue& given) {
  return fmt::format("{} {}", kFlag, given.text);
}

bool is_name(std::string_view name) {
  constexpr std::string_view kMarks = "_-./";
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && name.size() <= kLongestName && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') ||
                  kMarks.find(c) != std::string_view::npos;
         });
}

}  // namespace

struct NumberPattern::Code {
  struct Delete {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  };

  std::unique_ptr<pcre2_code, Delete> program;
  std::unique_ptr<pcre2_match_data, Delete> match;
  std::unique_ptr<pcre2_match_context, Delete> limits;
};

NumberPattern::NumberPattern(const std::string& text) : code_(std::make_unique<Code>()) {
  int fault = 0;
  PCRE2_SIZE where = 0;
  // Without UTF-8 mode: lines with invalid UTF-8 must match like any others.
  code_->program.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()),
                                     text.size(),
                                     PCRE2_NEVER_BACKSLASH_C,
                                     &fault,
                                     &where,
                                     nullptr));
  if (code_->program == nullptr) {
    throw Error(ExitCode::Usage, fmt::format("invalid regular expression '{}'", text))
        .fact("reason", fmt::format("{}, at character {}", describe_fault(fault), where + 1));
  }
  uint32_t groups = 0;
  pcre2_pattern_info(code_->program.get(), PCRE2_INFO_CAPTURECOUNT, &groups);
  if (groups == 0) {
    throw Error(ExitCode::Usage,
                fmt::format("the regular expression '{}' does not capture a number", text))
        .fact("reason", "it has no group: put parentheses around the number");
  }
  // Failure is harmless: without JIT compilation, matching is slower but correct.
  static_cast<void>(pcre2_jit_compile(code_->program.get(), PCRE2_JIT_COMPLETE));
  code_->match.reset(pcre2_match_data_create_from_pattern(code_->program.get(), nullptr));
  code_->limits.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(code_->limits.get(), kMaxSteps);
}

NumberPattern::NumberPattern(NumberPattern&&) noexcept = default;
NumberPattern& NumberPattern::operator=(NumberPattern&&) noexcept = default;
NumberPattern::~NumberPattern() = default;

// Results below 2 cover "no match" (negative), the match limit (negative), and a match in which
// group 1 did not take part (1). ovector[2] and [3] are start and end of group 1.
std::optional<double> NumberPattern::find(std::string_view line) const {
  const int found = pcre2_match(code_->program.get(),
                                reinterpret_cast<PCRE2_SPTR>(line.data()),
                                line.size(),
                                0,
                                0,
                                code_->match.get(),
                                code_->limits.get());
  if (found < 2) {
    return std::nullopt;
  }
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(code_->match.get());
  if (span[2] == PCRE2_UNSET) {
    return std::nullopt;
  }
  std::string_view text = line.substr(span[2], span[3] - span[2]);
  text.remove_prefix(text.starts_with('+') ? 1 : 0);  // from_chars rejects a plus sign
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = fault == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(value) : std::nullopt;
}

std::vector<Metric> read_metrics(std::span<const OptionValue> given) {
  std::vector<Metric> metrics;
  for (const OptionValue& one : given) {
    const size_t equals = one.text.find('=');
    if (equals == std::string::npos || equals + 1 == one.text.size()) {
      throw invalid_value(one, kFlag, "NAME=REGEX").hint(std::string(kExample));
    }
    Metric metric{.name = one.text.substr(0, equals), .pattern = one.text.substr(equals + 1)};
    if (!is_name(metric.name)) {
      throw Error(ExitCode::Usage, fmt::format("invalid metric name '{}'", metric.name))
          .fact("requested", as_given(one), one.source)
          .fact("expected", "a letter, then letters, digits and _ - . /; at most 64 characters")
          .hint(std::string(kExample));
    }
    const bool is_known = std::any_of(
        metrics.begin(), metrics.end(), [&](const Metric& m) { return m.name == metric.name; });
    if (is_known) {
      throw Error(ExitCode::Usage, fmt::format("duplicate metric '{}'", metric.name))
          .fact("requested", as_given(one), one.source)
          .hint(fmt::format("one expression for both: '{}=(?|FIRST|SECOND)'", metric.name));
    }
    try {
      const NumberPattern pattern(metric.pattern);
    } catch (Error& error) {
      error.fact("requested", as_given(one), one.source).hint(std::string(kExample));
      throw;
    }
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

Sourced<double> read_sample_every(const OptionValue& given) {
  constexpr double kMinimum = 0.1;
  constexpr SecondsRule kRule{
      .flag = "--sample-every", .minimum = 0, .hint = "--sample-every 1; 0 disables sampling"};
  Sourced<double> seconds = read_seconds(given, kRule);
  if (seconds.value > 0 && seconds.value < kMinimum) {
    throw invalid_value(given, kRule.flag, "0, or at least 0.1 seconds")
        .hint(std::string(kRule.hint));
  }
  return seconds;
}

}  // namespace lockstep::plan
