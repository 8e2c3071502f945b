// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/cluster/interfaces.h"
#include "common/os/process.h"
#include "launcher/plan/network.h"
#include "launcher/plan/order.h"
#include "launcher/supervisor/console/line_sink.h"

// The messages between leader and agents; docs/control-plane.md has an overview.
//
//   byte 0        kind: 'A' + index in the variant Report or Order
//   byte 1...     fields as a CBOR map
//
// Said has its own layout (messages.cpp), because output is most of the traffic. `attempt` lets the
// leader ignore reports that belong to an earlier attempt.
namespace lockstep::agent {

// Must be increased whenever a message or its meaning changes. Leader and agents must agree.
inline constexpr int kProtocol = 4;

// ---- from an agent ----

// First message of an agent: describes its node.
struct Join {
  int protocol = kProtocol;
  std::string name;         // host name
  std::string machine;      // os::machine_identity
  std::optional<int> node;  // node of the plan that this agent was started as
  int order = 0;            // without `node`: sort key for the assignment of nodes
  int workers = 0;          // counted on this node; 0: the number in the plan
  int cores = 1;
  int gpus = 0;
  std::vector<cluster::Address> addresses;
  int probe_port = 0;
  std::string fault;  // not empty: the reason why this node cannot run the program
  int fault_code = 0;

  bool operator==(const Join&) const = default;
};

// The results of a Probe.
struct Probed {
  int round = 0;
  std::vector<plan::Trial> trials;

  bool operator==(const Probed&) const = default;
};

// The ports that this node has reserved.
struct Prepared {
  int attempt = 0;
  std::vector<int> ports;

  bool operator==(const Prepared&) const = default;
};

// The workers of this node are started. Way::Task: the order was received.
struct Started {
  int attempt = 0;

  bool operator==(const Started&) const = default;
};

// The workers cannot be started, or the ports cannot be reserved.
struct Refused {
  int attempt = 0;
  int code = 0;
  std::string text;

  bool operator==(const Refused&) const = default;
};

// A worker has ended, or (rank -1) the fork server of the node has failed.
struct Exited {
  int attempt = 0;
  int rank = 0;
  os::ExitStatus status;
  int sent = 0;  // the strongest signal that the agent had sent to it; 0: none

  bool operator==(const Exited&) const = default;
};

// No process of the attempt is left on this node, and all of its output was sent before.
struct Stopped {
  int attempt = 0;
  int left_behind = 0;  // processes started by workers that had to be killed

  bool operator==(const Stopped&) const = default;
};

// The answer to Explain: a Failure as JSON.
struct Explained {
  int rank = 0;
  std::string failure;

  bool operator==(const Explained&) const = default;
};

// Output of a worker. Rank -1: a message of the agent to the user.
struct Said {
  int rank = 0;
  Stream stream = Stream::Out;
  bool is_status = false;
  std::string text;

  bool operator==(const Said&) const = default;
};

// The agent has received a signal that asks the run to stop, for example from scancel.
struct Interrupted {
  int signal = 0;

  bool operator==(const Interrupted&) const = default;
};

// The answer to Ask.
struct Answered {
  std::string text;

  bool operator==(const Answered&) const = default;
};

// Lines for a file in the run directory: samples of node `number`, or metrics in the output of rank
// `number`.
struct Recorded {
  enum class Kind { Samples, Metrics };

  Kind kind = Kind::Samples;
  int number = 0;
  std::string lines;

  bool operator==(const Recorded&) const = default;
};

// A log file of this node cannot be written. Sent at most once per attempt.
struct Unwritten {
  std::string sentence;  // the file and the reason

  bool operator==(const Unwritten&) const = default;
};

using Report = std::variant<Join,
                            Probed,
                            Prepared,
                            Started,
                            Refused,
                            Exited,
                            Stopped,
                            Explained,
                            Said,
                            Interrupted,
                            Answered,
                            Recorded,
                            Unwritten>;

// ---- from the leader ----

// An address to probe.
struct Target {
  int to = 0;
  int network = 0;
  std::string address;
  int port = 0;
  std::string source;  // address of this node in that network; empty: any

  bool operator==(const Target&) const = default;
};

// Try to reach these nodes.
struct Probe {
  int round = 0;  // results of an earlier round are ignored
  int self = 0;
  std::vector<Target> targets;
  int timeout_ms = 1000;

  bool operator==(const Probe&) const = default;
};

// Reserve ports for the workers of an attempt.
struct Prepare {
  int attempt = 0;
  int ports = 0;
  std::string wanted_host;  // with wanted_port: --master-addr, which must be free
  int wanted_port = 0;      // --master-port; 0: not given

  bool operator==(const Prepare&) const = default;
};

// Start the workers.
struct Start {
  plan::NodeOrder order;

  bool operator==(const Start&) const = default;
};

// Send SIGTERM to every worker, and SIGKILL after the grace period.
struct Stop {
  double grace_seconds = 30;
  bool is_asked = false;  // because of a signal from outside, not because of a failure

  bool operator==(const Stop&) const = default;
};

// Send SIGKILL to every worker.
struct Kill {
  bool operator==(const Kill&) const = default;
};

// Forward a signal to every worker.
struct Pass {
  int signal = 0;

  bool operator==(const Pass&) const = default;
};

// Send the failure report of a worker, or (rank -1) of the fork server.
struct Explain {
  int rank = 0;

  bool operator==(const Explain&) const = default;
};

// Flow control: the leader has shown so many bytes of output.
struct Credit {
  int64_t bytes = 0;

  bool operator==(const Credit&) const = default;
};

// Exit with this code: the run is over, or (with a text) the agent is rejected.
struct Release {
  int code = 0;
  std::string text;

  bool operator==(const Release&) const = default;
};

// A question of lockstep doctor or lockstep network about this node, opaque to the agent.
struct Ask {
  std::string text;

  bool operator==(const Ask&) const = default;
};

using Order = std::variant<Probe, Prepare, Start, Stop, Kill, Pass, Explain, Credit, Release, Ask>;

std::string encode(const Report& report);
std::string encode(const Order& order);

// Throw an Error (70) if the bytes are not a message of this protocol.
Report decode_report(std::string_view bytes);
Order decode_order(std::string_view bytes);

}  // namespace lockstep::agent
