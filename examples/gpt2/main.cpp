// SPDX-License-Identifier: Apache-2.0
//
// Trains GPT-2 on texts, from scratch or from published weights, with any strategy:
//
//   lockstep data fetch gpt2
//   lockstep-tokens book.txt --output data/book --validation-tokens 20000
//   lockstep run --nproc-per-node 2 -- gpt2 --size tiny --tokens data/book -s ddp

#include <cmath>
#include <lockstep/lockstep.h>
#include <optional>
#include <vector>

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "Train GPT-2 on texts",
      .options = {
          {"--size", "124M", "Model size", lockstep::gpt2_names()},
          {"--tokens", "tokens", "Prefix of the files from lockstep-tokens"},
          {"--context", "0", "Tokens per sample; 0: the context length of the model"},
          {"--dropout", "0", "Dropout of embeddings, attention and residuals"},
          {"--weights", "", "Initial weights: model.safetensors, or a file of torch.save"},
          {"--prompt", "", "Text to continue after training"},
      }};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    auto options = lockstep::gpt2_options(session.option("--size"));
    options.dropout = session.number("--dropout", 0, 1);
    options.recompute = session.recompute();
    const int64_t context = session.whole_number("--context", 0, options.context);
    const auto texts =
        lockstep::texts(session.option("--tokens"), context > 0 ? context : options.context);
    std::optional<lockstep::Tokenizer> tokenizer;
    std::vector<int64_t> prompt;  // encoded before training, so that an invalid text fails early
    if (const std::string& text = session.option("--prompt"); !text.empty()) {
      tokenizer.emplace(session.data_dir() / "gpt2");
      const auto tokens = tokenizer->encode(text);
      prompt.assign(tokens.begin(), tokens.end());
    }
    lockstep::Gpt2 net(options);
    if (const std::string& file = session.option("--weights"); !file.empty()) {
      lockstep::apply_model(net, lockstep::as_gpt2_weights(lockstep::load_weights(file)), file);
    }
    const auto optimizer = session.make_optimizer(
        net.parameters(),
        {.name = "adamw",
         .lr = 6e-4,
         .weight_decay = 0.1,
         .beta2 = 0.95,
         .matrices = lockstep::hidden_matrices(net)});  // for --optimizer muon

    lockstep::Trainer trainer(
        session, {.epochs = 1, .global_batch = 8, .clip_norm = 1, .schedule = "cosine"});
    const auto result =
        trainer.fit(net, *optimizer, texts.train, texts.test, lockstep::NextToken());
    if (result.test_loss) {
      session.say("perplexity     " + std::to_string(std::exp(*result.test_loss)));
    }
    if (tokenizer) {
      const auto written = lockstep::generate(net, prompt, {.stop = tokenizer->end_of_text()});
      session.say(tokenizer->decode({written.begin(), written.end()}));
    }
  });
}
