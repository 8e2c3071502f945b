// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/job_settings.h"

#include <gmock/gmock.h>

#include "launcher/slurm/job_fixture.h"
#include "launcher/slurm/keys.h"

namespace lockstep::slurm {
namespace {

using lockstep::testing::settings_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

TEST(Keys, HaveTheThirtyThreeOfItwinai) {
  for (const char* name : {"account",
                           "partition",
                           "distributed_strategy",
                           "job_name",
                           "time",
                           "std_out",
                           "err_out",
                           "num_nodes",
                           "num_tasks",
                           "num_tasks_per_node",
                           "gpus_per_node",
                           "cpus_per_task",
                           "memory",
                           "exclusive",
                           "pre_exec_command",
                           "pre_exec_file",
                           "exec_command",
                           "exec_file",
                           "training_cmd",
                           "python_venv",
                           "container_path",
                           "use_ray",
                           "config_name",
                           "config_path",
                           "pipe_key",
                           "run_name",
                           "mode",
                           "scalability_nodes",
                           "py_spy",
                           "profiling_sampling_rate",
                           "save_script",
                           "submit_job",
                           "save_dir"}) {
    EXPECT_NE(find_key(name), nullptr) << name;
  }
  EXPECT_EQ(find_key("num_node"), nullptr);
  EXPECT_EQ(flag_of("num_nodes"), "--num-nodes");
}

TEST(SettingsOfAJob, HaveStandardValuesThatReferToOthers) {
  const JobSettings settings = settings_of("num_nodes: 2");

  EXPECT_EQ(settings.text("job_name"), "ddp-2x4");
  EXPECT_EQ(settings.text("std_out"), "slurm-job-logs/ddp-2x4.out");
  EXPECT_EQ(settings.source_of("num_nodes"), "job.yaml:1:12");
  EXPECT_EQ(settings.source_of("time"), "default");
  EXPECT_FALSE(settings.has("time"));
}

TEST(SettingsOfAJob, TakeTheLastLayerEverywhere) {
  JobSettings settings =
      settings_of("distributed_strategy: ddp\njob_name: my-${distributed_strategy}");
  settings.lay(config::parse_yaml("distributed_strategy: horovod", "above"));

  EXPECT_EQ(settings.text("job_name"), "my-horovod");
}

TEST(SettingsOfAJob, JoinTheMapsOfTheirLayers) {
  JobSettings settings = settings_of("env: {A: 1, B: 2}");
  settings.lay(config::parse_yaml("env: {B: 3, C: '${num_nodes}'}", "above"));

  EXPECT_THAT(settings.pairs("env"), ElementsAre(Pair("A", "1"), Pair("B", "3"), Pair("C", "1")));
}

TEST(SettingsOfAJob, RefuseReferencesInACircle) {
  const JobSettings settings = settings_of("account: ${partition}\npartition: ${account}");

  EXPECT_THAT([&] { settings.text("account"); },
              ThrowsMessage<Error>(HasSubstr("circular references")));
}

TEST(SettingsOfAJob, RefuseUnknownKeysWithTheClosest) {
  EXPECT_THAT(
      [] { settings_of("time: 1\nnum_node: 2"); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr("'num_node'"), HasSubstr("job.yaml:2:1"), HasSubstr("try:      num_nodes"))));
}

TEST(SettingsOfAJob, RefuseWrongTypesWithThePlace) {
  EXPECT_THAT([] { settings_of("num_nodes: two").find_whole("num_nodes", 1, 9); },
              ThrowsMessage<Error>(HasSubstr("'two'  (job.yaml:1:12)")));
  EXPECT_THAT([] { settings_of("exclusive: sure").flag("exclusive"); },
              ThrowsMessage<Error>(HasSubstr("true or false")));
  EXPECT_THAT([] { settings_of("partition: [a, b]").text("partition"); },
              ThrowsMessage<Error>(HasSubstr("a list  (job.yaml:1:12)")));
}

TEST(SettingsOfAJob, FillInWhatItwinaiWritesInBraces) {
  const JobSettings settings = settings_of("config_name: c1");

  EXPECT_EQ(settings.fill_in("{itwinai_launcher} --n {config_name} ${HOME} {a,b} {nope}"),
            "$(which itwinai) --n c1 ${HOME} {a,b} {nope}");
  EXPECT_EQ(settings.fill_in("{"), "{");
  const auto fill = [](const std::string& name, const std::string& text) {
    return settings_of("run_name: '" + name + "'").fill_in(text);
  };
  EXPECT_EQ(fill("my run", "a {run_name} \"{run_name}\" '{run_name}'"),
            "a \"my run\" \"my run\" 'my run'");
  EXPECT_EQ(fill("x$(touch y)", "a={run_name} \"{run_name}\""),
            R"x(a="x\$(touch y)" "x\$(touch y)")x");
  EXPECT_EQ(fill("$USER-1", "{run_name}"), "\"$USER-1\"");
  EXPECT_EQ(fill("a\"; ls", "{run_name}"), R"("a\"; ls")");
  EXPECT_THAT([&] { fill("it''s", "'{run_name}'"); },
              ThrowsMessage<Error>(HasSubstr("cannot insert run_name between single quotes")));
  EXPECT_THAT([&] { settings.fill_in("-s {distributed_stratgy}"); },
              ThrowsMessage<Error>(HasSubstr("try: {distributed_strategy}")));
}

TEST(SettingsOfAJob, TakeWordsInAnyCase) {
  const std::vector<std::string> words = {"ddp", "horovod"};
  EXPECT_EQ(settings_of("distributed_strategy: DDP").one_of("distributed_strategy", words), "ddp");
  EXPECT_THAT(
      [&] { settings_of("distributed_strategy: horovd").one_of("distributed_strategy", words); },
      ThrowsMessage<Error>(HasSubstr("distributed_strategy: horovod")));
}

}  // namespace
}  // namespace lockstep::slurm
