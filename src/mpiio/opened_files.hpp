// The files that Ferry has beside the MPI library's handles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpiio/opened_file.hpp"

namespace ferry::mpiio {

// Thread-safe.
class OpenedFiles {
 public:
  // Never destroyed: a program may end with open files.
  static OpenedFiles& get() {
    static OpenedFiles& files = *new OpenedFiles;
    return files;
  }
  void add(MPI_File handle, std::shared_ptr<OpenedFile> file) {
    const std::lock_guard guard(mutex_);
    files_[handle] = {std::move(file), ++opened_};
  }
  // Null: none.
  std::shared_ptr<OpenedFile> find(MPI_File handle) {
    const std::lock_guard guard(mutex_);
    const auto found = files_.find(handle);
    return found == files_.end() ? nullptr : found->second.file;
  }
  void remove(MPI_File handle) {
    const std::lock_guard guard(mutex_);
    files_.erase(handle);
  }
  // In an order that is the same on all ranks: of their names, and of several with one name as they
  // were opened.
  std::vector<std::pair<MPI_File, std::shared_ptr<OpenedFile>>> all() {
    std::vector<std::pair<MPI_File, Entry>> entries;
    {
      const std::lock_guard guard(mutex_);
      entries.assign(files_.begin(), files_.end());
    }
    std::ranges::sort(entries, {}, [](const auto& entry) {
      return std::pair(entry.second.file->path(), entry.second.opened);
    });
    std::vector<std::pair<MPI_File, std::shared_ptr<OpenedFile>>> files;
    files.reserve(entries.size());
    for (auto& [handle, entry] : entries)
      files.emplace_back(handle, std::move(entry.file));
    return files;
  }

 private:
  struct Entry {
    std::shared_ptr<OpenedFile> file;
    std::uint64_t opened = 0;
  };

  std::mutex mutex_;
  std::unordered_map<MPI_File, Entry> files_;
  std::uint64_t opened_ = 0;
};

}  // namespace ferry::mpiio
