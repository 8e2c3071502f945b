// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/job.h"

#include <gmock/gmock.h>

#include "launcher/slurm/directives.h"
#include "launcher/slurm/job_fixture.h"

namespace lockstep::slurm {
namespace {

using lockstep::testing::job_of;
using lockstep::testing::refusal_of;
using lockstep::testing::settings_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(AJob, HasOneTaskPerNodeUnderLockstep) {
  const Job job = job_of("num_nodes: 2\ngpus_per_node: 4\ncpus_per_task: 16");

  EXPECT_EQ(job.workers(), 8);
  EXPECT_EQ(job.directive("ntasks"), "2");
  EXPECT_EQ(job.directive("ntasks-per-node"), "1");
  EXPECT_EQ(job.directive("cpus-per-task"), "16");
  EXPECT_EQ(job.directive("gpus-per-node"), "4");
  EXPECT_THAT(job.directives, Contains(Pair("no-requeue", "")));
}

TEST(AJob, HasOneTaskPerWorkerWhereWorkersAreTasks) {
  for (const char* launcher : {"srun", "mpirun", "horovodrun", "tensorflow"}) {
    SCOPED_TRACE(launcher);
    const Job job = job_of("num_nodes: 2\ngpus_per_node: 4\ncpus_per_task: 16\nlauncher: " +
                           std::string(launcher));

    EXPECT_EQ(job.directive("ntasks"), "8");
    EXPECT_EQ(job.directive("ntasks-per-node"), "4");
    EXPECT_EQ(job.directive("cpus-per-task"), "4") << "the cores of the node are divided";
  }
  EXPECT_EQ(job_of("launcher: srun\nnum_tasks_per_node: 4\ncpus_per_task: 3").cpus_per_task, 3)
      << "with an explicit number of tasks, cpus_per_task is per task";
}

TEST(AJob, TakesTasksForWorkersWithoutGpus) {
  const Job job = job_of("gpus_per_node: 0\nnum_tasks_per_node: 3\ncpus_per_task: 2");

  EXPECT_EQ(job.workers_per_node, 3);
  EXPECT_EQ(job.directive("ntasks-per-node"), "1");
  EXPECT_EQ(job.directive("cpus-per-task"), "6");
  EXPECT_EQ(job.directive("gpus-per-node"), "");
  EXPECT_EQ(job_of("gpus_per_node: 0\nworkers_per_node: 2").workers_per_node, 2);
}

TEST(AJob, AsksForGpusInTheDialectOfTheSite) {
  EXPECT_EQ(job_of("gpu_request: gres\ngpu_type: v100").directive("gres"), "gpu:v100:4");
  EXPECT_EQ(job_of("gpu_request: gres\ngres: nvme:100").directive("gres"), "gpu:4,nvme:100");
  EXPECT_EQ(job_of("gpu_type: a100").directive("gpus-per-node"), "a100:4");
  EXPECT_EQ(job_of("gpu_request: gpus-per-task\nlauncher: srun").directive("gpus-per-task"), "1");
  EXPECT_EQ(job_of("gpu_request: none").directive("gpus-per-node"), "");
}

TEST(AJob, PutsTheJobIdIntoItsLogs) {
  EXPECT_EQ(job_of("std_out: logs/a.out").directive("output"), "logs/a-%j.out");
  EXPECT_EQ(job_of("std_out: logs.d/a").directive("output"), "logs.d/a-%j");
  EXPECT_EQ(job_of("std_out: a-%j.log").directive("output"), "a-%j.log");
  EXPECT_EQ(job_of("std_out: a.log\narray: 0-3").directive("output"), "a-%A_%a.log");
  EXPECT_EQ(job_of("std_out: a.log\nsbatch: --array=0-3").directive("output"), "a-%A_%a.log");
  EXPECT_EQ(job_of("std_out: /dev/null").directive("output"), "/dev/null");
}

TEST(AJob, HandsOnWhatSbatchKnows) {
  const Job job = job_of(
      "qos: long\nreservation: r\nconstraint: 'a&b'\ndependency: afterok:7\nexclusive: true\n"
      "mail_type: [BEGIN, END]\nmail_user: me@x.org\nnodelist: n1\nexclude: n2\nmemory: 0\n"
      "begin: 20:00\ncomment: c\narray: 0-3\naccount: a\npartition: p\n"
      "sbatch: [--switches=1, --nice, --time=2]");

  EXPECT_EQ(job.directive("constraint"), "a&b");
  EXPECT_EQ(job.directive("mail-type"), "BEGIN,END");
  EXPECT_EQ(job.directive("mem"), "0");
  EXPECT_EQ(job.directive("switches"), "1");
  EXPECT_EQ(job.directive("time"), "2") << "sbatch options override keys";
  EXPECT_THAT(job.directives, Contains(Pair("nice", "")));
  EXPECT_THAT(job.directives, Contains(Pair("exclusive", "")));
  EXPECT_TRUE(std::is_sorted(job.directives.begin(), job.directives.end()));
}

TEST(AJob, WarnsBeforeTheLimitWhenItIsRequeued) {
  const Job job = job_of("requeue: true\nsignal_seconds: 90\nmax_requeues: 3");

  EXPECT_EQ(job.directive("signal"), "B:USR1@90");
  EXPECT_THAT(job.directives, Contains(Pair("requeue", "")));
  EXPECT_EQ(job.max_requeues, 3);
  EXPECT_EQ(job_of("requeue: true\ntime: UNLIMITED").signal_seconds,
            job_of("requeue: true\ntime: 1-00").signal_seconds)
      << "without a limit, the lead time is not halved";
}

TEST(AJob, KeepsSecretsOutOfItsScript) {
  const std::string yaml =
      "env: {WANDB_API_KEY: 1234, MODE: fast, HF_TOKEN: '$HF_TOKEN', TOKENIZERS_PARALLELISM: no}\n"
      "http_proxy: http://user:pw@proxy:80\nhttps_proxy: http://proxy:80";
  const Job job = job_of(yaml);

  EXPECT_THAT(job.secrets, ElementsAre("WANDB_API_KEY", "http_proxy", "HTTP_PROXY"));
  EXPECT_THAT(job.variables,
              ElementsAre(Pair("MODE", "fast"),
                          Pair("HF_TOKEN", "$HF_TOKEN"),
                          Pair("TOKENIZERS_PARALLELISM", "no"),
                          Pair("https_proxy", "http://proxy:80"),
                          Pair("HTTPS_PROXY", "http://proxy:80")));
  EXPECT_THAT(secrets_of(settings_of(yaml)), Contains(Pair("WANDB_API_KEY", "1234")));
}

TEST(AJob, ChoosesItsEnvironmentWithOneKey) {
  const std::string both = "python_venv: v\ncontainer_path: i.sif\n";
  EXPECT_EQ(job_of("").environment, EnvironmentKind::None);
  EXPECT_EQ(job_of("python_venv: v").environment, EnvironmentKind::Venv);
  EXPECT_EQ(job_of("conda_env: c").environment, EnvironmentKind::Conda);
  EXPECT_EQ(job_of("modules: [a]").environment, EnvironmentKind::Modules);
  EXPECT_EQ(job_of(both).environment, EnvironmentKind::Apptainer);
  EXPECT_EQ(job_of(both + "environment: venv").environment, EnvironmentKind::Venv);
  EXPECT_EQ(job_of(both + "environment: none").environment, EnvironmentKind::None);
}

TEST(AJob, HasItwinaisProgramUnlessItHasItsOwn) {
  EXPECT_EQ(job_of("").program,
            "$(which itwinai) exec-pipeline --config-name=config --config-path=. --strategy=ddp "
            "--run-name=main-run +pipe_key=training_pipeline");
  EXPECT_EQ(job_of("training_cmd: train.py -s {distributed_strategy}").program, "train.py -s ddp");
}

TEST(AJob, TakesShellTextFromFiles) {
  const Job job = job_of("pre_exec_file: pre.sh\nexec_file: run.sh");

  EXPECT_EQ(job.before, "echo text of pre.sh");
  EXPECT_EQ(job.exec_command, "echo text of run.sh");
}

struct Refused {
  const char* yaml;
  const char* what;
  const char* hint;
};

TEST(AJob, RefusesWhatCannotBe) {
  const std::vector<Refused> refused = {
      {"time: soon", "invalid value 'soon' for time", "time: 00:30:00"},
      {"time: ''", "invalid value '' for time", "time: 00:30:00"},
      {"launcher: torchrum", "invalid value 'torchrum' for launcher", "launcher: torchrun"},
      {"distributed_strategy: zero",
       "invalid value 'zero' for distributed_strategy",
       "ddp, horovod"},
      {"num_nodes: 0", "a whole number from 1", "'0'  (job.yaml:1:12)"},
      {"launcher: srun\nnum_tasks_per_node: 3",
       "this launcher needs one task per worker",
       "num_tasks_per_node: 4"},
      {"num_tasks: 7", "num_tasks does not match nodes and workers", "num_tasks: 1"},
      {"use_ray: true", "use_ray is not supported", "use_ray: false"},
      {"py_spy: true\ndistributed_strategy: horovod",
       "py_spy does not support horovod",
       "py_spy: false"},
      {"py_spy: true\nrequeue: true\nsignal_seconds: 90",
       "py_spy and the time limit signal exclude each other",
       "py_spy: false, or remove requeue"},
      {"requeue: true\nmax_requeues: 0", "a whole number from 1", "'0' for max_requeues"},
      {"environment: venv", "this environment requires python_venv", "python_venv: ..."},
      {"environment: docker", "invalid value 'docker' for environment", "none, venv"},
      {"gpu_request: gpus-per-task\nlauncher: srun\nworkers_per_node: 3",
       "GPUs cannot be divided evenly among the tasks",
       "gpu_request: gpus-per-node"},
      {"sbatch: [-p gpu]", "'-p gpu' is not an sbatch option", "--switches=1"},
      {"comment: 'a\"b'", "comment contains a character", "without these characters"},
      {"partition: \"a\\nb\"", "partition contains a character", "without these characters"},
      {"gres: 'a\"b'", "gres contains a character", "(job.yaml:1:7)"},
      {"gpu_type: \"a\\nb\"", "gpu_type contains a character", "without these characters"},
      {"mail_type: [\"a\\nb\"]", "mail_type contains a character", "without these"},
      {"env: {1A: x}", "'1A' is not a valid variable name", "must not be a digit"},
      {"pre_exec_file: a\npre_exec_command: b", "exclude each other", "remove one of them"},
      {"requeue: true\ntime: 1\nsignal_seconds: 60",
       "signal_seconds must be shorter than the time limit",
       "use a longer time"},
      {"requeue: true\nlauncher: mpirun",
       "requeue is not supported",
       "launcher: lockstep, torchrun or srun"},
      {"container_path: i.sif\ncontainer_gpu: cuda",
       "invalid value 'cuda' for container_gpu",
       "nv, rocm"},
  };
  for (const Refused& one : refused) {
    SCOPED_TRACE(one.yaml);
    EXPECT_THAT(refusal_of(one.yaml), HasSubstr(one.what));
    EXPECT_THAT(refusal_of(one.yaml), HasSubstr(one.hint));
  }
}

}  // namespace
}  // namespace lockstep::slurm
