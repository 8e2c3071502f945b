// SPDX-License-Identifier: Apache-2.0
//
// Trains a ResNet on TinyImageNet. One program, every strategy:
//
//   lockstep run --nproc-per-node 2 -- tiny_imagenet -s ddp --epochs 10 --batch-size 64
//   tiny_imagenet --generated                            what lockstep data make has drawn
//
// It ends with the top-1 and top-5 accuracy over the 10 000 images of the validation set, the same
// whatever follows -s.

#include <lockstep/lockstep.h>

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "Trains a ResNet on TinyImageNet",
      .options = {
          {"--net", "resnet18", "The network", lockstep::resnet_names()},
          {"--image-size", "64", "Pixels of both sides"},
          {"--label-smoothing", "0.1", "Share of a target that belongs to all classes alike"},
          {"--corrupt", "refuse", "Files that are no image: refuse or skip", {"refuse", "skip"}},
          {"--generated", "no", "Images of lockstep data make tiny-imagenet-like instead"},
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
         .corrupt = session.option("--corrupt")});
    session.say(images.origin);
    const auto net = lockstep::resnet(session.option("--net"),
                                      {.classes = std::ssize(images.classes),
                                       .small_images = true,
                                       .recompute = session.recompute()});
    // 0.1 for 256 images in a step, unless --lr says otherwise.
    const double lr = 0.1 * static_cast<double>(trainer.options().global_batch) / 256;
    const auto optimizer =
        session.make_optimizer(*net, {.name = "sgd", .lr = lr, .weight_decay = 5e-4});

    trainer.fit(*net, *optimizer, images.train, images.test, loss);
  });
}
