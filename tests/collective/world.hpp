// Shared by the tests under mpiexec, with the headers that most of them need. Every rank runs every
// test and draws the same random numbers, so each knows what all of them do.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <ferry/collective.hpp>

#include "collective/team.hpp"
#include "support/depth.hpp"
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

// Of a test, and looked at by main() after MPI_Finalize.
inline std::weak_ptr<const void> ended_by_finalize;

// A directory that all ranks use; rank 0 makes and removes it.
class SharedDirectory {
 public:
  SharedDirectory() : SharedDirectory(std::filesystem::temp_directory_path().string()) {}
  explicit SharedDirectory(const std::string& parent) {
    char path[256] = {};
    if (rank() == 0) own_ = std::make_unique<ScratchDirectory>(parent);
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

// All methods but that of the MPI library.
inline constexpr collective::Method own_methods[] = {
    collective::Method::independent, collective::Method::serial, collective::Method::aggregate};

// 0: as Ferry chooses.
inline collective::Options options_of(collective::Method method, int writers = 0,
                                      std::int64_t buffer_bytes = 0) {
  collective::Options options;
  options.write_method = options.read_method = method;
  options.writers = writers;
  options.buffer_bytes = buffer_bytes;
  return options;
}

// Hints, freed at the end.
class Hints {
 public:
  Hints(std::initializer_list<std::pair<const char*, std::string>> hints) {
    MPI_Info_create(&info_);
    for (const auto& [name, value] : hints)
      MPI_Info_set(info_, name, value.c_str());
  }
  ~Hints() { MPI_Info_free(&info_); }
  Hints(const Hints&) = delete;
  Hints& operator=(const Hints&) = delete;
  operator MPI_Info() const { return info_; }  // NOLINT: used in place of one

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

// Collective: this rank reads these bytes.
inline void expect_at(collective::File& file, std::int64_t offset, const std::string& wanted) {
  std::string got(wanted.size(), '?');
  EXPECT_EQ(file.read_at_all(offset, bytes_of(got)), std::ssize(wanted));
  EXPECT_TRUE(same_bytes(got, wanted));
}

}  // namespace ferry::test
