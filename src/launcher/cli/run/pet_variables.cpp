// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/run/pet_variables.h"

#include <array>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "common/base/text.h"
#include "lockstep/error.h"

// torchrun accepts every option as PET_ plus its name in capitals
// (torch.distributed.argparse_util). An option on the command line wins. For flags, torchrun
// converts the text with int(), so PET_MODULE=0 is off and PET_MODULE=true is an error.
namespace lockstep::cli {
namespace {

using plan::Option;
using plan::Request;

constexpr std::array<std::pair<std::string_view, Option Request::*>, 18> kValues = {
    std::pair("PET_NNODES", &Request::nnodes),
    std::pair("PET_NPROC_PER_NODE", &Request::nproc_per_node),
    std::pair("PET_RDZV_BACKEND", &Request::rdzv_backend),
    std::pair("PET_RDZV_ENDPOINT", &Request::rdzv_endpoint),
    std::pair("PET_RDZV_ID", &Request::rdzv_id),
    std::pair("PET_RDZV_CONF", &Request::rdzv_conf),
    std::pair("PET_MAX_RESTARTS", &Request::max_restarts),
    std::pair("PET_MONITOR_INTERVAL", &Request::monitor_interval),
    std::pair("PET_START_METHOD", &Request::start_method),
    std::pair("PET_ROLE", &Request::role),
    std::pair("PET_LOG_DIR", &Request::log_dir),
    std::pair("PET_REDIRECTS", &Request::redirects),
    std::pair("PET_TEE", &Request::tee),
    std::pair("PET_LOCAL_RANKS_FILTER", &Request::local_ranks_filter),
    std::pair("PET_NODE_RANK", &Request::node_rank),
    std::pair("PET_MASTER_ADDR", &Request::master_addr),
    std::pair("PET_MASTER_PORT", &Request::master_port),
    std::pair("PET_LOCAL_ADDR", &Request::local_addr),
};

constexpr std::array<std::pair<std::string_view, bool Request::*>, 4> kSwitches = {
    std::pair("PET_STANDALONE", &Request::is_standalone),
    std::pair("PET_MODULE", &Request::is_module),
    std::pair("PET_NO_PYTHON", &Request::is_no_python),
    std::pair("PET_RUN_PATH", &Request::is_run_path),
};

}  // namespace

void read_pet_variables(Request& request, const os::Environment& environment) {
  for (const auto& [name, field] : kValues) {
    const auto text = os::find_variable(environment, name);
    if (text && !text->empty() && !(request.*field)) {
      request.*field = plan::OptionValue{.text = *text, .source = std::string(name), .flag = ""};
    }
  }
  for (const auto& [name, flag] : kSwitches) {
    const auto text = os::find_variable(environment, name);
    if (!text || text->empty()) {
      continue;
    }
    const auto number = find_integer(*text);
    if (!number) {
      throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for {}", *text, name))
          .fact("expected", "0 or 1")
          .fact("found", fmt::format("'{}'", *text), name)
          .hint(fmt::format("unset {}", name));
    }
    request.*flag = request.*flag || *number != 0;
  }
}

}  // namespace lockstep::cli
