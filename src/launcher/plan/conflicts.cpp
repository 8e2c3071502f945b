// SPDX-License-Identifier: Apache-2.0
//
// Conflicts that depend on options only. Those with the environment (Slurm, hosts, GPUs) are found
// where the environment is used: launch_target.cpp, workers.cpp, manual_rendezvous.cpp.
//
// An error about two options shows both with their sources, since one of them is often an
// environment variable (PET_NNODES) that the user does not see.
#include "launcher/plan/conflicts.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/plan/parse_options.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

struct Choice {
  const Option* option;
  std::string_view flag;
};

void exclude(const Choice& one, const Choice& other, std::string_view why, std::string_view hint) {
  if (!*one.option || !*other.option) {
    return;
  }
  throw Error(ExitCode::Usage,
              fmt::format("cannot use {} with {}: {}",
                          spelt(**one.option, one.flag),
                          spelt(**other.option, other.flag),
                          why))
      .fact("requested", said(**one.option, one.flag), (*one.option)->source)
      .fact("requested", said(**other.option, other.flag), (*other.option)->source)
      .hint(hint);
}

// --standalone is a switch without a value, so exclude() cannot be used for it.
void exclude_standalone(const Choice& other) {
  if (!*other.option) {
    return;
  }
  throw Error(ExitCode::Usage,
              fmt::format("cannot use --standalone with {}: it means this machine only",
                          spelt(**other.option, other.flag)))
      .fact("requested", "--standalone", kCommandLine)
      .fact("requested", said(**other.option, other.flag), (*other.option)->source)
      .hint(fmt::format("drop --standalone, or drop {}", spelt(**other.option, other.flag)));
}

void require_hosts_once(const Request& request) {
  const Choice hosts{&request.hosts, "-H"};
  const Choice hostfile{&request.hostfile, "--hostfile"};
  const Choice include{&request.include, "--include"};
  const Choice exclusion{&request.exclude, "--exclude"};
  exclude(hosts, hostfile, "both name the hosts", "use one of the two");
  exclude(include,
          exclusion,
          "one selects, the other excludes",
          "--include with the remaining devices, or --exclude only");
  constexpr std::string_view kReason = "it selects the devices";
  for (const Choice& choice : {include, exclusion}) {
    exclude(choice, {&request.nnodes, "--nnodes"}, kReason, "drop the number of nodes");
    exclude(choice,
            {&request.nproc_per_node, "--nproc-per-node"},
            kReason,
            "drop the number of workers per node");
  }
  for (const Choice& choice : {hosts, hostfile}) {
    constexpr std::string_view kSsh = "agents are started over ssh, not manually";
    constexpr std::string_view kHint = "use one of the two; over ssh, the rendezvous is automatic";
    exclude(choice, {&request.node_rank, "--node-rank"}, kSsh, kHint);
    exclude(choice, {&request.rdzv_endpoint, "--rdzv-endpoint"}, kSsh, kHint);
  }
}

void require_alone(const Request& request, const Sizes& sizes) {
  if (!request.is_standalone) {
    return;
  }
  exclude_standalone({&request.rdzv_endpoint, "--rdzv-endpoint"});
  exclude_standalone({&request.hosts, "-H"});
  exclude_standalone({&request.hostfile, "--hostfile"});
  exclude_standalone({&request.include, "--include"});
  exclude_standalone({&request.exclude, "--exclude"});
  if (sizes.nodes && sizes.nodes->maximum > 1) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot run on {} nodes with --standalone: it means this machine only",
                            sizes.nodes->maximum))
        .fact("requested", "--standalone", kCommandLine)
        .fact("requested", sizes.nodes->provenance.text, sizes.nodes->provenance.source)
        .hint("drop --standalone, or --nnodes 1");
  }
}

// A rank that is too large gets its own message: the usual cause is a missing --nnodes, or ranks
// that were counted from 1.
void require_node_rank(const Request& request, const Sizes& sizes) {
  if (!request.node_rank) {
    return;
  }
  const int nodes = sizes.nodes ? sizes.nodes->maximum : 1;
  const auto node = find_integer(request.node_rank->text);
  if (node && *node >= nodes) {
    Error error(ExitCode::Usage,
                fmt::format("--node-rank {} is out of range for {}", *node, plural(nodes, "node")));
    error.fact("requested", said(*request.node_rank, "--node-rank"), request.node_rank->source);
    error.fact("requested",
               sizes.nodes ? sizes.nodes->provenance.text : "no --nnodes: one node",
               sizes.nodes ? sizes.nodes->provenance.source : kCommandLine);
    error.hint(fmt::format("--nnodes {}; node ranks start at 0", *node + 1));
    throw std::move(error);
  }
  read_number(*request.node_rank,
              {.flag = "--node-rank", .minimum = 0, .maximum = nodes - 1, .hint = "--node-rank 0"});
}

// The last rule is that of torch.distributed.launch: without --use-env it adds an argument that
// only a Python script is expected to parse.
void require_program_kind(const Request& request) {
  if (request.is_module && request.is_no_python) {
    throw Error(ExitCode::Usage, "cannot use -m with --no-python: a module needs Python")
        .fact("requested", "-m and --no-python", kCommandLine)
        .hint("use one of the two");
  }
  if (request.is_module && request.is_run_path) {
    throw Error(ExitCode::Usage, "cannot use -m with --run-path: a module is not a file")
        .fact("requested", "-m and --run-path", kCommandLine)
        .hint("use one of the two");
  }
  if (request.is_local_rank_passed && (request.is_use_env || request.is_no_local_rank)) {
    throw Error(ExitCode::Usage, "conflicting options for the local rank argument")
        .fact("requested",
              fmt::format("--pass-local-rank and {}",
                          request.is_use_env ? "--use-env" : "--no-local-rank"),
              kCommandLine)
        .hint("use one of the two");
  }
  if (request.dialect == Dialect::TorchLaunch && request.is_no_python && !request.is_use_env) {
    throw Error(ExitCode::Usage, "cannot pass --local_rank: the program is not a Python script")
        .fact("requested", "--no-python without --use-env", kCommandLine)
        .hint("--no-python --use-env: the program reads LOCAL_RANK instead");
  }
}

// c10d and static differ in torchrun's store only. lockstep has one rendezvous for both, hosted by
// node 0. etcd would need a service.
void require_backend(const Request& request) {
  if (!request.rdzv_backend) {
    return;
  }
  const OptionValue& given = *request.rdzv_backend;
  if (given.text == "static" || given.text == "c10d") {
    return;
  }
  if (given.text.starts_with("etcd")) {
    throw Error(ExitCode::Usage, fmt::format("rendezvous backend {} is not supported", given.text))
        .fact("requested", said(given, "--rdzv-backend"), given.source)
        .fact("expected", "c10d or static: node 0 hosts the rendezvous, no service is needed")
        .hint("--rdzv-backend c10d --rdzv-endpoint HOST:29400; HOST is one of the nodes");
  }
  throw invalid_value(given, "--rdzv-backend", "c10d or static").hint("--rdzv-backend c10d");
}

void require_start_method(const Request& request) {
  if (!request.start_method || request.start_method->text == "spawn") {
    return;
  }
  const OptionValue& given = *request.start_method;
  throw Error(ExitCode::Usage, fmt::format("the start method '{}' is not supported", given.text))
      .fact("requested", said(given, "--start-method"), given.source)
      .fact("expected", "spawn: each worker executes a program")
      .hint("drop --start-method");
}

}  // namespace

void require_consistent(const Request& request, const Sizes& sizes) {
  require_program_kind(request);
  require_hosts_once(request);
  require_alone(request, sizes);
  require_node_rank(request, sizes);
  require_backend(request);
  require_start_method(request);
}

}  // namespace lockstep::plan
