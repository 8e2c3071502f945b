// SPDX-License-Identifier: Apache-2.0
#include "common/image/check.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/image/crc32.h"
#include "common/image/in_order.h"
#include "common/image/jpeg_decoder.h"
#include "lockstep/error.h"

namespace lockstep::image {
namespace {

constexpr size_t kPixelBytes = 4;

// The decoder and buffers of one thread. Damage::Refused: training tolerates damage within the
// data, because libjpeg continues; a check must report it.
class Examiner {
 public:
  // The defect of an image; empty if it is intact.
  std::string examine(const Store& store, int64_t index) {
    try {
      const std::span<const std::byte> file = store.read(index, buffer_);
      if (const std::optional<uint32_t> crc = store.crc(index); crc && *crc != crc32(file)) {
        return "is damaged: wrong CRC-32";
      }
      decode(file);
    } catch (const Corrupt& corrupt) {
      return corrupt.what();
    } catch (const Error& error) {
      return "cannot be read: " + error.sentence();
    }
    return {};
  }

 private:
  void decode(std::span<const std::byte> file) {
    const JpegDecoder::Header header = decoder_.open(file);
    row_.resize(static_cast<size_t>(header.width) * kPixelBytes);
    decoder_.start(JpegDecoder::kWhole, {.width = header.width, .height = header.height});
    for (int y = 0; y < header.height; ++y) {
      decoder_.read_row(row_.data());
    }
    decoder_.finish();
  }

  JpegDecoder decoder_{Damage::Refused};
  std::vector<std::byte> buffer_;
  std::vector<uint8_t> row_;
};

}  // namespace

// InOrder returns the results in the order of the store, whichever thread finishes first, so that
// reports are reproducible.
std::vector<Problem> check(const Store& store, int threads, const Progress& progress) {
  std::vector<std::unique_ptr<Examiner>> tools;
  tools.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    tools.push_back(std::make_unique<Examiner>());
  }
  InOrder<std::string> reasons(store.size(), threads, [&](int64_t index, int thread) {
    return tools[static_cast<size_t>(thread)]->examine(store, index);
  });
  std::vector<Problem> problems;
  for (int64_t i = 0; i < store.size(); ++i) {
    const std::string reason = reasons.next();
    if (!reason.empty()) {
      problems.push_back({.name = store.name(i), .reason = reason});
    }
    progress(i + 1, store.size());
  }
  return problems;
}

}  // namespace lockstep::image
