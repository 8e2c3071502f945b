// SPDX-License-Identifier: Apache-2.0
#include "common/image/jpeg_encoder.h"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <jpeglib.h>
#include <vector>
// Requires jpeglib.h before it.
#include <jerror.h>

#include "lockstep/error.h"

namespace lockstep::image {
namespace {

struct Reports : jpeg_error_mgr {
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

// Leaves the C frames of libjpeg with longjmp; see encode().
[[noreturn]] void leave(j_common_ptr codec) {
  auto& reports = *static_cast<Reports*>(codec->err);
  codec->err->format_message(codec, reports.message.data());
  std::longjmp(reports.jump, 1);
}

void ignore(j_common_ptr /*codec*/, int /*level*/) {}

// Output buffer. The memory destination of libjpeg is not used, because after an error it does not
// know which of its buffers it has freed.
struct Output : jpeg_destination_mgr {
  std::vector<std::byte> bytes = std::vector<std::byte>(size_t{1} << 14);  // only grows

  void point_from(size_t written) {
    next_output_byte = reinterpret_cast<JOCTET*>(bytes.data()) + written;
    free_in_buffer = bytes.size() - written;
  }
  size_t written() const { return bytes.size() - free_in_buffer; }
};

Output& output_of(j_compress_ptr codec) {
  return *static_cast<Output*>(codec->dest);
}

void begin(j_compress_ptr codec) {
  output_of(codec).point_from(0);
}

// libjpeg requires that the entire buffer is taken, regardless of free_in_buffer. Exceptions must
// not pass through C frames.
boolean grow(j_compress_ptr codec) {
  Output& output = output_of(codec);
  const size_t written = output.bytes.size();
  bool has_grown = true;
  try {
    output.bytes.resize(written * 2);
  } catch (const std::exception&) {
    has_grown = false;
  }
  if (!has_grown) {
    ERREXIT1(codec, JERR_OUT_OF_MEMORY, 10);
  }
  output.point_from(written);
  return TRUE;
}

void end(j_compress_ptr /*codec*/) {}

}  // namespace

struct JpegEncoder::State {
  jpeg_compress_struct codec = {};
  Reports reports;
  Output output{};

  ~State() { jpeg_destroy_compress(&codec); }

  void compress(const uint8_t* pixels, Size size, int quality);
};

// Must not own objects with destructors, because longjmp skips them.
void JpegEncoder::State::compress(const uint8_t* pixels, Size size, int quality) {
  codec.image_width = static_cast<JDIMENSION>(size.width);
  codec.image_height = static_cast<JDIMENSION>(size.height);
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, TRUE);
  codec.optimize_coding = TRUE;
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < codec.image_height) {
    // libjpeg does not write to the row, but its type is not const.
    auto* row = const_cast<uint8_t*>(pixels) + size_t{codec.next_scanline} * codec.image_width * 3;
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
}

JpegEncoder::JpegEncoder() : state_(std::make_unique<State>()) {
  state_->codec.err = jpeg_std_error(&state_->reports);
  state_->reports.error_exit = leave;
  state_->reports.emit_message = ignore;
  if (setjmp(state_->reports.jump) != 0) {
    throw Error(ExitCode::Io, "cannot encode an image")
        .fact("reason", state_->reports.message.data(), "libjpeg");
  }
  jpeg_create_compress(&state_->codec);
  Output& output = state_->output;
  output.init_destination = begin;
  output.empty_output_buffer = grow;
  output.term_destination = end;
  state_->codec.dest = &output;
}

JpegEncoder::~JpegEncoder() = default;

std::span<const std::byte> JpegEncoder::encode(const uint8_t* pixels, Size size, int quality) {
  State& state = *state_;
  if (setjmp(state.reports.jump) != 0) {
    jpeg_abort_compress(&state.codec);
    throw Error(ExitCode::Io,
                fmt::format("cannot encode an image of {} x {} pixels", size.width, size.height))
        .fact("reason", state.reports.message.data(), "libjpeg");
  }
  state.compress(pixels, size, quality);
  return {state.output.bytes.data(), state.output.written()};
}

}  // namespace lockstep::image
