// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include "common/os/files.h"
#include "training/checkpoint/piece_sources.h"
#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  // A file of another program, without padding.
  std::filesystem::path file(const std::string& header, size_t data_bytes) {
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) {
      bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xffU);
    }
    bytes += header;
    for (size_t i = 0; i < data_bytes; ++i) {
      bytes.push_back(static_cast<char>(i));
    }
    const std::filesystem::path path = directory_.path() / "x.safetensors";
    write(path, bytes);
    return path;
  }

  std::string refused(const std::string& header, size_t data_bytes) {
    const std::filesystem::path path = file(header, data_bytes);
    std::string message = error_of([&] { read_safetensors_header(os::InputFile(path)); });
    const std::string start = "74 cannot read " + path.string() + ": ";
    EXPECT_THAT(message, ::testing::StartsWith(start));
    return message.substr(std::min(start.size(), message.size()));
  }

  os::TemporaryDirectory directory_;
};

TEST_F(Safetensors, OfOthersAreRead) {
  const auto path = file(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2,2],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
      R"("none":{"dtype":"F16","shape":[0,3],"data_offsets":[8,8]}}   )",
      8);

  const auto source = open_safetensors(path);

  EXPECT_THAT(source->names(), ::testing::ElementsAre("a", "b", "none"));
  EXPECT_EQ(read_whole(*source, "a").item<int32_t>(), 0x03020100);
  EXPECT_TRUE(identical(read_whole(*source, "b"),
                        torch::tensor({{4, 5}, {6, 7}}, torch::kInt32).to(torch::kUInt8)));
  EXPECT_EQ(read_whole(*source, "none").sizes(), torch::IntArrayRef({0, 3}));
}

TEST_F(Safetensors, WithAFaultAreRefusedWithItsName) {
  EXPECT_THAT(refused("[]", 0), HasSubstr("its header does not begin with '{'"));
  EXPECT_THAT(refused("{\"a\": ", 0), HasSubstr("its header is malformed: "));
  EXPECT_THAT(refused("{\"a\": 3}", 0), HasSubstr("its header is malformed: "));
  EXPECT_EQ(refused(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4),
            "tensor \"a\" has the unknown dtype \"F31\"");
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
            "tensor \"a\" has an invalid shape");
  EXPECT_EQ(
      refused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
      "tensor \"a\" has an invalid shape");
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
            "tensor \"a\" has a size that does not match its shape\n  shape:        8 bytes\n"
            "  data_offsets: 4 bytes");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", 4),
            "tensor \"a\" has no begin and end in data_offsets");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                    3),
            "tensor \"b\" overlaps another tensor\n  begins:     byte 1\n  other ends: byte 2");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3),
            "tensor \"a\" has a gap before it\n  begins:     byte 1\n  other ends: byte 0");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3),
            "it has bytes after its last tensor\n  tensors: 2 bytes  (header)\n"
            "  found:   3 bytes  (after the header)");
  EXPECT_THAT(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1),
              HasSubstr("it ends early"));
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                    2),
            "tensor \"a\" appears twice in the header");
}

TEST_F(Safetensors, OfAnImpossibleLengthAreRefusedBeforeTheyAreRead) {
  const std::filesystem::path path = directory_.path() / "x";
  const auto message = [&](const std::string& bytes) {
    write(path, bytes);
    return error_of([&] { read_safetensors_header(os::InputFile(path)); });
  };

  EXPECT_THAT(message("abc"), HasSubstr("it has fewer than eight bytes"));
  EXPECT_THAT(message("PK\3\4abcdefgh"), HasSubstr("its header would be too long"));
  EXPECT_THAT(message(std::string("\100\0\0\0\0\0\0\0{", 9)),
              HasSubstr("it ends inside its header\n  header: 64 bytes  (first eight bytes)\n"
                        "  file:   9 bytes"));
}

TEST_F(Safetensors, OfATypeThatLibtorchLacksCanBeLookedAt) {
  const auto source =
      open_safetensors(file(R"({"a":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]}})", 2));

  EXPECT_THAT(source->shape("a"), ::testing::ElementsAre(2));
  EXPECT_EQ(error_of([&] { read_whole(*source, "a"); }),
            "64 cannot read tensor \"a\": libtorch has no type for its dtype F8_E8M0");
}

}  // namespace
}  // namespace lockstep::checkpoint
