// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/doctor/finding.h"

// Thresholds here are bounds below which training fails in practice, not recommendations. A limit
// that most jobs never reach stays "ok", or users learn to ignore warnings.
//
// The source in parentheses is the command with which a user can see the same value.
namespace lockstep::doctor {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

Finding make(
    Section section, Severity severity, std::string subject, std::string text, std::string source) {
  return {.section = section,
          .severity = severity,
          .subject = std::move(subject),
          .text = std::move(text),
          .source = std::move(source),
          .advice = {}};
}

Finding of_limits(Severity severity, std::string subject, std::string text, std::string source) {
  return make(Section::Limits, severity, std::move(subject), std::move(text), std::move(source));
}

Finding of_environment(Severity severity,
                       std::string subject,
                       std::string text,
                       std::string source) {
  return make(
      Section::HostEnvironment, severity, std::move(subject), std::move(text), std::move(source));
}

std::string bytes_text(int64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : format_bytes(static_cast<uint64_t>(bytes));
}

std::string count_text(int64_t count) {
  return count == kUnlimited ? "unlimited" : std::to_string(count);
}

// Fewer cores than granted usually means that an enclosing srun has bound the process: srun binds
// by default, and SLURM_CPU_BIND is inherited by inner steps. More cores than granted means that
// the site does not use task/affinity or task/cgroup; jobs on the node then compete for all cores.
void check_cores(Findings& findings, const LimitFacts& limits) {
  std::string text = fmt::format("{} of {} usable", limits.cores_usable, limits.cores_online);
  if (limits.cores_granted > 0) {
    text += fmt::format(", Slurm allocated {}", limits.cores_granted);
  }
  Finding finding = of_limits(Severity::Ok, "cores", text, "affinity, cgroup, SLURM_CPUS_ON_NODE");
  if (limits.cores_granted > 0 && limits.cores_usable < limits.cores_granted) {
    finding.severity = Severity::Warning;
    finding.text += ": this process is bound to fewer cores than the job has";
    finding.advice.emplace_back("srun --cpu-bind=none, or unset ${!SLURM_CPU_BIND*} before srun");
  } else if (limits.cores_granted > 0 && limits.cores_usable > limits.cores_granted) {
    finding.text += " (Slurm does not bind processes to cores here)";
  } else if (limits.cores_granted < 0 && limits.cores_usable * 2 <= limits.cores_online) {
    finding.text += " (limited by affinity or a cgroup)";
  }
  findings.push_back(std::move(finding));
}

void check_memory(Findings& findings, const LimitFacts& limits) {
  Finding finding = of_limits(
      Severity::Ok,
      "memory",
      limits.memory_limit == kUnlimited
          ? fmt::format("{}, no limit", bytes_text(limits.memory_total))
          : fmt::format(
                "{} of {}", bytes_text(limits.memory_limit), bytes_text(limits.memory_total)),
      "cgroup");
  if (limits.memory_limit < kGiB) {
    finding.severity = Severity::Warning;
    finding.text += ": too little for training; the kernel will kill workers";
    finding.advice.emplace_back("sbatch --mem=16G, or --mem=0 for all memory of the node");
  }
  findings.push_back(std::move(finding));
}

// PyTorch's data loaders pass batches through /dev/shm (a tmpfs). Writing to a full tmpfs through a
// mapping raises SIGBUS instead of an error, so the worker dies without a message. Docker mounts 64
// MiB by default.
void check_shm(Findings& findings, const LimitFacts& limits) {
  if (limits.shm_total == kUnknown) {
    Finding finding = of_limits(
        Severity::Broken, "/dev/shm", "does not exist: workers cannot share memory", "statvfs");
    finding.advice.emplace_back(
        "in a container: use apptainer, which mounts it, or docker run --shm-size=8g");
    findings.push_back(std::move(finding));
    return;
  }
  // Rounded, so that nodes with nearly equal values are merged into one line.
  const auto in_words = [](int64_t bytes) {
    return bytes >= kGiB ? fmt::format("{} GiB", bytes / kGiB)
                         : fmt::format("{} MiB", bytes / kMiB);
  };
  Finding finding = of_limits(
      Severity::Ok,
      "/dev/shm",
      fmt::format("{}, {} % free",
                  in_words(limits.shm_total),
                  limits.shm_total > 0 ? limits.shm_free * 10 / limits.shm_total * 10 : 0),
      "statvfs");
  if (limits.shm_free < 512 * kMiB) {
    finding.severity = Severity::Warning;
    finding.text = fmt::format("{} free: PyTorch data loaders die of a bus error when it is full",
                               in_words(limits.shm_free));
    finding.advice.emplace_back(
        "ls -lS /dev/shm to find stale files; docker run --shm-size=8g; or num_workers=0");
  }
  findings.push_back(std::move(finding));
}

// Data loader workers with the file_descriptor strategy keep one descriptor per tensor in transit,
// and each connection of a collective needs one more. The user can raise the soft limit up to the
// hard one, so a soft limit of the usual 1024 is not worth a warning if the hard limit is
// sufficient.
void check_files(Findings& findings, const LimitFacts& limits) {
  constexpr int64_t kFew = 4096;
  Finding finding = of_limits(
      Severity::Ok,
      "open files",
      fmt::format(
          "{} (hard limit {})", count_text(limits.open_files), count_text(limits.most_open_files)),
      "ulimit -n");
  if (limits.open_files < kFew) {
    const bool may_rise = limits.most_open_files >= kFew;
    // 1024 is the usual soft limit and sufficient for few workers.
    finding.severity = may_rise && limits.open_files >= 1024 ? Severity::Ok : Severity::Warning;
    if (finding.severity == Severity::Warning) {
      finding.text += ": data loaders and many workers need more";
      finding.advice.emplace_back(may_rise ? "ulimit -n " + count_text(limits.most_open_files)
                                           : "ask the administrators for a higher limit");
    }
  }
  findings.push_back(std::move(finding));
}

// RDMA registers memory, which pins it. slurmd propagates the limits of the submitting shell to the
// job unless PropagateResourceLimitsExcept excludes them: a low limit on the login node becomes the
// limit on the compute nodes.
void check_locked(Findings& findings, const NodeFacts& node) {
  const int64_t locked = node.limits.locked_bytes;
  Finding finding = of_limits(Severity::Ok, "locked memory", bytes_text(locked), "ulimit -l");
  if (!node.rdma.empty() && locked != kUnlimited) {
    finding.severity = Severity::Warning;
    finding.text += ": RDMA must register memory; it fails or falls back to TCP";
    finding.advice.emplace_back(
        "ulimit -l unlimited; for jobs: PropagateResourceLimitsExcept=MEMLOCK in slurm.conf");
  }
  findings.push_back(std::move(finding));
}

// RLIMIT_NPROC counts the threads of the user on the whole node, not of the process. OpenMP, MKL,
// NCCL and data loaders add dozens of threads to each worker.
void check_processes(Findings& findings, const LimitFacts& limits) {
  constexpr int64_t kFew = 1024;
  Finding finding = of_limits(Severity::Ok, "processes", count_text(limits.processes), "ulimit -u");
  if (limits.processes < kFew) {
    finding.severity = Severity::Warning;
    finding.text += ": threads count as well, and every worker has dozens";
    finding.advice.emplace_back("ulimit -u, or ask the administrators for a higher limit");
  }
  findings.push_back(std::move(finding));
}

// Apptainer mounts an image through FUSE (squashfuse) in an unprivileged user namespace. Without
// /dev/fuse it unpacks the image to a temporary directory at each start, which takes time and
// space.
void check_container(Findings& findings, const EnvironmentFacts& environment) {
  if (environment.container.where.empty()) {
    findings.push_back(
        of_environment(Severity::Ok, "containers", "neither apptainer nor singularity", "PATH"));
    return;
  }
  Finding finding = of_environment(
      Severity::Ok,
      "containers",
      fmt::format("{} {}", environment.container_name, environment.container.version),
      environment.container.where);
  if (environment.user_namespaces == 0) {
    finding.severity = Severity::Warning;
    finding.text += "; user namespaces are disabled: only a setuid installation works";
    finding.advice.emplace_back("ask the administrators to set sysctl user.max_user_namespaces");
  } else if (!environment.has_fuse) {
    finding.text += "; no /dev/fuse: images are unpacked before use";
  }
  findings.push_back(std::move(finding));
}

void check_modules(Findings& findings, const EnvironmentFacts& environment) {
  if (environment.modules.empty()) {
    findings.push_back(of_environment(Severity::Ok, "modules", "no module system", "environment"));
    return;
  }
  Finding finding = of_environment(Severity::Ok, "modules", environment.modules, "environment");
  if (environment.has_module_command == false) {
    finding.severity = Severity::Warning;
    finding.text += "; the command `module` is not defined in scripts";
    finding.advice.push_back(environment.module_script.empty()
                                 ? "#!/bin/bash -l as the first line"
                                 : "source " + environment.module_script);
  }
  findings.push_back(std::move(finding));
}

void check_active(Findings& findings, const EnvironmentFacts& environment) {
  std::vector<std::string> active;
  if (!environment.virtual_env.empty()) {
    active.push_back("venv " + environment.virtual_env);
  }
  if (!environment.conda.empty()) {
    active.push_back("conda " + environment.conda);
  }
  Finding finding = of_environment(Severity::Ok,
                                   "environment",
                                   active.empty() ? "neither venv nor conda" : join(active, ", "),
                                   "VIRTUAL_ENV, CONDA_PREFIX");
  if (active.size() == 2) {
    finding.severity = Severity::Warning;
    finding.text += ": both are active; PATH decides which Python runs";
    finding.advice.emplace_back("deactivate, or conda deactivate");
  }
  findings.push_back(std::move(finding));
  if (!environment.proxies.empty()) {
    std::vector<std::string> texts;
    for (const auto& [name, value] : environment.proxies) {
      texts.push_back(fmt::format("{}={}", name, value));
    }
    findings.push_back(of_environment(Severity::Ok, "proxies", join(texts, ", "), "environment"));
  }
}

// The test file was created by the calling machine. A node that has the directory but not the file
// has another file system at the same path. Home can differ on some sites on purpose, so that is a
// warning; in a different working directory the program does not exist, so that is broken.
void check_shared(Findings& findings, const EnvironmentFacts& environment) {
  if (environment.sees_home == true) {
    findings.push_back(
        of_environment(Severity::Ok, "shared home", environment.home.path, "test file"));
  } else if (environment.sees_home == false) {
    Finding finding =
        of_environment(Severity::Warning,
                       "shared home",
                       environment.home.path + " is a different directory than on the first node",
                       "test file");
    finding.advice.emplace_back(
        "store programs, environments and run directories on a shared file system");
    findings.push_back(std::move(finding));
  }
  if (environment.sees_directory == false) {
    Finding finding = of_environment(Severity::Broken,
                                     "directory",
                                     "the working directory does not exist or is a different one",
                                     "test file");
    finding.advice.emplace_back("submit from a directory that all nodes share");
    findings.push_back(std::move(finding));
  }
}

// Reports the node with the least free space. kUnknown is -1, so a node on which the directory does
// not exist is the minimum and is reported first.
void check_minimum(Findings& findings,
                   const std::vector<NodeFacts>& nodes,
                   const char* subject,
                   SpaceFact EnvironmentFacts::*which) {
  const auto minimum =
      std::min_element(nodes.begin(), nodes.end(), [which](const auto& one, const auto& other) {
        return (one.place.*which).free < (other.place.*which).free;
      });
  const SpaceFact& space = minimum->place.*which;
  if (space.free == kUnknown) {
    Finding finding = of_environment(
        Severity::Broken, subject, fmt::format("{} does not exist", space.path), "statvfs");
    finding.nodes = {minimum->name};
    finding.advice.push_back("mkdir -p " + quote_for_shell(space.path));
    findings.push_back(std::move(finding));
    return;
  }
  Finding finding =
      of_environment(Severity::Ok,
                     subject,
                     fmt::format("{}: {} free{}",
                                 space.path,
                                 bytes_text(space.free),
                                 nodes.size() > 1 ? ", minimum on " + minimum->name : ""),
                     "statvfs");
  if (space.free < kGiB) {
    finding.severity = Severity::Warning;
    finding.text += ": nearly full";
    finding.advice.push_back("du -xh --max-depth=1 " + quote_for_shell(space.path) + " | sort -h");
  }
  findings.push_back(std::move(finding));
}

}  // namespace

Findings check_limits(const NodeFacts& node) {
  Findings findings;
  check_cores(findings, node.limits);
  check_memory(findings, node.limits);
  check_shm(findings, node.limits);
  check_files(findings, node.limits);
  check_locked(findings, node);
  check_processes(findings, node.limits);
  return findings;
}

Findings check_surroundings(const NodeFacts& node) {
  Findings findings;
  check_container(findings, node.place);
  check_modules(findings, node.place);
  check_active(findings, node.place);
  check_shared(findings, node.place);
  return findings;
}

Findings check_space(const std::vector<NodeFacts>& nodes) {
  Findings findings;
  if (!nodes.empty()) {
    check_minimum(findings, nodes, "temporary", &EnvironmentFacts::temp);
    check_minimum(findings, nodes, "home", &EnvironmentFacts::home);
  }
  return findings;
}

}  // namespace lockstep::doctor
