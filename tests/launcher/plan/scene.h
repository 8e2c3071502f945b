// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/plan.h"

// Machines and command lines for tests of the plan.
namespace lockstep::plan {

inline HostEnvironment quiet_machine() {
  HostEnvironment here;
  here.node = "node-a";
  here.directory = "/home/me";
  here.cores = 8;
  here.timestamp = "20240131-093000";
  here.short_id = "beef";
  here.command_time = "1706693400.125";
  return here;
}

inline Request ask(std::vector<std::string> program) {
  Request request;
  request.program = std::move(program);
  return request;
}

inline OptionValue by_flag(std::string text) {
  return {.text = std::move(text), .source = "command line", .flag = ""};
}

// A machine inside a job, as a batch script sees it: the first node of the job.
inline HostEnvironment in_slurm_job(std::vector<std::string> nodes) {
  HostEnvironment here = quiet_machine();
  here.node = nodes.front();
  here.job.emplace();
  here.job->id = "4711";
  here.job->nodes = std::move(nodes);
  return here;
}

// A task of a step on all nodes of the job.
inline HostEnvironment in_slurm_step(std::vector<std::string> nodes, int tasks_per_node, int task) {
  HostEnvironment here = in_slurm_job(nodes);
  cluster::SlurmStep step;
  step.job_id = "4711";
  step.id = "0";
  step.tasks_per_node.assign(nodes.size(), tasks_per_node);
  step.tasks = static_cast<int>(nodes.size()) * tasks_per_node;
  step.task = task;
  step.local_task = task % tasks_per_node;
  step.node = task / tasks_per_node;
  here.node = nodes.at(static_cast<size_t>(step.node));
  step.nodes = std::move(nodes);
  here.step = step;
  return here;
}

inline HostEnvironment under_mpirun(int size, int local_size, int rank) {
  HostEnvironment here = quiet_machine();
  cluster::LauncherTask task;
  task.launcher = "Open MPI";
  task.run = "prte-1@1";
  task.rank = rank;
  task.size = size;
  task.local_rank = rank % local_size;
  task.local_size = local_size;
  here.task = task;
  return here;
}

}  // namespace lockstep::plan
