// SPDX-License-Identifier: Apache-2.0
#include "common/os/process_identity.h"

#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/os/fd.h"
#include "common/os/peer_watch.h"

namespace lockstep::os {
namespace {

struct Stat {
  char state = 'X';  // X: no such process
  int64_t start_time = 0;
};

// The program name is in parentheses and can contain any character, so fields are counted from the
// last ')': the state is field 3 of /proc/PID/stat, the start time field 22.
Stat read_stat(int pid) {
  // 22 - 3 - 1: the fields between the state and the start time.
  constexpr int kFieldsBetween = 18;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  Stat stat;
  if (!std::getline(file, line) || line.rfind(')') == std::string::npos) {
    return stat;
  }
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  fields >> stat.state;
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) {
    fields >> skipped;
  }
  fields >> stat.start_time;
  return stat;
}

}  // namespace

ProcessIdentity own_identity() {
  return {.machine = machine_identity(),
          .pid = process_id(),
          .start_time = read_stat(process_id()).start_time};
}

bool is_of_this_machine(const ProcessIdentity& process) {
  return process.machine == machine_identity();
}

bool is_alive(const ProcessIdentity& process) {
  if (process.pid <= 0 || !is_of_this_machine(process)) {
    return false;
  }
  const Stat stat = read_stat(process.pid);
  return stat.state != 'X' && stat.state != 'Z' && stat.start_time == process.start_time;
}

bool send_signal(const ProcessIdentity& process, int signal) {
  if (process.pid <= 0) {
    return false;
  }
  // Open the descriptor first: if the identity still matches afterwards, it refers to that process.
  const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  return handle.is_open() && is_alive(process) &&
         ::syscall(SYS_pidfd_send_signal, handle.number(), signal, nullptr, 0) == 0;
}

}  // namespace lockstep::os
