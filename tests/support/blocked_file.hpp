// A file on which writes block until the test releases them.
#pragma once

#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "storage/posix/file.hpp"
#include "storage/storage.hpp"

namespace ferry::test {

// A full pipe. Treated as remote, so that no queue writes to it on its own thread.
class BlockedFile {
 public:
  BlockedFile() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::system_category(), "pipe");
    }
    read_end_ = ends[0];
    file_.fd = ends[1];
    file_.remote = true;
    fcntl(file_.fd, F_SETFL, O_NONBLOCK);
    const std::vector<char> filler(4096);
    while (::write(file_.fd, filler.data(), filler.size()) > 0) {
    }
    fcntl(file_.fd, F_SETFL, 0);
    fcntl(read_end_, F_SETFL, O_NONBLOCK);
  }
  ~BlockedFile() {
    if (read_end_ >= 0) ::close(read_end_);
  }
  BlockedFile(const BlockedFile&) = delete;
  BlockedFile& operator=(const BlockedFile&) = delete;

  storage::PosixFile& file() { return file_; }
  // Appends one byte. Lives no longer than this.
  storage::Operation operation() {
    storage::Operation made{
        .kind = storage::Kind::append, .file = &file_, .vectors = {&vector_, 1}};
    return made;
  }
  // Makes space for `bytes` bytes.
  void release(std::size_t bytes = 65536) {
    std::vector<char> drain(bytes);
    if (::read(read_end_, drain.data(), drain.size()) < 0) {
      throw std::system_error(errno, std::system_category(), "read");
    }
  }

 private:
  int read_end_ = -1;
  storage::PosixFile file_;
  char byte_ = 'x';
  iovec vector_{&byte_, 1};
};

}  // namespace ferry::test
