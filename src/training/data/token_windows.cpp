// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "training/data/check_index.h"
#include "training/data/token_file.h"

namespace lockstep {
namespace {

// Sample i of a file is the window of tokens [i * length, (i + 1) * length); its target is the same
// window shifted by one, so a window needs length + 1 tokens. Windows do not overlap and do not
// cross files. Tokens at the end of a file that do not fill a window are not used.
class TokenWindows final : public Dataset {
 public:
  TokenWindows(const std::vector<std::filesystem::path>& files, int64_t length) : length_(length) {
    if (length < 1) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot split texts into windows of {} tokens", length))
          .fact("expected", "at least 1");
    }
    for (const std::filesystem::path& path : files) {
      data::TokenFile file(path);
      const int64_t windows = (file.size() - 1) / length;
      if (windows > 0) {
        starts_.push_back(size_);
        files_.push_back(std::move(file));
        size_ += windows;
      }
    }
    if (size_ == 0) {
      throw Error(
          ExitCode::Usage,
          fmt::format("cannot split texts into windows of {} tokens: all are shorter", length))
          .fact("files",
                files.empty() ? "none" : files.front().string(),
                files.size() > 1 ? "and more" : "")
          .hint("use a smaller context or more text");
    }
  }

  int64_t size() const override { return size_; }

  Example example(int64_t index) const override {
    const Batch one = batch(std::span(&index, 1));
    return {one.input[0], one.target[0]};
  }

  Batch batch(std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    Batch made = {torch::empty({count, length_}, torch::kInt64),
                  torch::empty({count, length_}, torch::kInt64)};
    auto* input = made.input.data_ptr<int64_t>();
    auto* target = made.target.data_ptr<int64_t>();
    for (const int64_t index : indices) {
      data::check_index(index, size_);
      const auto after = std::upper_bound(starts_.begin(), starts_.end(), index);
      const auto number = static_cast<size_t>(after - starts_.begin() - 1);
      const data::TokenFile& file = files_[number];
      const int64_t first = (index - starts_[number]) * length_;
      for (int64_t i = 0; i < length_; ++i) {
        *input++ = file[first + i];
        *target++ = file[first + i + 1];
      }
    }
    return made;
  }

  std::vector<int64_t> files() const override { return starts_; }

 private:
  int64_t length_;
  int64_t size_ = 0;
  std::vector<data::TokenFile> files_;
  std::vector<int64_t> starts_;  // number of the first window of each file
};

// The files PREFIX_PART_000000.bin, PREFIX_PART_000001.bin, ...
std::vector<std::filesystem::path> find_files(const std::filesystem::path& prefix,
                                              const char* part) {
  std::vector<std::filesystem::path> files;
  while (true) {
    std::filesystem::path next =
        fmt::format("{}_{}_{:06}.bin", prefix.string(), part, files.size());
    std::error_code unknown;
    if (!std::filesystem::exists(next, unknown)) {
      return files;
    }
    files.push_back(std::move(next));
  }
}

}  // namespace

DatasetPair texts(const std::filesystem::path& prefix, int64_t length) {
  const auto train = find_files(prefix, "train");
  const auto test = find_files(prefix, "val");
  if (train.empty()) {
    throw Error(ExitCode::Usage, "cannot train: no token files")
        .fact("missing", prefix.string() + "_train_000000.bin")
        .hint("lockstep-tokens TEXT --output PREFIX, to create token files");
  }
  return {.train = token_windows(train, length),
          .test = test.empty() ? nullptr : token_windows(test, length),
          .origin =
              fmt::format("{} files of tokens, {}_*", train.size() + test.size(), prefix.string())};
}

DatasetPtr token_windows(const std::vector<std::filesystem::path>& files, int64_t length) {
  return std::make_shared<TokenWindows>(files, length);
}

}  // namespace lockstep
