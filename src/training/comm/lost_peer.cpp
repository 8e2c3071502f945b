// SPDX-License-Identifier: Apache-2.0
#include "training/comm/lost_peer.h"

#include <array>
#include <fmt/format.h>
#include <string>

#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

// Parts of messages of Gloo's TCP transport and of libtorch's sockets and TCPStore. Neither library
// has an exception type for a lost peer in all versions from 1.13 on. A message that is missing
// here counts as a failure of this worker (Ending::OwnFailure) and can take the report from the
// worker that failed first.
constexpr std::array<std::string_view, 8> kSigns = {"Connection reset by peer",
                                                    "Connection closed by peer",
                                                    "Connection refused",
                                                    "Broken pipe",
                                                    "Timed out waiting",
                                                    "timed out",
                                                    "Socket closed",
                                                    "Gloo connectFullMesh failed"};

}  // namespace

void throw_if_lost_peer(std::string_view call, const std::exception& fault) {
  if (dynamic_cast<const Error*>(&fault) != nullptr) {
    return;
  }
  const std::string text = fault.what();
  for (const std::string_view sign : kSigns) {
    if (text.find(sign) != std::string::npos) {
      throw Error(ExitCode::TryAgain, fmt::format("cannot finish {}: lost another worker", call))
          .fact("reason", text.substr(0, text.find('\n')), "libtorch");
    }
  }
}

}  // namespace lockstep::comm
