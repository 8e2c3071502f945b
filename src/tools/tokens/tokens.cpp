// SPDX-License-Identifier: Apache-2.0
//
// Streams documents through the tokenizer into shards of fixed size:
//
//   <|endoftext|> doc 1 <|endoftext|> doc 2 ...   ->   first N tokens: PREFIX_val_000000.bin
//                                                      then PREFIX_train_000000.bin, ...
//
// A document can continue in the next shard; training reads windows of tokens and does not need
// document boundaries at the beginning of a file.
#include "tools/tokens/tokens.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/contract/worker_env.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "lockstep/error.h"
#include "lockstep/tokenizer.h"
#include "tools/tokens/documents.h"
#include "tools/tool.h"
#include "training/data/token_file.h"

namespace lockstep::tokens {
namespace {

constexpr const char* kFooter =
    "TEXT is a text file (one document) or a .jsonl file with one document per line, in the\n"
    "field \"text\". Documents are concatenated, each after an end-of-text token. The output\n"
    "has the format of llm.c: PREFIX_train_000000.bin, ..., and PREFIX_val_000000.bin.\n"
    "\n"
    "Examples:\n"
    "  lockstep data fetch gpt2\n"
    "  lockstep-tokens book.txt --output data/book\n"
    "\n"
    "Exit codes:\n"
    "  0    success\n"
    "  64   invalid or conflicting options\n"
    "  70   internal error: a bug in lockstep\n"
    "  74   a file could not be read or written";

struct Options {
  std::vector<std::filesystem::path> texts;
  std::string output = "tokens";
  std::string vocabulary;
  int64_t shard_tokens = 50'000'000;
  int64_t validation_tokens = 0;
};

// A sequence of token files; a new file starts when the current one is full. At most one shard is
// in memory. A shard is written completely before its name is printed.
class Shards {
 public:
  Shards(std::string prefix, int64_t maximum) : prefix_(std::move(prefix)), maximum_(maximum) {}

  void add(int32_t token) {
    tokens_.push_back(token);
    if (static_cast<int64_t>(tokens_.size()) == maximum_) {
      flush();
    }
  }

  void flush() {
    if (tokens_.empty()) {
      return;
    }
    const std::string path = fmt::format("{}_{:06}.bin", prefix_, files_++);
    data::write_tokens(path, tokens_);
    fmt::print("{}: {} tokens\n", path, format_count(static_cast<int64_t>(tokens_.size())));
    tokens_.clear();
  }

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  int files() const { return files_; }

 private:
  std::string prefix_;
  int64_t maximum_;
  std::vector<int32_t> tokens_;
  int files_ = 0;
};

// Training reads all numbered files. A leftover of an earlier call with more files would be
// included.
void require_no_files(const std::string& output) {
  for (const char* part : {"train", "val"}) {
    const std::string first = fmt::format("{}_{}_000000.bin", output, part);
    std::error_code unknown;
    if (std::filesystem::exists(first, unknown)) {
      throw Error(ExitCode::Usage, fmt::format("cannot write {}: it already exists", first))
          .hint(fmt::format("use another --output, or rm {}_*.bin", output));
    }
  }
}

// The tokenizer knows only the text; the error needs the file, since there can be many.
std::vector<int32_t> encode(Tokenizer& tokenizer,
                            std::string_view document,
                            const std::filesystem::path& file) {
  try {
    return tokenizer.encode(document);
  } catch (const Error& error) {
    throw Error(error).fact("file", file.string());
  }
}

// The validation file has one shard: as soon as it is written, files() is 1 and all further tokens
// are for training.
void write(const Options& options) {
  if (options.shard_tokens < 2 || options.validation_tokens < 0) {
    throw Error(ExitCode::Usage,
                "--shard-tokens must be at least 2, --validation-tokens at least 0")
        .fact("found",
              fmt::format("--shard-tokens {}, --validation-tokens {}",
                          options.shard_tokens,
                          options.validation_tokens),
              "command line")
        .hint("--shard-tokens 50000000");
  }
  require_no_files(options.output);
  Tokenizer tokenizer(options.vocabulary);
  Shards validation(options.output + "_val", std::max<int64_t>(2, options.validation_tokens));
  Shards train(options.output + "_train", options.shard_tokens);
  const std::filesystem::path folder = std::filesystem::path(options.output).parent_path();
  if (!folder.empty()) {
    os::make_directories(folder);
  }
  for (const std::filesystem::path& text : options.texts) {
    read_documents(text, [&](std::string_view document) {
      std::vector<int32_t> tokens = {tokenizer.end_of_text()};
      const std::vector<int32_t> more = encode(tokenizer, document, text);
      tokens.insert(tokens.end(), more.begin(), more.end());
      for (const int32_t token : tokens) {
        const bool is_validation = options.validation_tokens > 0 && validation.files() == 0;
        (is_validation ? validation : train).add(token);
      }
    });
  }
  validation.flush();
  train.flush();
  if (train.files() == 0) {
    throw Error(ExitCode::Usage, "no tokens left for training: all are in the validation file")
        .hint("use a smaller --validation-tokens");
  }
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app("Convert texts to GPT-2 token files", "lockstep-tokens");
  app.footer(kFooter);
  Options options;
  const std::string data =
      os::find_variable(os::environment(), contract::kDataDirectory).value_or("data");
  options.vocabulary = data + "/gpt2";
  app.add_option("TEXT", options.texts, "Text files to read")->required();
  app.add_option("--output", options.output, "Prefix of the output files, with directory [tokens]")
      ->type_name("PREFIX");
  app.add_option("--vocabulary",
                 options.vocabulary,
                 "Folder with encoder.json and vocab.bpe [$LOCKSTEP_DATA_DIR/gpt2, otherwise "
                 "data/gpt2]")
      ->type_name("DIR");
  app.add_option("--shard-tokens", options.shard_tokens, "Tokens per file [50000000]")
      ->type_name("COUNT");
  app.add_option("--validation-tokens",
                 options.validation_tokens,
                 "Number of tokens, from the beginning, for the validation file [0]")
      ->type_name("COUNT");
  app.callback([&options] { write(options); });
  return tool::run(app, argc, argv);
}

}  // namespace lockstep::tokens
