// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/launcher.h"

#include <algorithm>

#include "common/base/check.h"

namespace lockstep::slurm {

// In the order of the enumerators: name_of() and launcher_named() convert by position.
const std::vector<std::string>& launcher_names() {
  static const std::vector<std::string> kNames = {"lockstep",
                                                  "torchrun",
                                                  "mpirun-torchrun",
                                                  "srun",
                                                  "mpirun",
                                                  "horovodrun",
                                                  "loop",
                                                  "tensorflow"};
  return kNames;
}

std::string_view name_of(Launcher launcher) {
  return launcher_names().at(static_cast<size_t>(launcher));
}

Launcher launcher_named(std::string_view name) {
  const auto found = std::find(launcher_names().begin(), launcher_names().end(), name);
  LOCKSTEP_CHECK(found != launcher_names().end());
  return static_cast<Launcher>(found - launcher_names().begin());
}

// Launchers with an agent per node (lockstep, torchrun) need one task there; mpirun takes its slots
// from the number of tasks.
bool has_task_per_worker(Launcher launcher) {
  switch (launcher) {
    case Launcher::Srun:
    case Launcher::Mpirun:
    case Launcher::Horovodrun:
    case Launcher::Tensorflow:
      return true;
    case Launcher::Lockstep:
    case Launcher::Torchrun:
    case Launcher::MpirunTorchrun:
    case Launcher::Loop:
      return false;
  }
  return false;
}

}  // namespace lockstep::slurm
