// SPDX-License-Identifier: Apache-2.0
#include "training/comm/call_signature.h"

#include <fmt/format.h>
#include <vector>

#include "training/comm/call_record.h"
#include "training/comm/stall_report.h"

namespace lockstep::comm {
namespace {

// Layout of the packed signature:
//
//   bit  0      4          12          14        24                    63
//        | kind | type     | reduction | root    | count               |
//        | 4    | 8        | 2         | 10      | 40 bits             |
//
// The fields do not overlap because SharedMemorySlots::kMaxWorkers limits `root` to 256 and a count
// of 2^40 elements exceeds every memory.
constexpr unsigned kTypeAt = 4;
constexpr unsigned kReductionAt = 12;
constexpr unsigned kRootAt = 14;
constexpr unsigned kCountAt = 24;

}  // namespace

uint64_t CallSignature::packed() const {
  return static_cast<uint64_t>(kind) | static_cast<uint64_t>(type) << kTypeAt |
         static_cast<uint64_t>(reduction) << kReductionAt | static_cast<uint64_t>(root) << kRootAt |
         static_cast<uint64_t>(count) << kCountAt;
}

CallSignature CallSignature::unpacked(uint64_t word) {
  return {.kind = static_cast<Kind>(word & 0xfU),
          .type = static_cast<torch::ScalarType>(word >> kTypeAt & 0xffU),
          .reduction = static_cast<Reduction>(word >> kReductionAt & 0x3U),
          .root = static_cast<int>(word >> kRootAt & 0x3ffU),
          .count = static_cast<int64_t>(word >> kCountAt)};
}

std::string CallSignature::text() const {
  const auto words = [this](const char* what, int from = -1) {
    return to_text({.what = what, .count = count, .type = type, .root = from});
  };
  switch (kind) {
    case Kind::None:
      break;
    case Kind::Barrier:
      return "barrier";
    case Kind::AllReduce:
      return words(name_of(reduction));
    case Kind::Broadcast:
      return words("broadcast", root);
    case Kind::AllGather:
      return words("all-gather");
    case Kind::ReduceScatter:
      return words("reduce-scatter");
    case Kind::Subset:
      return fmt::format("subset of {} workers", count);
    case Kind::End:
      return kEndOfProgram;
  }
  return "no call yet";
}

const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::Max:
      return "all-reduce (max)";
    case Reduction::Min:
      return "all-reduce (min)";
    case Reduction::Sum:
      break;
  }
  return "all-reduce";
}

CallSignature barrier_signature(const CallRecord& record) {
  const bool is_end = record.read().call == kEndOfProgram;
  return {.kind = is_end ? CallSignature::Kind::End : CallSignature::Kind::Barrier};
}

Error different_calls(std::span<const std::optional<CallSignature>> calls) {
  std::vector<Doing> all;
  all.reserve(calls.size());
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const std::string text = calls[rank] ? calls[rank]->text() : "not arrived yet";
    all.push_back({static_cast<int>(rank), text, text});
  }
  return to_error(different_calls(all));
}

}  // namespace lockstep::comm
