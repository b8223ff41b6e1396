// The files that Ferry has beside the MPI library's handles.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

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
    files_[handle] = std::move(file);
  }
  // Null: none.
  std::shared_ptr<OpenedFile> find(MPI_File handle) {
    const std::lock_guard guard(mutex_);
    const auto found = files_.find(handle);
    return found == files_.end() ? nullptr : found->second;
  }
  void remove(MPI_File handle) {
    const std::lock_guard guard(mutex_);
    files_.erase(handle);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<MPI_File, std::shared_ptr<OpenedFile>> files_;
};

}  // namespace ferry::mpiio
