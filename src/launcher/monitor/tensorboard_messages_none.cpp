// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/tensorboard_messages.h"
#include "lockstep/error.h"

// Stubs for a build without protobuf.
namespace lockstep::monitor {
namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::Unavailable, "cannot write TensorBoard files: built without protobuf")
      .hint("install libprotobuf-dev and protobuf-compiler, and rebuild lockstep");
}

}  // namespace

bool has_tensorboard() {
  return false;
}

std::string version_message(double /*time*/) {
  refuse();
}

std::string scalar_message(std::string_view /*tag*/, const Moment& /*when*/, double /*value*/) {
  refuse();
}

std::string text_message(std::string_view /*tag*/,
                         const Moment& /*when*/,
                         std::string_view /*text*/) {
  refuse();
}

std::string restart_message(const Moment& /*when*/) {
  refuse();
}

}  // namespace lockstep::monitor
