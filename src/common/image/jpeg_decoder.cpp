// SPDX-License-Identifier: Apache-2.0
//
// Order of calls for one image:
//
//   open()       header only: size, orientation, limits
//   start()      choose scale and region; skip rows above it
//   read_row()   once for each row of the region
//   finish()     check for the end marker; abort the rest
//
// libjpeg reports errors by a callback that must not return. The callback leaves with longjmp to
// guarded(), which throws Corrupt from a C++ frame.
#include "common/image/jpeg_decoder.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <fmt/format.h>
#include <jpeglib.h>
#include <string>
#include <string_view>
// Requires jpeglib.h before it.
#include <jerror.h>

#include "common/base/text.h"

namespace lockstep::image {
namespace {

// A bound against damaged headers. Pillow refuses images above 179 million pixels by default.
constexpr int64_t kMaxPixels = 1'000'000'000;
constexpr int64_t kMaxCoefficientBytes = int64_t{512} << 20;
constexpr int kPixelBytes = 4;
// Usual progressive images have ten scans. A file of 1.3 MB can have 10,000, each of which decodes
// the whole image again.
constexpr int kMaxScans = 100;

// Error handler of libjpeg. An exception must not pass through C frames, so errors use longjmp; see
// guarded().
struct Reports : jpeg_error_mgr {
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
  Damage damage = Damage::Tolerated;
  bool ends_early = false;
};

Reports& reports_of(j_common_ptr codec) {
  return *static_cast<Reports*>(codec->err);
}

[[noreturn]] void leave(j_common_ptr codec) {
  Reports& reports = reports_of(codec);
  codec->err->format_message(codec, reports.message.data());
  std::longjmp(reports.jump, 1);
}

// libjpeg calls it between rows of blocks.
void limit_scans(j_common_ptr codec) {
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMaxScans) {
    Reports& reports = reports_of(codec);
    fmt::format_to_n(reports.message.data(),
                     reports.message.size() - 1,
                     "it has more than {} scans{}",
                     kMaxScans,
                     '\0');
    std::longjmp(reports.jump, 1);
  }
}

// Handles warnings. At the end of the file, or at a marker before the data of all pixels, libjpeg
// warns and invents the remaining pixels; here this is an error. The warning occurs only when the
// bits are needed, so not for rows that are not read. Other warnings, such as extra bytes between
// markers, also occur in intact files and are ignored.
void heed(j_common_ptr codec, int level) {
  if (level >= 0) {
    return;
  }
  Reports& reports = reports_of(codec);
  switch (codec->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
      reports.ends_early = true;
      leave(codec);
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      if (reports.damage == Damage::Refused) {
        leave(codec);
      }
      break;
    default:
      break;
  }
}

bool starts_with(std::span<const std::byte> file, std::string_view magic, size_t at = 0) {
  return file.size() >= at + magic.size() &&
         std::equal(magic.begin(),
                    magic.end(),
                    file.begin() + static_cast<ptrdiff_t>(at),
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

void require_jpeg(std::span<const std::byte> file) {
  if (file.empty()) {
    throw Corrupt("is empty");
  }
  if (starts_with(file, "\xff\xd8\xff")) {
    return;
  }
  struct Kind {
    std::string_view magic;
    size_t at;
    const char* name;
  };
  constexpr std::array kKinds = {Kind{"GIF8", 0, "a GIF file"},
                                 Kind{"WEBP", 8, "a WebP file"},
                                 Kind{std::string_view("II*\0", 4), 0, "a TIFF file"},
                                 Kind{std::string_view("MM\0*", 4), 0, "a TIFF file"},
                                 Kind{"BM", 0, "a BMP file"},
                                 Kind{"<", 0, "a page of HTML or XML"}};
  if (starts_with(file, "\x89PNG")) {
    throw Corrupt(
        "is a PNG file, not a JPEG, like n02105855_2933.JPEG of ImageNet (--corrupt skip trains "
        "without it)");
  }
  for (const Kind& kind : kKinds) {
    if (starts_with(file, kind.magic, kind.at)) {
      throw Corrupt(fmt::format("is {}, not a JPEG", kind.name));
    }
  }
  throw Corrupt("is not a JPEG file");
}

// Converts CMYK to RGBX in place. Adobe programs store the inks inverted.
void to_rgb(uint8_t* row, int width, bool is_inverted) {
  const auto times = [](int a, int b) {
    return static_cast<uint8_t>((a * b + 127) / 255);
  };
  const int flip = is_inverted ? 0 : 255;
  for (int i = 0; i < width; ++i) {
    uint8_t* pixel = row + ptrdiff_t{i} * kPixelBytes;
    const int light = pixel[3] ^ flip;
    for (int c = 0; c < 3; ++c) {
      pixel[c] = times(pixel[c] ^ flip, light);
    }
  }
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct codec = {};
  Reports reports;
  jpeg_progress_mgr progress = {};
  std::span<const std::byte> file;

  // Runs calls of libjpeg and throws Corrupt on errors. `body` must not own objects with
  // destructors, because longjmp skips them. setjmp is set again for each call, because a jump into
  // a function that has returned is undefined.
  template <typename Body>
  void guarded(Body body) {
    if (setjmp(reports.jump) != 0) {
      refuse();
    }
    body();
  }

  [[noreturn]] void refuse() {
    const std::string reason = reports.ends_early
                                   ? "ends early"
                                   : fmt::format("cannot be decoded: {}", reports.message.data());
    jpeg_abort_decompress(&codec);
    throw Corrupt(reason);
  }

  [[noreturn]] void refuse(const std::string& reason) {
    jpeg_abort_decompress(&codec);
    throw Corrupt(reason);
  }

  void require_size();
  int orientation() const;
  Coding coding() const;
  bool is_cmyk() const {
    return codec.jpeg_color_space == JCS_CMYK || codec.jpeg_color_space == JCS_YCCK;
  }
  bool has_end() const;
};

// Called before any allocation: a header of a few bytes can claim any size.
void JpegDecoder::State::require_size() {
  const int64_t pixels = int64_t{codec.image_width} * codec.image_height;
  if (pixels > kMaxPixels) {
    refuse(fmt::format(
        "claims {} x {} pixels, more than 1,000,000,000", codec.image_width, codec.image_height));
  }
  if (jpeg_has_multiple_scans(&codec) == FALSE) {
    return;
  }
  // A progressive image needs all its coefficients in memory.
  int64_t bytes = 0;
  for (int i = 0; i < codec.num_components; ++i) {
    const jpeg_component_info& component = codec.comp_info[i];
    bytes += int64_t{component.width_in_blocks} * component.height_in_blocks *
             static_cast<int64_t>(sizeof(JBLOCK));
  }
  if (bytes > kMaxCoefficientBytes) {
    refuse(fmt::format("is progressive and needs {} of memory, more than {}",
                       format_bytes(static_cast<uint64_t>(bytes)),
                       format_bytes(kMaxCoefficientBytes)));
  }
}

int JpegDecoder::State::orientation() const {
  for (jpeg_saved_marker_ptr marker = codec.marker_list; marker != nullptr; marker = marker->next) {
    const int found = exif_orientation({marker->data, marker->data_length});
    if (found != 1) {
      return found;
    }
  }
  return 1;
}

Coding JpegDecoder::State::coding() const {
  // Declared with `jpeg_decompress_struct*`, but it only reads.
  auto* const reader = const_cast<jpeg_decompress_struct*>(&codec);
  if (jpeg_has_multiple_scans(reader) != FALSE || codec.arith_code != FALSE ||
      codec.data_precision != 8) {
    return Coding::Other;
  }
  const jpeg_component_info* parts = codec.comp_info;
  if (codec.num_components == 1 && codec.jpeg_color_space == JCS_GRAYSCALE) {
    return parts[0].h_samp_factor == 1 && parts[0].v_samp_factor == 1 ? Coding::Grey
                                                                      : Coding::Other;
  }
  const auto is_single = [&](int i) {
    return parts[i].h_samp_factor == 1 && parts[i].v_samp_factor == 1;
  };
  if (codec.num_components != 3 || codec.jpeg_color_space != JCS_YCbCr || !is_single(1) ||
      !is_single(2)) {
    return Coding::Other;
  }
  switch (parts[0].h_samp_factor * 10 + parts[0].v_samp_factor) {
    case 11:
      return Coding::Yuv444;
    case 21:
      return Coding::Yuv422;
    case 22:
      return Coding::Yuv420;
    default:
      return Coding::Other;
  }
}

// Whether an end marker follows the decoded data. Within the data, 0xff is always followed by 0.
// Searches from the back: some cameras append bytes after the end marker. Rows below the region are
// not decoded, so the decoder itself has often not reached the marker.
bool JpegDecoder::State::has_end() const {
  if (codec.unread_marker == JPEG_EOI) {
    return true;
  }
  const uint8_t* begin = codec.src->next_input_byte;
  for (const uint8_t* at = begin + codec.src->bytes_in_buffer; at - begin >= 2; --at) {
    if (at[-2] == 0xff && at[-1] == JPEG_EOI) {
      return true;
    }
  }
  return false;
}

JpegDecoder::JpegDecoder(Damage damage) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.codec.err = jpeg_std_error(&state.reports);
  state.reports.error_exit = leave;
  state.reports.emit_message = heed;
  state.reports.damage = damage;
  state.progress.progress_monitor = limit_scans;
  state.guarded([&state] {
    jpeg_create_decompress(&state.codec);
    state.codec.progress = &state.progress;
    jpeg_save_markers(&state.codec, JPEG_APP0 + 1, 0xffff);  // EXIF
  });
}

JpegDecoder::~JpegDecoder() {
  jpeg_destroy_decompress(&state_->codec);
}

JpegDecoder::Header JpegDecoder::open(std::span<const std::byte> file) {
  State& state = *state_;
  jpeg_abort_decompress(&state.codec);
  require_jpeg(file);
  state.reports.ends_early = false;
  state.file = file;
  state.guarded([&state] {
    jpeg_mem_src(
        &state.codec, reinterpret_cast<const unsigned char*>(state.file.data()), state.file.size());
    jpeg_read_header(&state.codec, TRUE);
  });
  state.require_size();
  return {.width = static_cast<int>(state.codec.image_width),
          .height = static_cast<int>(state.codec.image_height),
          .orientation = orientation_of(state.orientation()),
          .coding = state.coding()};
}

bool JpegDecoder::has_end() const {
  return state_->has_end();
}

Region JpegDecoder::start(int eighths, Region wanted) {
  State& state = *state_;
  Region given = wanted;
  state.guarded([&state, &given, eighths] {
    jpeg_decompress_struct& codec = state.codec;
    codec.scale_num = static_cast<unsigned>(eighths);
    codec.scale_denom = kWhole;
    codec.out_color_space = state.is_cmyk() ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(&codec);
    auto left = static_cast<JDIMENSION>(given.left);
    auto width = static_cast<JDIMENSION>(given.width);
    if (width < codec.output_width) {
      jpeg_crop_scanline(&codec, &left, &width);
    }
    given.left = static_cast<int>(left);
    given.width = static_cast<int>(width);
    if (given.top > 0) {
      jpeg_skip_scanlines(&codec, static_cast<JDIMENSION>(given.top));
    }
  });
  return given;
}

void JpegDecoder::read_row(uint8_t* row) {
  State& state = *state_;
  state.guarded([&state, row] {
    JSAMPROW rows = row;
    jpeg_read_scanlines(&state.codec, &rows, 1);
  });
  if (state.is_cmyk()) {
    to_rgb(row, static_cast<int>(state.codec.output_width), state.codec.saw_Adobe_marker != FALSE);
  }
}

// A progressive image is read completely by start(), which has reported a missing end already.
// jpeg_finish_decompress() would fail because not all rows were read, so the decoder is aborted.
void JpegDecoder::finish() {
  State& state = *state_;
  const bool is_whole = jpeg_has_multiple_scans(&state.codec) != FALSE || state.has_end();
  if (!is_whole) {
    state.refuse("ends early");
  }
  jpeg_abort_decompress(&state.codec);
}

}  // namespace lockstep::image
