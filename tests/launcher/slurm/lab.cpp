// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/lab.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/text.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kCannotRunHere = 77;

std::string tool_path() {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/tools/slurm-lab";
}

// The fixture chooses the directory of a lab. A lab must not inherit variables of another Slurm.
os::Environment environment_of_tool() {
  os::Environment variables = os::environment();
  variables.erase("LOCKSTEP_LAB_DIR");
  return variables;
}

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// The value after `name=` in a line of scontrol.
std::string value_in(const std::string& line, const std::string& name) {
  const std::string key = " " + name + "=";
  const size_t at = line.find(key);
  if (at == std::string::npos) {
    return "";
  }
  const size_t begin = at + key.size();
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

fs::path namespace_of(const fs::path& process) {
  std::error_code gone;
  return fs::read_symlink(process / "ns/pid", gone);
}

// Number of nodes in the options of `up`.
int nodes_in(const Words& options) {
  const auto at = std::find(options.begin(), options.end(), "--nodes");
  return at == options.end() ? 3 : std::stoi(*std::next(at));
}

std::string next_name() {
  static int count = 0;
  return fmt::format("test-{}-{}", ::getpid(), count++);
}

}  // namespace

Running::Running(const Words& words)
    : directory_(std::make_unique<os::TemporaryDirectory>("slurm-test")) {
  const os::Fd output = os::open_for_append(directory_->path() / "stdout");
  const os::Fd errors = os::open_for_append(directory_->path() / "stderr");
  child_ = std::make_unique<os::Child>(os::start({.executable = words.at(0),
                                                  .arguments = words,
                                                  .environment = environment_of_tool(),
                                                  .stdout_fd = output.number(),
                                                  .stderr_fd = errors.number(),
                                                  .inherited = {},
                                                  .directory = "",
                                                  .has_own_group = true}));
}

Result Running::wait() {
  Result result;
  result.status = child_->wait();
  result.output = output();
  result.errors = errors();
  return result;
}

Lab::Lab(Words options) : name_(next_name()), count_(nodes_in(options)) {
  const Result up =
      tool("up", joined(std::move(options), {"--dies-with", std::to_string(::getpid())}));
  if (up.status.code == kCannotRunHere) {
    reason_ = split(up.errors, '\n').at(0);
    return;
  }
  if (!up.status.is_success()) {
    throw std::runtime_error(up.output + up.errors);
  }
  root_ = split(tool("path").output, '\n').at(0);
  home_ = root_ / "home/hpc";
}

Lab::~Lab() {
  if (reason_.empty()) {
    tool("down");
  }
}

Words Lab::words_for(const std::string& verb, const Words& words) const {
  return joined({tool_path(), verb, "--name", name_}, words);
}

Result Lab::tool(const std::string& verb, const Words& words) const {
  return Running(words_for(verb, words)).wait();
}

Running Lab::start(const std::string& node, const Words& command, seconds limit) const {
  return Running(words_for(
      "run",
      joined(
          {"--timeout", std::to_string(limit.count()), "--in", (home_ / directory_).string(), node},
          command)));
}

Result Lab::on(const std::string& node, const Words& command, seconds limit) const {
  return start(node, command, limit).wait();
}

Result Lab::on_as_root(const std::string& node, const Words& command) const {
  return tool("run", joined({"--as-root", node}, command));
}

std::string Lab::submit(const Words& options, const std::string& script) const {
  write("job.sh", script);
  const Result result =
      on("ctl",
         joined(joined({"sbatch", "--parsable", "-o", path("job-%j.out").string()}, options),
                {"job.sh"}));
  if (!result.status.is_success()) {
    throw std::runtime_error(result.errors);
  }
  return split(result.output, '\n').at(0);
}

JobEnd Lab::wait_for_job(const std::string& id, seconds limit) const {
  JobEnd end;
  std::string line;
  comes_true(limit, [&] {
    line = on("ctl", {"scontrol", "-o", "show", "job", id}).output;
    end.state = value_in(line, "JobState");
    // Empty if a busy controller did not answer.
    return !end.state.empty() && end.state != "PENDING" && end.state != "RUNNING" &&
           end.state != "COMPLETING" && end.state != "CONFIGURING";
  });
  const Words code = split(value_in(line, "ExitCode"), ':');
  if (code.size() != 2) {
    throw std::runtime_error("no end of job " + id + " within the limit: " + line);
  }
  end.code = std::stoi(code.at(0));
  end.signal = std::stoi(code.at(1));
  end.output = read_text(path("job-" + id + ".out"));
  return end;
}

JobEnd Lab::run_job(const Words& options, const std::string& script, seconds limit) const {
  return wait_for_job(submit(options, script), limit);
}

void Lab::work_in(const std::string& name) {
  directory_.clear();
  on("ctl", {"mkdir", "-p", "--", name});
  directory_ = name;
}

std::string Lab::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name)) << text;
  ::chmod(path(name).c_str(), 0755);
  return path(name).string();
}

bool Lab::has_file(const std::string& name, seconds limit) const {
  return comes_true(limit, [&] { return fs::exists(path(name)); });
}

Words Lab::processes(const std::string& node) const {
  const std::string first = split(read_text(root_ / "pids" / node), '\n').at(0);
  const fs::path home_namespace = namespace_of(fs::path("/proc") / first);
  struct stat owner = {};
  ::stat(home_.c_str(), &owner);
  Words found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    struct stat process = {};
    if (::stat(entry.path().c_str(), &process) != 0 || process.st_uid != owner.st_uid ||
        home_namespace.empty() || namespace_of(entry.path()) != home_namespace) {
      continue;
    }
    std::string command = read_text(entry.path() / "cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    if (!command.empty()) {
      found.push_back(entry.path().filename().string() + " " + command);
    }
  }
  return found;
}

Words Lab::nodes() const {
  Words names = {"ctl"};
  for (int i = 1; i <= count_; ++i) {
    names.push_back("n" + std::to_string(i));
  }
  return names;
}

bool Lab::is_quiet(seconds limit) const {
  return comes_true(limit, [&] {
    const Words names = nodes();
    return std::all_of(names.begin(), names.end(), [&](const std::string& node) {
      return processes(node).empty();
    });
  });
}

bool has_pmix(const Lab& lab) {
  const Result result = lab.on("ctl", {"srun", "--mpi=list"});
  return (result.output + result.errors).find("pmix") != std::string::npos;
}

// Debian's PyTorch 2 is built without libuv, and the store of its torchrun insists on it.
std::optional<std::string> find_torchrun_fault(const Lab& lab) {
  const Result result = lab.on("n1",
                               {"/usr/bin/python3",
                                "-c",
                                "import torch.distributed as d\n"
                                "d.TCPStore('127.0.0.1', 0, 1, True)"});
  if (result.errors.find("without libuv") == std::string::npos) {
    return std::nullopt;
  }
  return "torchrun needs libuv, and PyTorch of /usr/bin/python3 is built without it";
}

Lab& shared_lab() {
  static Lab lab({"--nodes", "4", "--gpus", "2", "--ssh"});
  return lab;
}

void OnLab::SetUp() {
  if (!lab().reason_against().empty()) {
    GTEST_SKIP() << lab().reason_against();
  }
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  lab().work_in(fmt::format("{}.{}", test->test_suite_name(), test->name()));
}

void OnLab::TearDown() {
  if (!lab().reason_against().empty()) {
    return;
  }
  if (!lab().is_quiet()) {
    for (const std::string& node : lab().nodes()) {
      EXPECT_EQ(lab().processes(node), Words()) << "left on " << node;
      lab().on_as_root(node, {"pkill", "-KILL", "-u", "hpc"});
    }
  }
  lab().shell("ctl", "scancel --user=hpc 2>/dev/null");
  EXPECT_TRUE(comes_true(seconds(90), [&] {
    const std::string states =
        lab().on("ctl", {"sinfo", "-h", "-N", "-p", "main", "-o", "%T"}).output;
    return states == "idle\nidle\nidle\nidle\n";
  })) << "nodes did not become idle again";
}

Words sorted_lines(const std::string& text) {
  Words lines = split(text, '\n');
  lines.erase(std::remove(lines.begin(), lines.end(), ""), lines.end());
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace lockstep::testing
