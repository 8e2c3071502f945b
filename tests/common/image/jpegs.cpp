// SPDX-License-Identifier: Apache-2.0
#include "common/image/jpegs.h"

#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>

namespace lockstep::image {
namespace {

// EXIF with one entry, the orientation.
std::string exif(int orientation, bool is_big_endian) {
  const auto value = static_cast<char>(orientation);
  const std::string head("Exif\0\0", 6);
  if (is_big_endian) {
    return head + std::string("MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0", 19) + value +
           std::string("\0\0\0\0\0\0", 6);
  }
  return head + std::string("II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0", 18) + value +
         std::string("\0\0\0\0\0\0\0", 7);
}

void set_up(jpeg_compress_struct& codec, const Jpeg& jpeg) {
  codec.image_width = static_cast<JDIMENSION>(jpeg.width);
  codec.image_height = static_cast<JDIMENSION>(jpeg.height);
  codec.input_components = jpeg.channels;
  codec.in_color_space = jpeg.channels == 1   ? JCS_GRAYSCALE
                         : jpeg.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&codec);
  if (jpeg.channels == 4) {
    jpeg_set_colorspace(&codec, jpeg.is_ycck ? JCS_YCCK : JCS_CMYK);
    codec.write_Adobe_marker = jpeg.has_adobe ? TRUE : FALSE;
  }
  jpeg_set_quality(&codec, jpeg.quality, TRUE);
  if (jpeg.channels == 3) {
    codec.comp_info[0].h_samp_factor = jpeg.horizontal;
    codec.comp_info[0].v_samp_factor = jpeg.vertical;
  }
  if (jpeg.is_progressive) {
    jpeg_simple_progression(&codec);
  }
  codec.restart_in_rows = jpeg.restarts;
}

}  // namespace

File encode(const Jpeg& jpeg) {
  jpeg_compress_struct codec = {};
  jpeg_error_mgr reports = {};
  codec.err = jpeg_std_error(&reports);
  jpeg_create_compress(&codec);
  unsigned char* buffer = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&codec, &buffer, &bytes);
  set_up(codec, jpeg);
  jpeg_start_compress(&codec, TRUE);
  if (jpeg.orientation != 0) {
    const std::string marker = exif(jpeg.orientation, jpeg.is_big_endian);
    jpeg_write_marker(&codec,
                      JPEG_APP0 + 1,
                      reinterpret_cast<const JOCTET*>(marker.data()),
                      static_cast<unsigned>(marker.size()));
  }
  std::vector<uint8_t> row(static_cast<size_t>(jpeg.width * jpeg.channels));
  for (int y = 0; y < jpeg.height; ++y) {
    size_t at = 0;
    for (int x = 0; x < jpeg.width && (y == 0 || !jpeg.is_striped); ++x) {
      for (int c = 0; c < jpeg.channels; ++c) {
        row[at++] = static_cast<uint8_t>(jpeg.pixel(x, y, c));
      }
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&codec, &rows, 1);
  }
  jpeg_finish_compress(&codec);
  const auto* begin = reinterpret_cast<const std::byte*>(buffer);
  File file(begin, begin + bytes);
  jpeg_destroy_compress(&codec);
  std::free(buffer);
  return file;
}

File with_size(File file, int width, int height) {
  // Height and width, big endian, after the marker, the length and the precision.
  for (size_t i = 0; i + 8 < file.size(); ++i) {
    if (file[i] == std::byte{0xff} &&
        (file[i + 1] == std::byte{0xc0} || file[i + 1] == std::byte{0xc2})) {
      file[i + 5] = static_cast<std::byte>(height >> 8);
      file[i + 6] = static_cast<std::byte>(height & 255);
      file[i + 7] = static_cast<std::byte>(width >> 8);
      file[i + 8] = static_cast<std::byte>(width & 255);
      break;
    }
  }
  return file;
}

File without_last(const File& file, size_t bytes) {
  File cut(file.begin(), file.end() - 2 - static_cast<ptrdiff_t>(bytes));
  cut.insert(cut.end(), file.end() - 2, file.end());
  return cut;
}

File bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

Picture decode(const File& file) {
  jpeg_decompress_struct codec = {};
  jpeg_error_mgr reports = {};
  codec.err = jpeg_std_error(&reports);
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = JCS_RGB;
  jpeg_start_decompress(&codec);
  Picture picture{static_cast<int>(codec.output_width), static_cast<int>(codec.output_height), {}};
  picture.pixels.resize(size_t{codec.output_width} * codec.output_height * 3);
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW row = picture.pixels.data() + size_t{codec.output_scanline} * codec.output_width * 3;
    jpeg_read_scanlines(&codec, &row, 1);
  }
  jpeg_finish_decompress(&codec);
  jpeg_destroy_decompress(&codec);
  return picture;
}

}  // namespace lockstep::image
