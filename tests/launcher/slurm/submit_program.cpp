// SPDX-License-Identifier: Apache-2.0
// slurm_submit SCRIPT [partition=P] [nodes=N] [gpus=G] [time=T] [-- OPTIONS OF SBATCH]
//
// Minimal submission for tests in the lab: reads the cluster facts, checks the demand, lets Slurm
// test the job, submits it and prints its id.
#include <cstdio>
#include <fmt/format.h>
#include <map>

#include "common/base/text.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "launcher/slurm/check_demand.h"
#include "launcher/slurm/client.h"
#include "launcher/slurm/time_limit.h"
#include "lockstep/error.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace): a separate program

int number(const std::string& text) {
  return static_cast<int>(find_integer(text).value());
}

std::string submit(const std::vector<std::string>& words) {
  slurm::Submission submission{.script = os::read_file(words.at(0))};
  slurm::Demand demand;
  const auto asked = [](auto value) {
    return slurm::Requested<decltype(value)>{.value = value, .source = "command line"};
  };
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--") {
      submission.arguments.insert(
          submission.arguments.end(), words.begin() + static_cast<long>(i) + 1, words.end());
      break;
    }
    const size_t sign = words[i].find('=');
    const std::string name = words[i].substr(0, sign);
    const std::string value = words[i].substr(sign + 1);
    if (name == "partition") {
      demand.partition = asked(value);
      submission.arguments.push_back("--partition=" + value);
    } else if (name == "nodes") {
      demand.nodes = asked(number(value));
      submission.arguments.push_back("--nodes=" + value);
    } else if (name == "gpus") {
      demand.gpus_per_node = asked(number(value));
      submission.arguments.push_back("--gpus-per-node=" + value);
    } else {
      demand.minutes = asked(slurm::parse_minutes(value, "command line"));
      submission.arguments.push_back("--time=" + value);
    }
  }
  const slurm::Client client(os::environment());
  client.need_installed();
  slurm::check(demand, client.facts());
  client.test(submission);
  return client.submit(submission);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    fmt::print("{}\n", submit({argv + 1, argv + argc}));
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
