// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::os {

// Lets the C library keep freed memory instead of giving it back to the kernel at once. Training
// frees and asks again for the same large blocks in each step; zeroing their pages anew each time
// costs up to 40 % of a step. False where the C library has no such choice.
bool keep_freed_memory();

// Gives freed memory back once, before a time in which less is needed than so far.
void give_back_freed_memory();

// Whole pages, zeroed; null where there are no more. To be given back in the same size.
void* map_memory(size_t bytes);
void unmap_memory(void* memory, size_t bytes);

// The most memory that this process has had resident.
uint64_t peak_resident_bytes();

// What is resident now.
uint64_t resident_bytes();

// A symbol of any library of this process, or null. For what a linked library may or may not offer.
void* find_symbol(const char* name);

// The file, links followed, of the library that a call of this symbol goes to; empty if none has
// it.
std::string library_of(const char* symbol);

}  // namespace lockstep::os
