// SPDX-License-Identifier: Apache-2.0
//
// Trains ResNet-50 on ImageNet with the recipe of NVIDIA, from scratch or from torchvision weights,
// with any strategy:
//
//   lockstep run --nproc-per-node 8 -- imagenet -s ddp --batch-size 256 --precision bf16
//   imagenet --pretrained resnet50.pth --epochs 5 --lr 0.01
//
// Prints the top-1 and top-5 accuracy over the 50 000 validation images at the end.

#include <lockstep/lockstep.h>

// Loads torchvision weights. If the number of classes differs from the data, the classifier keeps
// its random initialization.
static void begin_with(const std::string& file,
                       lockstep::ImageClassifier& net,
                       const lockstep::Session& session) {
  const auto drawn = net.named_parameters();
  lockstep::NamedTensors weights = lockstep::load_weights(file);
  for (auto& [name, tensor] : weights) {
    const torch::Tensor* own = name.starts_with("fc.") ? drawn.find(name) : nullptr;
    if (own == nullptr || tensor.sizes().equals(own->sizes())) {
      continue;
    }
    if (name == "fc.bias") {
      session.say(file + " has " + std::to_string(tensor.numel()) + " classes, the data has " +
                  std::to_string(own->numel()) + ": the classifier is not loaded");
    }
    tensor = *own;
  }
  lockstep::apply_model(net, weights, file);
}

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "Train ResNet-50 on ImageNet",
      .options = {
          {"--net", "resnet50", "Network", lockstep::resnet_names()},
          {"--image-size", "224", "Width and height in pixels"},
          {"--label-smoothing", "0.1", "Label smoothing during training"},
          {"--corrupt", "skip", "Non-JPEG files", {"refuse", "skip"}},
          {"--pretrained", "", "Initial torchvision weights: .pth, .pt or .safetensors"},
      }};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    const lockstep::CrossEntropy loss{.label_smoothing = session.number("--label-smoothing", 0, 1)};
    lockstep::Trainer trainer(session,
                              {.epochs = 90,
                               .global_batch = 256,
                               .schedule = "cosine",
                               .warmup_epochs = 5,
                               .loader_threads = -1});
    const auto images = lockstep::imagenet(session.data_dir(),
                                           {.size = session.whole_number("--image-size", 8, 4096),
                                            .seed = trainer.options().seed,
                                            .corrupt = session.option("--corrupt"),
                                            .device = session.device(),
                                            .jpeg = session.jpeg()});
    session.say(images.origin);
    const auto net = lockstep::resnet(session.option("--net"),
                                      {.classes = std::ssize(images.classes),
                                       .zero_last_gamma = true,
                                       .recompute = session.recompute()});
    if (const std::string& file = session.option("--pretrained"); !file.empty()) {
      begin_with(file, *net, session);
    }
    // The rate is 0.256 per 256 images of a step. --lr overrides it.
    const double lr = 0.256 * static_cast<double>(trainer.options().global_batch) / 256;
    const auto optimizer = session.make_optimizer(
        *net, {.name = "sgd", .lr = lr, .momentum = 0.875, .weight_decay = 1.0 / 32768});

    trainer.fit(*net, *optimizer, images.train, images.test, loss);
  });
}
