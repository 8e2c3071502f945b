// SPDX-License-Identifier: Apache-2.0
//
// Trains a ResNet on TinyImageNet, with any strategy:
//
//   lockstep run --nproc-per-node 2 -- tiny_imagenet -s ddp --epochs 10 --batch-size 64
//   tiny_imagenet --generated                            images from lockstep data make
//
// Prints the top-1 and top-5 accuracy over the 10 000 validation images at the end. The result does
// not depend on the strategy.

#include <lockstep/lockstep.h>

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "Train a ResNet on TinyImageNet",
      .options = {
          {"--net", "resnet18", "Network", lockstep::resnet_names()},
          {"--image-size", "64", "Width and height in pixels"},
          {"--label-smoothing", "0.1", "Label smoothing during training"},
          {"--corrupt", "refuse", "Non-JPEG files", {"refuse", "skip"}},
          {"--generated", "no", "Use images of `lockstep data make tiny-imagenet-like`"},
      }};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    const lockstep::CrossEntropy loss{.label_smoothing = session.number("--label-smoothing", 0, 1)};
    lockstep::Trainer trainer(session,
                              {.epochs = 30,
                               .global_batch = 256,
                               .schedule = "cosine",
                               .warmup_epochs = 1,
                               .loader_threads = -1});
    const auto images = lockstep::tiny_imagenet(
        session.data_dir() / (session.flag("--generated") ? "tiny-imagenet-like" : ""),
        {.size = session.whole_number("--image-size", 8, 4096),
         .seed = trainer.options().seed,
         .corrupt = session.option("--corrupt"),
         .device = session.device(),
         .jpeg = session.jpeg()});
    session.say(images.origin);
    const auto net = lockstep::resnet(session.option("--net"),
                                      {.classes = std::ssize(images.classes),
                                       .small_images = true,
                                       .recompute = session.recompute()});
    // The rate is 0.1 per 256 images of a step. --lr overrides it.
    const double lr = 0.1 * static_cast<double>(trainer.options().global_batch) / 256;
    const auto optimizer =
        session.make_optimizer(*net, {.name = "sgd", .lr = lr, .weight_decay = 5e-4});

    trainer.fit(*net, *optimizer, images.train, images.test, loss);
  });
}
