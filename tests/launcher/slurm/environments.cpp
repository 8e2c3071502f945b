// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/environments.h"

#include <stdexcept>

namespace lockstep::testing {
namespace {

constexpr const char* kConda = R"(
conda() {
  [ "${1:-}" = activate ] || return 0
  if [ ! -d "$LAB_CONDA/envs/$2" ]; then
    echo "EnvironmentNameNotFound: Could not find conda environment: $2" >&2
    return 1
  fi
  export CONDA_DEFAULT_ENV=$2 CONDA_PREFIX=$LAB_CONDA/envs/$2
  export PATH=$CONDA_PREFIX/bin:$PATH
}
)";

void expect_success(const Result& result) {
  if (!result.status.is_success()) {
    throw std::runtime_error(result.output + result.errors);
  }
}

}  // namespace

std::string make_image(const Lab& lab) {
  const std::string path = (lab.home() / "lab.sif").string();
  if (!std::filesystem::exists(path)) {
    expect_success(lab.on(
        "ctl",
        {std::string(LOCKSTEP_SOURCE_DIR) + "/tests/launcher/slurm/lab/make-image.sh", path}));
  }
  return path;
}

std::string make_conda(const Lab& lab) {
  const std::string path = (lab.home() / "conda").string();
  if (!std::filesystem::exists(path)) {
    expect_success(lab.on("ctl",
                          {"bash",
                           "-ec",
                           "mkdir -p $0/bin $0/etc/profile.d $0/envs/torch/bin\n"
                           "ln -s /usr/bin/python3 $0/envs/torch/bin/python\n"
                           "ln -s /usr/bin/python3 $0/envs/torch/bin/python3\n"
                           "{ echo LAB_CONDA=$0; echo \"$1\"; } >$0/etc/profile.d/conda.sh\n"
                           "{ echo . $0/etc/profile.d/conda.sh; echo 'conda activate \"$1\"'; } "
                           ">$0/bin/activate\n",
                           path,
                           kConda}));
  }
  return path;
}

}  // namespace lockstep::testing
