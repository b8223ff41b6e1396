// ferryd's socket: in a folder that nobody else may enter, and one ferryd for each path.
#pragma once

#include <string>

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

 private:
  void lock(const std::string& lock_path);
  void listen_at();

  const std::string path_;
  int lock_ = -1;  // of a file beside the socket; the kernel frees it when this process ends
  int descriptor_ = -1;
};

}  // namespace ferry::daemon
