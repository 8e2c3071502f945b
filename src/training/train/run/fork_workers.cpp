// SPDX-License-Identifier: Apache-2.0
#include "training/train/run/fork_workers.h"

#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/contract/fork_offer.h"
#include "common/os/fd.h"
#include "common/os/pipe.h"
#include "common/os/process.h"
#include "lockstep/error.h"

namespace lockstep::train {
namespace {

// An ELF note that marks every program that is linked with run(). The agent offers to fork workers
// only to programs with this note.
struct ElfNote {
  uint32_t name_bytes;
  uint32_t content_bytes;
  uint32_t type;
  char name[12];  // NOLINT(modernize-avoid-c-arrays): the layout is ELF's
};
[[gnu::used, gnu::section(".note.lockstep"), gnu::aligned(4)]] const ElfNote kForkNote = {
    contract::kForkNoteName.size() + 1, 0, contract::kForkNoteType, "lockstep"};

struct Descriptors {
  os::Fd offer;
  os::Fd answer;
};

Descriptors parse_descriptors(const std::string& text) {
  const std::vector<std::string> pieces = split(text, ',');
  const auto offer = pieces.size() == 2 ? find_integer(pieces[0]) : std::nullopt;
  const auto answer = pieces.size() == 2 ? find_integer(pieces[1]) : std::nullopt;
  if (!offer || !answer) {
    throw Error(ExitCode::Usage,
                fmt::format("invalid value '{}' for {}", text, contract::kForkOffer))
        .fact("expected", "two file descriptors, IN,OUT")
        .hint(fmt::format("unset {}", contract::kForkOffer));
  }
  return {os::Fd(static_cast<int>(*offer)), os::Fd(static_cast<int>(*answer))};
}

// A process group of its own, so that the agent can signal the worker with all its descendants. The
// variables are set before any library reads them: no thread exists yet.
void become_worker(const contract::ForkedWorker& worker, int agent_pid) {
  os::lead_own_group();
  os::redirect(worker.stdout_fd, 1);
  os::redirect(worker.stderr_fd, 2);
  os::unset_variable(std::string(contract::kForkOffer));
  for (const auto& [name, value] : worker.variables) {
    os::set_variable(name, value);
  }
  // When the fork server exits, the agent becomes the parent of this worker, because it is a
  // subreaper. Only then is the parent death signal set, which refers to the current parent. The
  // second check covers the death of the agent between the two calls.
  if (!os::wait_for_parent(agent_pid, std::chrono::seconds(30))) {
    os::leave(static_cast<int>(ExitCode::Unavailable));
  }
  os::set_parent_death_signal(SIGKILL);
  if (os::parent_process_id() != agent_pid) {
    os::leave(static_cast<int>(ExitCode::Unavailable));
  }
}

}  // namespace

// The fork server has no threads and has not used libtorch yet: only the dynamic linker and static
// initializers have run, whose work the children share as copy-on-write pages. It leaves with
// _exit(), so that no destructor runs twice. A child closes the streams of the others: otherwise
// their pipes would stay open after their end, and the agent would not notice it.
void accept_fork_offer(const os::Environment& environment) {
  const auto text = os::find_variable(environment, contract::kForkOffer);
  if (!text) {
    return;
  }
  Descriptors descriptors = parse_descriptors(*text);
  std::string json;
  while (os::read_some(descriptors.offer.number(), json, 1U << 16U) == os::ReadResult::Some) {
  }
  const contract::ForkOffer offer = contract::parse_fork_offer(json);
  descriptors.offer.close();
  std::string answer;
  for (const contract::ForkedWorker& worker : offer.workers) {
    const int pid = os::fork_process();
    if (pid == 0) {
      descriptors.answer.close();
      for (const contract::ForkedWorker& other : offer.workers) {
        if (other.rank != worker.rank) {
          os::Fd(other.stdout_fd).close();
          os::Fd(other.stderr_fd).close();
        }
      }
      become_worker(worker, offer.agent_pid);
      return;
    }
    answer += fmt::format("{} {}\n", worker.rank, pid);
  }
  os::write_all(descriptors.answer.number(), answer);
  os::leave(0);
}

}  // namespace lockstep::train
