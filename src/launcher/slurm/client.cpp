// SPDX-License-Identifier: Apache-2.0
//
// Slurm has a C API and a REST API; neither is available everywhere, and the C API changes with
// each release. The commands exist on every login node, and their output formats (scontrol -o,
// sacct -P, sbatch --parsable) are stable. Every call has a time limit, because Slurm commands
// retry for minutes while the controller is down.
#include "launcher/slurm/client.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "launcher/slurm/outages.h"
#include "launcher/slurm/refusals.h"
#include "launcher/slurm/submit_environment.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// sbatch --test-only prints the estimate to stderr, possibly after warnings.
std::string find_verdict(std::string_view errors) {
  for (const std::string& line : split(errors, '\n')) {
    const size_t at = line.find("Job ");
    if (at != std::string::npos && contains(line, " to start at ")) {
      return line.substr(at);
    }
  }
  return last_output_line(errors);
}

Error unexpected(std::string_view program, const os::CommandResult& result) {
  return Error(ExitCode::Unavailable, fmt::format("unexpected output of {}", program))
      .fact("exit code", std::to_string(result.status.shell_code()), program)
      .fact("stdout", last_output_line(result.output), program)
      .fact("stderr", last_output_line(result.errors), program);
}

}  // namespace

// Sites wrap sbatch in scripts that print notices first, and drop --parsable: hence a search over
// all lines, and both forms. With several clusters the name of the cluster follows a semicolon.
std::optional<std::string> find_job_id(std::string_view output) {
  constexpr std::string_view kSentence = "Submitted batch job ";
  for (const std::string& line : split(output, '\n')) {
    std::string_view words = line;
    if (words.starts_with(kSentence)) {
      words.remove_prefix(kSentence.size());
    }
    words = words.substr(0, words.find_first_of("; \r"));
    if (is_job_id(words)) {
      return std::string(words);
    }
  }
  return std::nullopt;
}

Client::Client(os::Environment environment, Options options)
    : environment_(std::move(environment)), options_(options) {}

bool Client::is_installed() const {
  return os::find_program("sbatch", environment_).has_value();
}

void Client::need_installed() const {
  if (!is_installed()) {
    throw missing_client("sbatch", os::find_variable(environment_, "PATH").value_or(""));
  }
}

// Runs one Slurm command to its end. Throws if its output reports an outage of Slurm. Outages are
// looked for only after a failure: the same words can occur in the output of a successful command,
// such as a job name.
os::CommandResult Client::run(std::vector<std::string> words,
                              const os::CommandOptions& options) const {
  const std::string program = words.at(0);
  if (!os::find_program(program, environment_)) {
    throw missing_client(program, os::find_variable(environment_, "PATH").value_or(""));
  }
  os::CommandOptions bounded = options;
  bounded.time_limit = options_.patience;
  bounded.stop_fd = options_.stop_fd;
  os::CommandResult result = os::run_command(words, bounded);
  if (result.is_stopped) {
    throw Error(ExitCode::Interrupted, "interrupted");
  }
  if (result.is_out_of_time) {
    throw silent_client(program, std::chrono::duration<double>(options_.patience).count());
  }
  if (!result.status.is_success()) {
    if (const auto outage = find_outage(program, result.errors + result.output)) {
      throw Error(*outage);
    }
  }
  return result;
}

os::CommandResult Client::ask(std::vector<std::string> words) const {
  return run(std::move(words), {.environment = query_environment(environment_)});
}

std::string Client::must_tell(std::vector<std::string> words) const {
  const std::string program = words.at(0);
  os::CommandResult result = ask(std::move(words));
  if (!result.status.is_success()) {
    throw unexpected(program, result);
  }
  return std::move(result.output);
}

// With a script text, sbatch reads it from stdin: no temporary file exists that could be left over,
// and Slurm stores the script itself.
os::CommandResult Client::batch(const Submission& submission, const std::string& option) const {
  std::vector<std::string> words = {"sbatch", option};
  words.insert(words.end(), submission.arguments.begin(), submission.arguments.end());
  if (!submission.script_file.empty()) {
    words.push_back(submission.script_file.string());
  }
  os::CommandOptions options{.directory = submission.directory,
                             .environment = submit_environment(environment_)};
  if (submission.script_file.empty()) {
    options.input = submission.script;
  }
  os::CommandResult result = run(std::move(words), options);
  if (!result.status.is_success()) {
    throw refusal(result.errors.empty() ? result.output : result.errors);
  }
  return result;
}

// After a time limit it is unknown whether the job was accepted: silent_client() adds that to the
// message. The call is never repeated, since a second job could be submitted.
std::string Client::submit(const Submission& submission) const {
  const os::CommandResult result = batch(submission, "--parsable");
  const auto id = find_job_id(result.output);
  if (!id) {
    throw unexpected("sbatch", result);
  }
  return *id;
}

std::string Client::test(const Submission& submission) const {
  const os::CommandResult result = batch(submission, "--test-only");
  return find_verdict(result.errors + result.output);
}

// slurmctld forgets a finished job after MinJobAge (300 s by default); from then on only accounting
// knows it. -X leaves out the steps of the job.
std::vector<JobInfo> Client::find_jobs(const std::string& id) const {
  const os::CommandResult result = ask({"scontrol", "-o", "show", "job", id});
  if (std::vector<JobInfo> jobs = parse_jobs(result.output); !jobs.empty()) {
    return jobs;
  }
  if (!result.status.is_success() && !contains(result.errors, "Invalid job id specified")) {
    throw unexpected("scontrol", result);
  }
  // Without accounting, sacct fails with empty output: the job is then unknown.
  if (!os::find_program("sacct", environment_)) {
    return {};
  }
  const os::CommandResult kept =
      ask({"sacct", "-n", "-P", "-X", "-j", id, "-o", std::string(kAccountingFields)});
  return parse_accounting(kept.output);
}

void Client::kill(const std::string& id, std::vector<std::string> words) const {
  const os::CommandResult result = ask(std::move(words));
  if (contains(result.errors, "Access/permission denied")) {
    throw Error(ExitCode::Usage, fmt::format("cannot cancel job {}: permission denied", id))
        .fact("Slurm reports", last_output_line(result.errors), "scancel")
        .hint(fmt::format("lockstep status {} shows its owner", id));
  }
  if (!result.status.is_success()) {
    throw Error(ExitCode::Usage, fmt::format("cannot cancel job {}", id))
        .fact("Slurm reports", last_output_line(result.errors), "scancel")
        .hint(fmt::format("lockstep status {}", id));
  }
}

void Client::cancel(const std::string& id) const {
  kill(id, {"scancel", id});
}

void Client::signal(const std::string& id, const std::string& name, bool is_full) const {
  std::vector<std::string> words = {"scancel", "--signal=" + name, id};
  if (is_full) {
    words.insert(words.begin() + 1, "--full");
  }
  kill(id, std::move(words));
}

Settings Client::settings() const {
  return parse_cluster_settings(must_tell({"scontrol", "show", "config"}));
}

// The user record contains the default account, the associations contain all accounts.
std::optional<Accounts> Client::find_accounts() const {
  const auto user = os::find_variable(environment_, "USER");
  if (!user || !os::find_program("sacctmgr", environment_)) {
    return std::nullopt;
  }
  const os::CommandResult result = ask({"sacctmgr",
                                        "-n",
                                        "-P",
                                        "show",
                                        "user",
                                        "name=" + *user,
                                        "withassoc",
                                        "format=DefaultAccount,Account"});
  if (!result.status.is_success()) {
    return std::nullopt;
  }
  Accounts accounts;
  for (const std::string& line : split(result.output, '\n')) {
    const std::vector<std::string> values = split(line, '|');
    if (values.size() < 2) {
      continue;
    }
    accounts.preferred = values[0];
    if (!values[1].empty() && std::find(accounts.names.begin(), accounts.names.end(), values[1]) ==
                                  accounts.names.end()) {
      accounts.names.push_back(values[1]);
    }
  }
  return accounts;
}

// -a includes partitions that are hidden from this user: a hidden partition is usable if named.
ClusterFacts Client::facts() const {
  ClusterFacts facts;
  facts.settings = settings();
  facts.partitions = parse_partitions(must_tell({"scontrol", "-a", "-o", "show", "partition"}));
  facts.nodes = parse_nodes(must_tell({"scontrol", "-a", "-o", "show", "node"}));
  if (facts.settings.enforces_accounts) {
    facts.accounts = find_accounts();
  }
  return facts;
}

std::vector<std::string> Client::mpi_types() const {
  const os::CommandResult result = ask({"srun", "--mpi=list"});
  return parse_mpi_types(result.output + result.errors);
}

}  // namespace lockstep::slurm
