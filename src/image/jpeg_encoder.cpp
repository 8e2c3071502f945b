// SPDX-License-Identifier: Apache-2.0
#include "image/jpeg_encoder.h"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <jpeglib.h>

#include "lockstep/error.h"

namespace lockstep::image {
namespace {

struct Reports : jpeg_error_mgr {
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

// Out of libjpeg's C frames by longjmp; see encode().
[[noreturn]] void leave(j_common_ptr codec) {
  auto& reports = *static_cast<Reports*>(codec->err);
  codec->err->format_message(codec, reports.message.data());
  std::longjmp(reports.jump, 1);
}

void ignore(j_common_ptr /*codec*/, int /*level*/) {}

}  // namespace

struct JpegEncoder::State {
  jpeg_compress_struct codec = {};
  Reports reports;
  unsigned char* buffer = nullptr;  // libjpeg's, from malloc
  unsigned long bytes = 0;

  ~State() {
    jpeg_destroy_compress(&codec);
    std::free(buffer);
  }

  void compress(const uint8_t* pixels, Size size, int quality);
};

// Holds nothing that needs a destructor, as an error jumps out of it.
void JpegEncoder::State::compress(const uint8_t* pixels, Size size, int quality) {
  jpeg_mem_dest(&codec, &buffer, &bytes);
  codec.image_width = static_cast<JDIMENSION>(size.width);
  codec.image_height = static_cast<JDIMENSION>(size.height);
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, TRUE);
  codec.optimize_coding = TRUE;
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < codec.image_height) {
    // libjpeg does not write to it, but has no word for that.
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
}

JpegEncoder::~JpegEncoder() = default;

std::span<const std::byte> JpegEncoder::encode(const uint8_t* pixels, Size size, int quality) {
  State& state = *state_;
  // What was made last is the caller's no more; libjpeg makes its buffer anew.
  std::free(state.buffer);
  state.buffer = nullptr;
  state.bytes = 0;
  if (setjmp(state.reports.jump) != 0) {
    jpeg_abort_compress(&state.codec);
    throw Error(ExitCode::Io,
                fmt::format("cannot encode an image of {} x {} pixels", size.width, size.height))
        .fact("reason", state.reports.message.data(), "libjpeg");
  }
  state.compress(pixels, size, quality);
  return {reinterpret_cast<const std::byte*>(state.buffer), state.bytes};
}

}  // namespace lockstep::image
