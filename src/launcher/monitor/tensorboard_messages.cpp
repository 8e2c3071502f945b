// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/tensorboard_messages.h"

#include <tensorboard.pb.h>

namespace lockstep::monitor {
namespace {

tensorboard::Event event_at(const Moment& when) {
  tensorboard::Event event;
  event.set_wall_time(when.time);
  event.set_step(when.step);
  return event;
}

}  // namespace

bool has_tensorboard() {
  return true;
}

// TensorBoard rejects a file whose first message does not have this version.
std::string version_message(double time) {
  tensorboard::Event event = event_at({.time = time});
  event.set_file_version("brain.Event:2");
  return event.SerializeAsString();
}

std::string scalar_message(std::string_view tag, const Moment& when, double value) {
  tensorboard::Event event = event_at(when);
  tensorboard::Summary::Value* scalar = event.mutable_summary()->add_value();
  scalar->set_tag(std::string(tag));
  scalar->set_simple_value(static_cast<float>(value));
  return event.SerializeAsString();
}

// The text plugin expects a rank-1 tensor of strings and the plugin name in the metadata.
std::string text_message(std::string_view tag, const Moment& when, std::string_view text) {
  tensorboard::Event event = event_at(when);
  tensorboard::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(std::string(tag));
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  tensorboard::Tensor* tensor = value->mutable_tensor();
  tensor->set_dtype(tensorboard::Tensor::STRING);
  tensor->mutable_tensor_shape()->add_dim()->set_size(1);
  tensor->add_string_val(std::string(text));
  return event.SerializeAsString();
}

std::string restart_message(const Moment& when) {
  tensorboard::Event event = event_at(when);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  return event.SerializeAsString();
}

}  // namespace lockstep::monitor
