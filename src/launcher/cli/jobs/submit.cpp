// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/os/files.h"
#include "common/os/host.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/jobs/job_layers.h"
#include "launcher/cli/jobs/job_options.h"
#include "launcher/cli/jobs/submission.h"
#include "launcher/cli/runs/jobs.h"
#include "launcher/cli/subcommands.h"
#include "launcher/slurm/batch_script.h"
#include "launcher/slurm/job_file.h"
#include "launcher/slurm/keys.h"
#include "launcher/slurm/lead_time.h"
#include "launcher/slurm/site.h"
#include "launcher/slurm/sweep.h"
#include "lockstep/error.h"

// The steps of lockstep submit:
//
//   layers (site, file, flags) -> expand_mode -> Job -> batch script -> print
//      -> check_here (files, modules, required keys) -> check_there (cluster, sbatch --test-only)
//      -> submit -> save a copy -> wait
//
// All jobs are checked before the first one is submitted: a scaling test is submitted as a whole or
// not at all, as far as the checks can see.
namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Create a Slurm job from a YAML file and submit it\n"
    "\n"
    "Usage:\n"
    "  lockstep submit -c FILE [OPTIONS]\n"
    "\n"
    "Prints the batch script, saves a copy and submits it. --no-save-script and\n"
    "--no-submit-job turn these steps off. With -s or -j, or with save_script or\n"
    "submit_job in FILE, only the requested steps are done. Every key of FILE is also\n"
    "an option; options override FILE. The job is submitted only if partition, nodes,\n"
    "GPUs, time limit and files pass all checks.\n"
    "\n"
    "lockstep generate-slurm is an alias of lockstep submit.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep submit -c slurm_config.yaml --no-save-script --no-submit-job\n"
    "  lockstep submit -c slurm_config.yaml --num-nodes 4 --wait\n"
    "  lockstep submit --training-cmd 'train.py -s ddp' --dry-run\n"
    "\n"
    "Exit codes:\n"
    "  0    success; with --wait, every job exited with code 0\n"
    "  N    with --wait: exit code of the first job that failed\n"
    "  64   invalid file or option, or the cluster cannot run the job\n"
    "  69   Slurm is not installed or does not respond\n"
    "  74   a file could not be read or written\n"
    "  130  with --wait: job cancelled, or wait ended with Ctrl-C (the job continues)\n"
    "\n"
    "Files:\n"
    "  slurm-scripts/NAME-JOBID.sh             batch script as submitted\n"
    "  slurm-job-logs/NAME-JOBID.out, .err     output of the job\n"
    "  ~/.config/lockstep/sites/SITE.yaml      site profile: defaults for one cluster\n";

struct SubmitOptions {
  std::optional<std::string> file;
  JobFlags flags;
  std::optional<bool> save;
  std::optional<bool> submit;
  bool is_picking = false;  // -s or -j: only the requested steps
  bool is_dry = false;
  bool is_waiting = false;
  bool is_listing = false;
  bool is_verbose = false;
};

// The steps to do with each batch script.
struct Doing {
  bool save = true;
  bool submit = true;
};

void list_sites() {
  const std::vector<slurm::Site> sites = known_sites();
  for (const slurm::Site& site : sites) {
    fmt::print("{:<20} {}  ({})\n", site.name, site.description, site.path.string());
  }
  if (sites.empty()) {
    fmt::print(stderr, "lockstep: no site profiles found in\n");
    for (const fs::path& directory : site_directories()) {
      fmt::print(stderr, "  {}\n", directory.string());
    }
  }
}

// The first command line of itwinai saved and submitted by default; its second one does only what
// is requested. Any request of the second kind selects that behaviour.
//
//   command line, job file           save   submit
//   nothing                          yes    yes
//   --no-save-script                 no     yes
//   -s                               yes    no
//   -j                               no     yes
//   save_script: true in the file    yes    no
//   --dry-run                        no     no
Doing read_doing(const SubmitOptions& options, const slurm::JobSettings& settings) {
  const bool is_second =
      options.is_picking || settings.has("save_script") || settings.has("submit_job");
  const auto decide = [&](const std::optional<bool>& flag, const char* key) {
    return flag.value_or(settings.has(key) ? settings.flag(key) : !is_second);
  };
  Doing doing{.save = decide(options.save, "save_script"),
              .submit = decide(options.submit, "submit_job")};
  return options.is_dry ? Doing{.save = false, .submit = false} : doing;
}

// One script for each job of the mode: a scaling test has several, other modes one. The reading of
// files, URLs and earlier runs is passed in, so that make_job() can be tested without them.
std::vector<Script> make_scripts(const SubmitOptions& options, const JobLayers& layers) {
  const slurm::Maker maker{.version = LOCKSTEP_VERSION,
                           .file = options.file.value_or(""),
                           .site = layers.site ? layers.site->name : ""};
  const slurm::JobInputs inputs{
      .lockstep = os::own_executable(),
      .earlier_pace =
          [](const std::string& name) { return slurm::find_earlier_pace("runs", name); },
      .read_text =
          [](const std::string&, const std::string& where) {
            return slurm::read_file_or_url(where);
          }};
  std::vector<Script> scripts;
  for (slurm::JobSettings& settings : slurm::expand_mode(layers.settings)) {
    slurm::Job job = slurm::make_job(settings, inputs);
    std::string text = slurm::render_batch_script(job, maker);
    scripts.push_back({std::move(settings), std::move(job), std::move(text)});
  }
  return scripts;
}

// Prints the source of every value.
void explain(const slurm::JobSettings& settings) {
  for (const slurm::Key& key : slurm::keys()) {
    if (settings.has(key.name)) {
      fmt::print(stderr, "{:<24} {}\n", key.name, settings.source_of(key.name));
    }
  }
}

void print_scripts(const std::vector<Script>& scripts) {
  for (size_t i = 0; i < scripts.size(); ++i) {
    if (scripts.size() > 1) {
      fmt::print("{}# Script {} of {}.\n", i == 0 ? "" : "\n", i + 1, scripts.size());
    }
    fmt::print("{}", scripts[i].text);
  }
  os::finish_output();  // before messages about them on stderr
}

// Checks a job that is not submitted now. Problems are warnings, and its script is saved in spite
// of them; a dry run returns their exit code.
int check_preview(const SubmitOptions& options,
                  const std::vector<Script>& scripts,
                  const JobLayers& layers) {
  try {
    for (const Script& script : scripts) {
      check_here(script, layers.site, /*is_submission=*/false);
    }
    const slurm::Client client = client_for(scripts);
    if (client.is_installed()) {
      check_there(client, scripts);
    } else {
      fmt::print(stderr,
                 "lockstep: Slurm is not installed here; the job was not checked against the "
                 "cluster\n");
    }
  } catch (const Error& error) {
    fmt::print(stderr, "lockstep: warning: this job would not run: {}\n", error.what());
    return options.is_dry ? static_cast<int>(error.code()) : 0;
  }
  return 0;
}

void keep(const Script& script, const std::string& name) {
  const std::string path = keep_script(script.settings.text("save_dir"), name, script.text);
  fmt::print(stderr, "lockstep: saved as {}\n", path);
}

std::string submit(const slurm::Client& client, const Script& script) {
  make_log_directories(script.job);
  std::string id = client.submit({.script = script.text});
  fmt::print(stderr, "{}", describe_submission(script.job, id));
  return id;
}

// Checks all jobs before it submits the first one. The script is saved after the submission,
// because its name contains the job ID. The directory is created before it: a job must not start if
// its script cannot be saved.
std::vector<std::string> submit_all(const std::vector<Script>& scripts,
                                    const JobLayers& layers,
                                    const Doing& doing) {
  for (const Script& script : scripts) {
    check_here(script, layers.site, /*is_submission=*/true);
  }
  const slurm::Client client = client_for(scripts);
  check_there(client, scripts);
  std::vector<std::string> ids;
  for (const Script& script : scripts) {
    if (doing.save) {
      os::make_directories(script.settings.text("save_dir"));  // fails before the submission
    }
    ids.push_back(submit(client, script));
    if (doing.save) {
      keep(script, fmt::format("{}-{}", script.job.name, ids.back()));
    }
  }
  return ids;
}

// Waits in the order of submission. Jobs run at the same time, so the total is the longest of them.
// Ctrl-C ends the wait for all.
int wait_for(const std::vector<std::string>& ids) {
  int code = 0;
  for (const std::string& id : ids) {
    const auto one = follow_job(id);
    if (!one) {
      return static_cast<int>(ExitCode::Interrupted);
    }
    code = code == 0 ? *one : code;
  }
  return code;
}

int generate(const SubmitOptions& options) {
  if (options.is_listing) {
    list_sites();
    return 0;
  }
  if (!options.file && options.flags.empty()) {
    throw Error(ExitCode::Usage, "no job file given").hint("lockstep submit -c slurm_config.yaml");
  }
  const JobLayers layers = read_job_layers(options.file, options.flags);
  const Doing doing = read_doing(options, layers.settings);
  if (doing.submit && !options.submit && options.file && slurm::is_url(*options.file)) {
    throw Error(ExitCode::Usage, "cannot submit a job from a URL without -j")
        .fact("requested", "-c " + *options.file, "command line")
        .hint("--dry-run, to read the script first; then -j");
  }
  const std::vector<Script> scripts = make_scripts(options, layers);
  if (options.is_verbose) {
    explain(layers.settings);
  }
  print_scripts(scripts);
  if (!layers.settings.has("training_cmd") && scripts.front().job.exec_command.empty()) {
    fmt::print(stderr, "lockstep: training_cmd is not set; the job runs itwinai exec-pipeline\n");
  }
  if (doing.submit) {
    const std::vector<std::string> ids = submit_all(scripts, layers, doing);
    return options.is_waiting ? wait_for(ids) : 0;
  }
  const int code = check_preview(options, scripts, layers);
  if (doing.save) {
    for (const Script& script : scripts) {
      make_log_directories(script.job);
      keep(script, script.job.name);
    }
  }
  return code;
}

}  // namespace

void add_generate_slurm(CLI::App& app, Call& call) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* command = app.add_subcommand("submit", kDescription);
  command->alias("generate-slurm");
  command->footer(kFooter);
  const std::string group = "Actions";
  command->add_option("-c,--config", options->file, "Job file: a path or a URL")
      ->type_name("FILE")
      ->group(group)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto decide = [&](const char* names,
                          std::optional<bool> SubmitOptions::*choice,
                          bool value,
                          const char* help) {
    const auto set = [options = options.get(), choice, value](int64_t) {
      options->*choice = value;
      options->is_picking = options->is_picking || value;
    };
    command->add_flag_function(names, set, help)->group(group);
  };
  decide("-s,--save-script", &SubmitOptions::save, true, "Save the batch script");
  decide("--no-save-script", &SubmitOptions::save, false, "Do not save the batch script");
  decide("-j,--submit-job", &SubmitOptions::submit, true, "Submit the job");
  decide("--no-submit-job", &SubmitOptions::submit, false, "Do not submit the job");
  command
      ->add_flag("--dry-run",
                 options->is_dry,
                 "Check the job and print the batch script; save and submit nothing")
      ->group(group);
  command
      ->add_flag("--wait", options->is_waiting, "Wait for the end of the job; exit with its code")
      ->group(group);
  command->add_flag("--debug", options->is_verbose, "Print the source of every value of the job")
      ->group(group);
  command->add_flag("--list-sites", options->is_listing, "List the available site profiles")
      ->group(group);
  add_job_options(*command, options->flags);
  command->callback([options, &call] { call.exit_code = generate(*options); });
}

}  // namespace lockstep::cli
