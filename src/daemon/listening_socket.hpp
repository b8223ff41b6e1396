// ferryd's socket: in a folder that nobody else may enter, and one ferryd for each path.
#pragma once

#include <string>

#include <sys/types.h>

namespace ferry::daemon {

class ListeningSocket {
 public:
  // Makes the folder (0700) if it is missing, and replaces the socket of a ferryd that is gone.
  // Throws ferry::Error: EADDRINUSE, another ferryd serves the path; EACCES, others may enter the
  // folder; ENAMETOOLONG and others from the system.
  explicit ListeningSocket(const std::string& path);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  int descriptor() const { return descriptor_; }
  // False if it was removed or replaced: no client finds it any more.
  bool has_its_name() const;

 private:
  void lock(const std::string& lock_path);
  void listen_at();

  const std::string path_;
  int lock_ = -1;  // of a file beside the socket; the kernel frees it when this process ends
  int descriptor_ = -1;
  dev_t device_ = 0;  // the socket's own
  ino_t inode_ = 0;
};

}  // namespace ferry::daemon
