// SPDX-License-Identifier: Apache-2.0
//
// Every process is held by a pidfd, opened by the parent before the exit can be collected. A number
// is therefore never signalled after it was assigned to another process.
//
//   start()            child                           parent
//     vfork ---------> setpgid, parent death signal,   (suspended)
//                      affinity, signals, streams
//                      execve ----------------------> continues; the report pipe ends: success
//                      or write Fault, _exit(127) ---> continues; reads the Fault, throws
//
// The report pipe is close-on-exec. A successful execve closes the last writer, so that the end of
// the pipe is the message "the program runs".
#include "common/os/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/text.h"
#include "common/os/pipe.h"
#include "common/os/processors.h"
#include "common/os/system_error.h"

namespace lockstep::os {
namespace {

using Clock = std::chrono::steady_clock;

// By number: old C libraries lack the wrappers, and their first header was not valid C++.
int open_process(int pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

void send_signal(int process_fd, int signal) {
  ::syscall(SYS_pidfd_send_signal, process_fd, signal, nullptr, 0);
}

ExitStatus to_status(const siginfo_t& news) {
  return news.si_code == CLD_EXITED ? ExitStatus{.code = news.si_status, .signal = 0}
                                    : ExitStatus{.code = 0, .signal = news.si_status};
}

// An entry of the tables of execve, which are not const in its signature but are not changed.
std::vector<char*> to_table(std::vector<std::string>& words) {
  std::vector<char*> table;
  table.reserve(words.size() + 1);
  for (std::string& word : words) {
    table.push_back(word.data());
  }
  table.push_back(nullptr);
  return table;
}

std::vector<std::string> to_entries(const Environment& environment) {
  std::vector<std::string> entries;
  entries.reserve(environment.size());
  for (const auto& [name, value] : environment) {
    entries.push_back(fmt::format("{}={}", name, value));
  }
  return entries;
}

// A failure between fork and exec, reported to the parent.
struct Fault {
  enum class Step { Run, Bind };

  Step step = Step::Run;
  int reason = 0;  // errno
};

// Runs between fork and exec: every call is async-signal-safe, and nothing allocates memory. All
// tables are built by the constructor in the parent. After vfork the child uses the memory of the
// parent, including the locks of malloc that another thread can hold at that moment.
class ChildSide {
 public:
  ChildSide(const Command& command, int report)
      : command_(command),
        report_(report),
        parent_(::getpid()),
        arguments_(command.arguments),
        entries_(to_entries(command.environment)),
        argv_(to_table(arguments_)),
        envp_(to_table(entries_)),
        mask_(command.cpus) {}

  // The order matters. The parent can end between vfork and prctl, and then no signal is sent:
  // hence the check of getppid(). Descriptors above the lowered limit stay valid; only new ones are
  // refused.
  [[noreturn]] void become_program() const {
    if (command_.has_own_group) {
      ::setpgid(0, 0);
    }
    if (command_.dies_with_parent) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent_) {
        ::_exit(128 + SIGKILL);
      }
    }
    if (!mask_.is_empty() && !mask_.apply()) {
      give_up(Fault::Step::Bind);
    }
    reset_signals();
    if (command_.descriptor_limit != 0) {
      rlimit limit{};
      ::getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = command_.descriptor_limit;
      ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    redirect_streams();
    for (const int number : command_.inherited) {
      ::fcntl(number, F_SETFD, 0);
    }
    if (!command_.directory.empty() && ::chdir(command_.directory.c_str()) != 0) {
      give_up(Fault::Step::Run);
    }
    ::execve(command_.executable.c_str(), argv_.data(), envp_.data());
    give_up(Fault::Step::Run);
  }

 private:
  // execve keeps ignored signals and the mask. A worker that inherited a blocked SIGTERM from the
  // SignalFd of the agent would not stop. The handlers are reset before the mask is, so that no
  // signal can run a handler of the parent in the shared memory.
  void reset_signals() const {
    for (int number = 1; number < NSIG; ++number) {
      ::signal(number, SIG_DFL);
    }
    sigset_t blocked;
    ::sigemptyset(&blocked);
    for (const int number : command_.blocked) {
      ::sigaddset(&blocked, number);
    }
    ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  }

  // The three numbers can overlap: duplicate all of them first.
  void redirect_streams() const {
    // Any number above 2 would do: F_DUPFD takes the lowest free one from here on.
    constexpr int kAbove = 10;
    const int input =
        command_.stdin_fd >= 0 ? command_.stdin_fd : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const std::array<int, 3> wanted = {input, command_.stdout_fd, command_.stderr_fd};
    std::array<int, 3> copies{};
    for (size_t i = 0; i < wanted.size(); ++i) {
      copies.at(i) = ::fcntl(wanted.at(i), F_DUPFD_CLOEXEC, kAbove);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      ::dup2(copies.at(i), static_cast<int>(i));
    }
  }

  [[noreturn]] void give_up(Fault::Step step) const {
    const Fault fault{.step = step, .reason = errno};
    [[maybe_unused]] const auto written = ::write(report_, &fault, sizeof(fault));
    ::_exit(127);
  }

  const Command& command_;
  int report_;
  int parent_;
  std::vector<std::string> arguments_;
  std::vector<std::string> entries_;
  std::vector<char*> argv_;
  std::vector<char*> envp_;
  ProcessorMask mask_;
};

Error to_error(const Fault& fault, const Command& command) {
  const std::string sentence = fault.step == Fault::Step::Bind
                                   ? fmt::format("cannot bind '{}' to processors {}",
                                                 command.executable,
                                                 format_processors(command.cpus))
                                   : fmt::format("cannot run '{}'", command.executable);
  return system_error(ExitCode::Usage, sentence, fault.reason);
}

// /proc/PID/task/TID/children would be cheaper, but not every kernel has it, and proc(5) calls it
// unreliable unless all children are stopped. Zombies are left out: they cannot be killed again.
std::set<int> children_of(int parent) {
  std::set<int> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = find_integer(entry.path().filename().string());
    if (!pid) {
      continue;
    }
    // "PID (name) STATE PPID": the name can contain any character, so parse after the last ')'.
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const size_t end = line.rfind(") ");
    if (end == std::string::npos) {
      continue;
    }
    const std::vector<std::string> words = split(std::string_view(line).substr(end + 2), ' ');
    if (words.size() > 1 && words[0] != "Z" && find_integer(words[1]) == parent) {
      children.insert(static_cast<int>(*pid));
    }
  }
  return children;
}

}  // namespace

Child::Child(int pid) : pid_(pid), fd_(open_process(pid)) {
  if (!fd_.is_open()) {
    throw system_error(ExitCode::Unavailable, fmt::format("cannot watch process {}", pid), errno);
  }
}

void Child::signal(int number) const {
  if (!status_) {
    send_signal(fd_.number(), number);
  }
}

void Child::signal_group(int number) const {
  // The group number cannot be reused before the exit of its leader has been collected.
  if (!status_ && ::kill(-pid_, number) != 0) {
    signal(number);
  }
}

// pidfd_send_signal passes the siginfo on as it is, so the fields about the sender are set here;
// signalfd reports them to the receiver.
void Child::signal_with(int number, int word) const {
  if (!status_) {
    siginfo_t news{};
    news.si_signo = number;
    news.si_code = SI_QUEUE;
    news.si_pid = ::getpid();
    news.si_uid = ::getuid();
    news.si_value.sival_int = word;
    ::syscall(SYS_pidfd_send_signal, fd_.number(), number, &news, 0);
  }
}

// waitid() with WNOHANG returns 0 and leaves si_pid at zero if the process still runs.
std::optional<ExitStatus> Child::find_exit() {
  siginfo_t news{};
  if (!status_ &&
      ::waitid(P_PIDFD, static_cast<id_t>(fd_.number()), &news, WEXITED | WNOHANG) == 0 &&
      news.si_pid != 0) {
    status_ = to_status(news);
  }
  return status_;
}

ExitStatus Child::wait() {
  siginfo_t news{};
  while (!status_) {
    if (::waitid(P_PIDFD, static_cast<id_t>(fd_.number()), &news, WEXITED) == 0) {
      status_ = to_status(news);
    } else if (errno != EINTR) {
      throw system_error(ExitCode::Bug, fmt::format("cannot wait for process {}", pid_), errno);
    }
  }
  return *status_;
}

Child start(const Command& command) {
  Pipe report = make_pipe();
  const ChildSide child_side(command, report.in.number());
  // vfork shares memory until exec, for which the parent waits anyway: copying page tables would
  // cost more than everything else. The child writes only to its own stack frames.
  const int pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) {
    child_side.become_program();
  }
  if (pid < 0) {
    throw system_error(ExitCode::Unavailable, "cannot start a new process", errno);
  }
  if (command.has_own_group) {
    ::setpgid(pid, pid);  // in both processes, so that neither has to wait for the other
  }
  report.in.close();
  Child child(pid);
  Fault fault;
  if (::read(report.out.number(), &fault, sizeof(fault)) == static_cast<ssize_t>(sizeof(fault))) {
    child.wait();
    throw to_error(fault, command);
  }
  return child;
}

int fork_process() {
  const int pid = ::fork();
  if (pid < 0) {
    throw system_error(ExitCode::Unavailable, "cannot start a new process", errno);
  }
  return pid;
}

void set_parent_death_signal(int signal) {
  ::prctl(PR_SET_PDEATHSIG, signal);
}

int parent_process_id() {
  return ::getppid();
}

std::string process_name(int pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

bool wait_for_parent(int pid, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (::getppid() != pid) {
    if (Clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

void lead_own_group() {
  ::setpgid(0, 0);
}

void become_subreaper() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

// WNOWAIT looks at an ended child without removing it, so that a child in `known` stays for its
// owner. The kernel reports the same child again on the next call: strangers behind a known one are
// collected after its owner has called find_exit().
void reap_strangers(const std::vector<int>& known) {
  for (;;) {
    siginfo_t news{};
    if (::waitid(P_ALL, 0, &news, WEXITED | WNOHANG | WNOWAIT) != 0 || news.si_pid == 0 ||
        std::find(known.begin(), known.end(), news.si_pid) != known.end()) {
      return;
    }
    ::waitid(P_PID, static_cast<id_t>(news.si_pid), &news, WEXITED | WNOHANG);
  }
}

// Repeats until waitid() reports ECHILD. A killed process can have children of its own, which
// become children of this subreaper only at its death, and a process can fork between the listing
// and the signal.
int kill_all_children(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::set<int> killed;
  for (;;) {
    reap_strangers({});
    siginfo_t news{};
    const bool has_children = ::waitid(P_ALL, 0, &news, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (!has_children || Clock::now() > deadline) {
      return static_cast<int>(killed.size());
    }
    for (const int pid : children_of(::getpid())) {
      // Safe without a pidfd: only this process can remove its children from the process table.
      ::kill(pid, SIGKILL);
      killed.insert(pid);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Unlike start(), it resets only the signals that the launcher itself ignores or blocks.
void become(const std::string& executable,
            std::vector<std::string> arguments,
            const Environment& environment) {
  std::vector<std::string> entries = to_entries(environment);
  const std::vector<char*> argv = to_table(arguments);
  const std::vector<char*> envp = to_table(entries);
  for (const int ours : {SIGPIPE, SIGTTOU, SIGXFSZ}) {  // SIGHUP stays as inherited, for nohup
    ::signal(ours, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(executable.c_str(), argv.data(), envp.data());
  throw system_error(ExitCode::Usage, fmt::format("cannot run '{}'", executable), errno);
}

uint64_t raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t former = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return former;
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void stop_self() {
  ::raise(SIGSTOP);
}

void leave(int code) {
  ::_exit(code);
}

}  // namespace lockstep::os
