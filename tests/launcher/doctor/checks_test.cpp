// SPDX-License-Identifier: Apache-2.0
// Every verdict other than ok, from invented facts, with its advice.
#include <gmock/gmock.h>

#include "launcher/doctor/fake_facts.h"

namespace lockstep::testing {
namespace {

using doctor::Facts;
using doctor::Finding;
using doctor::NodeFacts;
using doctor::Severity;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A finding that is not ok has advice.
void expect_bad(const Finding& finding,
                Severity severity,
                const std::string& text,
                const std::string& advice) {
  EXPECT_EQ(finding.severity, severity) << finding.subject << ": " << finding.text;
  EXPECT_THAT(finding.text, HasSubstr(text));
  EXPECT_THAT(finding.advice, Contains(HasSubstr(advice)));
}

Finding of_job(const std::map<std::string, std::string>& variables, const std::string& subject) {
  Facts facts = healthy_facts();
  for (const auto& [name, value] : variables) {
    facts.slurm.variables[name] = value;
  }
  return of_subject(check_job(facts.slurm), subject);
}

TEST(Check, FindsNothingWrongWithAHealthyJobButTheDroppedNetwork) {
  std::vector<std::string> wrong;
  for (const Finding& finding : check_all(healthy_facts())) {
    if (finding.severity != Severity::Ok) {
      wrong.push_back(finding.subject);
    }
  }
  EXPECT_THAT(wrong, ElementsAre("10.11.0.0/24 (mgmt0)"));
}

TEST(Check, GivesAdviceWithEveryVerdictThatIsNotOk) {
  Facts facts = healthy_facts();
  facts.nodes[0] = NodeFacts();  // nothing is known: many checks fail
  for (const Finding& finding : check_all(facts)) {
    EXPECT_EQ(finding.advice.empty(), finding.severity == Severity::Ok)
        << finding.subject << ": " << finding.text;
  }
}

// ---- Slurm ----

TEST(SlurmCheck, SeesAControllerThatIsDown) {
  Facts facts = healthy_facts();
  facts.slurm.is_controller_up = false;
  facts.slurm.controller = "Slurmctld(primary) at ctl is DOWN";
  expect_bad(
      of_subject(check_slurm(facts), "controller"), Severity::Broken, "is DOWN", "scontrol ping");
}

TEST(SlurmCheck, MissesItsCommandsInsideAJobOnly) {
  Facts facts = healthy_facts();
  facts.slurm.version = "";
  expect_bad(of_subject(check_slurm(facts), "commands"), Severity::Broken, "sinfo", "module");
  facts.slurm.is_in_job = false;
  EXPECT_EQ(of_subject(check_slurm(facts), "version").severity, Severity::Ok);
}

TEST(SlurmCheck, NamesNodesThatDoNotAnswer) {
  Facts facts = healthy_facts();
  facts.cross_node.missing = {"n4"};
  expect_bad(of_subject(check_slurm(facts), "nodes"), Severity::Broken, "n4", "--exclude=n4");
  facts.cross_node.missing = {};
  facts.cross_node.silent = {"n2"};
  expect_bad(of_subject(check_slurm(facts), "nodes"), Severity::Broken, "n2", "doctor --quick");
}

TEST(SlurmCheck, ReportsWhyAgentsCouldNotBeStarted) {
  Facts facts = healthy_facts();
  facts.cross_node.fault = "srun exited with code 1: Invalid account";
  expect_bad(of_subject(check_slurm(facts), "agents"), Severity::Broken, "Invalid account", "srun");
}

TEST(SlurmCheck, SeesTasksThatDoNotFit) {
  expect_bad(of_job({{"SLURM_NTASKS", "5"}, {"SLURM_NTASKS_PER_NODE", "2"}}, "tasks"),
             Severity::Warning,
             "5 tasks do not match 3 nodes x 2 tasks",
             "--ntasks=6");
  EXPECT_EQ(of_job({{"SLURM_NTASKS", "6"}, {"SLURM_NTASKS_PER_NODE", "2"}}, "tasks").subject, "");
}

TEST(SlurmCheck, SeesCpusThatSrunDoesNotPassOn) {
  const std::string subject = "cpus per task";
  expect_bad(of_job({{"SLURM_CPUS_PER_TASK", "8"}}, subject),
             Severity::Warning,
             "8 CPUs per task",
             "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK");
  EXPECT_EQ(of_job({{"SLURM_CPUS_PER_TASK", "8"}, {"SRUN_CPUS_PER_TASK", "8"}}, subject).subject,
            "");
  Facts old = healthy_facts();
  old.slurm.version = "21.08.8";
  old.slurm.variables["SLURM_CPUS_PER_TASK"] = "8";
  EXPECT_EQ(of_subject(check_job(old.slurm), subject).subject, "");
}

TEST(SlurmCheck, SeesGpusThatDoNotFitTheTasks) {
  expect_bad(
      of_job({{"SLURM_GPUS_ON_NODE", "4"}, {"SLURM_NTASKS_PER_NODE", "2"}}, "GPUs and tasks"),
      Severity::Warning,
      "some GPUs stay idle",
      "--ntasks-per-node=4");
  expect_bad(
      of_job({{"SLURM_GPUS_ON_NODE", "1"}, {"SLURM_NTASKS_PER_NODE", "2"}}, "GPUs and tasks"),
      Severity::Warning,
      "some GPUs are shared",
      "--ntasks-per-node=1");
}

TEST(SlurmCheck, SeesWhatLeaksFromOutside) {
  expect_bad(of_job({{"SLURM_CPU_BIND", "quiet,mask_cpu:0x1"}}, "CPU binding"),
             Severity::Warning,
             "mask_cpu:0x1",
             "unset");
  expect_bad(of_job({{"SLURM_EXPORT_ENV", "NONE"}}, "environment"),
             Severity::Warning,
             "no variables",
             "export SLURM_EXPORT_ENV=ALL");
}

TEST(SlurmCheck, SeesMemoryThatWasAskedForTwice) {
  expect_bad(of_job({{"SLURM_MEM_PER_CPU", "1000"}, {"SLURM_MEM_PER_NODE", "4000"}}, "memory"),
             Severity::Broken,
             "exclude each other",
             "unset SLURM_MEM_PER_CPU");
}

TEST(SlurmCheck, ReportsWhatLockstepRunWouldReject) {
  Facts facts = healthy_facts();
  facts.slurm.fault_of_job = "invalid SLURM_NTASKS='x'\n  found: 'x'";
  const Finding finding = of_subject(check_job(facts.slurm), "job");
  expect_bad(finding, Severity::Broken, "invalid SLURM_NTASKS='x'", "--dry-run");
  EXPECT_THAT(finding.table, ElementsAre("  found: 'x'"));
}

TEST(SlurmCheck, WarnsInsideAStepOfSeveralTasks) {
  Facts facts = healthy_facts();
  facts.slurm.is_in_step = true;
  expect_bad(of_subject(check_job(facts.slurm), "step"),
             Severity::Warning,
             "only its node",
             "without srun");
}

// ---- network ----

TEST(NetworkCheck, ShowsWhoDoesNotReachWhom) {
  const Finding finding = of_subject(check_network(healthy_facts()), "10.11.0.0/24 (mgmt0)");
  expect_bad(finding, Severity::Warning, "6 connections", "lockstep network");
  EXPECT_THAT(finding.table,
              ElementsAre("   n1 n2 n3", "n1  - NO NO", "n2 NO  - NO", "n3 NO NO  -"));
}

TEST(NetworkCheck, NamesTheNodeThatIsCutOff) {
  Facts facts = healthy_facts();
  for (auto& trial : facts.cross_node.trials) {
    if (trial.network == 0 && (trial.from == 1 || trial.to == 1)) {
      trial.fault = "no answer";
    }
  }
  expect_bad(of_subject(check_network(facts), "10.12.0.0/24 (fab0)"),
             Severity::Warning,
             "n2 is isolated",
             "lockstep network");
}

TEST(NetworkCheck, NamesTheNodeWithoutTheInterface) {
  Facts facts = healthy_facts();
  facts.nodes[1].interfaces[0].addresses.clear();
  facts.nodes[1].interfaces[0].state = "down";
  expect_bad(of_subject(check_network(facts), "fab0"),
             Severity::Warning,
             "2 of 3 nodes have it; missing on: n2 (down)",
             "ip addr show fab0");
}

TEST(NetworkCheck, IsBrokenWhereNoNetworkConnectsAll) {
  Facts facts = healthy_facts();
  facts.cross_node.chosen = -1;
  facts.cross_node.reason = "none of 2 networks connects all 3 nodes";
  expect_bad(
      of_subject(check_network(facts), "choice"), Severity::Broken, "none of 2", "administrators");
}

TEST(NetworkCheck, ComparesNamesWithWhatIsReached) {
  Facts facts = healthy_facts();
  facts.nodes[0].resolved = {{"n1", {"127.0.1.1"}}, {"n2", {"10.12.0.2"}}};
  EXPECT_EQ(of_subject(check_network(facts), "host names").severity, Severity::Ok);
  facts.nodes[0].resolved["n2"] = {"10.11.0.2"};
  expect_bad(of_subject(check_network(facts), "host names"),
             Severity::Warning,
             "on n1, n2 resolves to 10.11.0.2, which is unreachable",
             "lockstep network");
  facts.nodes[0].resolved["n2"] = {"127.0.1.1"};
  expect_bad(of_subject(check_network(facts), "host names"),
             Severity::Warning,
             "loopback address (127.0.1.1)",
             "lockstep network");
  facts.nodes[0].resolved["n2"] = {};
  expect_bad(of_subject(check_network(facts), "host names"),
             Severity::Warning,
             "n2 does not resolve",
             "lockstep network");
}

TEST(NetworkCheck, TriesPorts) {
  NodeFacts node = healthy_node("n1");
  node.is_29500_free = false;
  expect_bad(
      of_subject(check_interfaces(node), "ports"), Severity::Warning, "29500", "MASTER_PORT");
  node.can_listen = false;
  expect_bad(
      of_subject(check_interfaces(node), "ports"), Severity::Broken, "no free port", "ss -s");
}

TEST(RdmaCheck, WantsActivePortsAndAGidOfRoceV2) {
  NodeFacts node = healthy_node("n1");
  EXPECT_EQ(of_subject(check_rdma(node), "devices").text, "none");
  node.rdma = {{.device = "mlx5_0",
                .port = 1,
                .state = "1: DOWN",
                .link_layer = "Ethernet",
                .rate = "100 Gb/sec",
                .gids = {}}};
  expect_bad(of_subject(check_rdma(node), "mlx5_0/1"),
             Severity::Warning,
             "not active",
             "NCCL_IB_HCA=^mlx5_0");
  node.rdma[0].state = "4: ACTIVE";
  expect_bad(
      of_subject(check_rdma(node), "mlx5_0/1"), Severity::Warning, "RoCE v2", "NCCL_IB_DISABLE=1");
  node.rdma[0].gids = {{.index = 3,
                        .gid = "0000:0000:0000:0000:0000:ffff:0a0c:0001",
                        .type = "RoCE v2",
                        .interface = "eth0"}};
  EXPECT_THAT(of_subject(check_rdma(node), "mlx5_0/1").text, HasSubstr("GID 3 (eth0)"));
  EXPECT_EQ(of_subject(check_rdma(node), "mlx5_0/1").severity, Severity::Ok);
}

TEST(ClockCheck, NamesTheNodeWhoseClockIsWrong) {
  Facts facts = healthy_facts();
  EXPECT_EQ(of_subject(check_clocks(facts.cross_node), "offset").severity, Severity::Ok);
  facts.cross_node.clocks["n3"].offset = -5;
  expect_bad(of_subject(check_clocks(facts.cross_node), "offset"),
             Severity::Warning,
             "n3 is 5.0 s behind",
             "chronyc");
  facts.cross_node.clocks["n3"].precision = 6;  // the measurement is then too imprecise
  EXPECT_EQ(of_subject(check_clocks(facts.cross_node), "offset").severity, Severity::Ok);
}

// ---- GPUs and software ----

TEST(GpuCheck, MissesWhatSlurmHasGranted) {
  NodeFacts node = healthy_node("n1");
  node.gpu.granted = 2;
  expect_bad(of_subject(check_gpus(node), "granted"),
             Severity::Warning,
             "allocated 2, NVML finds 1",
             "nvidia-smi");
  node.gpu.gpus.clear();
  expect_bad(of_subject(check_gpus(node), "devices"), Severity::Warning, "finds none", "--nv");
  node.gpu.granted = -1;
  EXPECT_EQ(of_subject(check_gpus(node), "devices").severity, Severity::Ok);
}

TEST(GpuCheck, ReadsTheVisibleOnes) {
  NodeFacts node = healthy_node("n1");
  node.gpu.is_visible_set = true;
  node.gpu.visible = "0,3";
  expect_bad(of_subject(check_gpus(node), "visible"),
             Severity::Broken,
             "contains GPU 3, but there is 1",
             "unset CUDA_VISIBLE_DEVICES");
  node.gpu.visible = "GPU-1234";
  EXPECT_EQ(of_subject(check_gpus(node), "visible").severity, Severity::Ok);
}

TEST(GpuCheck, ReadsWhatIsThereForSeveralWorkersPerGpu) {
  NodeFacts node = healthy_node("n1");
  EXPECT_THAT(of_subject(check_gpus(node), "MPS").text, HasSubstr("installed"));
  node.gpu.mps = "";
  EXPECT_THAT(of_subject(check_gpus(node), "MPS").text, HasSubstr("not available"));

  node.gpu.slices = 7;
  node.gpu.granted = 7;
  EXPECT_EQ(of_subject(check_gpus(node), "MIG").text, "7 slices");
  EXPECT_EQ(of_subject(check_gpus(node), "MIG").severity, Severity::Ok);
  node.gpu.slices = 0;
  node.gpu.no_slices = "no permission to use the MIG slices of GPU 0";
  expect_bad(
      of_subject(check_gpus(node), "MIG"), Severity::Broken, "no permission", "--gres=gpu:PROFILE");
}

TEST(GpuCheck, ReportsErrorsAndASlowDriver) {
  NodeFacts node = healthy_node("n1");
  node.gpu.gpus[0].uncorrected_errors = 2;
  node.gpu.gpus[0].persistence = false;
  expect_bad(of_subject(check_gpus(node), "ECC"), Severity::Warning, "2 uncorrected", "nvidia-smi");
  expect_bad(of_subject(check_gpus(node), "persistence"), Severity::Warning, "disabled", "-pm 1");
  node.gpu.fault = "NVML is installed but does not start";
  expect_bad(
      of_subject(check_gpus(node), "driver"), Severity::Broken, "does not start", "nvidia-smi");
}

TEST(SoftwareCheck, ComparesTorchWithTheDriver) {
  NodeFacts node = healthy_node("n1");
  node.software.python.cuda = "13.0";
  expect_bad(of_subject(check_versions(node), "torch and driver"),
             Severity::Broken,
             "built for CUDA 13.0, the driver supports up to 12.4",
             "12.4 or older");
  node.software.python.cuda = "";
  expect_bad(of_subject(check_versions(node), "torch and GPUs"),
             Severity::Warning,
             "without CUDA",
             "CUDA 12.4");
  node.software.python.cuda = "12.1";
  node.software.python.backends = {"gloo"};
  expect_bad(
      of_subject(check_versions(node), "torch backends"), Severity::Warning, "not NCCL", "NCCL");
}

TEST(SoftwareCheck, ComparesToolkitAndNccl) {
  NodeFacts node = healthy_node("n1");
  node.software.cuda = {.version = "13.1", .where = "/usr/bin/nvcc"};
  expect_bad(
      of_subject(check_versions(node), "CUDA and driver"), Severity::Warning, "13.1", "12.4");
  node.software.nccl = {.version = "2.18.3", .where = "libnccl.so.2"};
  expect_bad(of_subject(check_versions(node), "NCCL and torch"),
             Severity::Warning,
             "libnccl 2.18.3",
             "LD_LIBRARY_PATH");
}

TEST(SoftwareCheck, SeesNodesThatDiffer) {
  Facts facts = healthy_facts();
  facts.nodes[1].software.python.python.version = "3.9.1";
  expect_bad(
      of_subject(check_software(facts), "Python"), Severity::Warning, "the nodes differ", "on all");
  facts = healthy_facts();
  facts.nodes[1].software.mpi = {};
  expect_bad(of_subject(check_software(facts), "Open MPI"),
             Severity::Warning,
             "only on some nodes",
             "on all");
}

TEST(SoftwareCheck, ReportsTheErrorOfPython) {
  Facts facts = healthy_facts();
  for (NodeFacts& node : facts.nodes) {
    node.software.python.torch = "";
    node.software.python.fault = "did not answer within 20 s";
  }
  expect_bad(of_subject(check_software(facts), "Python torch"),
             Severity::Warning,
             "within 20 s",
             "import torch");
}

TEST(SoftwareCheck, WantsPmixForMpi) {
  Facts facts = healthy_facts();
  EXPECT_EQ(of_subject(check_software(facts), "MPI and srun").severity, Severity::Ok);
  facts.slurm.mpi_types = "none; pmi2; ";
  expect_bad(
      of_subject(check_software(facts), "MPI and srun"), Severity::Warning, "no PMIx", "mpirun");
}

// ---- limits and surroundings ----

TEST(LimitCheck, SeesFewerCoresThanGranted) {
  NodeFacts node = healthy_node("n1");
  node.limits.cores_usable = 1;
  expect_bad(
      of_subject(check_limits(node), "cores"), Severity::Warning, "fewer", "--cpu-bind=none");
}

TEST(LimitCheck, SeesWhatIsTooLittle) {
  NodeFacts node = healthy_node("n1");
  node.limits.memory_limit = kGiB / 2;
  node.limits.shm_free = kGiB / 16;
  node.limits.open_files = 256;
  node.limits.processes = 100;
  const doctor::Findings findings = check_limits(node);
  expect_bad(of_subject(findings, "memory"), Severity::Warning, "too little", "--mem");
  expect_bad(of_subject(findings, "/dev/shm"), Severity::Warning, "64 MiB free", "--shm-size");
  expect_bad(of_subject(findings, "open files"), Severity::Warning, "256", "ulimit -n 524288");
  expect_bad(of_subject(findings, "processes"), Severity::Warning, "100", "ulimit -u");
  node.limits.shm_total = doctor::kUnknown;
  expect_bad(
      of_subject(check_limits(node), "/dev/shm"), Severity::Broken, "does not exist", "--shm-size");
}

TEST(LimitCheck, WantsLockedMemoryForRdmaOnly) {
  NodeFacts node = healthy_node("n1");
  node.limits.locked_bytes = 65536;
  EXPECT_EQ(of_subject(check_limits(node), "locked memory").severity, Severity::Ok);
  node.rdma.resize(1);
  expect_bad(of_subject(check_limits(node), "locked memory"),
             Severity::Warning,
             "RDMA",
             "ulimit -l unlimited");
}

TEST(EnvironmentCheck, SeesWhatContainersAndModulesLack) {
  NodeFacts node = healthy_node("n1");
  node.place.user_namespaces = 0;
  node.place.has_module_command = false;
  node.place.module_script = "/etc/profile.d/lmod.sh";
  node.place.conda = "/home/me/conda";
  const doctor::Findings findings = check_surroundings(node);
  expect_bad(of_subject(findings, "containers"), Severity::Warning, "user namespaces", "sysctl");
  expect_bad(of_subject(findings, "modules"),
             Severity::Warning,
             "`module`",
             "source /etc/profile.d/lmod.sh");
  expect_bad(of_subject(findings, "environment"), Severity::Warning, "both", "deactivate");
}

TEST(EnvironmentCheck, SeesDirectoriesThatAreNotShared) {
  NodeFacts node = healthy_node("n1");
  node.place.sees_home = node.place.sees_directory = false;
  expect_bad(of_subject(check_surroundings(node), "shared home"),
             Severity::Warning,
             "/home/me is a different directory",
             "shared file system");
  expect_bad(of_subject(check_surroundings(node), "directory"),
             Severity::Broken,
             "does not exist",
             "submit from");
}

TEST(EnvironmentCheck, NamesTheNodeWithTheMinimumOfFreeSpace) {
  std::vector<NodeFacts> nodes = {healthy_node("n1"), healthy_node("n2")};
  nodes[1].place.temp.free = kGiB / 2;
  expect_bad(of_subject(check_space(nodes), "temporary"),
             Severity::Warning,
             "512.0 MiB free, minimum on n2: nearly full",
             "du -xh");
  nodes[1].place.home.free = doctor::kUnknown;
  expect_bad(
      of_subject(check_space(nodes), "home"), Severity::Broken, "does not exist", "mkdir -p");
}

}  // namespace
}  // namespace lockstep::testing
