// SPDX-License-Identifier: Apache-2.0
#include "common/os/signals.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/os/system_error.h"

namespace lockstep::os {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Blocks the signal on this thread, effective when the handler returns, and sends it again. Finally
// no thread is left that accepts it, and it stays pending for the SignalFd. kill() instead of
// pthread_kill(): the signal must be pending for the process, because signalfd of another thread
// does not see signals that are pending for one thread. Every call in here is async-signal-safe.
void hand_on(int signal, siginfo_t* /*news*/, void* context) {
  const int kept = errno;
  ::sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
  ::kill(::getpid(), signal);
  errno = kept;
}

}  // namespace

// Blocked before signalfd() is called: a signal in between stays pending instead of killing the
// process. On failure the mask is restored, which delivers it then.
SignalFd::SignalFd(std::initializer_list<int> signals) {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signal : signals) {
    if (!is_ignored(signal)) {
      ::sigaddset(&wanted, signal);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &wanted, &former_);
  fd_ = Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.is_open()) {
    const int fault = errno;
    ::pthread_sigmask(SIG_SETMASK, &former_, nullptr);
    throw system_error(ExitCode::Unavailable, "cannot watch signals", fault);
  }
}

SignalFd::~SignalFd() {
  if (is_kept_) {
    return;
  }
  ::pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

std::optional<SignalFd::Arrival> SignalFd::find_arrival() {
  signalfd_siginfo news{};
  if (::read(fd_.number(), &news, sizeof(news)) != static_cast<ssize_t>(sizeof(news))) {
    return std::nullopt;
  }
  return Arrival{.number = static_cast<int>(news.ssi_signo),
                 .sender = static_cast<int>(news.ssi_pid),
                 .word = news.ssi_code == SI_QUEUE ? news.ssi_int : 0};
}

std::optional<int> SignalFd::find_pending() {
  const auto arrival = find_arrival();
  return arrival ? std::optional(arrival->number) : std::nullopt;
}

OlderThreads::OlderThreads(std::initializer_list<int> signals) {
  for (const int signal : signals) {
    if (!is_ignored(signal)) {
      struct sigaction action {};
      action.sa_sigaction = &hand_on;
      action.sa_flags = SA_SIGINFO | SA_RESTART;
      ::sigemptyset(&action.sa_mask);
      Former former{.signal = signal, .action = {}};
      ::sigaction(signal, &action, &former.action);
      former_.push_back(former);
    }
  }
}

OlderThreads::~OlderThreads() {
  for (const Former& each : former_) {
    ::sigaction(each.signal, &each.action, nullptr);
  }
}

void ignore_signal(int signal) {
  ::signal(signal, SIG_IGN);
}

void restore_signal(int signal) {
  ::signal(signal, SIG_DFL);
}

// sigabbrev_np() needs glibc 2.32 and, unlike strsignal(), does not depend on the locale.
std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace lockstep::os
