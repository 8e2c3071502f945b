// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/pickle_reader.h"

#include <gmock/gmock.h>
#include <random>
#include <sstream>

#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using namespace std::string_literals;
using ::testing::StartsWith;

torch::Tensor six_elements(const std::string& key, torch::ScalarType type, int64_t elements) {
  if (key != "0" || elements != 6) {
    refuse_pickle("storage \"" + key + "\" is missing");
  }
  return torch::arange(6, type);
}

c10::IValue read_pickle(const std::string& bytes) {
  return PickleReader(bytes, "x.pt", 1000, six_elements).read();
}

std::string text_of(const std::string& bytes) {
  std::ostringstream text;
  text << read_pickle(bytes);
  return text.str();
}

// A call of _rebuild_tensor_v2; `shape` is the pickle of offset, sizes and strides.
std::string tensor(const std::string& shape) {
  return "\x80\x02"
         "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0000X\x03\0\0\0cpuK\x06tQ"s +
         shape +
         "\x89"
         "ccollections\nOrderedDict\n)RtR.";
}

TEST(PickleReader, ReadsThePlainValuesOfEveryProtocol) {
  EXPECT_EQ(text_of("\x80\x02N."), "None");
  EXPECT_EQ(text_of("\x80\x02K\xff."), "255");
  EXPECT_EQ(text_of("\x80\x02M\x01\x02."), "513");
  EXPECT_EQ(text_of("\x80\x02J\xff\xff\xff\xff."), "-1");
  EXPECT_EQ(text_of("\x80\x02\x8a\0."s), "0");
  EXPECT_EQ(text_of("\x80\x02\x8a\x05\0\0\0\0\xff."s), "-4294967296");
  EXPECT_EQ(text_of("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."s), "9223372036854775807");
  EXPECT_EQ(text_of("\x80\x02G?\xe0\0\0\0\0\0\0."s), "0.5");
  EXPECT_EQ(text_of("\x80\x04\x95\x05\0\0\0\0\0\0\0\x8c\x02hi\x94."s), "hi");
  EXPECT_EQ(text_of("\x80\x02](K\x01K\x02\x88\x86"s + "e."), "[1, (2, True)]");
  EXPECT_EQ(text_of("\x80\x02}q\0X\x01\0\0\0aK\x01s."s), "{a: 1}");
}

TEST(PickleReader, DropsTheAttributesOfAStateDict) {
  EXPECT_EQ(text_of("\x80\x02"
                    "ccollections\nOrderedDict\n)Rq\0X\x01\0\0\0aK\x01s}X\x09\0\0\0_metadatah\0"
                    "sb."s),
            "{a: 1}");
}

TEST(PickleReader, ReadsStridedTensors) {
  const torch::Tensor all = torch::arange(6, torch::kFloat);

  EXPECT_TRUE(identical(read_pickle(tensor("K\0K\x03K\x02\x86K\x02K\x01\x86"s)).toTensor(),
                        all.view({3, 2})));
  EXPECT_TRUE(
      identical(read_pickle(tensor("K\x01K\x02\x85K\x03\x85"s)).toTensor(), all.slice(0, 1, 6, 3)));
  EXPECT_TRUE(identical(read_pickle(tensor("K\x05))"s)).toTensor(), all[5]));
  EXPECT_TRUE(
      identical(read_pickle(tensor("K\x06K\0\x85K\x01\x85"s)).toTensor(), torch::empty({0})));
}

TEST(PickleReader, NamesWhatItRefusesAndWhere) {
  struct Bad {
    std::string pickle;
    std::string why;
    int byte;
  };
  const std::string list_in_itself = "\x80\x02]q\0h\0a."s;
  const std::string two_lists = "\x80\x02]q\0]q\1h\0ah\0h\1a."s;
  const Bad table[] = {
      {"", "the pickle ends early", 1000},
      {"\x80\x02", "the pickle ends early", 1002},
      {"\x80\x02J\1\2", "the pickle ends early", 1005},
      {"\x80\x09N.", "pickle protocol 9 is not supported", 1000},
      {"\x80\x02NN.", "there is data after the end of the pickle", 1004},
      {"\x80\x02N.N", "there is data after the end of the pickle", 1003},
      {"\x80\x02.", "pickle stack underflow", 1002},
      {"\x80\x02(.", "pickle stack underflow", 1003},
      {"\x80\x02Nt.", "pickle stack underflow", 1003},
      {"\x80\x02N\x87.", "pickle stack underflow", 1003},
      {"\x80\x02h\x05.", "the pickle refers to an unknown memo entry", 1002},
      {"\x80\x02X\xff\xff\xff\xff.", "a string is longer than the pickle", 1002},
      {"\x80\x02\x8a\x09\1\2\3\4\5\6\7\x08\x09.", "an integer has more than 64 bits", 1002},
      {"\x80\x02NNa.", "the pickle appends to something that is not a list", 1004},
      {"\x80\x02]NNs.", "the pickle sets items of something that is not a dict", 1005},
      {"\x80\x02}(Nu.", "the pickle sets items of something that is not a dict", 1005},
      {"\x80\x02}NNs.", "a dict has a key that is neither a string nor an integer", 1005},
      {"\x80\x02}G\x7f\xf8\0\0\0\0\0\0Ns."s,
       "a dict has a key that is neither a string nor an integer",
       1013},
      {"\x80\x02}J\xff\xff\xff\x7fNs.",
       "a dict has the key 2147483647, which is out of range",
       1009},
      {list_in_itself,
       "a list or dict contains itself, or grows after it was added to another",
       1007},
      {two_lists, "a list or dict contains itself, or grows after it was added to another", 1015},
      {"\x80\x02i.", "pickle opcode 0x69 is not supported", 1002},
      {"\x80\x02"
       "cos\nsystem\nX\x02\0\0\0ls\x85R."s,
       "it contains the Python object os.system, not only tensors and plain values",
       1002},
      {"\x80\x02"
       "cos\nsystem\n.",
       "it contains the Python object os.system, not only tensors and plain values",
       1002},
      {"\x80\x02"
       "cos\nsystem",
       "a Python name is not terminated",
       1002},
      {"\x80\x04\x8c\x08"
       "builtins\x8c\x04"
       "eval\x93\x8c\x01x\x85R.",
       "it contains the Python object builtins.eval, not only tensors and plain values",
       1018},
      {"\x80\x02"
       "ctorch\nSize\n.",
       "it contains torch.Size itself, not only tensors and plain values",
       1014},
      {"\x80\x02"
       "ctorch\nSize\n)R.",
       "the pickle calls torch.Size with unexpected arguments",
       1015},
      {"\x80\x02"
       "ctorch\nQInt8Storage\n.",
       "it contains the Python object torch.QInt8Storage, not only tensors and plain values",
       1002},
      {"\x80\x02NN\x93.", "a Python name is not a string", 1004},
      {"\x80\x02N)R.", "the pickle calls something that is not a function", 1004},
      {"\x80\x02NQ.", "the name of a storage is malformed", 1003},
      {"\x80\x02KNb.", "pickle stack underflow", 1004},
      {"\x80\x02K\1Nb.", "the pickle sets attributes of an object that is not a dict", 1005},
  };

  for (const Bad& bad : table) {
    SCOPED_TRACE(bad.why);
    EXPECT_EQ(error_of([&] { read_pickle(bad.pickle); }),
              "74 cannot read x.pt: " + bad.why + "\n  byte: " + std::to_string(bad.byte));
  }
}

TEST(PickleReader, RefusesTensorsThatAreNotWithinTheirStorage) {
  struct Bad {
    std::string shape;
    std::string why;
  };
  const std::string largest = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85";
  const Bad table[] = {
      {"K\0K\x07\x85K\x01\x85"s, "a tensor is outside its storage"},
      {"K\x01K\x03K\x02\x86K\x02K\x01\x86"s, "a tensor is outside its storage"},
      {"K\0"s + largest + largest, "a tensor is outside its storage"},
      {"K\0K\x07\x85K\0\x85"s, "a tensor has more elements than its storage"},
      {"K\0\x8a\x08\1\0\0\0\0\0\0\x20\x85K\0\x85"s, "a tensor has more elements than its storage"},
      {"J\xff\xff\xff\xffK\x01\x85K\x01\x85"s, "a tensor is malformed"},
      {"K\x07K\0\x85K\x01\x85"s, "a tensor is malformed"},
      {"K\0K\x01\x85)"s, "a tensor is malformed"},
      {"K\0J\xff\xff\xff\xff\x85K\x01\x85"s, "the shape of a tensor has a negative number"},
      {"K\0N\x85K\x01\x85"s, "a size or offset of a tensor is not an integer"},
      {"K\0NK\x01\x85"s, "the shape of a tensor is malformed"},
  };

  for (const Bad& bad : table) {
    const std::string pickle = tensor(bad.shape);
    const size_t last_call = 1000 + pickle.size() - 2;
    EXPECT_EQ(error_of([&] { read_pickle(pickle); }),
              "74 cannot read x.pt: " + bad.why + "\n  byte: " + std::to_string(last_call));
  }
}

TEST(PickleReader, BoundsWhatAFileCanMakeItUse) {
  const std::string deep = "\x80\x02]" + std::string(70, ']') + std::string(70, 'a') + ".";
  EXPECT_THAT(error_of([&] { read_pickle(deep); }),
              StartsWith("74 cannot read x.pt: lists and dicts are nested more than 64 deep"));

  // Each tuple contains the previous one twice: 2^40 leaves in a hundred bytes.
  std::string laughs = "\x80\x02N";
  for (char i = 0; i < 40; ++i) {
    laughs += std::string("q") + i + "h" + i + "\x86";
  }
  EXPECT_THAT(error_of([&] { read_pickle(laughs + "."); }),
              StartsWith("74 cannot read x.pt: the pickle contains more than 4194304 items"));

  const std::string wide = "\x80\x02" + std::string(5 << 20, 'N');
  EXPECT_THAT(error_of([&] { read_pickle(wide); }),
              StartsWith("74 cannot read x.pt: the pickle contains more than 4194304 items"));
}

TEST(PickleReader, NeverThrowsAnythingButAnErrorWhateverItReads) {
  const std::string good[] = {
      tensor("K\0K\x03K\x02\x86K\x02K\x01\x86"s),
      "\x80\x02}q\0(X\x01\0\0\0a](K\1K\2eX\x01\0\0\0bG?\xe0\0\0\0\0\0\0X\1\0\0\0c}Nh\0su."s,
      "\x80\x04\x95\x20\0\0\0\0\0\0\0\x8c\x0b"
      "collections\x8c\x0bOrderedDict\x93)R\x94(\x8c\1a\x94K\1u}b."s};
  std::mt19937 random(42);

  int refused = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string bytes = good[random() % std::size(good)];
    for (uint32_t change = random() % 4 + 1; change > 0; --change) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          bytes.erase(at, 1);
      }
    }
    try {
      read_pickle(bytes);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace lockstep::checkpoint
