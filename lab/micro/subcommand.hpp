// The subcommands of ferry-micro. Each .cpp has one and registers it, so the program has those that
// were compiled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ferry::benchmarks {

// What the command line gave. A subcommand's usage names what it takes.
struct BenchmarkOptions {
  std::string path;   // the first argument in capital letters: FILE, FOLDER, URI
  std::string other;  // the second
  std::string kind;   // one of several words: read|write
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t depth = 0;
  std::uint64_t repeats = 0;
  std::uint64_t threads = 0;
  double seconds = 0;
};

struct Subcommand {
  using Run = void (*)(const BenchmarkOptions& options);

  Subcommand(const char* its_name, const char* its_usage, const char* its_help, Run its_run)
      : name(its_name), usage(its_usage), help(its_help), run(its_run) {
    all().push_back(this);
  }
  Subcommand(const Subcommand&) = delete;
  Subcommand& operator=(const Subcommand&) = delete;

  static std::vector<const Subcommand*>& all() {
    static std::vector<const Subcommand*> registered;
    return registered;
  }

  const char* name;
  const char* usage;  // "FILE read|write --bytes --depth"
  const char* help;
  Run run;
};

}  // namespace ferry::benchmarks
