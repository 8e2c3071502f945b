// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <future>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/cluster/cgroup.h"
#include "common/os/library.h"
#include "launcher/doctor/collect.h"
#include "launcher/doctor/run_with_timeout.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

// Importing torch from a network file system that has not cached it takes many seconds.
constexpr seconds kLimit(10);
constexpr seconds kPythonLimit(20);

// Prints one line of JSON, after a line feed of its own: imports can print anything before it
// without a line end. Each optional part has its own exception handler, because torch builds differ
// in what they contain.
constexpr const char* kPythonProgram = R"(
import importlib.util, json, platform, sys
facts = {"python": platform.python_version(), "where": sys.executable}
if importlib.util.find_spec("torch"):
    try:
        import torch
        facts["torch"] = torch.__version__
        facts["cuda"] = torch.version.cuda or ""
        try:
            nccl = torch.cuda.nccl.version()
            facts["nccl"] = ".".join(map(str, nccl)) if isinstance(nccl, tuple) else str(nccl)
        except Exception:
            pass
        import torch.distributed as d
        if d.is_available():
            names = [name for name in ("nccl", "gloo", "mpi")
                     if getattr(d, "is_" + name + "_available", lambda: False)()]
            if "gloo" not in names and hasattr(d, "ProcessGroupGloo"):
                names.append("gloo")
            facts["backends"] = names
    except Exception as error:
        facts["fault"] = "import torch: " + str(error).strip().split("\n")[-1][:200]
print("\n" + json.dumps(facts))
)";

std::string last_line(const std::string& text) {
  std::string last;
  for (const std::string& line : split(text, '\n')) {
    last = line.empty() ? last : line;
  }
  return last;
}

PythonFacts collect_python(const os::Environment& environment) {
  PythonFacts facts;
  const auto program = os::find_program("python3", environment);
  if (!program) {
    return facts;
  }
  facts.python.where = program->string();
  const auto result =
      run_with_timeout({"python3", "-c", kPythonProgram}, environment, kPythonLimit);
  if (!result) {
    facts.fault = fmt::format("did not answer within {} s", kPythonLimit.count());
    return facts;
  }
  const auto answer = nlohmann::json::parse(last_line(result->output), nullptr, false);
  if (!answer.is_object()) {
    facts.fault = last_line(result->errors);
    return facts;
  }
  facts.python = {.version = answer.value("python", ""), .where = answer.value("where", "")};
  facts.torch = answer.value("torch", "");
  facts.cuda = answer.value("cuda", "");
  facts.nccl = answer.value("nccl", "");
  facts.fault = answer.value("fault", "");
  facts.backends = answer.value("backends", std::vector<std::string>());
  return facts;
}

SoftwareFact collect_cuda(const os::Environment& environment) {
  std::string name = "nvcc";
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const auto home = os::find_variable(environment, variable);
    if (home && !os::find_program("nvcc", environment)) {
      name = (fs::path(*home) / "bin" / "nvcc").string();
    }
  }
  const auto program = os::find_program(name, environment);
  if (!program) {
    return {};
  }
  const auto result = run_with_timeout({program->string(), "--version"}, environment, kLimit);
  const std::string text = result ? result->output : "";
  const size_t release = text.find("release ");
  return {.version = release == std::string::npos ? "" : find_version(text.substr(release)),
          .where = program->string()};
}

// Loads the library that the dynamic linker would find, which is the one that a program without its
// own NCCL would use.
SoftwareFact collect_nccl() {
  const auto library = os::Library::find("libnccl.so.2");
  if (!library) {
    return {};
  }
  SoftwareFact fact{.version = "", .where = "libnccl.so.2"};
  int code = 0;
  const auto version = library->function<int (*)(int*)>("ncclGetVersion");
  if (version != nullptr && version(&code) == 0) {
    // NCCL 2.8 and older encode the version with fewer digits.
    fact.version = code < 10000
                       ? fmt::format("{}.{}.{}", code / 1000, code / 100 % 10, code % 100)
                       : fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  }
  return fact;
}

std::string kind_of_mpi(const std::string& text) {
  if (text.find("Open MPI") != std::string::npos || text.find("OpenRTE") != std::string::npos) {
    return "Open MPI";
  }
  if (text.find("Intel") != std::string::npos) {
    return "Intel MPI";
  }
  return text.find("HYDRA") != std::string::npos ? "MPICH" : "MPI";
}

void collect_mpi(SoftwareFacts& facts, const os::Environment& environment) {
  const auto program = os::find_program("mpirun", environment);
  if (!program) {
    return;
  }
  facts.mpi.where = program->string();
  if (const auto result = run_with_timeout({"mpirun", "--version"}, environment, kLimit)) {
    facts.mpi.version = find_version(result->output + result->errors);
    facts.mpi_kind = kind_of_mpi(result->output + result->errors);
  }
}

// The distribution from pytorch.org has ROOT/build-version, a Python wheel version.txt next to
// lib/, and Debian the version in the file name.
std::string version_of_libtorch(const fs::path& library) {
  std::error_code fault;
  const fs::path real = fs::canonical(library, fault);
  if (fault) {
    return "";
  }
  const fs::path root = real.parent_path().parent_path();
  for (const fs::path& file : {root / "build-version", root / "version.txt"}) {
    if (std::string version = find_version(cluster::read_kernel_text(file)); !version.empty()) {
      return version;
    }
  }
  const std::string name = real.filename().string();
  const size_t suffix = name.find(".so.");
  return suffix == std::string::npos ? "" : name.substr(suffix + 4);
}

SoftwareFact collect_libtorch(const os::Environment& environment, bool is_quick) {
  constexpr std::string_view kName = "libtorch_cpu.so";
  std::error_code ignored;
  for (const std::string& folder :
       split(os::find_variable(environment, "LD_LIBRARY_PATH").value_or(""), ':')) {
    const fs::path library = fs::path(folder) / kName;
    if (!folder.empty() && fs::exists(library, ignored)) {
      return {.version = version_of_libtorch(library), .where = library.string()};
    }
  }
  os::Environment with_sbin = environment;
  with_sbin["PATH"] =
      os::find_variable(environment, "PATH").value_or("/usr/bin:/bin") + ":/usr/sbin:/sbin";
  const auto known =
      is_quick ? std::nullopt : run_with_timeout({"ldconfig", "-p"}, with_sbin, kLimit);
  for (const std::string& line : split(known ? known->output : "", '\n')) {
    const size_t arrow = line.find("=> ");
    if (line.find(kName) != std::string::npos && arrow != std::string::npos) {
      const fs::path library = line.substr(arrow + 3);
      return {.version = version_of_libtorch(library), .where = library.string()};
    }
  }
  return {};
}

}  // namespace

SoftwareFacts collect_software(const os::Environment& environment, bool is_quick) {
  SoftwareFacts facts;
  std::future<PythonFacts> python;
  if (!is_quick) {  // importing torch takes seconds; run it in parallel to the rest
    python = std::async(std::launch::async, [&environment] { return collect_python(environment); });
    facts.cuda = collect_cuda(environment);
    collect_mpi(facts, environment);
  }
  facts.nccl = collect_nccl();
  facts.libtorch = collect_libtorch(environment, is_quick);
  if (python.valid()) {
    facts.python = python.get();
  }
  return facts;
}

}  // namespace lockstep::doctor
