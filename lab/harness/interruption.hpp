// Ends a measurement cleanly on SIGINT, SIGTERM and SIGHUP: calls in flight return, the
// measurement's files are removed, and the process exits with 130.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <ferry/signals.hpp>

#include "harness/runtimes.hpp"

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

// The files that a repeat makes: removed when this ends, however it ends, unless kept. There is one
// at a time.
class ScratchFiles {
 public:
  explicit ScratchFiles(std::vector<std::string> paths);
  ~ScratchFiles();
  ScratchFiles(const ScratchFiles&) = delete;
  ScratchFiles& operator=(const ScratchFiles&) = delete;

  void keep() { kept_ = true; }

 private:
  std::vector<std::string> paths_;
  bool kept_ = false;
};

// Where a mapped file shrinks or its disk fills up, the kernel sends SIGBUS: says so in an error
// line, removes the scratch files, and exits with 1.
void report_bus_errors();

}  // namespace ferry::bench
