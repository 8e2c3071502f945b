// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::os {

// Makes the C library keep freed memory instead of returning it to the kernel. Training frees and
// allocates the same large blocks in each step, and zeroing their pages each time costs up to 40 %
// of a step. False if the C library has no such setting.
bool keep_freed_memory();

// Returns freed memory to the kernel once, before a phase that needs less.
void give_back_freed_memory();

// Whole pages, zeroed; null if there is no memory. Must be freed with the same size.
void* map_memory(size_t bytes);
void unmap_memory(void* memory, size_t bytes);

// Maximum resident memory of this process so far.
uint64_t peak_resident_bytes();

// Current resident memory.
uint64_t resident_bytes();

// A symbol of any library in this process, or null. For optional functions of linked libraries.
void* find_symbol(const char* name);

// The file, with links resolved, of the library that provides this symbol; empty if none does.
std::string library_of(const char* symbol);

}  // namespace lockstep::os
