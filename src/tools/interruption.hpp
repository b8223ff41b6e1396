// SIGINT, SIGTERM and SIGHUP end a measurement cleanly: calls under way return, files that the
// measurement made are removed, and the process exits with 130.
#pragma once

#include <atomic>
#include <string>

#include <ferry/signals.hpp>

#include "tools/runtimes.hpp"

namespace ferry::bench {

// Blocks the signals for this thread and all that it starts from now on, before the runtime.
void hold_signals();

// On the first signal it sets stopped() and shuts the runtimes down; on the second it ends the
// process.
class Interruption {
 public:
  explicit Interruption(const Runtimes& runtimes);
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  const std::atomic<bool>& stopped() const { return stopped_; }
  // Throws ferry::Error (EINTR) once stopped.
  void check() const;

 private:
  std::atomic<bool> stopped_{false};
  SignalThread thread_;  // last: it uses what is above
};

// A file that a measurement makes: removed when this ends, however it ends, unless kept.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& path);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

// Where a mapped file shrinks or its disk fills up, the kernel sends SIGBUS: says so in an error
// line, removes the scratch file, and exits with 1.
void report_bus_errors();

}  // namespace ferry::bench
