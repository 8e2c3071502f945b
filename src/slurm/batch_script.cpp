// SPDX-License-Identifier: Apache-2.0
#include "slurm/batch_script.h"

#include <algorithm>
#include <fmt/format.h>

#include "slurm/shell_text.h"

namespace lockstep::slurm {
namespace {

constexpr int kMostRequeues = 100;

constexpr const char* kTools = R"(
say() { printf 'job %s: %s\n' "$SLURM_JOB_ID" "$*" >&2; }
fail() { say "$*"; exit 1; }
)";

// Slurm knows the job's id only once it is there, so the job takes it into its own name. A job that
// waits for others of its name keeps it.
std::string render_name(const Job& job) {
  if (job.is_array || job.directive("dependency") == "singleton") {
    return "";
  }
  return fmt::format(
      "\n# The name of the job, with its number.\n"
      "scontrol update JobId=\"$SLURM_JOB_ID\" JobName={} >/dev/null 2>&1 || :\n",
      in_quotes(job.name + "-$SLURM_JOB_ID"));
}

std::string section(const std::string& title, const std::string& text) {
  return text.empty() ? "" : fmt::format("\n# {}\n{}\n", title, text);
}

std::string render_summary(const Job& job) {
  return fmt::format("# {}: {} worker{} on {} node{} under {}\n",
                     job.name,
                     job.workers(),
                     job.workers() == 1 ? "" : "s",
                     job.nodes,
                     job.nodes == 1 ? "" : "s",
                     job.exec_command.empty() ? std::string(name_of(job.launcher))
                                              : std::string("its own command"));
}

bool is_run_by_lockstep(const Job& job) {
  return job.exec_command.empty() && job.launcher == Launcher::Lockstep;
}

// Puts the job back when its time was up. lockstep run does so itself.
std::string render_requeue(const Job& job) {
  if (!job.is_requeued || is_run_by_lockstep(job)) {
    return "";
  }
  return fmt::format(
      "\nif [[ ${{time_is_up:-}} && $status -ne 0 && ${{SLURM_RESTART_COUNT:-0}} -lt {} ]]; then\n"
      "  scontrol requeue \"{}\"\n"
      "fi\n",
      job.max_requeues.value_or(kMostRequeues),
      id_of(job));
}

}  // namespace

bool is_replaced(const Job& job) {
  return is_run_by_lockstep(job) && job.signal_seconds > 0 && job.after.empty();
}

std::string id_of(const Job& job) {
  return job.is_array ? "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" : "$SLURM_JOB_ID";
}

std::string render_maker(const Maker& maker) {
  std::string text = fmt::format("# Made by lockstep {}", maker.version);
  text += maker.file.empty() ? "" : fmt::format(" from {}", maker.file);
  text += maker.site.empty() ? "" : fmt::format(" for the site {}", maker.site);
  std::replace(text.begin(), text.end(), '\n', ' ');  // a comment to its end, whatever it is called
  return text + "\n";
}

std::string render_directives(const Pairs& directives) {
  std::string text;
  for (const auto& [name, value] : directives) {
    text += value.empty() ? fmt::format("#SBATCH --{}\n", name)
                          : fmt::format("#SBATCH --{}=\"{}\"\n", name, value);
  }
  return text;
}

std::string render_batch_script(const Job& job, const Maker& maker) {
  std::string text = "#!/bin/bash\n" + render_summary(job) + render_maker(maker) + "#\n";
  text += render_directives(job.directives) + kTools + render_name(job);
  text += render_environment(job);
  text += section("Before the training.", job.before);
  text += "\n# The training.\n" + render_launch(job);
  if (is_replaced(job)) {
    return text;
  }
  // Slurm ends a job that was put back, in the middle of whatever it does.
  const bool may_be_back = job.is_requeued && !job.after.empty();
  text += may_be_back
              ? "\n# Put back: what follows is for the last turn.\n[[ $status == 75 ]] && exit 75\n"
              : "";
  text += section("After the training.", job.after);
  return text + render_requeue(job) + "\nexit \"$status\"\n";
}

}  // namespace lockstep::slurm
