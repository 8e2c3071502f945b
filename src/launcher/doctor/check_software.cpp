// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>

#include "common/base/text.h"
#include "launcher/doctor/finding.h"

// Version rules between driver, toolkit, torch and NCCL:
//
// - A driver runs programs of every CUDA release up to its own major version. Within a major
//   version the minor one does not matter (minor version compatibility, since CUDA 11). Only majors
//   are compared.
// - torch brings its own CUDA runtime and NCCL. The installed toolkit matters for compiling only.
// - Two NCCL versions in one process, or on two ranks, fail at initialization or hang.
namespace lockstep::doctor {
namespace {

Finding of_software(Severity severity, std::string subject, std::string text, std::string source) {
  return {.section = Section::Software,
          .severity = severity,
          .subject = std::move(subject),
          .text = std::move(text),
          .source = std::move(source),
          .advice = {}};
}

Finding of_gpus(Severity severity, std::string subject, std::string text, std::string source) {
  Finding finding = of_software(severity, std::move(subject), std::move(text), std::move(source));
  finding.section = Section::Gpus;
  return finding;
}

std::string version_or(const SoftwareFact& fact) {
  return fact.version.empty() ? "unknown version" : fact.version;
}

// Parses "12.4" into {12, 4}.
std::optional<std::pair<int64_t, int64_t>> find_pair(const std::string& version) {
  const auto words = split(version, '.');
  const auto major = words.empty() ? std::nullopt : find_integer(words[0]);
  const auto minor = words.size() < 2 ? std::optional<int64_t>(0) : find_integer(words[1]);
  return major && minor ? std::optional(std::pair(*major, *minor)) : std::nullopt;
}

// NVML encodes 12.4 as 12040.
std::string cuda_text(int code) {
  return fmt::format("{}.{}", code / 1000, code / 10 % 100);
}

std::string describe_gpus(const std::vector<GpuFact>& gpus) {
  std::map<std::string, int> counts;
  for (const GpuFact& gpu : gpus) {
    std::string text = gpu.name;
    if (gpu.memory_bytes > 0) {
      text += ", " + format_bytes(static_cast<uint64_t>(gpu.memory_bytes));
    }
    if (gpu.ecc) {
      text += *gpu.ecc ? ", ECC" : ", no ECC";
    }
    ++counts[text];
  }
  std::vector<std::string> texts;
  texts.reserve(counts.size());
  for (const auto& [text, count] : counts) {
    texts.push_back(fmt::format("{} x {}", count, text));
  }
  return join(texts, "; ");
}

// CUDA stops at the first invalid index and uses only the devices before it, without an error.
// Entries that are not numbers (UUIDs, MIG instances) cannot be checked here. The count is the
// larger one of NVML and the device files, because a cgroup can hide either.
void check_visible(Findings& findings, const GpuFacts& gpu) {
  if (!gpu.is_visible_set) {
    return;
  }
  const auto names = split(gpu.visible, ',');
  const int count =
      static_cast<int>(std::max(gpu.gpus.size(), static_cast<size_t>(gpu.device_files)));
  std::vector<std::string> wrong;
  for (const std::string& name : names) {
    const auto number = find_integer(name);
    if (number && (*number < 0 || *number >= count)) {
      wrong.push_back(name);
    }
  }
  if (wrong.empty()) {
    findings.push_back(of_gpus(Severity::Ok,
                               "visible",
                               gpu.visible.empty() ? "none" : gpu.visible,
                               "CUDA_VISIBLE_DEVICES"));
    return;
  }
  Finding finding =
      of_gpus(count == 0 ? Severity::Warning : Severity::Broken,
              "visible",
              fmt::format("{} contains GPU {}, but there {} {}; CUDA ignores the rest of the list",
                          gpu.visible,
                          join(wrong, ", "),
                          count == 1 ? "is" : "are",
                          count == 0 ? "none" : std::to_string(count)),
              "CUDA_VISIBLE_DEVICES");
  finding.advice.emplace_back("unset CUDA_VISIBLE_DEVICES; Slurm or lockstep run sets it");
  findings.push_back(std::move(finding));
}

// The two ways in which several workers can use one GPU at the same time.
void check_sharing(Findings& findings, const GpuFacts& gpu) {
  if (!gpu.no_slices.empty()) {
    Finding finding = of_gpus(Severity::Broken, "MIG", gpu.no_slices, "NVML");
    finding.advice.emplace_back(
        "request slices from Slurm (--gres=gpu:PROFILE:COUNT), or ask the administrators");
    findings.push_back(std::move(finding));
  } else if (gpu.slices > 0) {
    findings.push_back(of_gpus(Severity::Ok, "MIG", plural(gpu.slices, "slice"), "NVML"));
  }
  if (!gpu.gpus.empty()) {
    findings.push_back(of_gpus(Severity::Ok,
                               "MPS",
                               gpu.mps.empty()
                                   ? "not installed: --share-gpus mps is not available"
                                   : "installed: workers can share a GPU with --share-gpus mps",
                               "nvidia-cuda-mps-control"));
  }
}

// Without persistence mode the driver unloads when the last process closes the GPU, and each start
// of a worker pays for its initialization.
void check_health(Findings& findings, const GpuFacts& gpu) {
  int64_t errors = 0;
  bool is_persistent = true;
  for (const GpuFact& one : gpu.gpus) {
    errors += std::max<int64_t>(0, one.uncorrected_errors);
    is_persistent = is_persistent && one.persistence != false;
  }
  if (errors > 0) {
    Finding finding = of_gpus(Severity::Warning,
                              "ECC",
                              fmt::format("{} uncorrected memory errors since boot", errors),
                              "NVML");
    finding.advice.emplace_back("nvidia-smi -q -d ECC; report it to the administrators");
    findings.push_back(std::move(finding));
  }
  if (!is_persistent) {
    Finding finding = of_gpus(Severity::Warning,
                              "persistence",
                              "disabled: the first CUDA call of each process loads the driver",
                              "NVML");
    finding.advice.emplace_back("ask the administrators for nvidia-smi -pm 1");
    findings.push_back(std::move(finding));
  }
}

void check_torch(Findings& findings, const NodeFacts& node) {
  const PythonFacts& python = node.software.python;
  const bool has_gpus = !node.gpu.gpus.empty();
  if (python.torch.empty()) {
    return;
  }
  const auto built_for = find_pair(python.cuda);
  const int driver = node.gpu.cuda_of_driver;
  if (has_gpus && !built_for) {
    Finding finding = of_software(Severity::Warning,
                                  "torch and GPUs",
                                  "torch is built without CUDA: it cannot use the GPUs",
                                  python.python.where);
    finding.advice.emplace_back("install torch for CUDA " + cuda_text(driver) + " or older");
    findings.push_back(std::move(finding));
  } else if (built_for && driver > 0 && built_for->first > driver / 1000) {
    Finding finding =
        of_software(Severity::Broken,
                    "torch and driver",
                    fmt::format("torch is built for CUDA {}, the driver supports up to {}",
                                python.cuda,
                                cuda_text(driver)),
                    "torch.version.cuda, NVML");
    finding.advice.push_back(
        fmt::format("install torch for CUDA {} or older, or a newer driver", cuda_text(driver)));
    findings.push_back(std::move(finding));
  }
  const auto has = [&python](const char* name) {
    return std::find(python.backends.begin(), python.backends.end(), name) != python.backends.end();
  };
  if (has_gpus && built_for && !has("nccl")) {
    Finding finding = of_software(Severity::Warning,
                                  "torch backends",
                                  "torch has CUDA but not NCCL: communication between GPUs is slow",
                                  python.python.where);
    finding.advice.emplace_back("install torch with NCCL, such as the official Linux builds");
    findings.push_back(std::move(finding));
  }
}

void check_toolkit(Findings& findings, const NodeFacts& node) {
  const auto toolkit = find_pair(node.software.cuda.version);
  const int driver = node.gpu.cuda_of_driver;
  if (toolkit && driver > 0 && toolkit->first > driver / 1000) {
    Finding finding =
        of_software(Severity::Warning,
                    "CUDA and driver",
                    fmt::format("the toolkit is {}, the driver supports up to {}: new programs do "
                                "not run here",
                                node.software.cuda.version,
                                cuda_text(driver)),
                    "nvcc --version, NVML");
    finding.advice.push_back(fmt::format("load a module of CUDA {} or older", cuda_text(driver)));
    findings.push_back(std::move(finding));
  }
  const auto own = find_pair(node.software.nccl.version);
  const auto torch = find_pair(node.software.python.nccl);
  if (own && torch && own != torch) {
    Finding finding = of_software(Severity::Warning,
                                  "NCCL and torch",
                                  fmt::format("the system has libnccl {}, torch was built with {}",
                                              node.software.nccl.version,
                                              node.software.python.nccl),
                                  "libnccl.so.2, torch.cuda.nccl");
    finding.advice.emplace_back(
        "use one NCCL: unload the module, or remove it from LD_LIBRARY_PATH");
    findings.push_back(std::move(finding));
  }
}

// Only what is found is listed. Absence is reported by check_software() if other nodes have it.
Findings list_software(const NodeFacts& node) {
  Findings findings;
  const SoftwareFacts& software = node.software;
  const auto add = [&findings](const char* name, const SoftwareFact& fact) {
    if (!fact.where.empty()) {
      findings.push_back(of_software(Severity::Ok, name, version_or(fact), fact.where));
    }
  };
  add("CUDA toolkit", software.cuda);
  add("NCCL", software.nccl);
  add(software.mpi_kind.empty() ? "MPI" : software.mpi_kind.c_str(), software.mpi);
  add("libtorch", software.libtorch);
  add("Python", software.python.python);
  const PythonFacts& python = software.python;
  if (!python.torch.empty()) {
    findings.push_back(
        of_software(Severity::Ok,
                    "Python torch",
                    fmt::format("{}, {}, NCCL {}, backends: {}",
                                python.torch,
                                python.cuda.empty() ? "no CUDA" : "CUDA " + python.cuda,
                                python.nccl.empty() ? "none" : python.nccl,
                                python.backends.empty() ? "none" : join(python.backends, ", ")),
                    python.python.where));
  } else if (!python.fault.empty()) {
    Finding finding =
        of_software(Severity::Warning, "Python torch", python.fault, python.python.where);
    finding.advice.emplace_back("python3 -c 'import torch', on that node");
    findings.push_back(std::move(finding));
  } else if (!python.python.where.empty()) {
    findings.push_back(
        of_software(Severity::Ok, "Python torch", "not installed", python.python.where));
  }
  return findings;
}

// Open MPI 5, and most builds of Open MPI 4, need PMIx when srun starts them. Without it, the
// processes abort, or each becomes rank 0 of an MPI_COMM_WORLD of size 1.
void check_mpi(Findings& findings, const Facts& facts) {
  const std::string& types = facts.slurm.mpi_types;
  const bool has_mpi =
      std::any_of(facts.nodes.begin(), facts.nodes.end(), [](const NodeFacts& node) {
        return !node.software.mpi.where.empty();
      });
  if (types.empty() || !has_mpi) {
    return;
  }
  if (types.find("pmix") != std::string::npos) {
    findings.push_back(of_software(
        Severity::Ok, "MPI and srun", "srun --mpi=pmix can start MPI programs", "srun --mpi=list"));
    return;
  }
  Finding finding = of_software(Severity::Warning,
                                "MPI and srun",
                                "Slurm has no PMIx: Open MPI processes started by srun do not find "
                                "each other",
                                "srun --mpi=list");
  finding.advice.emplace_back("mpirun in the batch script, or lockstep run");
  findings.push_back(std::move(finding));
}

}  // namespace

Findings check_gpus(const NodeFacts& node) {
  const GpuFacts& gpu = node.gpu;
  Findings findings;
  if (!gpu.fault.empty()) {
    Finding finding = of_gpus(Severity::Broken, "driver", gpu.fault, "NVML");
    finding.advice.emplace_back("nvidia-smi; report it to the administrators");
    findings.push_back(std::move(finding));
  } else if (!gpu.gpus.empty()) {
    findings.push_back(of_gpus(Severity::Ok, "devices", describe_gpus(gpu.gpus), "NVML"));
    findings.push_back(of_gpus(
        Severity::Ok,
        "driver",
        fmt::format("{}{}",
                    gpu.driver,
                    gpu.cuda_of_driver > 0 ? ", CUDA up to " + cuda_text(gpu.cuda_of_driver) : ""),
        "NVML"));
  } else if (gpu.granted > 0) {
    Finding finding = of_gpus(
        Severity::Warning,
        "devices",
        fmt::format(
            "Slurm allocated {}, NVML {}", gpu.granted, gpu.has_nvml ? "finds none" : "is missing"),
        "SLURM_GPUS_ON_NODE, libnvidia-ml.so.1");
    finding.advice.emplace_back("nvidia-smi on that node; in a container: apptainer exec --nv");
    findings.push_back(std::move(finding));
  } else {
    findings.push_back(of_gpus(Severity::Ok, "devices", "none", "libnvidia-ml.so.1"));
  }
  const int seen = std::max(static_cast<int>(gpu.gpus.size()), gpu.slices);
  if (seen > 0 && gpu.granted > 0 && seen < gpu.granted) {
    Finding finding = of_gpus(Severity::Warning,
                              "granted",
                              fmt::format("Slurm allocated {}, NVML finds {}", gpu.granted, seen),
                              "SLURM_GPUS_ON_NODE, NVML");
    finding.advice.emplace_back("nvidia-smi -L on that node: a GPU may have fallen off the bus");
    findings.push_back(std::move(finding));
  }
  check_visible(findings, gpu);
  check_sharing(findings, gpu);
  check_health(findings, gpu);
  return findings;
}

Findings check_versions(const NodeFacts& node) {
  Findings findings;
  check_torch(findings, node);
  check_toolkit(findings, node);
  return findings;
}

// A subject is uniform if merge() has produced one finding for it and that finding covers all
// nodes.
Findings check_software(const Facts& facts) {
  Findings findings = merge(facts.nodes, list_software);
  // Different versions on different nodes are hard to diagnose in a failing run, so report them.
  std::map<std::string, std::vector<const Finding*>> by_subject;
  for (const Finding& finding : findings) {
    by_subject[finding.subject].push_back(&finding);
  }
  Findings differences;
  for (const auto& [subject, values] : by_subject) {
    size_t count = 0;
    for (const Finding* value : values) {
      count += value->nodes.size();
    }
    if (values.size() == 1 && count == facts.nodes.size()) {
      continue;
    }
    Finding finding = of_software(
        Severity::Warning,
        subject,
        values.size() > 1 ? "the nodes differ, see above: their workers may be incompatible"
                          : "found only on some nodes, see above",
        "all nodes");
    finding.advice.emplace_back("use the same modules and environment on all nodes");
    differences.push_back(std::move(finding));
  }
  check_mpi(findings, facts);
  findings.insert(findings.end(), differences.begin(), differences.end());
  return findings;
}

}  // namespace lockstep::doctor
