// SPDX-License-Identifier: Apache-2.0
// `lockstep submit`, alias `lockstep generate-slurm`, on a machine without Slurm.
#include <gmock/gmock.h>

#include "common/contract/event.h"
#include "launcher/cli/jobs/submission.h"
#include "launcher/slurm/job_fixture.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class GenerateSlurm : public ::testing::Test {
 protected:
  void SetUp() override {
    launcher.environment["PATH"] = "/nowhere";
    launcher.environment["HOME"] = launcher.path("home").string();
    write("job.yaml", "num_nodes: 2\ntraining_cmd: $TRAIN\n");
  }

  void write(const std::string& name, const std::string& text) {
    os::make_directories(launcher.path(name).parent_path());
    os::write_file(launcher.path(name), text);
  }

  Result generate(std::vector<std::string> words, const std::string& name = "submit") {
    words.insert(words.begin(), name);
    return launcher.run(std::move(words));
  }

  Launcher launcher;
};

TEST_F(GenerateSlurm, ShowsTheScriptAndTouchesNothing) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"-c", "job.yaml", "--no-save-script", "--no-submit-job"},
           {"-c", "job.yaml", "-ns", "-nj"},
           {"-c", "job.yaml", "--dry-run"}}) {
    const Result result = generate(words);

    EXPECT_EQ(result.status.code, 0) << result.errors;
    EXPECT_THAT(result.output,
                AllOf(StartsWith("#!/bin/bash\n"),
                      HasSubstr("from job.yaml\n"),
                      HasSubstr("#SBATCH --nodes=\"2\"\n")));
    EXPECT_THAT(result.errors, HasSubstr("Slurm is not installed here"));
    EXPECT_FALSE(fs::exists(launcher.path("slurm-scripts")));
    EXPECT_FALSE(fs::exists(launcher.path("slurm-job-logs")));
  }
}

TEST_F(GenerateSlurm, IsAnAliasOfSubmit) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"-c", "job.yaml", "--dry-run"},
                                             {"-c", "job.yaml", "-ns", "-nj"},
                                             {"-c", "job.yaml", "--num-node", "2"},
                                             {}}) {
    const Result expected = generate(words, "submit");
    const Result result = generate(words, "generate-slurm");

    EXPECT_EQ(result.status.code, expected.status.code);
    EXPECT_EQ(result.output, expected.output);
    EXPECT_EQ(result.errors, expected.errors);
  }
  EXPECT_THAT(generate({"--num-node", "2"}, "generate-slurm").errors,
              HasSubstr("which is not an option of lockstep submit"));
}

TEST_F(GenerateSlurm, MakesAScriptOfEveryExample) {
  int jobs = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(LOCKSTEP_SOURCE_DIR) / "examples/jobs")) {
    SCOPED_TRACE(entry.path().filename().string());
    const Result result =
        generate({"-c", entry.path().string(), "--no-save-script", "--no-submit-job"});

    EXPECT_EQ(result.status.code, 0) << result.errors;
    write("job.sh", result.output);
    const auto syntax = os::run_command({"/bin/bash", "-n", launcher.path("job.sh").string()}, {});
    EXPECT_EQ(syntax.status.code, 0) << syntax.errors << result.output;
    ++jobs;
  }
  EXPECT_GE(jobs, 25);
}

struct ImageJob {
  std::string name;
  std::string nodes;
  std::string gpus;
  std::string workers;
  std::string program;
};

// The image jobs of two tutorials, with the programs of this repository.
TEST_F(GenerateSlurm, RunsTheImageJobsOfTheDocumentsWithOurPrograms) {
  const std::string rest =
      "--steps 1000 --no-validation --no-checkpoint --corrupt skip --data-dir ";
  const std::string ddp = "build/bin/imagenet -s ddp --precision bf16 --batch-size 256 " + rest;
  const std::string deepspeed =
      "build/bin/imagenet --deepspeed --deepspeed_config examples/imagenet/ds_config.json " + rest;
  const std::string tiny =
      "build/bin/tiny_imagenet -s ddp --data-dir $DATA_DIR --epochs=10 --lr=0.001 "
      "--num-workers=$SLURM_CPUS_PER_TASK --batch-size=64";
  for (const ImageJob& job :
       {ImageJob{"csc-benchmark-ddp-gpu1", "1", "gpu:a100:1", "1", ddp},
        ImageJob{"csc-benchmark-ddp-gpu4", "1", "gpu:a100:4", "4", ddp},
        ImageJob{"csc-benchmark-ddp-gpu8", "2", "gpu:a100:4", "4", ddp},
        ImageJob{"csc-benchmark-deepspeed-gpu4", "1", "gpu:a100:4", "4", deepspeed},
        ImageJob{"csc-benchmark-deepspeed-gpu8", "2", "gpu:a100:4", "4", deepspeed},
        ImageJob{"ibex-single-node-tiny-imagenet", "1", "2", "2", tiny},
        ImageJob{"ibex-multi-node-tiny-imagenet", "2", "2", "2", tiny}}) {
    SCOPED_TRACE(job.name);
    const Result result =
        generate({"-c", LOCKSTEP_SOURCE_DIR "/examples/jobs/" + job.name + ".yaml", "-ns", "-nj"});

    EXPECT_THAT(result.output,
                AllOf(HasSubstr("#SBATCH --nodes=\"" + job.nodes + "\"\n"),
                      AnyOf(HasSubstr("#SBATCH --gres=\"" + job.gpus + "\"\n"),
                            HasSubstr("#SBATCH --gpus-per-node=\"" + job.gpus + "\"\n")),
                      HasSubstr("run --nproc-per-node " + job.workers + " "),
                      HasSubstr("-- " + job.program)));
  }
}

TEST_F(GenerateSlurm, KeepsScriptsUnderNamesThatAreFree) {
  EXPECT_EQ(generate({"-c", "job.yaml", "--no-submit-job"}).status.code, 0);
  EXPECT_EQ(generate({"-c", "job.yaml", "-s", "--time", "5"}).status.code, 0);

  EXPECT_THAT(read_text(launcher.path("slurm-scripts/ddp-2x4.sh")), HasSubstr("\"00:30:00\""));
  EXPECT_THAT(read_text(launcher.path("slurm-scripts/ddp-2x4-2.sh")), HasSubstr("--time=\"5\""));
  EXPECT_TRUE(fs::is_directory(launcher.path("slurm-job-logs"))) << "Slurm does not make it";
}

TEST_F(GenerateSlurm, SaysThatThereIsNoSlurmToSubmitTo) {
  for (const char* flag : {"--no-save-script", "-j"}) {
    const Result result = generate({"-c", "job.yaml", flag});

    EXPECT_EQ(result.status.code, 69);
    EXPECT_THAT(result.errors, HasSubstr("sbatch"));
    EXPECT_FALSE(fs::exists(launcher.path("slurm-scripts")));
  }
}

TEST_F(GenerateSlurm, DoesOnlyWhatTheFileAsksFor) {
  write("job.yaml", "save_script: true\ntraining_cmd: $TRAIN\n");

  EXPECT_EQ(generate({"-c", "job.yaml"}).status.code, 0) << "nothing is submitted";
  EXPECT_TRUE(fs::exists(launcher.path("slurm-scripts/ddp-1x4.sh")));
}

TEST_F(GenerateSlurm, TakesFlagsBeforeTheFileAndTheFileBeforeTheSite) {
  write("home/.config/lockstep/sites/here.yaml",
        "hosts: ['*']\nsettings: {partition: sites, qos: sites, num_nodes: 7}\n");
  write("job.yaml", "partition: files\nnum_nodes: 3\ntraining_cmd: $TRAIN\n");

  const Result result = generate({"-c", "job.yaml", "--dry-run", "--num_nodes=5"});

  EXPECT_THAT(result.output,
              AllOf(HasSubstr("--qos=\"sites\""),
                    HasSubstr("--partition=\"files\""),
                    HasSubstr("--nodes=\"5\""),
                    HasSubstr("for the site here\n")));
  EXPECT_THAT(generate({"-c", "job.yaml", "--dry-run", "--site", "none"}).output,
              Not(HasSubstr("qos")));
  EXPECT_THAT(generate({"--list-sites"}).output, HasSubstr("here"));
}

TEST_F(GenerateSlurm, TakesTheOldNamesOfItwinaisFlags) {
  const Result result = generate({"--dry-run",
                                  "--dist-strat",
                                  "horovod",
                                  "--pre-exec-cmd",
                                  "date",
                                  "-pr",
                                  "20",
                                  "--training-cmd",
                                  "$T",
                                  "--num-nodes",
                                  "2"});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("horovod-2x4"), HasSubstr("\ndate\n")));
}

// A modulefile is a program.
TEST_F(GenerateSlurm, LoadsNoModulesForAPreview) {
  launcher.environment["BASH_FUNC_module%%"] = "() { echo \"$@\" >>called; }";
  launcher.environment["PATH"] = launcher.path("bin").string();
  os::make_directories(launcher.path("bin"));
  std::filesystem::create_symlink("/bin/bash", launcher.path("bin/bash"));

  generate({"-c", "job.yaml", "--modules", "gcc", "--dry-run"});
  EXPECT_FALSE(std::filesystem::exists(launcher.path("called")));
  generate({"-c", "job.yaml", "--modules", "gcc", "-j"});
  EXPECT_THAT(read_text(launcher.path("called")), HasSubstr("load gcc"));
}

TEST_F(GenerateSlurm, FetchesAFileThroughCurl) {
  const std::string url = "https://example.org/job.yaml";
  EXPECT_EQ(generate({"-c", url, "--dry-run"}).status.code, 69);
  EXPECT_THAT(generate({"-c", url, "--dry-run"}).errors, HasSubstr("curl is not installed"));

  os::make_directories(launcher.path("bin"));
  launcher.environment["PATH"] = launcher.path("bin").string();
  launcher.write_script("bin/curl", "#!/bin/sh\necho 'num_nodes: 3'\necho 'training_cmd: $T'\n");
  EXPECT_THAT(generate({"-c", url, "--dry-run"}).output,
              AllOf(HasSubstr("from " + url), HasSubstr("--nodes=\"3\"")));

  const Result submitted = generate({"-c", url});
  EXPECT_EQ(submitted.status.code, 64);
  EXPECT_THAT(submitted.errors, HasSubstr("cannot submit a job from a URL without -j"));
  const Result plain = generate({"-c", "http://example.org/job.yaml", "--dry-run"});
  EXPECT_EQ(plain.status.code, 64);
  EXPECT_THAT(plain.errors,
              AllOf(HasSubstr("http is not encrypted"), HasSubstr("https://example.org/job.yaml")));

  launcher.write_script("bin/curl", "#!/bin/sh\necho 'curl: (22) 404' >&2\nexit 22\n");
  const Result gone = generate({"-c", url, "--dry-run"});
  EXPECT_EQ(gone.status.code, 69);
  EXPECT_THAT(gone.errors, AllOf(HasSubstr("cannot download " + url), HasSubstr("(22) 404")));
}

TEST_F(GenerateSlurm, WarnsAsEarlyAsTheLastRunsCheckpointsWant) {
  const std::vector<std::string> words = {"-c", "job.yaml", "--requeue", "--dry-run"};
  EXPECT_THAT(generate(words).output, HasSubstr("--signal=\"B:USR1@120\""));

  const contract::Event saved{
      .kind = "checkpoint", .time = 1, .rank = 0, .fields = {{"seconds", 40.0}}};
  write("runs/ddp-2x4-17/events/rank-0.jsonl", contract::to_json(saved) + "\n");

  EXPECT_THAT(generate(words).output, HasSubstr("--signal=\"B:USR1@170\""));
  EXPECT_THAT(
      generate({"-c", "job.yaml", "--requeue", "--dry-run", "--signal-seconds", "300"}).output,
      HasSubstr("--signal=\"B:USR1@300\""));
}

TEST_F(GenerateSlurm, MakesAJobOfEachStrategy) {
  const Result result = generate({"-c", "job.yaml", "--dry-run", "--mode", "runall"});

  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("# Script 1 of 3."), HasSubstr("deepspeed-2x4"), HasSubstr("horovod-2x4")));
}

TEST_F(GenerateSlurm, NamesTheSourceOfEveryValue) {
  const Result result = generate({"-c", "job.yaml", "--dry-run", "--debug", "--qos", "x"});

  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("num_nodes                job.yaml:1:12"),
                    HasSubstr("qos                      command line")));
}

TEST_F(GenerateSlurm, WarnsInAPreviewAndRefusesInADryRun) {
  write("job.yaml", "training_cmd: none.py\n");

  const Result preview = generate({"-c", "job.yaml", "-ns", "-nj"});
  EXPECT_EQ(preview.status.code, 0);
  EXPECT_THAT(preview.errors, HasSubstr("warning: this job would not run: none.py does not exist"));
  EXPECT_EQ(generate({"-c", "job.yaml", "--dry-run"}).status.code, 64);
}

TEST_F(GenerateSlurm, SaysWhereItLookedForSites) {
  // A copy without the site profiles that are installed with it.
  os::make_directories(launcher.path("bin"));
  const fs::path alone = launcher.path("bin/lockstep");
  fs::copy_file(fs::path(LOCKSTEP_BIN_DIR) / "lockstep", alone);
  const os::CommandResult result = os::run_command({alone.string(), "submit", "--list-sites"},
                                                   {.environment = launcher.environment});

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output, IsEmpty());
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("no site profiles found in"),
                    HasSubstr(launcher.path("home/.config/lockstep/sites").string())));
}

TEST_F(GenerateSlurm, DoesWithoutABrokenProfileIfNoSiteIsWanted) {
  write("home/.config/lockstep/sites/bad.yaml", "descripton: x\n");

  EXPECT_EQ(generate({"-c", "job.yaml", "--dry-run"}).status.code, 64);
  EXPECT_EQ(generate({"-c", "job.yaml", "--dry-run", "--site", "none"}).status.code, 0);
}

TEST_F(GenerateSlurm, SaysWhatRunsWithoutATrainingCommand) {
  EXPECT_THAT(generate({"--num-nodes", "2", "--dry-run"}).errors,
              HasSubstr("training_cmd is not set; the job runs itwinai exec-pipeline"));
  EXPECT_THAT(generate({"-c", "job.yaml", "--dry-run"}).errors, Not(HasSubstr("training_cmd")));
}

TEST_F(GenerateSlurm, DistinguishesADirectoryFromAMissingFile) {
  os::make_directories(launcher.path("dir"));

  EXPECT_THAT(generate({"-c", "dir"}).errors, HasSubstr("cannot read dir: not a regular file"));
  EXPECT_THAT(generate({"-c", "none"}).errors, HasSubstr("cannot read none: no such file"));
}

TEST(ASubmission, PrintsTheOutputFilesOfTheJobAndTheNextCommands) {
  EXPECT_EQ(cli::describe_submission(job_of("job_name: a\nnum_nodes: 2"), "7"),
            "lockstep: submitted job 7 (a): 8 workers on 2 nodes\n"
            "  log     slurm-job-logs/a-7.out\n"
            "  errors  slurm-job-logs/a-7.err\n"
            "  wait    lockstep status --wait 7\n"
            "  logs    lockstep logs -f 7\n"
            "  cancel  lockstep cancel 7\n");
  EXPECT_THAT(cli::describe_submission(job_of("std_out: a.log\nerr_out: a.log"), "7"),
              AllOf(HasSubstr("  log     a-7.log\n"), Not(HasSubstr("errors"))));
  EXPECT_THAT(cli::describe_submission(job_of("job_name: a\narray: 0-3"), "7"),
              AllOf(HasSubstr("submitted job 7 (a), a job array, each task: 4 workers on 1 node\n"),
                    HasSubstr("  log     slurm-job-logs/a-7_TASK.out\n"),
                    HasSubstr("lockstep logs -f 7_TASK\n")));
}

TEST_F(GenerateSlurm, RefusesWithOneMessage) {
  write("unknown.yaml", "num_node: 2\n");
  write("twice.yaml", "time: 1\ntime: 2\n");
  write("broken.yaml", "time: [1\n");
  write("type.yaml", "num_nodes: many\n");
  write("time.yaml", "time: tomorrow\n");
  write("words.yaml", "only words\n");
  std::string all;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"-c", "none.yaml"},
                                             {"-c", "unknown.yaml"},
                                             {"-c", "twice.yaml"},
                                             {"-c", "broken.yaml"},
                                             {"-c", "type.yaml"},
                                             {"-c", "time.yaml"},
                                             {"-c", "words.yaml"},
                                             {"-c", "job.yaml", "--num-node", "2"},
                                             {"-c", "job.yaml", "--site", "nowhere"},
                                             {"-c", "job.yaml", "--launcher", "torchru"},
                                             {"-c", "job.yaml", "--container-path", "none.sif"},
                                             {"-c", "job.yaml", "--python-venv", "none"},
                                             {"-c", "job.yaml", "--job-name", "${num_node}"}}) {
    const Result result = generate(words);
    EXPECT_EQ(result.status.code, 64) << result.errors;
    EXPECT_FALSE(fs::exists(launcher.path("slurm-scripts"))) << result.errors;
    all += result.errors;
  }
  const std::string here = launcher.path("").string();
  for (size_t at = all.find(here.substr(0, here.size() - 1)); at != std::string::npos;
       at = all.find(here.substr(0, here.size() - 1))) {
    all.replace(at, here.size() - 1, "HERE");
  }
  expect_golden(all, "errors_of_jobs.txt");
}

}  // namespace
}  // namespace lockstep::testing
