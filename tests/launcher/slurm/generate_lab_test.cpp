// SPDX-License-Identifier: Apache-2.0
// `lockstep submit` on a real Slurm: submissions, rejections, and the jobs of examples/jobs.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <regex>
#include <thread>

#include "common/base/text.h"
#include "launcher/slurm/environments.h"
#include "launcher/slurm/with_lab.h"
#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kSmall =
    "gpus_per_node: 0\ncpus_per_task: 1\nmemory: 100M\ntime: 5\n"
    "std_out: logs/${job_name}.log\nerr_out: logs/${job_name}.log\n";

Result generate(const Lab& lab, const std::string& words, seconds limit = seconds(120)) {
  return lab.shell("ctl", "$HOME/bin/lockstep submit " + words, limit);
}

std::string queue(const Lab& lab) {
  return lab.on("ctl", {"squeue", "-h"}).output;
}

// Id of the submitted job.
std::string id_in(const std::string& errors) {
  std::smatch found;
  return std::regex_search(errors, found, std::regex("submitted job ([0-9]+)")) ? found[1].str()
                                                                                : "";
}

class JobFiles : public LaunchOnLab {
 protected:
  void write_job(const std::string& yaml) { lab().write("job.yaml", kSmall + yaml); }
};

TEST_F(JobFiles, AreSubmittedKeptAndFollowed) {
  write_job("job_name: seven\nexec_command: echo here; sleep 1; (exit 7)\n");

  const Result result = generate(lab(), "-c job.yaml --wait");

  EXPECT_EQ(result.status.code, 7) << result.errors;
  const std::string id = id_in(result.errors);
  EXPECT_EQ(read_text(lab().path("logs/seven-" + id + ".log")), "here\n");
  EXPECT_EQ(read_text(lab().path("slurm-scripts/seven-" + id + ".sh")), result.output);
  const std::string job = lab().on("ctl", {"scontrol", "-o", "show", "job", id}).output;
  EXPECT_THAT(job, HasSubstr("JobName=seven-" + id)) << "the name contains the job id";
}

TEST_F(JobFiles, OverwriteNothingWhenSubmittedTwice) {
  write_job("job_name: twice\nexec_command: echo $SLURM_JOB_ID\n");

  const Result first = generate(lab(), "-c job.yaml --wait");
  const Result second = generate(lab(), "-c job.yaml --wait");

  for (const Result* result : {&first, &second}) {
    const std::string id = id_in(result->errors);
    EXPECT_EQ(result->status.code, 0) << result->errors;
    EXPECT_EQ(read_text(lab().path("logs/twice-" + id + ".log")), id + "\n");
    EXPECT_TRUE(fs::exists(lab().path("slurm-scripts/twice-" + id + ".sh")));
  }
}

TEST_F(JobFiles, HandSecretsOverWithoutWritingThemDown) {
  write_job(
      "job_name: secret\nenv: {HF_TOKEN: abc123, MODE: fast}\n"
      "exec_command: echo $MODE ${#HF_TOKEN}\n");

  const Result result = generate(lab(), "-c job.yaml --wait");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_EQ(read_text(lab().path("logs/secret-" + id_in(result.errors) + ".log")), "fast 6\n");
  EXPECT_THAT(result.output + result.errors, Not(HasSubstr("abc123")));
}

// Commands before and after the training; the exit code is that of the training.
TEST_F(JobFiles, RunWhatComesBeforeAndAfter) {
  lab().write("pre.sh", "export GREETING=hello\n");
  write_job(
      "job_name: around\npre_exec_file: pre.sh\nexec_command: echo $GREETING; (exit 3)\n"
      "post_exec_command: echo ended with $status\n");

  const Result result = generate(lab(), "-c job.yaml --no-save-script --wait");

  EXPECT_EQ(result.status.code, 3) << result.errors;
  EXPECT_EQ(read_text(lab().path("logs/around-" + id_in(result.errors) + ".log")),
            "hello\nended with 3\n");
}

// Jobs that receive the signal before the time limit and are requeued.
TEST_F(JobFiles, ComeBackWhenTheirTimeIsUp) {
  for (const char* after : {"", "post_exec_command: echo afterwards\n"}) {
    lab().work_in(std::string("turns") + (*after == 0 ? "" : "-after"));
    lab().write(
        "worker.sh",
        "#!/bin/bash\ntrap 'exit 75' TERM\ntouch turn-$TORCHELASTIC_RESTART_COUNT-$RANK\n"
        "while [[ $TORCHELASTIC_RESTART_COUNT == 0 ]]; do sleep 0.05; done\necho went on\n");
    write_job(
        std::string("job_name: turns\nnum_nodes: 2\nworkers_per_node: 1\nrequeue: true\n"
                    "training_cmd: ./worker.sh\nlauncher_args: [--progress-file, progress]\n") +
        after);
    const std::string id = id_in(generate(lab(), "-c job.yaml -j").errors);
    ASSERT_TRUE(lab().has_file("turn-0-0"));
    ASSERT_TRUE(lab().has_file("turn-0-1"));

    lab().shell("ctl", "touch progress");
    lab().on("ctl", {"scancel", "-b", "--signal=USR1", id});

    const JobEnd end = lab().wait_for_job(id);
    const std::string log = read_text(lab().path("logs/turns-" + id + ".log"));
    EXPECT_EQ(end.state, "COMPLETED") << log;
    EXPECT_THAT(log, AllOf(HasSubstr("requeued as job " + id), HasSubstr("went on")));
    EXPECT_EQ(log.find("afterwards") != std::string::npos, *after != 0) << log;
  }
}

struct Refused {
  const char* yaml;
  const char* what;
  const char* hint;
};

TEST_F(JobFiles, AreRefusedBeforeAnythingIsSubmitted) {
  const std::vector<Refused> refused = {
      {"partition: mian", "partition 'mian' does not exist", "main"},
      {"num_nodes: 9", "too many nodes for partition", "4"},
      {"gpus_per_node: 3", "has 3 GPUs", "gpus_per_node: 2"},
      {"gpus_per_node: 1\ngpu_type: a100", "no GPUs of type 'a100'", "fake"},
      {"partition: short\ntime: 10", "time limit exceeds the maximum", "00:02:00"},
      {"cpus_per_task: 64", "has 64 CPUs", "fewer"},
      {"constraint: v100", "has the feature 'v100'", "constraint"},
      {"reservation: mine", "the reservation does not exist", "scontrol show reservation"},
      {"dependency: nonsense", "depend", ""},
      {"container_path: none.sif", "none.sif does not exist", "lockstep env build"},
      {"training_cmd: none.py", "none.py does not exist", "training_cmd"},
  };
  for (const Refused& one : refused) {
    SCOPED_TRACE(one.yaml);
    std::string yaml = kSmall;
    for (const std::string& line : split(one.yaml, '\n')) {  // a repeated key is an error
      const size_t key = yaml.find(line.substr(0, line.find(':') + 1));
      if (key != std::string::npos) {
        yaml.erase(key, yaml.find('\n', key) + 1 - key);
      }
    }
    lab().write("job.yaml", yaml + one.yaml + "\n");

    const Result result = generate(lab(), "-c job.yaml");

    EXPECT_EQ(result.status.code, 64) << result.errors;
    EXPECT_THAT(result.errors, AllOf(HasSubstr(one.what), HasSubstr(one.hint)));
    EXPECT_THAT(queue(lab()), IsEmpty());
    EXPECT_FALSE(fs::exists(lab().path("slurm-scripts")));
    EXPECT_FALSE(fs::exists(lab().path("logs")));
  }
}

// The jobs from the documentation of support teams, with the partition, sizes and program of this
// cluster. Another test checks that their launchers train.
TEST_F(JobFiles, OfTheExamplesRun) {
  if (!lab().on("n1", {"/usr/bin/python3", "-c", "import torch"}).status.is_success()) {
    GTEST_SKIP() << "python3-torch, which contains torchrun, is not installed";
  }
  // In one write, because mpirun can interleave the output of several workers.
  lab().write("hello.py",
              "import os\nplace = 'rank {RANK} of {WORLD_SIZE}\\n'.format(**os.environ)\n"
              "os.write(1, place.encode())\n");
  // Keys to replace by the values of this cluster.
  const std::regex foreign(
      "^(account|constraint|gpu_type|modules|python_venv|conda_\\w+|container_\\w+|environment|mpi|"
      "partition|cpus_per_task|memory|gpus_per_node|time|training_cmd|std_out|err_out|job_name):");
  const auto torchrun_fault = find_torchrun_fault(lab());
  std::vector<std::pair<std::string, std::string>> jobs;
  std::vector<std::string> left_out;
  for (const auto& entry :
       fs::directory_iterator(fs::path(LOCKSTEP_SOURCE_DIR) / "examples/jobs")) {
    const std::string name = entry.path().stem().string();
    if (name == "mnist" || name == "long-training") {
      continue;  // programs of the library; other tests run them
    }
    std::string yaml;
    for (const std::string& line : split(read_text(entry.path()), '\n')) {
      yaml += std::regex_search(line, foreign) ? "" : line + "\n";
    }
    yaml +=
        "gpus_per_node: 2\ncpus_per_task: 2\nmemory: 400M\ntime: 5\ntraining_cmd: hello.py\n"
        "job_name: " +
        name + "\nstd_out: logs/" + name + ".log\nerr_out: logs/" + name + ".log\n";
    if (yaml.find("torchrun") != std::string::npos || yaml.find("loop") != std::string::npos) {
      if (torchrun_fault) {
        left_out.push_back(name);
        continue;
      }
      yaml += "launcher_args: [-r, '9:1', -t, '9:1']\n";  // required by torchrun 1.13 of Debian
    }
    lab().write(name + ".yaml", yaml);
    const Result result = generate(lab(), "-c " + name + ".yaml -j");
    EXPECT_EQ(result.status.code, 0) << name << ": " << result.errors;
    jobs.emplace_back(name, id_in(result.errors));
  }
  EXPECT_GT(jobs.size() + left_out.size(), 10U);
  for (const auto& [name, id] : jobs) {
    const JobEnd end = lab().wait_for_job(id, seconds(240));
    const std::string log = read_text(lab().path("logs/" + name + "-" + id + ".log"));
    EXPECT_EQ(end.state, "COMPLETED") << name << ": " << log;
    EXPECT_THAT(log, HasSubstr("rank 1 of ")) << name;
  }
  if (torchrun_fault) {
    GTEST_SKIP() << fmt::format("{} were left out: {}", fmt::join(left_out, ", "), *torchrun_fault);
  }
}

// Every job prints its speed: twice as fast on twice the nodes.
TEST_F(JobFiles, OfAScalingTestAreCompared) {
  lab().write("train.sh",
              "#!/bin/bash\nfor step in {1..40}; do\n"
              "echo \"step $step at $((100 * WORLD_SIZE)) per second\"; sleep 0.1; done\n");
  write_job(
      "mode: scaling-test\nscalability_nodes: [1, 2]\nworkers_per_node: 1\n"
      "training_cmd: ./train.sh\n"
      "metric: ['step=step ([0-9]+)', 'samples_per_second=at ([0-9]+)']\n");
  const std::string compare = "$HOME/bin/lockstep scaling -c job.yaml";

  const Result before = lab().shell("ctl", compare);
  EXPECT_EQ(before.status.code, 64) << before.output;
  EXPECT_THAT(before.errors, HasSubstr("lockstep submit -c job.yaml"));

  ASSERT_EQ(generate(lab(), "-c job.yaml -j").status.code, 0);
  for (int turn = 0; turn < 600 && !queue(lab()).empty(); ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const Result after = lab().shell("ctl", compare);
  EXPECT_EQ(after.status.code, 0) << after.errors;
  for (const char* strategy : {"ddp", "deepspeed", "horovod"}) {
    EXPECT_THAT(after.output, HasSubstr(strategy)) << after.errors;
  }
  const std::regex row(" 2 +2 +- +- +1 +200 .* 2\\.00 +100% ");
  const auto rows = std::sregex_iterator(after.output.begin(), after.output.end(), row);
  EXPECT_EQ(std::distance(rows, std::sregex_iterator()), 3) << after.output;
}

struct Modules {
  static Words options() { return {"--nodes", "1", "--modules"}; }
};

class JobsWithModules : public WithLab<Modules> {
 protected:
  void SetUp() override {
    WithLab<Modules>::SetUp();
    if (!IsSkipped()) {
      copy_launcher(lab());
    }
  }
};

TEST_F(JobsWithModules, LoadThem) {
  lab().write("job.yaml",
              std::string(kSmall) +
                  "job_name: modules\nmodules: [lockstep-lab/1.0, other/2.0]\n"
                  "exec_command: echo loaded $LOCKSTEP_LAB_MODULE\n");

  const Result result = generate(lab(), "-c job.yaml --wait");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(read_text(lab().path("logs/modules-" + id_in(result.errors) + ".log")),
              HasSubstr("loaded 1.0"));
}

TEST_F(JobsWithModules, AreRefusedWhenOneIsNotThere) {
  lab().write("job.yaml", std::string(kSmall) + "modules: [lockstep-lab/1.0, lockstep-lab/9]\n");

  const Result result = generate(lab(), "-c job.yaml");

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("module lockstep-lab/9 cannot be loaded"),
                    HasSubstr("module avail lockstep-lab")));
  EXPECT_THAT(queue(lab()), IsEmpty());
}

TEST_F(JobsWithModules, EndWithOneLineWhenOneIsMissingOnlyThere) {
  lab().write("job.yaml",
              std::string(kSmall) +
                  "job_name: gone\nmodules: [lockstep-lab/9]\n"
                  "exec_command: echo went on\n");
  generate(lab(), "-c job.yaml --no-submit-job");

  const JobEnd end = lab().run_job({}, read_text(lab().path("slurm-scripts/gone.sh")));

  EXPECT_EQ(end.code, 1);
  const std::string log = lab().shell("ctl", "cat logs/gone-*.log").output;
  EXPECT_THAT(
      log,
      AllOf(HasSubstr("no module lockstep-lab/9; see: module avail"), Not(HasSubstr("went on"))));
}

TEST_F(JobsWithModules, UseACondaEnvironment) {
  lab().write("job.yaml",
              std::string(kSmall) +
                  "job_name: conda\nconda_env: torch\nconda_activate: " + make_conda(lab()) +
                  "/bin/activate\n"
                  "exec_command: echo in $CONDA_DEFAULT_ENV\n");

  const Result result = generate(lab(), "-c job.yaml --wait");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(read_text(lab().path("logs/conda-" + id_in(result.errors) + ".log")),
              HasSubstr("in torch"));
}

struct Apptainer {
  static Words options() { return {"--nodes", "2", "--apptainer"}; }
};

class JobsInContainers : public WithLab<Apptainer> {
 protected:
  void SetUp() override {
    WithLab<Apptainer>::SetUp();
    if (!IsSkipped()) {
      copy_launcher(lab());
    }
  }
};

TEST_F(JobsInContainers, TrainThere) {
  if (!lab().on("n1", {"/usr/bin/python3", "-c", "import torch"}).status.is_success()) {
    GTEST_SKIP() << "python3-torch is not installed";
  }
  const std::string image = make_image(lab());
  lab().write("train.py",
              "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
              "one = torch.ones(1)\ndist.all_reduce(one)\n"
              "print('sum', int(one), 'in', open('/image').read().strip(), flush=True)\n");
  const auto torchrun_fault = find_torchrun_fault(lab());
  for (const char* launcher : {"lockstep", "srun", "torchrun"}) {
    SCOPED_TRACE(launcher);
    if (torchrun_fault && std::string(launcher) == "torchrun") {
      continue;
    }
    lab().write(
        "job.yaml",
        std::string(kSmall) + "num_nodes: 2\nworkers_per_node: 2\njob_name: " + launcher +
            "\nlauncher: " + launcher + "\ncontainer_path: " + image +
            "\ncontainer_binds: [/usr, /etc]\ncontainer_gpu: none\n"
            "python_venv: not-used\nenvironment: apptainer\n"
            "training_cmd: train.py\n" +
            (std::string(launcher) == "torchrun" ? "launcher_args: [-r, '9:1', -t, '9:1']\n" : ""));

    const Result result =
        generate(lab(), "-c job.yaml --cpus-per-task 2 --no-save-script --wait", seconds(120));

    const std::string log = read_text(
        lab().path("logs/" + std::string(launcher) + "-" + id_in(result.errors) + ".log"));
    EXPECT_EQ(result.status.code, 0) << result.errors << log;
    EXPECT_THAT(log, HasSubstr("sum 4 in made by make-image.sh"));
  }
  if (torchrun_fault) {
    GTEST_SKIP() << "torchrun was left out: " << *torchrun_fault;
  }
}

struct Accounts {
  static Words options() { return {"--nodes", "1", "--accounts"}; }
};

class JobsWithAccounts : public WithLab<Accounts> {
 protected:
  void SetUp() override {
    WithLab<Accounts>::SetUp();
    if (!IsSkipped()) {
      copy_launcher(lab());
    }
  }
};

TEST_F(JobsWithAccounts, NeedOneThatIsTheUsers) {
  lab().write("job.yaml", std::string(kSmall) + "exec_command: 'true'\n");

  const Result without = generate(lab(), "-c job.yaml --no-save-script");
  const Result wrong = generate(lab(), "-c job.yaml --no-save-script --account nobodys");
  const Result right = generate(lab(), "-c job.yaml --no-save-script --account test --wait");

  EXPECT_EQ(without.status.code, 64);
  EXPECT_THAT(without.errors, HasSubstr("account"));
  EXPECT_EQ(wrong.status.code, 64);
  EXPECT_THAT(wrong.errors, HasSubstr("nobodys"));
  EXPECT_EQ(right.status.code, 0) << right.errors;
}

}  // namespace
}  // namespace lockstep::testing
