// Mixed calls of many callers over all storages, which fail now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ferry::load {

// Something that a load keeps and should not, for tests of the check.
enum class Leak : std::uint8_t { none, descriptors, threads, memory };

struct LoadOptions {
  std::chrono::milliseconds time{std::chrono::hours(1)};
  unsigned steps = ~0U;   // of each caller in a tenth of it, at most
  unsigned callers = 16;  // device threads
  unsigned bulk_callers = 4;
  std::uint64_t seed = 0;
  std::chrono::milliseconds longest_hang{500};
  // For a request to a local file system, to which the kernel gives any time. Shorter hangs than
  // the bound of a call cannot show that such calls wait for a storage that hangs.
  std::chrono::milliseconds local_bound{10'000};
  std::chrono::milliseconds pause{300};  // between hangs, and between troubles
  std::string trouble;                   // a command that harms servers and repairs them
  Leak leak = Leak::none;
  bool says_progress = false;
};

struct LoadReport {
  std::vector<std::string> problems;  // wrong bytes, wrong errors, calls beyond their bound
  std::vector<std::string> growth;    // what is not flat
  std::string text;
};

// Runs it in stretches, between which no call is in progress and no file is open. The servers are
// those of the environment (support/servers.hpp). Ends the process if a call never returns.
LoadReport run_load(const LoadOptions& options);

}  // namespace ferry::load
