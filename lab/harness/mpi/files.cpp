#include "harness/mpi/files.hpp"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <fcntl.h>

#include <ferry/byte_order.hpp>

#include "harness/contents.hpp"
#include "harness/pattern.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench::mpi {
namespace {

using storage::checked;
using storage::Kind;

constexpr std::uint64_t step_bytes = std::uint64_t{4} << 20;
constexpr std::uint32_t mode_of_new_files = 0600;

}  // namespace

bool Files::exists(const std::string& path) {
  const std::int64_t result = calls_.run({.kind = Kind::path_status, .path = path.c_str()});
  if (result != -ENOENT) checked(result, path);
  return result == 0;
}

void Files::remove(const std::string& path) {
  const std::int64_t result = calls_.run({.kind = Kind::unlink, .path = path.c_str()});
  if (result != -ENOENT) checked(result, "removing " + path);
}

void Files::make_striped(const Cell& cell, const std::string& path) {
  storage::Layout layout;
  layout.stripe_bytes = cell.stripe_bytes;
  layout.stripe_count = cell.stripe_count;
  storage::SyncFile file(calls_);
  checked(file.open(path, O_RDWR | O_CREAT | O_EXCL, mode_of_new_files, &layout),
          "making " + path + " with its stripes");
  checked(file.close(), "closing " + path);
}

std::optional<storage::Layout> Files::layout_of(const std::string& path) {
  storage::Layout layout;
  const std::int64_t result =
      calls_.run({.kind = Kind::path_layout, .path = path.c_str(), .layout = &layout});
  if (result == -EOPNOTSUPP) return std::nullopt;
  checked(result, "the layout of " + path);
  return layout;
}

void Files::make(const Cell& cell, const std::string& path, std::uint64_t bytes,
                 std::uint64_t seed) {
  if (cell.is_striped()) make_striped(cell, path);
  const StoredFile file(path, O_RDWR | O_CREAT | (cell.is_striped() ? 0 : O_EXCL), storage_);
  std::vector<std::byte> data(std::min(bytes, step_bytes));
  for (std::uint64_t at = 0; at < bytes; at += step_bytes) {
    const std::uint64_t step = std::min(step_bytes, bytes - at);
    fill_pattern(data.data(), step, at, seed);
    if (is_foreign(cell.order)) swap_bytes(data.data(), step, cell.element_bytes);
    file.write(data.data(), step, at);
  }
  file.sync();
}

void Files::verify(const Cell& cell, const std::string& path, std::uint64_t begin,
                   std::uint64_t end, std::uint64_t seed) {
  const StoredFile file(path, O_RDONLY, storage_);
  PatternChecker checker(seed);
  std::vector<std::byte> data(std::min(end - begin, step_bytes));
  for (std::uint64_t at = begin; at < end; at += step_bytes) {
    const std::uint64_t step = std::min(step_bytes, end - at);
    file.read(data.data(), step, at);
    if (is_foreign(cell.order)) swap_bytes(data.data(), step, cell.element_bytes);
    const std::uint64_t good = checker.first_difference(data.data(), step, at);
    if (good != step) {
      throw ContentsError("the contents of " + path + " are wrong at byte " +
                          std::to_string(at + good) + ", by way of " + name_of(cell.interface));
    }
  }
}

void Files::check_size(const std::string& path, std::uint64_t bytes) {
  storage::Operation look{.kind = Kind::path_status, .path = path.c_str()};
  checked(calls_.run(look), path);
  if (look.status.size_bytes == bytes) return;
  throw ContentsError(path + " has " + std::to_string(look.status.size_bytes) +
                      " bytes in place of " + std::to_string(bytes));
}

MadeFiles::~MadeFiles() {
  for (const std::string& path : paths_) {
    try {
      files_.remove(path);
    } catch (const Error&) {
      continue;  // whoever made the folder removes what is left in it
    }
  }
}

void MadeFiles::add(const std::string& path) {
  lock();
  paths_.insert(path);
  lock_.clear(std::memory_order_release);
}

void MadeFiles::remove(const std::string& path) {
  if (!has(path)) return;
  files_.remove(path);
  lock();
  paths_.erase(path);
  lock_.clear(std::memory_order_release);
}

void MadeFiles::remove_all() {
  lock();  // and keeps it
  Files own;
  for (const std::string& path : paths_) {
    try {
      own.remove(path);
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace ferry::bench::mpi
