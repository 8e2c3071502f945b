// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/job_layers.h"
#include "cli/job_options.h"
#include "cli/jobs.h"
#include "cli/subcommands.h"
#include "cli/submission.h"
#include "lockstep/error.h"
#include "os/files.h"
#include "os/host.h"
#include "os/standard_streams.h"
#include "slurm/batch_script.h"
#include "slurm/job_file.h"
#include "slurm/keys.h"
#include "slurm/lead_time.h"
#include "slurm/site.h"
#include "slurm/sweep.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Make a Slurm job from a YAML file: show its script, keep it, submit it\n"
    "\n"
    "Usage:\n"
    "  lockstep generate-slurm -c FILE [OPTIONS]\n"
    "\n"
    "Prints the script, keeps a copy and submits it; --no-save-script and\n"
    "--no-submit-job do without. With -s or -j, or save_script or submit_job in the\n"
    "file, only what they ask for is done. Every key of the file is an option too,\n"
    "and counts more there. Nothing is submitted unless partition, nodes, GPUs, time\n"
    "and files have been found right.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep generate-slurm -c slurm_config.yaml --no-save-script --no-submit-job\n"
    "  lockstep generate-slurm -c slurm_config.yaml --num-nodes 4 --wait\n"
    "  lockstep generate-slurm --training-cmd 'train.py -s ddp' --dry-run\n"
    "\n"
    "Exit codes:\n"
    "  0    done; with --wait, every job ended with 0\n"
    "  N    with --wait: the code of the first job that did not\n"
    "  64   the file or an option is wrong, or the cluster cannot run such a job\n"
    "  69   Slurm is not here, or does not answer\n"
    "  74   a file could not be read or written\n"
    "  130  with --wait: left with Ctrl-C, the job goes on; or it was cancelled\n"
    "\n"
    "Files:\n"
    "  slurm-scripts/NAME-JOB.sh               the script as it was submitted\n"
    "  slurm-job-logs/NAME-JOB.out, .err       what the job says\n"
    "  ~/.config/lockstep/sites/SITE.yaml      what a cluster wants of all its jobs\n";

struct Wishes {
  std::optional<std::string> file;
  JobFlags flags;
  std::optional<bool> save;
  std::optional<bool> submit;
  bool is_picking = false;  // -s or -j: only what is asked for
  bool is_dry = false;
  bool is_waiting = false;
  bool is_listing = false;
  bool is_verbose = false;
};

// What is to be done with the scripts.
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
    fmt::print(stderr, "lockstep: there are no site profiles; looked in\n");
    for (const fs::path& directory : places_of_sites()) {
      fmt::print(stderr, "  {}\n", directory.string());
    }
  }
}

// itwinai's first command line did both unless told not to, its second one only what it was told.
Doing read_doing(const Wishes& wishes, const slurm::JobSettings& settings) {
  const bool is_second =
      wishes.is_picking || settings.has("save_script") || settings.has("submit_job");
  const auto decide = [&](const std::optional<bool>& flag, const char* key) {
    return flag.value_or(settings.has(key) ? settings.flag(key) : !is_second);
  };
  Doing doing{.save = decide(wishes.save, "save_script"),
              .submit = decide(wishes.submit, "submit_job")};
  return wishes.is_dry ? Doing{.save = false, .submit = false} : doing;
}

std::vector<Script> make_scripts(const Wishes& wishes, const JobLayers& layers) {
  const slurm::Maker maker{.version = LOCKSTEP_VERSION,
                           .file = wishes.file.value_or(""),
                           .site = layers.site ? layers.site->name : ""};
  const slurm::JobGround ground{
      .lockstep = os::own_executable(),
      .earlier_pace =
          [](const std::string& name) { return slurm::find_earlier_pace("runs", name); },
      .read_text =
          [](const std::string&, const std::string& where) {
            return slurm::read_file_or_url(where);
          }};
  std::vector<Script> scripts;
  for (slurm::JobSettings& settings : slurm::expand_mode(layers.settings)) {
    slurm::Job job = slurm::make_job(settings, ground);
    std::string text = slurm::render_batch_script(job, maker);
    scripts.push_back({std::move(settings), std::move(job), std::move(text)});
  }
  return scripts;
}

// Shows where every value comes from.
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
  os::finish_output();  // before what is said about them
}

// Problems of a job that is not submitted now: told, and no reason to keep its script back.
int check_preview(const Wishes& wishes,
                  const std::vector<Script>& scripts,
                  const JobLayers& layers) {
  try {
    for (const Script& script : scripts) {
      check_here(script, layers.site);
    }
    const slurm::Client client = client_for(scripts);
    if (client.is_installed()) {
      check_there(client, scripts);
    } else {
      fmt::print(stderr, "lockstep: no Slurm on this machine, so nothing was asked of it\n");
    }
  } catch (const Error& error) {
    fmt::print(stderr, "lockstep: warning: this job would not run: {}\n", error.what());
    return wishes.is_dry ? static_cast<int>(error.code()) : 0;
  }
  return 0;
}

void keep(const Script& script, const std::string& name) {
  const std::string path = keep_script(script.settings.text("save_dir"), name, script.text);
  fmt::print(stderr, "lockstep: kept as {}\n", path);
}

std::string submit(const slurm::Client& client, const Script& script) {
  make_log_directories(script.job);
  std::string id = client.submit({.script = script.text});
  fmt::print(stderr, "{}", describe_submission(script.job, id));
  return id;
}

// Checks every job before the first is submitted.
std::vector<std::string> submit_all(const std::vector<Script>& scripts,
                                    const JobLayers& layers,
                                    const Doing& doing) {
  for (const Script& script : scripts) {
    check_here(script, layers.site);
  }
  const slurm::Client client = client_for(scripts);
  check_there(client, scripts);
  std::vector<std::string> ids;
  for (const Script& script : scripts) {
    if (doing.save) {
      os::make_directories(script.settings.text("save_dir"));  // fails before, if it does
    }
    ids.push_back(submit(client, script));
    if (doing.save) {
      keep(script, fmt::format("{}-{}", script.job.name, ids.back()));
    }
  }
  return ids;
}

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

int generate(const Wishes& wishes) {
  if (wishes.is_listing) {
    list_sites();
    return 0;
  }
  if (!wishes.file && wishes.flags.empty()) {
    throw Error(ExitCode::Usage, "cannot make a job from nothing")
        .hint("lockstep generate-slurm -c slurm_config.yaml");
  }
  const JobLayers layers = read_job_layers(wishes.file, wishes.flags);
  const Doing doing = read_doing(wishes, layers.settings);
  const std::vector<Script> scripts = make_scripts(wishes, layers);
  if (wishes.is_verbose) {
    explain(layers.settings);
  }
  print_scripts(scripts);
  if (!layers.settings.has("training_cmd") && scripts.front().job.exec_command.empty()) {
    fmt::print(stderr, "lockstep: no training_cmd, so the job runs itwinai exec-pipeline\n");
  }
  if (doing.submit) {
    const std::vector<std::string> ids = submit_all(scripts, layers, doing);
    return wishes.is_waiting ? wait_for(ids) : 0;
  }
  const int code = check_preview(wishes, scripts, layers);
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
  auto wishes = std::make_shared<Wishes>();
  CLI::App* command = app.add_subcommand("generate-slurm", kDescription);
  command->footer(kFooter);
  const std::string group = "What to do";
  command->add_option("-c,--config", wishes->file, "The job's file, or its URL")
      ->type_name("FILE")
      ->group(group)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto decide =
      [&](const char* names, std::optional<bool> Wishes::*choice, bool value, const char* help) {
        const auto set = [wishes = wishes.get(), choice, value](int64_t) {
          wishes->*choice = value;
          wishes->is_picking = wishes->is_picking || value;
        };
        command->add_flag_function(names, set, help)->group(group);
      };
  decide("-s,--save-script", &Wishes::save, true, "Keep the script");
  decide("--no-save-script", &Wishes::save, false, "Do not keep it");
  decide("-j,--submit-job", &Wishes::submit, true, "Submit the job");
  decide("--no-submit-job", &Wishes::submit, false, "Do not submit it");
  command->add_flag("--dry-run", wishes->is_dry, "Check and print; keep and submit nothing")
      ->group(group);
  command
      ->add_flag("--wait", wishes->is_waiting, "Follow the job to its end, and leave with its code")
      ->group(group);
  command->add_flag("--debug", wishes->is_verbose, "Show who said what about the job")
      ->group(group);
  command->add_flag("--list-sites", wishes->is_listing, "Show the site profiles that are here")
      ->group(group);
  add_job_options(*command, wishes->flags);
  command->callback([wishes, &call] { call.exit_code = generate(*wishes); });
}

}  // namespace lockstep::cli
