// SPDX-License-Identifier: Apache-2.0
//
// Reads the program headers of an ELF file instead of starting it or calling readelf:
//
//   Elf64_Ehdr --e_phoff, e_phnum--> Elf64_Phdr[] --PT_NOTE--> {namesz, descsz, type} name desc ...
//
// The program can be any file of the user. Every offset and size comes from the file, so each read
// is checked and limited.
#include "launcher/supervisor/node/fork_note.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/fork_offer.h"

namespace lockstep::supervisor {
namespace {

template <typename T>
std::optional<T> read_at(std::ifstream& file, uint64_t offset) {
  T value;
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  // NOLINTNEXTLINE: istream reads bytes only
  file.read(reinterpret_cast<char*>(&value), sizeof(value));
  return file ? std::optional(value) : std::nullopt;
}

// Layout of a note: header, name with a final zero, description; name and description are padded to
// four bytes. Notes follow each other without a gap.
bool holds_note(std::string_view notes) {
  const auto padded = [](size_t bytes) {
    return (bytes + 3) / 4 * 4;
  };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes.data(), sizeof(header));
    notes.remove_prefix(sizeof(header));
    const std::string_view name = notes.substr(0, header.n_namesz);
    if (header.n_type == contract::kForkNoteType &&
        name.substr(0, name.find('\0')) == contract::kForkNoteName) {
      return true;
    }
    const size_t bytes = padded(header.n_namesz) + padded(header.n_descsz);
    notes.remove_prefix(std::min(bytes, notes.size()));
  }
  return false;
}

}  // namespace

// Program headers and not sections: an executable can lack the section table, but not the segments.
bool program_takes_fork_offer(const std::filesystem::path& program) {
  constexpr uint64_t kMaxNoteBytes = 1 << 16;
  std::ifstream file(program, std::ios::binary);
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  for (int i = 0; i < header->e_phnum; ++i) {
    const uint64_t offset = header->e_phoff + static_cast<uint64_t>(i) * header->e_phentsize;
    const auto segment = read_at<Elf64_Phdr>(file, offset);
    if (!segment || segment->p_type != PT_NOTE || segment->p_filesz > kMaxNoteBytes) {
      continue;
    }
    std::string notes(segment->p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment->p_offset));
    file.read(notes.data(), static_cast<std::streamsize>(notes.size()));
    if (file && holds_note(notes)) {
      return true;
    }
  }
  return false;
}

}  // namespace lockstep::supervisor
