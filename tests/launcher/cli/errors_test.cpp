// SPDX-License-Identifier: Apache-2.0
// All error messages of the command line, compared as one text.
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;

const std::vector<std::vector<std::string>>& refused() {
  static const std::vector<std::vector<std::string>> kLines = {
      {"rnu"},
      {"train"},
      {"--verison"},
      {"run"},
      {"run", "--"},
      {"run", "--nproc-per-nodes", "2", "./train"},
      {"run", "--nprocs=2", "./train"},
      {"run", "--run-dri=x", "./train"},
      {"run", "-npx", "2", "./train"},
      {"run", "--something-else", "./train"},
      {"run", "--rdzv", "x", "./train"},
      {"run", "--dry-run=yes", "./train"},
      {"run", "--grace"},
      {"run", "--nproc-per-node", "0", "./train"},
      {"run", "--nproc_per_node=two", "./train"},
      {"run", "--nproc-per-node", "gpu", "./train"},
      {"run", "--num_gpus", "none", "./train"},
      {"run", "--num_gpus", "2", "--nproc-per-node", "3", "./train"},
      {"run", "--bind", "socket", "./train"},
      {"run", "--bind", "gpu", "./train"},
      {"run", "--nnodes", "0", "./train"},
      {"run", "--nnodes", "2", "./train"},
      {"run", "--nnodes", "2", "--node-rank", "1", "./train"},
      {"run", "--nnodes", "2", "--node-rank", "2", "--master-addr", "n1", "./train"},
      {"run", "--node-rank", "1", "./train"},
      {"run", "-np", "6", "--nproc-per-node", "4", "./train"},
      {"run", "-np", "8", "--nproc-per-node", "4", "--nnodes", "1", "./train"},
      {"run", "-np", "9", "-H", "n1:4,n2:4", "./train"},
      {"run", "-np", "3", "-H", "n1,n2", "./train"},
      {"run", "-H", "n1:4,n2:x", "./train"},
      {"run", "-H", "n[1-", "./train"},
      {"run", "-H", "n1:2", "--nproc-per-node", "4", "./train"},
      {"run", "-H", "n1,n2", "--nnodes", "3", "./train"},
      {"run", "-H", "n1", "--hostfile", "hosts", "./train"},
      {"run", "-H", "n1,n2", "--rdzv-endpoint", "n1:29400", "./train"},
      {"run", "--hostfile", "no-hosts", "./train"},
      {"run", "--hostfile", "hosts", "./train"},
      {"run", "--include", "n1", "--exclude", "n2", "./train"},
      {"run", "--include", "n1", "--num_nodes", "2", "./train"},
      {"run", "--include", "n9", "./train"},
      {"run", "--standalone", "--nnodes", "2", "./train"},
      {"run", "--standalone", "--rdzv-endpoint", "n1:29400", "./train"},
      {"run", "--standalone", "-H", "n1", "./train"},
      {"run", "--rdzv-backend", "etcd", "--nnodes", "2", "./train"},
      {"run", "--rdzv-backend", "c11d", "./train"},
      {"run", "--rdzv-endpoint", "n1:http", "./train"},
      {"run", "--nnodes", "2", "--rdzv-endpoint", "n1:0", "./train"},
      {"run", "--rdzv-conf", "timeout", "./train"},
      {"run", "--rdzv-conf", "join_timeot=60", "./train"},
      {"run", "--rdzv-conf", "join_timeout=soon", "./train"},
      {"run", "--rdzv-conf", "store_type=file", "./train"},
      {"run", "--rdzv-conf", "is_host=maybe", "./train"},
      {"run", "--nnodes", "2", "--rdzv-endpoint", "n1", "--rdzv-conf", "rank=2", "./train"},
      {"run", "--start-method", "fork", "./train"},
      {"run", "--start-timeout", "0", "./train"},
      {"run", "--monitor-interval", "often", "./train"},
      {"run", "--max-restarts", "-1", "./train"},
      {"run", "--timeout", "1:30", "./train"},
      {"run", "--network-interfaces", "eth0,,ib0", "./train"},
      {"run", "-p", "ssh", "-H", "n1", "./train"},
      {"run", "-r", "4", "./train"},
      {"run", "--tee", "0:1,x", "./train"},
      {"run", "--local-ranks-filter", "first", "./train"},
      {"run", "--master-port", "http", "./train"},
      {"run", "--master-addr", "192.0.2.1", "--master-port", "23456", "./train"},
      {"run", "--master-addr", "not a host", "./train"},
      {"run", "--grace", "-1", "./train"},
      {"run", "--env", "NAME", "./train"},
      {"run", "--env", "RANK=1", "./train"},
      {"run", "-x", "NO_SUCH_VARIABLE", "./train"},
      {"run", "--run-dir", "", "./train"},
      {"run", "--json", "./train"},
      {"run", "-m", "--no-python", "train"},
      {"run", "-m", "--run-path", "train"},
      {"run", "--pass-local-rank", "--use-env", "./train"},
      {"run", "--requeue", "./train"},
      {"run", "--progress-file", "saved", "./train"},
      {"run", "--simulate", "64"},
      {"run", "--simulate", "64x8", "./train"},
      {"run", "--fusion-threshold-mb", "lots", "./train"},
      {"run", "--autotune=yes", "./train"},
      {"run", "--timeline-filename"},
      {"run", "--mpi", "./train"},
      {"run", "--min-np", "2", "./train"},
      {"run", "--launcher", "pdsh", "./train"},
      {"run", "--shutdown-timeout", "10", "./train"},
      {"run", "--check-build"},
      {"run", "-cb"},
      {"run", "--autotuning", "run", "./train"},
      {"run", "--bind_core_list", "0-3", "./train"},
      {"run", "--binding-args", "-b rs", "./train"},
      {"run", "--blacklist-cooldown-range", "1", "2", "./train"},
      {"run", "./trian"},
      {"run", "./nothing-like-it"},
      {"run", "train"},
      {"run", "no-such-program"},
      {"run", "./notes.txt"},
      {"run", "./folder"},
      {"run", "trian.py"},
      {"scaling"},
      {"scaling", "no-such-run"},
      {"scaling", "-c", "no-such-file.yaml"},
      {"scaling", "--json", "--csv", "runs"},
      {"scaling", "--plot", "scaling.png", "runs"},
      {"scaling", "--predict", "16,0", "runs"},
      {"scaling", "--predict", "many", "runs"},
      {"scaling", "--latency", "5us", "runs"},
      {"scaling", "--network", "400Gb/s"},
      {"scaling", "--predict", "8,0", "--network", "400Gb/s", "--step-time", "1s"},
      {"scaling", "--network", "400Gb/s", "--step-time", "105ms"},
      {"scaling", "--network", "400", "--step-time", "105ms", "--parameters", "124M"},
      {"scaling", "--network", "1Gb/s", "--step-time", "105", "--parameters", "124M"},
      {"scaling", "--network", "1Gb/s", "--step-time", "1s", "--parameters", "many"},
      {"scaling", "--network", "1Gb/s", "--step-time", "1s", "--gradient-bytes", "5"},
      {"scaling",
       "--network",
       "1Gb/s",
       "--step-time",
       "1s",
       "--parameters",
       "1M",
       "--gradient-bytes",
       "4MB"},
      {"scaling",
       "--network",
       "1Gb/s",
       "--step-time",
       "1s",
       "--parameters",
       "1M",
       "--zero-stage",
       "4"},
      {"scaling",
       "--network",
       "1Gb/s",
       "--step-time",
       "1s",
       "--parameters",
       "1M",
       "--overlap",
       "nan"},
      {"scaling",
       "--network",
       "1Gb/s",
       "--step-time",
       "1s",
       "--parameters",
       "1M",
       "--gpus-per-node",
       "2.5"},
      {"scaling", "--network", "1Gb/s", "-c", "no-such-file.yaml"},
      {"scaling", "--network", "1Gb/s", "--plot", "scaling.svg", "one"},
      {"scaling", "--network", "1Gb/s", "one", "two"},
      {"scaling", "--network", "1Gb/s", "--predict", "no-such-run"},
      {"data", "fecth"},
      {"data", "fetch"},
      {"data", "fetch", "minst"},
      {"data", "fetch", "imagenet"},
      {"data", "fetch", "mnist", "cifar10"},
      {"data", "list", "--data-dri", "x"},
      {"run", "--tensorboard=", "./train"},
      {"export", "--format", "xml"},
      {"export", "--follow"},
      {"export", "--format", "tensorboard", "--wait"},
  };
  return kLines;
}

// Creates a program, and files that are not programs.
void furnish(Launcher& launcher) {
  launcher.write_script("train", "#!/bin/sh\ntouch started\n");
  std::ofstream(launcher.path("train.py")) << "raise SystemExit(1)\n";
  std::ofstream(launcher.path("notes.txt")) << "text\n";
  std::ofstream(launcher.path("hosts")) << "n1 slots=4\nn2 slots=many\n";
  std::filesystem::create_directory(launcher.path("folder"));
  launcher.environment["PATH"] = "/usr/bin:/bin";
  launcher.environment["CUDA_VISIBLE_DEVICES"] = "";
}

// The command, its stderr and its exit code.
std::string transcript(Launcher& launcher, const std::vector<std::string>& words) {
  const Result result = launcher.run(words);
  EXPECT_THAT(result.output, IsEmpty());
  std::vector<std::string> typed = {launcher.called};
  for (const std::string& word : words) {
    typed.push_back(quote_for_shell(word));
  }
  const std::string here = std::filesystem::canonical(launcher.path(".")).string();
  return "$ " + join(typed, " ") + "\n" + replaced(result.errors, here, "/home/me") +
         "[exit code " + std::to_string(result.status.shell_code()) + "]\n\n";
}

TEST(Errors, SayWhatIsWrongWhoSaysSoAndWhatToTypeInstead) {
  Launcher launcher;
  furnish(launcher);

  std::string text;
  for (const std::vector<std::string>& words : refused()) {
    text += transcript(launcher, words);
  }

  expect_golden(text, "errors.txt");
  EXPECT_FALSE(std::filesystem::exists(launcher.path("started")));
}

struct Scene {
  std::string story;
  os::Environment variables;
  std::vector<std::vector<std::string>> lines;
};

// The environment of a job with two nodes, and of a task in one of its steps.
os::Environment in_job(os::Environment more) {
  more.insert(
      {{"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_NUM_NODES", "2"}});
  return more;
}

os::Environment in_step(const std::string& tasks_per_node, const std::string& tasks) {
  return in_job({{"SLURM_STEP_ID", "0"},
                 {"SLURM_STEP_NODELIST", "n[1-2]"},
                 {"SLURM_STEP_NUM_NODES", "2"},
                 {"SLURM_STEP_NUM_TASKS", tasks},
                 {"SLURM_STEP_TASKS_PER_NODE", tasks_per_node},
                 {"SLURM_PROCID", "1"},
                 {"SLURM_LOCALID", tasks == "2" ? "0" : "1"},
                 {"SLURM_NODEID", tasks == "2" ? "1" : "0"}});
}

std::vector<Scene> scenes() {
  return {
      {"in a job of two nodes",
       in_job({}),
       {{"run", "--nnodes", "3", "./train"},
        {"run", "-np", "3", "./train"},
        {"run", "--include", "n3", "./train"}}},
      {"in an allocation of salloc", in_job({}), {{"run", "--requeue", "./train"}}},
      {"in a batch script",
       in_job({{"SLURM_TASK_PID", "73"}}),
       {{"run", "--requeue", "--requeue-signal", "KILL", "./train"},
        {"run", "--requeue", "--max-requeues", "0", "./train"}}},
      {"as a task of srun", in_step("1(x2)", "2"), {{"run", "--requeue", "./train"}}},
      {"in a job of two nodes, with --ntasks-per-node=2",
       in_job({{"SLURM_NTASKS_PER_NODE", "2"}}),
       {{"run", "--nproc-per-node", "4", "./train"}}},
      {"in a job of two nodes, with 2 GPUs each",
       in_job({{"SLURM_GPUS_PER_NODE", "2"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}),
       {{"run", "--nproc-per-node", "4", "./train"}}},
      {"in a job of two nodes, with 2 GPUs each and --ntasks-per-node=4",
       in_job({{"SLURM_GPUS_PER_NODE", "2"},
               {"SLURM_NTASKS_PER_NODE", "4"},
               {"CUDA_VISIBLE_DEVICES", "0,1"}}),
       {{"run", "./train"}}},
      {"as one of two tasks, each on its node",
       in_step("1(x2)", "2"),
       {{"run", "--nnodes", "1", "./train"},
        {"run", "--nnodes", "2", "--node-rank", "0", "--master-addr", "n1", "./train"}}},
      {"as one of eight tasks, four on each node",
       in_step("4(x2)", "8"),
       {{"run", "--nproc-per-node", "2", "./train"},
        {"run", "-np", "2", "./train"},
        {"run", "--nnodes", "2", "--nproc-per-node", "4", "--rdzv-endpoint", "n1", "./train"},
        {"run", "--dashboard", "--run-dir", "run", "./train"},
        {"run", "--tensorboard", "--run-dir", "run", "./train"}}},
      {"with PET_NPROC_PER_NODE=two", {{"PET_NPROC_PER_NODE", "two"}}, {{"run", "./train"}}},
      {"with PET_STANDALONE=yes", {{"PET_STANDALONE", "yes"}}, {{"run", "./train"}}},
  };
}

TEST(Errors, NameBothSourcesWhereSlurmSaysSomethingElse) {
  std::string text;
  for (const Scene& scene : scenes()) {
    Launcher launcher;
    furnish(launcher);
    for (const auto& [name, value] : scene.variables) {
      launcher.environment[name] = value;
    }
    for (const std::vector<std::string>& words : scene.lines) {
      text += "# " + scene.story + "\n" + transcript(launcher, words);
    }
    EXPECT_FALSE(std::filesystem::exists(launcher.path("started")));
  }

  expect_golden(text, "errors_in_slurm.txt");
}

TEST(Errors, OfADropInNameIt) {
  Launcher launcher;
  furnish(launcher);
  std::string text;
  launcher.called = "torchrun";
  text += transcript(launcher, {});
  text += transcript(launcher, {"--nproc_per_nod=x", "train.py"});
  text += transcript(launcher, {"--nnodes", "2", "train.py"});
  launcher.called = "torch.distributed.launch";
  text += transcript(launcher, {"--no_python", "./train"});
  launcher.called = "horovodrun";
  text += transcript(launcher, {"-np", "8", "-H", "localhost:4", "./train"});
  text += transcript(launcher, {"-np"});
  launcher.called = "deepspeed";
  text += transcript(launcher, {"--num_gpus", "0", "train.py"});
  text += transcript(launcher, {"--include", "localhost:0", "--num_gpus", "1", "train.py"});
  text += transcript(launcher, {"--bind_cores_to_rank", "train.py"});

  expect_golden(text, "errors_of_drop_ins.txt");
}

}  // namespace
}  // namespace lockstep::testing
