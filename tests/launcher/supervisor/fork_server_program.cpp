// SPDX-License-Identifier: Apache-2.0
// A program with a fork server (contract/fork_offer.h), for the tests of the agent. The first
// argument selects its behaviour:
//
//   well          fork every worker; each prints its rank and exits with 0
//   fail-rank-1   like well, but rank 1 exits with 5 and the others sleep
//   die           exit with 9 before the first handover
//   forget        hand over the first worker only, and exit with 0
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>

#include "common/base/text.h"
#include "common/contract/fork_offer.h"
#include "common/os/pipe.h"
#include "common/os/process.h"

namespace {

struct Note {
  uint32_t name_bytes = 9;
  uint32_t description_bytes = 0;
  uint32_t type = lockstep::contract::kForkNoteType;
  char name[12] = "lockstep";  // NOLINT: the form of an ELF note
};

[[gnu::section(".note.lockstep"), gnu::used, gnu::aligned(4)]] constexpr Note kNote;

using lockstep::contract::ForkedWorker;

void be_worker(const ForkedWorker& worker, int agent, const std::string& behaviour) {
  namespace os = lockstep::os;
  os::lead_own_group();
  ::dup2(worker.stdout_fd, 1);
  ::dup2(worker.stderr_fd, 2);
  if (!os::wait_for_parent(agent, std::chrono::seconds(10))) {
    os::leave(70);
  }
  os::set_parent_death_signal(SIGKILL);
  for (const auto& [name, value] : worker.variables) {
    os::set_variable(name, value);
  }
  const os::Environment mine = os::environment();
  const bool is_blank = !mine.contains(std::string("OMP_NUM_THREADS"));
  std::printf("I am rank %s of %s, parent is the agent, group is my own: %s%s\n",
              mine.at("RANK").c_str(),
              mine.at("WORLD_SIZE").c_str(),
              ::getpgrp() == ::getpid() ? "yes" : "no",
              is_blank ? ", but no threads" : "");
  std::fflush(stdout);
  if (behaviour == "fail-rank-1") {
    if (worker.rank == 1) {
      os::leave(5);
    }
    std::this_thread::sleep_for(std::chrono::seconds(60));
  }
  os::leave(0);
}

}  // namespace

int main(int argc, char** argv) {
  namespace os = lockstep::os;
  const std::string behaviour = argc > 1 ? argv[1] : "well";
  const auto numbers = os::find_variable(os::environment(), lockstep::contract::kForkOffer);
  if (!numbers) {
    std::puts("no offer came");
    return 0;
  }
  if (behaviour == "die") {
    std::fputs("a library is missing\n", stderr);
    return 9;
  }
  const auto words = lockstep::split(*numbers, ',');
  std::string json;
  while (os::read_some(std::stoi(words[0]), json, os::kAtomicBytes) == os::ReadResult::Some) {
  }
  const auto offer = lockstep::contract::parse_fork_offer(json);
  for (const ForkedWorker& worker : offer.workers) {
    const int pid = os::fork_process();
    if (pid == 0) {
      be_worker(worker, offer.agent_pid, behaviour);
    }
    os::write_all(std::stoi(words[1]),
                  std::to_string(worker.rank) + " " + std::to_string(pid) + "\n");
    if (behaviour == "forget") {
      return 0;
    }
  }
  return 0;
}
