// ferry-micro: measurements with a bare opponent in the same process. `ferry-micro --help` lists
// them. Each measure is one line of JSON (benchmark.hpp).
#include <algorithm>
#include <exception>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "micro/benchmark.hpp"

namespace {

using namespace ferry::benchmarks;

struct Number {
  std::uint64_t BenchmarkOptions::*value;
  const char* help;
};

// Every word of a usage is an argument.
void add_arguments(CLI::App& command, const std::string& usage, BenchmarkOptions& options) {
  static const std::map<std::string, Number> numbers = {
      {"--bytes", {&BenchmarkOptions::bytes, "bytes of a transfer, or of a file"}},
      {"--count", {&BenchmarkOptions::count, "files"}},
      {"--depth", {&BenchmarkOptions::depth, "transfers in flight"}},
      {"--repeats", {&BenchmarkOptions::repeats, "samples"}},
      {"--threads", {&BenchmarkOptions::threads, "threads, each with a part of the work"}},
  };
  std::string* path = &options.path;
  std::istringstream words(usage);
  for (std::string word; words >> word;) {
    CLI::Option* option = nullptr;
    if (const auto number = numbers.find(word); number != numbers.end()) {
      option = command.add_option(word, options.*number->second.value, number->second.help)
                   ->check(CLI::PositiveNumber);
    } else if (word == "--seconds") {
      option = command.add_option(word, options.seconds, "how long to measure");
    } else if (word.find('|') != std::string::npos) {
      option = command.add_option("KIND", options.kind, "what to measure")
                   ->check(CLI::IsMember(CLI::detail::split(word, '|')));
    } else {
      option = command.add_option(word, *path);
      path = &options.other;
    }
    option->required();
  }
  command.add_option("--only", only, "measures whose name contains this");
  command.add_option("--pairs", pair_count, "pairs of each measure")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures what Ferry promises beside bare opponents in the same process.");
  app.require_subcommand(1);
  BenchmarkOptions options;
  std::vector<const Subcommand*> all = Subcommand::all();
  std::sort(all.begin(), all.end(),
            [](auto* a, auto* b) { return std::string(a->name) < b->name; });
  for (const Subcommand* one : all) {
    CLI::App* command = app.add_subcommand(one->name, one->help);
    add_arguments(*command, one->usage, options);
    command->callback([one, &options] { one->run(options); });
  }
  try {
    CLI11_PARSE(app, argc, argv);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}
