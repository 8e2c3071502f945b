// SPDX-License-Identifier: Apache-2.0
#include "common/image/pack.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <map>
#include <string>
#include <vector>

#include "common/image/check.h"
#include "common/image/crc32.h"
#include "common/image/jpegs.h"
#include "common/image/pack_writer.h"
#include "common/image/renderer.h"
#include "common/image/sample.h"
#include "common/os/files.h"
#include "training/data/message_of.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Images in memory, alternating between two classes.
class Shelf : public Store {
 public:
  explicit Shelf(std::vector<File> files) : files_(std::move(files)) {}

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string name(int64_t index) const override {
    return "set/train/n0" + std::to_string(index % 2) + "/images/" + std::to_string(index) +
           ".JPEG";
  }
  std::span<const std::byte> read(int64_t index,
                                  std::vector<std::byte>& /*buffer*/) const override {
    return files_[static_cast<size_t>(index)];
  }
  const std::vector<ClassName>& classes() const override { return classes_; }

 private:
  std::vector<File> files_;
  std::vector<ClassName> classes_ = {{"n00", "fish, \"wet\""}, {"n01", "n01"}};
};

class Pack : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return directory_.path() / name; }

  std::string write_small(const std::string& name = "train.lspack") {
    write_pack(small, "train", path(name), {});
    return os::read_file(path(name));
  }

  std::string refusal(const std::string& content) {
    os::replace_file(path("bad.lspack"), content);
    std::string message = message_of([this] { open_pack(path("bad.lspack")); });
    const std::string prefix = directory_.path().string() + "/";
    for (auto at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
      message.erase(at, prefix.size());
    }
    return message;
  }

  Shelf small{{bytes_of("one"), bytes_of(""), bytes_of("three three")}};

 private:
  os::TemporaryDirectory directory_;
};

std::string text(const Store& store, int64_t index) {
  std::vector<std::byte> buffer;
  const auto bytes = store.read(index, buffer);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Size size_of(std::span<const std::byte> file) {
  Renderer renderer;
  return renderer.open(file);
}

TEST_F(Pack, GivesBackWhatWasPutIn) {
  write_small();

  const StorePtr store = open_pack(path("train.lspack"));

  EXPECT_EQ(store->size(), 3);
  EXPECT_EQ(text(*store, 0), "one");
  EXPECT_EQ(text(*store, 1), "");
  EXPECT_EQ(text(*store, 2), "three three");
  EXPECT_EQ(store->label(1), 1);
  EXPECT_EQ(store->name(2), path("train.lspack").string() + ":n00/2.JPEG");
  EXPECT_EQ(store->classes()[0].words, "fish, \"wet\"");
  EXPECT_EQ(store->classes()[1].id, "n01");
  EXPECT_THAT(store->files(), ElementsAre(0));
  std::vector<std::byte> buffer;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(store->read(2, buffer).data()) % 8, 0U);
  EXPECT_TRUE(buffer.empty());
}

TEST_F(Pack, IsTheSameWhateverTheNumberOfThreadsAndLeavesNothingElse) {
  std::vector<File> files;
  for (int i = 0; i < 60; ++i) {
    Jpeg jpeg = {.width = 40 + i, .height = 50};
    jpeg.pixel = [i](int x, int, int) {
      return (x * 3 + i) % 256;
    };
    files.push_back(encode(jpeg));
  }
  const Shelf store(files);
  int64_t reported = 0;

  const PackReport report =
      write_pack(store,
                 "val",
                 path("new/one.lspack"),
                 {.short_side = 45, .threads = 1, .progress = [&](int64_t done, int64_t) {
                    reported = done;
                  }});
  write_pack(store, "val", path("new/four.lspack"), {.short_side = 45, .threads = 4});

  EXPECT_EQ(os::read_file(path("new/one.lspack")), os::read_file(path("new/four.lspack")));
  EXPECT_EQ(reported, 60);
  EXPECT_EQ(report.images, 60);
  EXPECT_EQ(report.shrunk, 54);
  EXPECT_EQ(report.bytes, fs::file_size(path("new/one.lspack")));
  const auto entries = fs::directory_iterator(path("new"));
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 2);
}

TEST_F(Pack, MakesLargeImagesSmallerAndUprightAndCopiesTheOthers) {
  const File large = encode({.width = 200, .height = 100, .orientation = 6});
  const File little = encode({.width = 200, .height = 50, .orientation = 6});
  const File cut(large.begin(), large.begin() + static_cast<ptrdiff_t>(large.size() / 2));
  const Shelf store({large, little, cut});

  const PackReport report = write_pack(store, "train", path("a.lspack"), {.short_side = 64});

  const StorePtr pack = open_pack(path("a.lspack"));
  std::vector<std::byte> buffer;
  EXPECT_EQ(size_of(pack->read(0, buffer)), (Size{.width = 64, .height = 128}));
  EXPECT_THAT(pack->read(1, buffer), ::testing::ElementsAreArray(little));
  EXPECT_THAT(pack->read(2, buffer), ::testing::ElementsAreArray(cut));
  EXPECT_EQ(report.shrunk, 1);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].name, "set/train/n00/images/2.JPEG");
  EXPECT_EQ(report.problems[0].reason, "ends early");
}

TEST_F(Pack, IsRefusedWhenItIsCutAtAnyByte) {
  const std::string whole = write_small();
  for (size_t size = 16; size < whole.size(); ++size) {
    EXPECT_EQ(refusal(whole.substr(0, size)),
              "74 cannot read bad.lspack: it ends too early: the table of images is missing\n"
              "  byte: " +
                  std::to_string(size) +
                  "\n"
                  "  try:  copy it again, or recreate it with lockstep data pack");
  }
  for (const size_t size : {0, 5, 15}) {
    EXPECT_EQ(refusal(whole.substr(0, size)),
              "74 cannot read bad.lspack: it is not a pack of images\n"
              "  byte: 0\n"
              "  try:  lockstep data pack, to create a pack");
  }
}

TEST_F(Pack, IsRefusedWhenAnyByteOfItsTableIsAnother) {
  const std::string whole = write_small();
  const size_t table = whole.find("{\"split\"");
  for (size_t at = table; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    EXPECT_THAT(refusal(damaged), HasSubstr("74 cannot read bad.lspack: ")) << at;
  }

  std::string damaged = whole;
  damaged[table + 3] = 'x';
  EXPECT_THAT(refusal(damaged),
              HasSubstr("its table of images is damaged\n  byte:     " + std::to_string(table)));
  damaged = whole;
  damaged[8] = 2;
  EXPECT_EQ(refusal(damaged),
            "74 cannot read bad.lspack: unsupported version\n"
            "  byte:     8\n"
            "  found:    2\n"
            "  expected: 1");
}

TEST_F(Pack, IsTakenBeforeTheFoldersOfItsDirectory) {
  write_small("tiny-imagenet-train.lspack");
  EXPECT_THAT(message_of([this] { find_tiny_imagenet(path("")); }), HasSubstr("cannot find"));
  write_small("tiny-imagenet-val.lspack");

  const Sets sets = find_tiny_imagenet(path(""));

  EXPECT_EQ(sets.train->size(), 3);
  EXPECT_EQ(sets.origin,
            "TinyImageNet in " + path("tiny-imagenet-train.lspack").string() +
                " and tiny-imagenet-val.lspack");
}

TEST_F(Pack, SaysWhatItWasPackedFrom) {
  for (const std::string split : {"train", "val"}) {
    write_pack(small, split, path(split + ".lspack"), {.source = "tiny-imagenet-200"});
  }

  const Sets sets = find_tiny_imagenet(path(""));

  EXPECT_EQ(sets.source, "tiny-imagenet-200");
  EXPECT_EQ(sets.origin,
            "TinyImageNet in " + path("train.lspack").string() +
                " and val.lspack, packed from tiny-imagenet-200");
}

TEST_F(Pack, IsRefusedNextToOneOfOtherClasses) {
  class Other : public Shelf {
   public:
    Other() : Shelf({}) {}
    const std::vector<ClassName>& classes() const override { return classes_; }

   private:
    std::vector<ClassName> classes_ = {{"n07", ""}};
  };
  write_small("imagenet/train.lspack");
  write_pack(Other(), "val", path("imagenet/val.lspack"), {});

  EXPECT_EQ(message_of([this] { find_imagenet(path("")); }),
            "74 cannot use these packs: their classes differ\n"
            "  train: " +
                path("imagenet/train.lspack").string() +
                "  (2 classes)\n"
                "  val:   " +
                path("imagenet/val.lspack").string() + "  (1 classes)");
}

TEST_F(Pack, LeavesNothingWhenAnImageCannotBeRead) {
  class Broken : public Shelf {
   public:
    using Shelf::Shelf;
    std::span<const std::byte> read(int64_t index, std::vector<std::byte>& buffer) const override {
      if (index == 1) {
        throw Error(ExitCode::Io, "cannot read 1.JPEG: it is gone");
      }
      return Shelf::read(index, buffer);
    }
  };
  const Broken store({bytes_of("one"), bytes_of("two"), bytes_of("three")});

  EXPECT_EQ(message_of([&] { write_pack(store, "train", path("p/a.lspack"), {.threads = 2}); }),
            "74 cannot read 1.JPEG: it is gone");
  EXPECT_TRUE(fs::is_empty(path("p")));
}

TEST_F(Pack, ShowsInACheckWhichImagesAreDamaged) {
  const File good = encode({});
  const File cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(good.size() / 2));
  write_pack(Shelf({good, good, cut}), "train", path("a.lspack"), {});
  EXPECT_THAT(check(Shelf({good, good}), 2, [](int64_t, int64_t) {}), IsEmpty());
  std::string content = os::read_file(path("a.lspack"));
  content[16 + (good.size() + 7) / 8 * 8 + 300] ^= 1;
  os::write_file(path("a.lspack"), content);

  std::vector<std::string> found;
  for (const Problem& problem : check(*open_pack(path("a.lspack")), 1, [](int64_t, int64_t) {})) {
    found.push_back(problem.name.substr(problem.name.find(':')) + " " + problem.reason);
  }

  EXPECT_THAT(found, ElementsAre(":n01/1.JPEG is damaged: wrong CRC-32", ":n00/2.JPEG ends early"));
}

TEST_F(Pack, ShowsInACheckWhichImagesHaveLessThanTheyPromise) {
  const File good = encode({.width = 64, .height = 64});

  const auto problems = check(Shelf({with_size(good, 65500, 15000), without_last(good, 8), good}),
                              1,
                              [](int64_t, int64_t) {});

  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].reason, "ends early");
  EXPECT_EQ(problems[1].reason, "ends early");
}

// Invalid codes within the data, after which libjpeg continues with wrong pixels.
TEST_F(Pack, AndACheckNameDamageThatATrainingTolerates) {
  const File good = encode({.restarts = 1, .pixel = [](int x, int y, int c) {
                              return (x * 5 + y * 3 + c * 40) % 256;
                            }});
  const std::string reason = "cannot be decoded: Corrupt JPEG data: bad Huffman code";
  const File bad_code = bytes_of(std::string("\xff\0\xff\0\xff\0", 6));
  int tolerated = 0;
  for (size_t at = good.size() * 2 / 3; at + 8 < good.size(); ++at) {
    File damaged = good;
    damaged.insert(damaged.begin() + static_cast<ptrdiff_t>(at), bad_code.begin(), bad_code.end());
    std::vector<uint8_t> pixels(48 * 48 * 3);
    try {
      Maker({.size = 48, .augments = false, .resize = 48}).make(damaged, 0, pixels.data());
    } catch (const Corrupt&) {
      continue;
    }
    const Shelf store({damaged});
    const auto problems = check(store, 1, [](int64_t, int64_t) {});
    if (problems.empty()) {
      continue;  // after the last code of a row
    }
    ++tolerated;
    EXPECT_EQ(problems[0].reason, reason) << at;
    const PackReport report = write_pack(store, "train", path("a.lspack"), {.short_side = 16});
    ASSERT_EQ(report.problems.size(), 1U) << at;
    EXPECT_EQ(report.problems[0].reason, reason);
    EXPECT_EQ(report.shrunk, 0);
  }
  EXPECT_GT(tolerated, 5);
}

TEST(Crc32, IsTheOneOfZip) {
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xcbf43926U);
  EXPECT_EQ(crc32(bytes_of("456789"), crc32(bytes_of("123"))), 0xcbf43926U);
  EXPECT_EQ(crc32(bytes_of("The quick brown fox jumps over the lazy dog")), 0x414fa339U);
}

}  // namespace
}  // namespace lockstep::image
