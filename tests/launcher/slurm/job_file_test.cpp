// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/job_file.h"

#include <cstdlib>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "launcher/slurm/job_fixture.h"

namespace lockstep::slurm {
namespace {

using lockstep::testing::job_of;
using lockstep::testing::settings_of;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class JobFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    os::write_file(directory.path() / "job.yaml", text);
    return (directory.path() / "job.yaml").string();
  }

  os::TemporaryDirectory directory;
};

TEST_F(JobFile, IsAMapOfKeys) {
  EXPECT_EQ(read_job_file(write("num_nodes: 3")).find("num_nodes")->text, "3");
  EXPECT_THAT([&] { read_job_file(write("just words")); },
              ThrowsMessage<Error>(HasSubstr("no keys")));
  EXPECT_THAT([&] { read_job_file(write("")); }, ThrowsMessage<Error>(HasSubstr("no keys")));
  EXPECT_THAT([] { read_job_file("not-there.yaml"); },
              ThrowsMessage<Error>(HasSubstr("cannot read not-there.yaml: no such file")));
}

TEST_F(JobFile, MayKeepTheJobInOnePart) {
  EXPECT_EQ(
      read_job_file(write("plugins: [a]\nslurm_config:\n  num_nodes: 3\n")).find("num_nodes")->text,
      "3");
}

void expect_missing(const std::string& yaml, const std::string& what) {
  EXPECT_THAT([&] { check_files(job_of(yaml), settings_of(yaml)); },
              ThrowsMessage<Error>(HasSubstr(what + " does not exist")))
      << yaml;
}

TEST_F(JobFile, NamesFilesThatMustBeThere) {
  expect_missing("container_path: none.sif", "none.sif");
  expect_missing("python_venv: none", "none/bin/activate");
  expect_missing("conda_env: x\nconda_activate: /none/activate", "/none/activate");
  expect_missing("training_cmd: none.py -s ddp", "none.py");
  expect_missing("training_cmd: ./none -s ddp", "./none");
}

// A fake module system: OpenMPI can only be loaded after GCC, and every call prints a line.
constexpr const char* kModules =
    "() {\n"
    "  echo \"module $*\"\n"
    "  case $* in\n"
    "    'use '*) [[ $2 == /opt/modules ]] ;;\n"
    "    'load GCC') gcc=here ;;\n"
    "    'load OpenMPI') [[ $gcc == here ]] ;;\n"
    "    purge) ;;\n"
    "    *) return 1 ;;\n"
    "  esac\n"
    "}";

TEST_F(JobFile, NamesModulesThatCannotBeLoadedOneAfterTheOther) {
  setenv("BASH_FUNC_module%%", kModules, 1);
  const auto check = [](const std::string& yaml) {
    check_modules(job_of(yaml), settings_of(yaml));
  };

  EXPECT_NO_THROW(check("modules: [GCC, OpenMPI]\nmodule_use: [/opt/modules]"));
  EXPECT_THAT([&] { check("modules: [OpenMPI, GCC]"); },
              ThrowsMessage<Error>(HasSubstr("module OpenMPI cannot be loaded")));
  EXPECT_THAT([&] { check("modules: [GCC, CUDA/12]"); },
              ThrowsMessage<Error>(HasSubstr("module avail CUDA")));
  EXPECT_NO_THROW(check("modules: [CUDA/12]\nmodule_use: [$SCRATCH/modules]"))
      << "only the job can expand the path";
  unsetenv("BASH_FUNC_module%%");
}

TEST_F(JobFile, MayNameFilesThatOnlyTheJobCanSee) {
  for (const char* yaml : {"container_path: $SCRATCH/i.sif\ntraining_cmd: t.py",
                           "python_venv: $HOME/v\ntraining_cmd: $(which itwinai)",
                           "exec_command: anything\ntraining_cmd: none.py"}) {
    EXPECT_NO_THROW(check_files(job_of(yaml), settings_of(yaml))) << yaml;
  }
}

}  // namespace
}  // namespace lockstep::slurm
