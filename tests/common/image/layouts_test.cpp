// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "common/image/store.h"
#include "common/os/files.h"
#include "training/data/message_of.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

// Files in a temporary directory, which is removed from messages.
class Layouts : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text = "x") {
    fs::create_directories((directory_.path() / name).parent_path());
    os::write_file(directory_.path() / name, text);
  }

  void write_all(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      write(name);
    }
  }

  void remove(const std::string& name) { fs::remove_all(directory_.path() / name); }

  std::string shorten(std::string text) const {
    const std::string prefix = directory_.path().string();
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) {
      text.replace(at, prefix.size(), "DIR");
    }
    return text;
  }

  // "name label" for each sample.
  std::vector<std::string> samples(const Store& store) const {
    std::vector<std::string> found;
    for (int64_t i = 0; i < store.size(); ++i) {
      found.push_back(shorten(store.name(i)) + " " + std::to_string(store.label(i)));
    }
    return found;
  }

  Sets tiny() const { return find_tiny_imagenet(directory_.path()); }
  Sets large() const { return find_imagenet(directory_.path()); }
  std::string tiny_refusal() const {
    return shorten(message_of([this] { tiny(); }));
  }
  std::string drawn_refusal() const {
    return shorten(
        message_of([this] { find_tiny_imagenet(directory_.path() / "tiny-imagenet-like"); }));
  }
  std::string large_refusal() const {
    return shorten(message_of([this] { large(); }));
  }

 private:
  os::TemporaryDirectory directory_;
};

// The layout of the TinyImageNet archive, with two classes.
class TinyImagenet : public Layouts {
 protected:
  TinyImagenet() {
    write("tiny-imagenet-200/wnids.txt", "n02\nn01\n");
    write("tiny-imagenet-200/words.txt", "n00\tentity\nn01\tgoldfish, Carassius auratus\n");
    write_all({"tiny-imagenet-200/train/n02/images/n02_0.JPEG",
               "tiny-imagenet-200/train/n01/images/n01_1.JPEG",
               "tiny-imagenet-200/train/n01/images/n01_0.JPEG",
               "tiny-imagenet-200/train/n01/n01_boxes.txt",
               "tiny-imagenet-200/val/images/val_0.JPEG",
               "tiny-imagenet-200/val/images/val_1.JPEG",
               "tiny-imagenet-200/test/images/test_0.JPEG"});
    annotate("val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t0\t0\t1\t1\n");
  }

  void annotate(const std::string& text) {
    write("tiny-imagenet-200/val/val_annotations.txt", text);
  }
};

TEST_F(TinyImagenet, IsFoundAsItIsDistributedWithClassesInTheOrderOfTheirIds) {
  const Sets sets = tiny();

  EXPECT_THAT(samples(*sets.train),
              ElementsAre("DIR/tiny-imagenet-200/train/n01/images/n01_0.JPEG 0",
                          "DIR/tiny-imagenet-200/train/n01/images/n01_1.JPEG 0",
                          "DIR/tiny-imagenet-200/train/n02/images/n02_0.JPEG 1"));
  EXPECT_THAT(samples(*sets.test),
              ElementsAre("DIR/tiny-imagenet-200/val/images/val_0.JPEG 1",
                          "DIR/tiny-imagenet-200/val/images/val_1.JPEG 0"));
  EXPECT_EQ(sets.train->classes()[0].words, "goldfish, Carassius auratus");
  EXPECT_EQ(sets.train->classes()[1].id, "n02");
  EXPECT_EQ(sets.train->classes()[1].words, "n02");
  EXPECT_EQ(shorten(sets.origin), "TinyImageNet in DIR/tiny-imagenet-200");
  EXPECT_EQ(sets.source, "tiny-imagenet-200");
  EXPECT_THAT(sets.train->files(), ElementsAre(0));
}

TEST_F(TinyImagenet, IsFoundRearrangedByClass) {
  remove("tiny-imagenet-200/val");
  remove("tiny-imagenet-200/wnids.txt");
  write_all({"tiny-imagenet-200/val/n01/a.jpg",
             "tiny-imagenet-200/val/n02/b.Jpeg",
             "tiny-imagenet-200/val/n02/notes.txt"});

  EXPECT_THAT(samples(*tiny().test),
              ElementsAre("DIR/tiny-imagenet-200/val/n01/a.jpg 0",
                          "DIR/tiny-imagenet-200/val/n02/b.Jpeg 1"));
}

TEST_F(TinyImagenet, GivesTheBytesOfAFileAndReusesTheBuffer) {
  write("tiny-imagenet-200/train/n01/images/n01_0.JPEG", "hello");
  const StorePtr store = tiny().train;
  std::vector<std::byte> buffer;

  const auto first = store->read(0, buffer);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(first.data()), first.size()), "hello");
  const auto second = store->read(1, buffer);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(second.data()), second.size()), "x");

  remove("tiny-imagenet-200/train/n01/images/n01_1.JPEG");
  EXPECT_EQ(shorten(message_of([&] { store->read(1, buffer); })),
            "74 cannot read DIR/tiny-imagenet-200/train/n01/images/n01_1.JPEG: "
            "No such file or directory");
}

TEST_F(TinyImagenet, OfDrawnImagesIsMadeWhereItIsLookedFor) {
  EXPECT_EQ(drawn_refusal(),
            "74 cannot find generated images in DIR/tiny-imagenet-like\n"
            "  searched: DIR/tiny-imagenet-like  (no such directory)\n"
            "  try:      lockstep data make tiny-imagenet-like --data-dir DIR");
}

TEST_F(TinyImagenet, ListsWhereItWasLookedFor) {
  remove("tiny-imagenet-200/val");

  EXPECT_EQ(tiny_refusal(),
            "74 cannot find TinyImageNet in DIR\n"
            "  searched: DIR/tiny-imagenet-200  (no val/)\n"
            "  searched: DIR/tiny-imagenet  (no such directory)\n"
            "  searched: DIR/tiny-imagenet-like  (no such directory)\n"
            "  searched: DIR  (no train/)\n"
            "  try:      unpack tiny-imagenet-200.zip in DIR\n"
            "  try:      lockstep data make tiny-imagenet-like --data-dir DIR, to train on "
            "generated images");
}

TEST_F(TinyImagenet, NamesTheLineThatIsWrong) {
  annotate("val_0.JPEG\tn02\t0\nval_1.JPEG n01\n");
  EXPECT_EQ(tiny_refusal(),
            "74 cannot read DIR/tiny-imagenet-200/val/val_annotations.txt: expected lines of "
            "FILE, CLASS and a box, separated by tabs\n"
            "  line:  2\n"
            "  found: val_1.JPEG n01");

  annotate("val_0.JPEG\tn02\n\nval_0.JPEG\tn01\n");
  EXPECT_EQ(
      tiny_refusal(),
      "74 cannot read DIR/tiny-imagenet-200/val/val_annotations.txt: val_0.JPEG appears twice\n"
      "  line: 3");

  annotate("val_0.JPEG\tn02\nval_1.JPEG\tn03\n");
  EXPECT_EQ(tiny_refusal(),
            "74 cannot use DIR/tiny-imagenet-200/val/images: val_1.JPEG belongs to n03, which "
            "is not a class of this set\n"
            "  source: DIR/tiny-imagenet-200/val/val_annotations.txt  (line 2)");

  annotate("val_0.JPEG\tn02\nval_1.JPEG\tn01\nval_2.JPEG\tn01\n");
  EXPECT_EQ(tiny_refusal(),
            "74 cannot use DIR/tiny-imagenet-200/val/images: val_2.JPEG is missing\n"
            "  source: DIR/tiny-imagenet-200/val/val_annotations.txt  (line 3)");

  annotate("val_0.JPEG\tn02\n");
  EXPECT_EQ(tiny_refusal(),
            "74 cannot use DIR/tiny-imagenet-200/val/images: the class of val_1.JPEG is unknown\n"
            "  searched: DIR/tiny-imagenet-200/val/val_annotations.txt");

  remove("tiny-imagenet-200/val/val_annotations.txt");
  EXPECT_EQ(tiny_refusal(),
            "74 cannot use DIR/tiny-imagenet-200/val: the classes of its images are unknown\n"
            "  missing: DIR/tiny-imagenet-200/val/val_annotations.txt\n"
            "  try:     restore the file from tiny-imagenet-200.zip, or move the images to "
            "val/CLASS/");

  write("tiny-imagenet-200/wnids.txt", "n02\nn01 goldfish\n");
  EXPECT_EQ(tiny_refusal(),
            "74 cannot read DIR/tiny-imagenet-200/wnids.txt: expected one class per line, "
            "such as n01443537\n"
            "  line:  2\n"
            "  found: n01 goldfish");

  write("tiny-imagenet-200/wnids.txt", "n02\nn01\n\nn02\n");
  EXPECT_EQ(tiny_refusal(),
            "74 cannot read DIR/tiny-imagenet-200/wnids.txt: n02 appears twice\n"
            "  line: 4");
}

TEST_F(TinyImagenet, NamesTheClassThatIsWrong) {
  write("tiny-imagenet-200/wnids.txt", "n02\nn01\nn03\n");
  EXPECT_EQ(tiny_refusal(), "74 cannot use DIR/tiny-imagenet-200/train: class n03 has no folder");

  fs::path empty = "tiny-imagenet-200/train/n03/images";
  write((empty / "notes.txt").string());
  EXPECT_EQ(tiny_refusal(),
            "74 cannot use DIR/tiny-imagenet-200/train: class n03 has no images\n"
            "  searched: DIR/tiny-imagenet-200/train/n03/images  (for .JPEG, .jpeg and .jpg)");

  write("tiny-imagenet-200/wnids.txt", "n02\nn01\n");
  EXPECT_EQ(
      tiny_refusal(),
      "74 cannot use DIR/tiny-imagenet-200/train: its folder n03 does not belong to any class\n"
      "  classes: 2");
}

// The layout of the ImageNet challenge with two classes, without labels for val/.
class Imagenet : public Layouts {
 protected:
  void write_kaggle(const std::string& at) {
    write_all({at + "/Data/CLS-LOC/train/n02/n02_1.JPEG",
               at + "/Data/CLS-LOC/train/n01/n01_1.JPEG",
               at + "/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG",
               at + "/Data/CLS-LOC/val/ILSVRC2012_val_00000002.JPEG"});
  }
};

TEST_F(Imagenet, IsFoundByClass) {
  write_all({"imagenet/train/n02/b.JPEG",
             "imagenet/train/n01/a.JPEG",
             "imagenet/val/n01/c.JPEG",
             "imagenet/val/n02/d.JPEG"});
  write("imagenet/LOC_synset_mapping.txt", "n01 tench, Tinca tinca\n");

  const Sets sets = large();

  EXPECT_THAT(samples(*sets.train),
              ElementsAre("DIR/imagenet/train/n01/a.JPEG 0", "DIR/imagenet/train/n02/b.JPEG 1"));
  EXPECT_THAT(samples(*sets.test),
              ElementsAre("DIR/imagenet/val/n01/c.JPEG 0", "DIR/imagenet/val/n02/d.JPEG 1"));
  EXPECT_EQ(sets.train->classes()[0].words, "tench, Tinca tinca");
}

TEST_F(Imagenet, IsFoundAsKaggleHasIt) {
  write_kaggle("ILSVRC");
  write("LOC_val_solution.csv",
        "ImageId,PredictionString\n"
        "ILSVRC2012_val_00000002,n01 85 1 499 272 n01 1 2 3 4\n"
        "ILSVRC2012_val_00000001,n02 1 2 3 4\n");

  EXPECT_THAT(samples(*large().test),
              ElementsAre("DIR/ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG 1",
                          "DIR/ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000002.JPEG 0"));
}

TEST_F(Imagenet, IsFoundWithAnnotations) {
  write_kaggle("ILSVRC");
  const std::string annotations = "ILSVRC/Annotations/CLS-LOC/val/ILSVRC2012_val_0000000";
  write(annotations + "1.xml", "<annotation><object><name>n01</name></object></annotation>");
  write(annotations + "2.xml", "<annotation><object><name>n02</name></object></annotation>");

  EXPECT_EQ(large().test->label(0), 0);
  EXPECT_EQ(large().test->label(1), 1);

  write(annotations + "2.xml", "<annotation/>");
  EXPECT_EQ(large_refusal(),
            "74 cannot read DIR/ILSVRC/Annotations/CLS-LOC/val/ILSVRC2012_val_00000002.xml: it has "
            "no class in <name>");
}

TEST_F(Imagenet, SaysThatNumbersAloneTellNoClass) {
  write_kaggle("ILSVRC");
  write("ILSVRC/ILSVRC2012_validation_ground_truth.txt", "490\n361\n");

  EXPECT_EQ(large_refusal(),
            "74 cannot use DIR/ILSVRC/Data/CLS-LOC/val: the classes of its images are unknown\n"
            "  missing:  LOC_val_solution.csv  (next to or above the images)\n"
            "  missing:  DIR/ILSVRC/Annotations/CLS-LOC/val\n"
            "  unusable: DIR/ILSVRC/ILSVRC2012_validation_ground_truth.txt  (its class "
            "numbers require meta.mat)\n"
            "  try:      add LOC_val_solution.csv from Kaggle, or move the images to val/CLASS/");
}

TEST_F(Imagenet, NamesTheLineThatIsWrong) {
  write_kaggle("ILSVRC");
  write("LOC_val_solution.csv", "ImageId,PredictionString\nILSVRC2012_val_00000002 n01\n");
  EXPECT_EQ(large_refusal(),
            "74 cannot read DIR/LOC_val_solution.csv: expected lines of IMAGE,CLASS and boxes\n"
            "  line:  2\n"
            "  found: ILSVRC2012_val_00000002 n01");

  write("LOC_val_solution.csv", "ILSVRC2012_val_00000002,n01\nILSVRC2012_val_00000002,n01\n");
  EXPECT_EQ(large_refusal(),
            "74 cannot read DIR/LOC_val_solution.csv: ILSVRC2012_val_00000002 appears twice\n"
            "  line: 2");
}

TEST_F(Imagenet, ListsWhereItWasLookedFor) {
  write("ILSVRC/Data/CLS-LOC/train/n01/a.JPEG");

  EXPECT_EQ(large_refusal(),
            "74 cannot find ImageNet in DIR\n"
            "  searched: DIR/imagenet  (no such directory)\n"
            "  searched: DIR/ILSVRC  (no Data/CLS-LOC/val/)\n"
            "  searched: DIR/imagenet/ILSVRC  (no such directory)\n"
            "  searched: DIR  (neither train/ nor Data/CLS-LOC/train/)\n"
            "  try:      put train/ and val/ of ImageNet into DIR/imagenet");
}

TEST_F(Imagenet, SaysWhenTheArchivesOfClassesAreStillPacked) {
  write("imagenet/train/n01.tar");
  write("imagenet/val/a.JPEG");

  EXPECT_EQ(large_refusal(),
            "74 cannot use DIR/imagenet/train: it has no folders\n"
            "  try: also unpack the archives in ILSVRC2012_img_train.tar, each into its own "
            "folder");
}

}  // namespace
}  // namespace lockstep::image
