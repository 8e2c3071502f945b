// SPDX-License-Identifier: Apache-2.0
#include "training/data/idx.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <string>
#include <string_view>
#include <vector>
#include <zlib.h>

#include "common/os/files.h"
#include "training/data/message_of.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24),
          static_cast<char>(value >> 16),
          static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string images(uint32_t count, uint32_t rows = 28, uint32_t columns = 28) {
  return std::string("\0\0\x08\x03", 4) + big_endian(count) + big_endian(rows) +
         big_endian(columns) + std::string(size_t{count} * rows * columns, '\x11');
}

std::string labels(std::string_view values) {
  return std::string("\0\0\x08\x01", 4) + big_endian(static_cast<uint32_t>(values.size())) +
         std::string(values);
}

std::string gzip(std::string_view plain) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// Writes files, reads them, and removes the directory from messages.
class Idx : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, std::string_view content) {
    os::write_file(directory_.path() / name, content);
    return directory_.path() / name;
  }

  std::string refusal(const std::function<void()>& body) {
    std::string message = message_of(body);
    const std::string prefix = directory_.path().string() + "/";
    for (auto at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
      message.erase(at, prefix.size());
    }
    return message;
  }

  std::string image_refusal(std::string_view content) {
    return refusal([&] { read_idx_images(write("images", content)); });
  }

  std::string label_refusal(std::string_view content) {
    return refusal([&] { read_idx_labels(write("labels", content)); });
  }

 private:
  os::TemporaryDirectory directory_;
};

TEST_F(Idx, GivesTheValuesAfterTheHeader) {
  const Bytes pixels = read_idx_images(write("images", images(3)));
  const Bytes classes = read_idx_labels(write("labels", labels(std::string("\5\0\11", 3))));

  EXPECT_EQ(pixels.span.size(), 3U * 784);
  EXPECT_EQ(pixels.span.front(), 0x11);
  EXPECT_THAT(std::vector(classes.span.begin(), classes.span.end()), ElementsAre(5, 0, 9));
}

TEST_F(Idx, ReadsGzipByItsContentWhateverItsName) {
  const std::string plain = images(100);
  for (const char* name : {"images.gz", "images"}) {
    EXPECT_EQ(read_idx_images(write(name, gzip(plain))).span.size(), 100U * 784);
  }
  const std::string two_members = gzip(plain.substr(0, 5000)) + gzip(plain.substr(5000));
  EXPECT_EQ(read_idx_images(write("images.gz", two_members)).span.size(), 100U * 784);
}

TEST_F(Idx, NamesTheByteAtWhichAnImageFileIsWrong) {
  EXPECT_EQ(image_refusal("\x89PNG\r\n"),
            "74 cannot read images: it is not an IDX file\n"
            "  byte:     0\n"
            "  found:    89 50 4e 47\n"
            "  expected: 00 00 08 03\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(std::string("\0\0\x0d\x03", 4) + images(1).substr(4)),
            "74 cannot read images: its values are not unsigned bytes\n"
            "  byte:     2\n"
            "  found:    type 0d\n"
            "  expected: type 08\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(labels("\1\2\3")),
            "74 cannot read images: it does not contain images\n"
            "  byte:     3\n"
            "  found:    dimensions: 1\n"
            "  expected: dimensions: 3\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(images(2, 28, 32)),
            "74 cannot read images: its images are not 28 x 28\n"
            "  byte:     12\n"
            "  found:    32 pixels\n"
            "  expected: 28 pixels\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(images(2, 30, 28)),
            "74 cannot read images: its images are not 28 x 28\n"
            "  byte:     8\n"
            "  found:    30 pixels\n"
            "  expected: 28 pixels\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(images(0)),
            "74 cannot read images: it contains no images\n"
            "  byte:     4\n"
            "  found:    0\n"
            "  expected: at least 1\n"
            "  try:      lockstep data fetch mnist");
}

TEST_F(Idx, NamesTheByteAtWhichAFileEndsTooEarlyOrTooLate) {
  EXPECT_EQ(image_refusal(images(2).substr(0, 1000)),
            "74 cannot read images: it ends too early\n"
            "  byte:     1000\n"
            "  found:    the end of the file\n"
            "  expected: byte 1584, the end of 2 images of 28 x 28\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(images(2) + "more"),
            "74 cannot read images: there is data after its last image\n"
            "  byte:     1584\n"
            "  found:    4 more bytes\n"
            "  expected: the end of 2 images of 28 x 28\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(""),
            "74 cannot read images: it ends inside its header\n"
            "  byte:     0\n"
            "  found:    the end of the file\n"
            "  expected: a header of 16 bytes\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(images(2).substr(0, 9)),
            "74 cannot read images: it ends inside its header\n"
            "  byte:     9\n"
            "  found:    the end of the file\n"
            "  expected: a header of 16 bytes\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(image_refusal(images(1).replace(4, 4, "\xff\xff\xff\xff")),
            "74 cannot read images: it ends too early\n"
            "  byte:     800\n"
            "  found:    the end of the file\n"
            "  expected: byte 3367254359296, the end of 4294967295 images of 28 x 28\n"
            "  try:      lockstep data fetch mnist");
}

TEST_F(Idx, NamesTheByteAtWhichALabelFileIsWrong) {
  EXPECT_EQ(label_refusal(labels("\1\2\12\3")),
            "74 cannot read labels: it contains a label above 9\n"
            "  byte:     10\n"
            "  found:    label 10\n"
            "  expected: 0 to 9\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(label_refusal(labels("\1\2\3").substr(0, 10)),
            "74 cannot read labels: it ends too early\n"
            "  byte:     10\n"
            "  found:    the end of the file\n"
            "  expected: byte 11, the end of 3 labels\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(label_refusal(labels("\1\2\3") + '\4'),
            "74 cannot read labels: there is data after its last label\n"
            "  byte:     11\n"
            "  found:    1 more bytes\n"
            "  expected: the end of 3 labels\n"
            "  try:      lockstep data fetch mnist");
  EXPECT_EQ(label_refusal(gzip(labels("\1\2\12\3"))),
            "74 cannot read labels: it contains a label above 9\n"
            "  byte:     10  (of the unpacked content)\n"
            "  found:    label 10\n"
            "  expected: 0 to 9\n"
            "  try:      lockstep data fetch mnist");
}

TEST_F(Idx, NamesTheByteAtWhichAGzipFileIsDamaged) {
  const std::string good = gzip(labels("\1\2\3"));
  std::string bad_check = good;
  bad_check[good.size() - 8] ^= 1;
  std::string bad_block = good;
  bad_block[10] = '\7';

  EXPECT_EQ(label_refusal(bad_check),
            "74 cannot unpack labels: incorrect data check\n"
            "  byte: " +
                std::to_string(good.size() - 4) +
                "  (in the compressed file)\n"
                "  try:  lockstep data fetch mnist");
  EXPECT_EQ(label_refusal(bad_block),
            "74 cannot unpack labels: invalid block type\n"
            "  byte: 11  (in the compressed file)\n"
            "  try:  lockstep data fetch mnist");
  EXPECT_EQ(label_refusal(good.substr(0, good.size() - 3)),
            "74 cannot unpack labels: it ends too early\n"
            "  byte: " +
                std::to_string(good.size() - 3) +
                "  (in the compressed file)\n"
                "  try:  lockstep data fetch mnist");
  EXPECT_EQ(label_refusal(good + "xyz"),
            "74 cannot unpack labels: there is other data after the compressed data\n"
            "  byte: " +
                std::to_string(good.size()) +
                "  (in the compressed file)\n"
                "  try:  lockstep data fetch mnist");
}

TEST_F(Idx, RefusesAGzipFileCutAtAnyByte) {
  const std::string good = gzip(images(2));
  for (size_t size = 2; size < good.size(); ++size) {
    EXPECT_EQ(image_refusal(good.substr(0, size)),
              fmt::format("74 cannot unpack images: it ends too early\n"
                          "  byte: {}  (in the compressed file)\n"
                          "  try:  lockstep data fetch mnist",
                          size));
  }
}

TEST_F(Idx, RefusesImagesAndLabelsOfDifferentNumber) {
  const auto three_images = write("images", images(3));
  const auto two_labels = write("labels", labels("\1\2"));

  EXPECT_EQ(refusal([&] { read_idx_pair(three_images, two_labels); }),
            "74 the numbers of images and labels differ\n"
            "  images: 3  (images)\n"
            "  labels: 2  (labels)\n"
            "  try:    lockstep data fetch mnist");
}

TEST_F(Idx, SaysWhyAFileCannotBeOpened) {
  const auto directory = write("images", "").parent_path();

  EXPECT_EQ(refusal([&] { read_idx_images(directory / "nothing"); }),
            "74 cannot read nothing\n"
            "  reason: No such file or directory  (system)");
  EXPECT_EQ(refusal([&] { read_idx_images(directory / "."); }),
            "74 cannot read .\n"
            "  reason: Is a directory  (system)");
}

}  // namespace
}  // namespace lockstep::data
