// SPDX-License-Identifier: Apache-2.0
//
// A build without CUDA has no kernels. A library must have a file.
