// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/line_sink.h"
#include "cluster/interfaces.h"
#include "os/process.h"
#include "plan/network.h"
#include "plan/order.h"

// What leader and agents say to each other: docs/control-plane.md. Values; the wire is CBOR.
namespace lockstep::agent {

// Changes whenever the meaning of a message does.
inline constexpr int kProtocol = 3;

// ---- from an agent ----

// I am here, and this is what my node has.
struct Join {
  int protocol = kProtocol;
  std::string name;         // of the machine
  std::string machine;      // os::machine_identity
  std::optional<int> node;  // which node of the plan I was started as
  int order = 0;            // where that is absent: who comes first among equals
  int workers = 0;          // counted here by the rule; 0: as the plan says
  int cores = 1;
  int gpus = 0;
  std::vector<cluster::Address> addresses;
  int probe_port = 0;
  std::string fault;  // not empty: my node cannot run the program, and this is why
  int fault_code = 0;

  bool operator==(const Join&) const = default;
};

// Who of those that I was to try answers.
struct Probed {
  int round = 0;
  std::vector<plan::Trial> trials;

  bool operator==(const Probed&) const = default;
};

// These ports are mine.
struct Prepared {
  int attempt = 0;
  std::vector<int> ports;

  bool operator==(const Prepared&) const = default;
};

struct Started {
  int attempt = 0;

  bool operator==(const Started&) const = default;
};

// The workers cannot be started.
struct Refused {
  int attempt = 0;
  int code = 0;
  std::string text;

  bool operator==(const Refused&) const = default;
};

// A worker, or (rank -1) the seed of all of them, has ended.
struct Exited {
  int attempt = 0;
  int rank = 0;
  os::ExitStatus status;
  int sent = 0;  // the strongest signal that the agent had sent it

  bool operator==(const Exited&) const = default;
};

// Nothing of the attempt runs here any more, and all that it said has been sent.
struct Stopped {
  int attempt = 0;
  int left_behind = 0;  // processes of workers that had to be killed

  bool operator==(const Stopped&) const = default;
};

// What is known of a death that the leader asked about: a Failure as JSON.
struct Explained {
  int rank = 0;
  std::string failure;

  bool operator==(const Explained&) const = default;
};

// Lines of a worker.
struct Said {
  int rank = 0;
  Stream stream = Stream::Out;
  bool is_status = false;
  std::string text;

  bool operator==(const Said&) const = default;
};

// A signal has come to this agent that asks the run to stop: scancel, a time limit.
struct Interrupted {
  int signal = 0;

  bool operator==(const Interrupted&) const = default;
};

// What was asked.
struct Answered {
  std::string text;

  bool operator==(const Answered&) const = default;
};

// Lines for a file of the run directory: samples of the node that is called `number`, or what was
// found in the output of that rank.
struct Recorded {
  enum class Kind { Samples, Metrics };

  Kind kind = Kind::Samples;
  int number = 0;
  std::string lines;

  bool operator==(const Recorded&) const = default;
};

// A log of this node's workers cannot be written. Said once in an attempt.
struct Unwritten {
  std::string sentence;  // which, and why

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

// Somebody to try to reach.
struct Target {
  int to = 0;
  int network = 0;
  std::string address;
  int port = 0;
  std::string source;  // this node's address in that network; empty: any

  bool operator==(const Target&) const = default;
};

// Try these, and answer those who try you.
struct Probe {
  int round = 0;  // an answer to an earlier one tells of other seats
  int self = 0;
  std::vector<Target> targets;
  int timeout_ms = 1000;

  bool operator==(const Probe&) const = default;
};

// Reserve ports for the workers of an attempt.
struct Prepare {
  int attempt = 0;
  int ports = 0;
  std::string wanted_host;  // with wanted_port: where rank 0 must be able to listen
  int wanted_port = 0;      // 0: no such wish

  bool operator==(const Prepare&) const = default;
};

struct Start {
  plan::NodeOrder order;

  bool operator==(const Start&) const = default;
};

// SIGTERM for every worker, SIGKILL after the grace.
struct Stop {
  double grace_seconds = 30;
  bool is_asked = false;  // by a signal from outside, and not because a worker failed

  bool operator==(const Stop&) const = default;
};

struct Kill {
  bool operator==(const Kill&) const = default;
};

// Passes a signal on to every worker.
struct Pass {
  int signal = 0;

  bool operator==(const Pass&) const = default;
};

// Tell what you know of this death.
struct Explain {
  int rank = 0;

  bool operator==(const Explain&) const = default;
};

// I have shown what you sent; you may send this much more.
struct Credit {
  int64_t bytes = 0;

  bool operator==(const Credit&) const = default;
};

// The run is over, or (with a text) goes on without you; leave with this code.
struct Release {
  int code = 0;
  std::string text;

  bool operator==(const Release&) const = default;
};

// A question about this node; who understands it is not the agent's business.
struct Ask {
  std::string text;

  bool operator==(const Ask&) const = default;
};

using Order = std::variant<Probe, Prepare, Start, Stop, Kill, Pass, Explain, Credit, Release, Ask>;

std::string encode(const Report& report);
std::string encode(const Order& order);

// Throw an Error (70) when the bytes are no message of this protocol.
Report decode_report(std::string_view bytes);
Order decode_order(std::string_view bytes);

}  // namespace lockstep::agent
