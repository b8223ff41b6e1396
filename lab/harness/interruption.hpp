// Ends a measurement cleanly on SIGINT, SIGTERM and SIGHUP: calls in flight return, the
// measurement's files are removed, and the process exits with 130.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ferry/signals.hpp>

#include "harness/measured_device.hpp"

namespace ferry::bench {

inline constexpr int exit_interrupted = 130;

// Blocks the signals for this thread and all that it starts from now on, before the runtime.
void hold_signals();

// On the first signal it sets stopped() and has the devices end their calls; on the second, or
// where the measurement does not end by itself soon, it ends the process: a device may not end its
// calls, and files that are made, verified or synced may be large.
class Interruption {
 public:
  explicit Interruption(const Runtimes& runtimes);
  ~Interruption() { over_ = true; }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  const std::atomic<bool>& stopped() const { return stopped_; }
  // Throws ferry::Error (EINTR) once stopped.
  void check() const;

 private:
  void end_calls(const Runtimes& runtimes);

  std::atomic<bool> stopped_{false};
  std::atomic<bool> over_{false};
  SignalThread thread_;  // last: it uses what is above
};

// Files that the measurement makes: removed when this ends, however it ends, unless kept.
class ScratchFiles {
 public:
  explicit ScratchFiles(std::vector<std::string> paths);
  ~ScratchFiles();
  ScratchFiles(const ScratchFiles&) = delete;
  ScratchFiles& operator=(const ScratchFiles&) = delete;

  const std::vector<std::string>& paths() const { return paths_; }
  void keep() { may_be_ours_ = 0; }
  // Of these, in their order, only the first `count` may be removed: no other is made yet, or it is
  // another's. Thread-safe.
  void keep_all_but(std::size_t count) { may_be_ours_ = count; }

  // A signal handler can remove files of mounted file systems only.
  enum class Caller : std::uint8_t { thread, handler };
  // For a process that then ends and runs no destructors: others wait here.
  static void remove_all(Caller caller);

 private:
  template <class Remove>
  void remove_with(Remove remove) const;

  const std::vector<std::string> paths_;
  std::atomic<std::size_t> may_be_ours_;
  ScratchFiles* next_ = nullptr;  // of all that there are
};

// Where a mapped file shrinks or its disk fills up, the kernel sends SIGBUS: says so in an error
// line, removes the scratch files, and exits with 1.
void report_bus_errors();

}  // namespace ferry::bench
