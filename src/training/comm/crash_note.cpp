// SPDX-License-Identifier: Apache-2.0
#include "training/comm/crash_note.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string>

#include "training/comm/stall_report.h"

namespace lockstep::comm {
namespace {

// A terminate handler takes no argument, so its state must be global.
std::atomic<CrashReporter*> reporter_of_process = nullptr;
std::atomic<std::terminate_handler> previous_handler = nullptr;

std::optional<Error> find_reason() {
  try {
    if (const std::exception_ptr fault = std::current_exception()) {
      std::rethrow_exception(fault);
    }
  } catch (const std::exception& fault) {
    return find_different_calls(fault);
  } catch (...) {
    return std::nullopt;
  }
  return std::nullopt;
}

// Runs on the thread that threw, while other threads continue. exchange() makes sure that only one
// thread asks the reporter, and that the handler does not recurse if the reporter throws.
[[noreturn]] void report_and_terminate() {
  if (CrashReporter* reporter = reporter_of_process.exchange(nullptr); reporter != nullptr) {
    reporter->report_and_exit();
  }
  if (const auto error = find_reason()) {
    fmt::print(stderr, "lockstep: error: {}\n", error->what());
    std::_Exit(static_cast<int>(error->code()));
  }
  if (const std::terminate_handler previous = previous_handler; previous != nullptr) {
    previous();
  }
  std::abort();
}

}  // namespace

// The text is an assertion of gloo/transport/tcp/pair.cc: the preamble of a message announces more
// bytes than the receiver has posted. TCP delivers messages in order, so the two ends are in
// different calls.
std::optional<Error> find_different_calls(const std::exception& fault) {
  const std::string text = fault.what();
  if (text.find("op.preamble.length <= op.nbytes") == std::string::npos) {
    return std::nullopt;
  }
  return to_error(different_calls({})).fact("reason", text.substr(0, text.find('\n')), "gloo");
}

void install_crash_note() {
  // A static initializer runs once, also with several threads. A second set_terminate() would make
  // this handler its own predecessor, and it would recurse.
  [[maybe_unused]] static const bool is_set = [] {
    previous_handler = std::set_terminate(report_and_terminate);
    return true;
  }();
}

void add_crash_reporter(CrashReporter& reporter) {
  install_crash_note();
  CrashReporter* none = nullptr;
  reporter_of_process.compare_exchange_strong(none, &reporter);
}

void remove_crash_reporter(CrashReporter& reporter) {
  CrashReporter* me = &reporter;
  reporter_of_process.compare_exchange_strong(me, nullptr);
}

}  // namespace lockstep::comm
