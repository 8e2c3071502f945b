// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/protocol/messages.h"

#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <random>

#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

// Not UTF-8: paths, variables and output may contain any bytes.
const std::string kBytes = "caf\xe9 \xff\xfe \x80 \n end";

// One message of each kind, with a value in every field.
std::vector<Report> reports() {
  Join join{.protocol = kProtocol,
            .name = "n1",
            .machine = "boot-1",
            .node = 3,
            .sort_key = 4,
            .workers = 5,
            .cores = 6,
            .gpus = 7,
            .addresses = {{.interface = "ib0",
                           .text = "fd00::1",
                           .prefix = 64,
                           .is_v6 = true,
                           .is_loopback = true,
                           .speed_mbps = 200'000,
                           .is_rdma = true}},
            .probe_port = 8,
            .fault = kBytes,
            .fault_code = 69};
  Join unnamed = join;
  unnamed.node.reset();
  return {join,
          unnamed,
          Probed{.round = 2, .trials = {{0, 1, 2, "no answer", 1000}}},
          Prepared{.attempt = 1, .ports = {20000, 65535}},
          Started{.attempt = 2},
          Refused{.attempt = 3, .code = 64, .text = kBytes},
          Exited{.attempt = 4,
                 .process = ProcessId::fork_server(2),
                 .status = {.code = 0, .signal = SIGSEGV},
                 .sent = 15},
          Stopped{.attempt = 5, .left_behind = 6},
          Explained{.process = ProcessId::worker(7), .failure = "{}"},
          Said{.rank = 100'000, .stream = Stream::Err, .is_status = false, .text = kBytes},
          Said{.rank = -1, .stream = Stream::Out, .is_status = true, .text = ""},
          Interrupted{.signal = SIGTERM},
          Answered{.text = kBytes},
          Recorded{.kind = Recorded::Kind::Metrics, .number = 7, .lines = kBytes},
          Unwritten{.sentence = kBytes}};
}

plan::NodeSpec whole_spec() {
  plan::NodeSpec spec;
  spec.command = {"python3", kBytes, ""};
  spec.program_word = 1;
  spec.local_rank_flag = "--local-rank";
  spec.first.run_id = "run";
  spec.first.run_directory = "/runs/" + kBytes;
  spec.first.node = "n1";
  spec.first.attempt = 9;
  spec.first.rank = 2;
  spec.first.world_size = 4;
  spec.first.master_addr = "fd00::1";
  spec.first.horovod_addr = "10.0.0.1";
  spec.first.horovod_port = 30000;
  spec.workers = 2;
  spec.cross_ranks = {1, 0};
  spec.cross_sizes = {2, 1};
  spec.variables = {{"LATIN", kBytes}, {"EMPTY", ""}};
  spec.bind = plan::Bind::Gpu;
  spec.gpus = {1, 3};
  spec.output.log_dir = kBytes;
  spec.output.redirects = {.fallback = 1, .by_local = {{0, 2}, {1, 3}}};
  spec.output.local_ranks_filter = {0, 5};
  spec.metrics = {{.name = "loss", .pattern = kBytes}};
  spec.sample_every_seconds = 0.5;
  spec.cores = 16;
  spec.tensorflow_cluster = {"n1:1", "[fd00::1]:2"};
  return spec;
}

std::vector<Command> commands() {
  return {
      Probe{.round = 3,
            .self = 1,
            .targets =
                {{.to = 2, .network = 3, .address = "10.0.0.1", .port = 4, .source = "10.0.0.2"}},
            .timeout_ms = 5},
      Prepare{.attempt = 1, .ports = 2, .wanted_host = "n1", .wanted_port = 29500},
      Start{whole_spec()},
      Stop{.grace_seconds = 0.25, .is_asked = true},
      Kill{},
      Pass{.signal = SIGUSR1},
      Explain{.process = ProcessId::fork_server(2)},
      Credit{.bytes = int64_t{1} << 40},
      Release{.code = 75, .text = kBytes},
      Ask{.text = kBytes}};
}

TEST(Messages, ComeBackAsTheyWere) {
  for (const Report& report : reports()) {
    EXPECT_TRUE(decode_report(encode(report)) == report) << "report " << report.index();
  }
  for (const Command& command : commands()) {
    EXPECT_TRUE(decode_command(encode(command)) == command) << "command " << command.index();
  }
}

TEST(Messages, CoverEveryKind) {
  std::set<size_t> kinds;
  for (const Report& report : reports()) {
    kinds.insert(report.index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Report>);
  EXPECT_EQ(commands().size(), std::variant_size_v<Command>);
}

TEST(Messages, OfAnotherProtocolAreReadAsFarAsItsNumber) {
  Join join;
  join.protocol = kProtocol + 1;

  EXPECT_EQ(std::get<Join>(decode_report(encode(Report(join)))).protocol, kProtocol + 1);
}

// Decodes the bytes or throws an Error: no other exception and no crash.
template <typename Decode>
void expect_no_harm(Decode decode, const std::string& bytes) {
  try {
    decode(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Bug);
  }
}

TEST(Messages, ThatAreCutAreErrors) {
  for (const Report& report : reports()) {
    const std::string whole = encode(report);
    const bool is_said = std::holds_alternative<Said>(report);
    for (size_t size = 0; size < (is_said ? size_t{7} : whole.size()); ++size) {
      EXPECT_THROW(decode_report(whole.substr(0, size)), Error) << report.index() << " " << size;
    }
  }
  for (const Command& command : commands()) {
    const std::string whole = encode(command);
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(decode_command(whole.substr(0, size)), Error) << command.index() << " " << size;
    }
  }
}

TEST(Messages, ThatAreNoneAreErrors) {
  for (const char* text : {"", "hello", "A", "A\xa0", "Z\xa0", "J\xf6", "GET / HTTP/1.1\r\n\r\n"}) {
    EXPECT_THROW(decode_report(text), Error) << text;
    EXPECT_THROW(decode_command(text), Error) << text;
  }
  EXPECT_THROW(decode_command(encode(Command(Kill{})) + "x"), Error);
}

TEST(Messages, OfRandomBytesDoNoHarm) {
  std::mt19937 random(4711);  // reproducible
  for (int turn = 0; turn < 10'000; ++turn) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random());
    }
    if (!bytes.empty()) {
      bytes[0] = static_cast<char>('A' + random() % 20);
    }
    expect_no_harm(decode_report, bytes);
    expect_no_harm(decode_command, bytes);
  }
}

TEST(Messages, WithChangedBytesDoNoHarm) {
  std::mt19937 random(4712);
  std::vector<std::string> whole;
  for (const Report& report : reports()) {
    whole.push_back(encode(report));
  }
  const size_t count_of_reports = whole.size();
  for (const Command& command : commands()) {
    whole.push_back(encode(command));
  }
  for (int turn = 0; turn < 10'000; ++turn) {
    const size_t which = random() % whole.size();
    std::string bytes = whole[which];
    for (unsigned change = 0; change <= random() % 3; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (which < count_of_reports) {
      expect_no_harm(decode_report, bytes);
    } else {
      expect_no_harm(decode_command, bytes);
    }
  }
}

TEST(Messages, NestedWithoutEndDoNotExhaustTheStack) {
  for (const std::string& level :
       {std::string("\x81"), std::string("\xa1\x60"), std::string("\x9f")}) {
    std::string bytes = "A";
    for (int i = 0; i < 200'000; ++i) {
      bytes += level;
    }
    EXPECT_THROW(decode_report(bytes), Error);
  }
}

TEST(Messages, ThatClaimToBeHugeAreErrors) {
  // A text, an array and a map of 2^62 entries, of which none follow.
  for (const char head : {'\x7b', '\x9b', '\xbb'}) {
    EXPECT_THROW(decode_report(std::string("A") + head + "\x40\x00\x00\x00\x00\x00\x00\x01"),
                 Error);
  }
}

}  // namespace
}  // namespace lockstep::supervisor
