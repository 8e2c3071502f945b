// SPDX-License-Identifier: Apache-2.0
// Training programs started by srun, without the launcher, determine their ranks themselves.
#include <gmock/gmock.h>

#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Host names resolve to a network that is blocked between nodes.
constexpr const char* kMeet =
    "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)-fab; ";

class Ranks : public OnLab {
 protected:
  void SetUp() override {
    OnLab::SetUp();
    if (IsSkipped()) {
      return;
    }
    const fs::path mnist = fs::path(LOCKSTEP_BIN_DIR) / "mnist";
    if (!fs::exists(mnist)) {
      GTEST_SKIP() << "mnist is not built here (LOCKSTEP_TRAINING=OFF)";
    }
    fs::copy_file(mnist, lab().path("mnist"), fs::copy_options::overwrite_existing);
  }

  // Two nodes with two tasks each, in an allocation.
  Result srun(const std::string& before, const std::string& options, const std::string& more) {
    return lab().shell("ctl",
                       "salloc -Q -N2 --ntasks-per-node=2 -c1 bash -c '" + before + "srun " +
                           options +
                           " ./mnist --generated-digits --net mlp --steps 6 --global-batch 64 "
                           "--no-checkpoint --no-validation " +
                           more + "'",
                       seconds(180));
  }
};

TEST_F(Ranks, AreFoundUnderPlainSrun) {
  for (const std::string strategy : {"ddp", "horovod"}) {
    const Result result = srun(kMeet, "", "-s " + strategy);

    EXPECT_EQ(result.status.code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("-s " + strategy + " on 4 workers (node-first)"))
        << result.errors;
  }
}

TEST_F(Ranks, AreFoundUnderSrunWithPmixAndTheWorkersUseMpi) {
  if (!has_pmix(lab())) {
    GTEST_SKIP() << "this Slurm is built without --mpi=pmix";
  }
  const Result result =
      srun("export OMPI_MCA_btl_tcp_if_include=fab0; ", "--mpi=pmix", "-s horovod");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("-s horovod on 4 workers (mpi)")) << result.errors;
}

TEST_F(Ranks, AreFoundInTfConfig) {
  lab().write("task.sh",
              "#!/bin/bash\n"
              "workers=\n"
              "for node in $(scontrol show hostnames $SLURM_JOB_NODELIST); do\n"
              "  workers+=${workers:+,}\\\"$node-fab:4711\\\",\\\"$node-fab:4712\\\"\n"
              "done\n"
              "export TF_CONFIG=\"{\\\"cluster\\\": {\\\"worker\\\": [$workers]}, "
              "\\\"task\\\": {\\\"type\\\": \\\"worker\\\", \\\"index\\\": $SLURM_PROCID}}\"\n"
              "exec \"$@\"\n");

  for (const std::string strategy : {"ddp", "horovod", "mirrored"}) {
    const Result result = srun("", "./task.sh", "-s " + strategy);

    EXPECT_EQ(result.status.code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("-s " + strategy + " on 4 workers (node-first)"))
        << result.errors;
  }
}

}  // namespace
}  // namespace lockstep::testing
