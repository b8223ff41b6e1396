// Shared by the tests under mpiexec. Every rank runs every test and draws the same random numbers,
// so each knows what all of them do.
#pragma once

#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <mpi.h>

#include <ferry/collective.hpp>

#include "collective/team.hpp"
#include "support/error_of.hpp"
#include "support/files.hpp"

namespace ferry::test {

// All ranks of the program.
inline collective::Team& world() {
  static collective::Team& team = *new collective::Team(MPI_COMM_WORLD);  // outlives MPI
  return team;
}
inline int rank() {
  return world().rank();
}
inline int ranks() {
  return world().size();
}
inline void barrier() {
  world().agree(0, "");
}

// A directory that all ranks use; rank 0 makes and removes it.
class SharedDirectory {
 public:
  SharedDirectory() {
    char path[256] = {};
    if (rank() == 0) own_ = std::make_unique<ScratchDirectory>();
    if (rank() == 0) own_->path().copy(path, sizeof path - 1);
    world().broadcast(path, sizeof path);
    path_ = path;
  }
  ~SharedDirectory() { barrier(); }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::unique_ptr<ScratchDirectory> own_;
  std::string path_;
};

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
inline std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

}  // namespace ferry::test
