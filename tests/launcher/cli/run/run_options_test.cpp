// SPDX-License-Identifier: Apache-2.0
// Parsing of a command line into a request: the options of all launchers, and PET_ variables.
#include "launcher/cli/run/run_options.h"

#include <gmock/gmock.h>

#include "launcher/cli/arguments.h"
#include "launcher/cli/run/pet_variables.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

using plan::Dialect;
using plan::Option;
using plan::OptionValue;
using plan::Request;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Read {
  RunOptions options;
  std::vector<std::string> program;
};

Read read(const std::vector<std::string>& words, Dialect dialect = Dialect::Lockstep) {
  Read result;
  result.options.request.dialect = dialect;
  CLI::App app("", "lockstep run");
  app.prefix_command();
  add_run_options(app, result.options);
  const Arguments arguments = read_arguments(app, words);
  result.program = arguments.program;
  app.parse(std::vector<std::string>(arguments.words.rbegin(), arguments.words.rend()));
  return result;
}

OptionValue typed(const std::string& text) {
  return {.text = text, .source = "command line", .flag = ""};
}

Request request_of(const std::vector<std::string>& words, Dialect dialect = Dialect::Lockstep) {
  return read(words, dialect).options.request;
}

TEST(RunOptions, HaveEveryValueOfTheLaunchersTheyStandInFor) {
  struct Case {
    const char* name;
    Option Request::*target;
    Dialect dialect = Dialect::Lockstep;
  };
  const std::vector<Case> cases = {
      {"--nnodes", &Request::nnodes},
      {"--nproc-per-node", &Request::nproc_per_node},
      {"--nproc_per_node", &Request::nproc_per_node},
      {"--nproc", &Request::nproc_per_node},
      {"--rdzv-backend", &Request::rdzv_backend},
      {"--rdzv_endpoint", &Request::rdzv_endpoint},
      {"--rdzv-id", &Request::rdzv_id},
      {"--rdzv_conf", &Request::rdzv_conf},
      {"--max-restarts", &Request::max_restarts},
      {"--requeue-signal", &Request::requeue_signal},
      {"--max_requeues", &Request::max_requeues},
      {"--progress-file", &Request::progress_file},
      {"--monitor_interval", &Request::monitor_interval},
      {"--start-method", &Request::start_method},
      {"--role", &Request::role},
      {"--log_dir", &Request::log_dir},
      {"-r", &Request::redirects},
      {"--redirects", &Request::redirects},
      {"-t", &Request::tee},
      {"--tee", &Request::tee},
      {"--local-ranks-filter", &Request::local_ranks_filter},
      {"--node_rank", &Request::node_rank},
      {"--master_addr", &Request::master_addr},
      {"--master-port", &Request::master_port},
      {"--local-addr", &Request::local_addr},
      {"-np", &Request::np},
      {"--num-proc", &Request::np},
      {"-H", &Request::hosts},
      {"--hosts", &Request::hosts},
      {"-H", &Request::hosts, Dialect::Horovodrun},
      {"-H", &Request::hostfile, Dialect::Deepspeed},
      {"--hostfile", &Request::hostfile},
      {"-hostfile", &Request::hostfile},
      {"--network-interfaces", &Request::network_interfaces},
      {"--network-interface", &Request::network_interfaces},
      {"--start-timeout", &Request::start_timeout},
      {"--output-filename", &Request::output_filename},
      {"-p", &Request::ssh_port},
      {"--ssh-port", &Request::ssh_port},
      {"-i", &Request::ssh_identity},
      {"-i", &Request::ssh_identity, Dialect::Horovodrun},
      {"-i", &Request::include, Dialect::Deepspeed},
      {"--ssh-identity-file", &Request::ssh_identity},
      {"--num_gpus", &Request::nproc_per_node},
      {"--num_accelerators", &Request::nproc_per_node},
      {"--num_nodes", &Request::nnodes},
      {"--include", &Request::include},
      {"--exclude", &Request::exclude},
      {"-e", &Request::exclude, Dialect::Deepspeed},
      {"--bind", &Request::bind},
      {"--grace", &Request::grace},
      {"--run-dir", &Request::run_dir},
      {"--timeout", &Request::timeout},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const Read apart = read({one.name, "5", "./train", "--x"}, one.dialect);
    const Option& target = apart.options.request.*one.target;
    ASSERT_TRUE(target);
    EXPECT_EQ(target->text, "5");
    EXPECT_EQ(target->source, "command line");
    EXPECT_THAT(apart.program, ElementsAre("./train", "--x"));
    EXPECT_EQ((request_of({std::string(one.name) + "=6", "a"}, one.dialect).*one.target)->text,
              "6");
  }
}

TEST(RunOptions, HaveEverySwitch) {
  const std::vector<std::pair<const char*, bool Request::*>> cases = {
      {"--standalone", &Request::is_standalone},
      {"-m", &Request::is_module},
      {"--module", &Request::is_module},
      {"--no_python", &Request::is_no_python},
      {"--run-path", &Request::is_run_path},
      {"--use_env", &Request::is_use_env},
      {"--no_local_rank", &Request::is_no_local_rank},
      {"--pass-local-rank", &Request::is_local_rank_passed},
      {"--share-gpus", &Request::may_share_gpus},
      {"--requeue", &Request::is_requeue},
      {"--no-requeue", &Request::is_no_requeue},
  };
  for (const auto& [name, flag] : cases) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(request_of({name, "a"}).*flag);
    EXPECT_FALSE(request_of({"a"}).*flag);
  }
  const RunOptions options =
      read({"--dry-run", "--json", "--verbose", "--simulate", "2x3"}).options;
  EXPECT_TRUE(options.is_dry && options.is_json && options.is_verbose);
  EXPECT_EQ(options.simulate->text, "2x3");
}

TEST(RunOptions, TakeTheWayOfSharingWithAndWithoutEqualsSign) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--share-gpus", "mps", "./train", "--x"},
        std::vector<std::string>{"--share-gpus=mps", "./train", "--x"}}) {
    const Read read_words = read(words);
    EXPECT_TRUE(read_words.options.request.may_share_gpus);
    EXPECT_EQ(read_words.options.request.gpu_sharing, typed("mps"));
    EXPECT_THAT(read_words.program, ElementsAre("./train", "--x"));
  }
  const Read alone = read({"--share-gpus", "./train", "mps"});
  EXPECT_TRUE(alone.options.request.may_share_gpus);
  EXPECT_EQ(alone.options.request.gpu_sharing, typed("time-slicing"));
  EXPECT_THAT(alone.program, ElementsAre("./train", "mps"));
  EXPECT_THAT(read({"--share-gpus", "--", "mps"}).program, ElementsAre("mps"));
}

TEST(RunOptions, KeepTheWordsOfLists) {
  const Request request =
      request_of({"--env", "A=1", "-x", "HOME", "-xB=2", "--env=C=3=4", "-x", "D", "a"});

  EXPECT_THAT(request.env, ElementsAre(typed("A=1"), typed("C=3=4")));
  EXPECT_THAT(request.pass, ElementsAre(typed("HOME"), typed("B=2"), typed("D")));
}

TEST(RunOptions, TakeTheLastOfOneOptionAndTheValueThatHangsOnItsLetter) {
  EXPECT_EQ(request_of({"--grace", "1", "--grace=2", "a"}).grace->text, "2");
  EXPECT_EQ(request_of({"-r3", "a"}).redirects->text, "3");
  EXPECT_EQ(request_of({"-t0:1,1:2", "a"}).tee->text, "0:1,1:2");
}

TEST(RunOptions, SayHowTheyWereSpelt) {
  EXPECT_EQ(request_of({"--num_gpus", "2", "a"}).nproc_per_node->flag, "--num_gpus");
  EXPECT_EQ(request_of({"--nproc-per-node", "2", "a"}).nproc_per_node->flag, "");
  EXPECT_THAT(
      [] {
        request_of({"--num_gpus", "2", "--nproc-per-node", "3", "a"});
      },
      ThrowsMessage<Error>(HasSubstr("--nproc-per-node and --num_gpus contradict each other")));
}

TEST(PetVariables, StandForTheFlagsOfTheirNames) {
  const std::vector<std::pair<const char*, Option Request::*>> cases = {
      {"PET_NNODES", &Request::nnodes},
      {"PET_NPROC_PER_NODE", &Request::nproc_per_node},
      {"PET_RDZV_BACKEND", &Request::rdzv_backend},
      {"PET_RDZV_ENDPOINT", &Request::rdzv_endpoint},
      {"PET_RDZV_ID", &Request::rdzv_id},
      {"PET_RDZV_CONF", &Request::rdzv_conf},
      {"PET_MAX_RESTARTS", &Request::max_restarts},
      {"PET_MONITOR_INTERVAL", &Request::monitor_interval},
      {"PET_START_METHOD", &Request::start_method},
      {"PET_ROLE", &Request::role},
      {"PET_LOG_DIR", &Request::log_dir},
      {"PET_REDIRECTS", &Request::redirects},
      {"PET_TEE", &Request::tee},
      {"PET_LOCAL_RANKS_FILTER", &Request::local_ranks_filter},
      {"PET_NODE_RANK", &Request::node_rank},
      {"PET_MASTER_ADDR", &Request::master_addr},
      {"PET_MASTER_PORT", &Request::master_port},
      {"PET_LOCAL_ADDR", &Request::local_addr},
  };
  for (const auto& [name, target] : cases) {
    SCOPED_TRACE(name);
    Request request;
    read_pet_variables(request, {{name, "7"}});
    EXPECT_EQ((request.*target), (OptionValue{.text = "7", .source = name, .flag = ""}));
  }
}

TEST(PetVariables, GiveWayToFlags) {
  Request request = request_of({"--nnodes", "2", "a"});
  read_pet_variables(request, {{"PET_NNODES", "3"}, {"PET_ROLE", ""}});

  EXPECT_EQ(request.nnodes->text, "2");
  EXPECT_FALSE(request.role);
}

TEST(PetVariables, SwitchOnWithANumberOtherThanZero) {
  const std::vector<std::pair<const char*, bool Request::*>> cases = {
      {"PET_STANDALONE", &Request::is_standalone},
      {"PET_MODULE", &Request::is_module},
      {"PET_NO_PYTHON", &Request::is_no_python},
      {"PET_RUN_PATH", &Request::is_run_path},
  };
  for (const auto& [name, flag] : cases) {
    SCOPED_TRACE(name);
    Request request;
    read_pet_variables(request, {{name, "0"}});
    EXPECT_FALSE(request.*flag);
    read_pet_variables(request, {{name, "1"}});
    EXPECT_TRUE(request.*flag);
    read_pet_variables(request, {{name, "0"}});
    EXPECT_TRUE(request.*flag) << "a flag is not switched off";
    const os::Environment wrong = {{name, "yes"}};
    EXPECT_THAT([&] { read_pet_variables(request, wrong); },
                ThrowsMessage<Error>(HasSubstr(std::string("invalid value 'yes' for ") + name)));
  }
}

}  // namespace
}  // namespace lockstep::cli
