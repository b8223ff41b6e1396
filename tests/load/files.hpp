// Calls on files in the form that callers make them: by device threads or by host threads with bulk
// transfers. Results are bytes or 0, or a negative errno.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <ferry/bulk.hpp>
#include <ferry/ferry.hpp>

#include "support/depth.hpp"

namespace ferry::load {

class CallerFiles {
 public:
  virtual ~CallerFiles() = default;
  virtual void choose_way(test::Random&) {}  // of the next calls
  virtual std::string way() const = 0;
  virtual int open(const std::string& path, int flags) = 0;
  virtual int close(int file) = 0;
  virtual std::int64_t read(int file, unsigned char* to, std::uint64_t bytes,
                            std::uint64_t offset) = 0;
  virtual std::int64_t write(int file, const unsigned char* from, std::uint64_t bytes,
                             std::uint64_t offset) = 0;
  virtual std::int64_t append(int file, const unsigned char* from, std::uint64_t bytes) = 0;
  virtual int flush(int file) = 0;
  virtual int sync(int file) = 0;
  virtual int truncate(int file, std::uint64_t bytes) = 0;
  virtual std::int64_t size(int file) = 0;
  virtual int unlink(const std::string& path) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual bool can_rename() const = 0;
};

// `memory` is the device's, `memory_bytes` of it.
class DeviceFiles final : public CallerFiles {
 public:
  using Calls = device::FileCalls<device::ThreadGroup>;
  DeviceFiles(Calls& calls, unsigned char* memory, std::uint64_t memory_bytes)
      : calls_(calls), memory_(memory), memory_bytes_(memory_bytes) {}

  void choose_way(test::Random& random) override {
    using enum device::Placement;
    constexpr device::Placement placements[] = {host, compute, service, automatic};
    placement_ = random.below(4);
    calls_.use(placements[placement_]);
    in_arena_ = random.one_in(2);
    waits_later_ = random.one_in(4);
    in_pieces_ = random.one_in(4);
  }
  std::string way() const override {
    constexpr const char* names[] = {"host", "compute", "service", "automatic"};
    return std::string(names[placement_]) + (in_arena_ ? ", in the arena" : "") +
           (waits_later_ ? ", waited for later"
            : in_pieces_ ? ", in pieces"
                         : "");
  }
  int open(const std::string& path, int flags) override {
    const int file = calls_.open(path.c_str(), flags, 0644);
    if (file != -EINVAL || (flags & O_DIRECT) == 0) return file;
    return calls_.open(path.c_str(), flags & ~O_DIRECT, 0644);  // not on every file system
  }
  int close(int file) override { return calls_.close(file); }
  std::int64_t read(int file, unsigned char* to, std::uint64_t bytes,
                    std::uint64_t offset) override {
    const bool here = in_arena_ && bytes <= memory_bytes_;
    unsigned char* memory = here ? memory_ : to;
    const auto at = static_cast<std::int64_t>(offset);
    std::int64_t got = 0;
    if (waits_later_) {
      device::Pending pending = calls_.pread_async(file, memory, bytes, at);
      got = calls_.wait(pending);
    } else if (in_pieces_ && bytes > 1) {
      const device::IoVector pieces[2] = {{memory, bytes / 3},
                                          {memory + bytes / 3, bytes - bytes / 3}};
      got = calls_.preadv(file, pieces, 2, at);
    } else {
      got = calls_.pread(file, memory, bytes, at);
    }
    if (here && got > 0) std::memcpy(to, memory, static_cast<std::size_t>(got));
    return got;
  }
  std::int64_t write(int file, const unsigned char* from, std::uint64_t bytes,
                     std::uint64_t offset) override {
    auto* memory = const_cast<unsigned char*>(from);
    if (in_arena_ && bytes <= memory_bytes_) {
      std::memcpy(memory_, from, bytes);
      memory = memory_;
    }
    const auto at = static_cast<std::int64_t>(offset);
    if (waits_later_) {
      device::Pending pending = calls_.pwrite_async(file, memory, bytes, at);
      return calls_.wait(pending);
    }
    if (!in_pieces_ || bytes < 2) return calls_.pwrite(file, memory, bytes, at);
    const device::IoVector pieces[2] = {{memory, bytes / 3},
                                        {memory + bytes / 3, bytes - bytes / 3}};
    return calls_.pwritev(file, pieces, 2, at);
  }
  std::int64_t append(int file, const unsigned char* from, std::uint64_t bytes) override {
    return calls_.pwrite(file, from, bytes, 0);
  }
  int flush(int file) override { return calls_.flush(file); }
  int sync(int file) override { return waits_later_ ? calls_.fdatasync(file) : calls_.fsync(file); }
  int truncate(int file, std::uint64_t bytes) override {
    return calls_.ftruncate(file, static_cast<std::int64_t>(bytes));
  }
  std::int64_t size(int file) override {
    device::FileStatus status{};
    const int error = calls_.fstat(file, &status);
    return error != 0 ? error : static_cast<std::int64_t>(status.size_bytes);
  }
  int unlink(const std::string& path) override { return calls_.unlink(path.c_str()); }
  int rename(const std::string&, const std::string&) override { return -ENOSYS; }
  bool can_rename() const override { return false; }

 private:
  Calls& calls_;
  unsigned char* const memory_;
  const std::uint64_t memory_bytes_;
  std::size_t placement_ = 0;
  bool in_arena_ = false;
  bool waits_later_ = false;
  bool in_pieces_ = false;
};

class BulkFiles final : public CallerFiles {
 public:
  explicit BulkFiles(const bulk::Engine& engine) : engine_(engine) {}

  void choose_way(test::Random& random) override { waits_later_ = random.one_in(2); }
  std::string way() const override { return waits_later_ ? "waited for later" : "waited for"; }
  int open(const std::string& path, int flags) override {
    return attempt([&] {
      auto file = std::make_unique<bulk::File>(engine_, path, flags, 0644);
      for (std::size_t i = 0; i < files_.size(); ++i) {
        if (files_[i] != nullptr) continue;
        files_[i] = std::move(file);
        return static_cast<int>(i) + 1;
      }
      files_.push_back(std::move(file));
      return static_cast<int>(files_.size());
    });
  }
  int close(int file) override {
    const std::unique_ptr<bulk::File> closing = std::move(files_[index(file)]);
    return attempt([&] { return closing->close(), 0; });
  }
  std::int64_t read(int file, unsigned char* to, std::uint64_t bytes,
                    std::uint64_t offset) override {
    return attempt([&] {
      return static_cast<std::int64_t>(waits_later_
                                           ? of(file).read_at_async(to, bytes, offset).get()
                                           : of(file).read_at(to, bytes, offset));
    });
  }
  std::int64_t write(int file, const unsigned char* from, std::uint64_t bytes,
                     std::uint64_t offset) override {
    return attempt([&] {
      return static_cast<std::int64_t>(waits_later_
                                           ? of(file).write_at_async(from, bytes, offset).get()
                                           : of(file).write_at(from, bytes, offset));
    });
  }
  std::int64_t append(int file, const unsigned char* from, std::uint64_t bytes) override {
    return attempt([&] {
      of(file).append(from, bytes);
      return static_cast<std::int64_t>(bytes);
    });
  }
  int flush(int) override { return 0; }  // nothing is kept back
  int sync(int file) override {
    return attempt([&] { return of(file).sync(), 0; });
  }
  int truncate(int file, std::uint64_t bytes) override {
    return attempt([&] { return of(file).truncate(bytes), 0; });
  }
  std::int64_t size(int file) override {
    return attempt([&] { return static_cast<std::int64_t>(of(file).size()); });
  }
  int unlink(const std::string& path) override {
    return attempt([&] { return engine_.unlink(path), 0; });
  }
  int rename(const std::string& from, const std::string& to) override {
    return attempt([&] { return engine_.rename(from, to), 0; });
  }
  bool can_rename() const override { return true; }

 private:
  static std::size_t index(int file) { return static_cast<std::size_t>(file) - 1; }
  const bulk::File& of(int file) const { return *files_[index(file)]; }
  template <class Call>
  static auto attempt(const Call& call) -> decltype(call()) {
    try {
      return call();
    } catch (const Error& error) {
      return -error.code().value();
    }
  }

  const bulk::Engine& engine_;
  std::vector<std::unique_ptr<bulk::File>> files_;
  bool waits_later_ = false;
};

}  // namespace ferry::load
