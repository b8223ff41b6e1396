#include "daemon/listening_socket.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <ferry/error.hpp>

namespace ferry::daemon {
namespace {

constexpr int waiting_clients_max = 64;

[[noreturn]] void fail(int error, const std::string& line) {
  throw Error(error, line);
}

void check_folder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail(errno, folder);
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0) fail(errno, folder);
  if (!S_ISDIR(status.st_mode)) throw Error(ENOTDIR, folder + " is not a folder");
  constexpr mode_t others = 077;
  if (status.st_uid != geteuid() || (status.st_mode & others) != 0) {
    throw Error(EACCES, folder + " must belong to you, and others must not enter it: chmod 700 " +
                            folder + ", or name another socket with FERRY_RUN_SOCKET");
  }
}

}  // namespace

ListeningSocket::ListeningSocket(const std::string& path) : path_(path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0)
    throw Error(EINVAL, "the socket's path must be absolute, in a folder of its own: " + path);
  check_folder(path.substr(0, slash));
  try {
    lock(path + ".lock");
    listen_at();
  } catch (...) {
    if (descriptor_ >= 0) close(descriptor_);
    if (lock_ >= 0) close(lock_);
    throw;
  }
}

void ListeningSocket::lock(const std::string& lock_path) {
  lock_ = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) fail(errno, lock_path);
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0)
    throw Error(EADDRINUSE, "another ferryd serves " + path_);
}

void ListeningSocket::listen_at() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path)
    throw Error(ENAMETOOLONG, "a socket's path may have " +
                                  std::to_string(sizeof address.sun_path - 1) +
                                  " bytes, and this has more: " + path_);
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  descriptor_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor_ < 0) fail(errno, "a socket");
  unlink(path_.c_str());  // of a ferryd that is gone: the lock is ours
  if (bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(descriptor_, waiting_clients_max) != 0)
    fail(errno, path_);
  struct stat status {};
  if (lstat(path_.c_str(), &status) != 0) fail(errno, path_);
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

bool ListeningSocket::has_its_name() const {
  struct stat status {};
  if (lstat(path_.c_str(), &status) != 0) return errno != ENOENT && errno != ENOTDIR;
  return status.st_dev == device_ && status.st_ino == inode_;
}

ListeningSocket::~ListeningSocket() {
  if (has_its_name()) unlink(path_.c_str());
  close(descriptor_);
  close(lock_);
}

}  // namespace ferry::daemon
