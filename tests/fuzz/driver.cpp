// Runs a fuzz target without libFuzzer: every input of its corpus, then mutations of them.
//   fuzz_NAME FOLDER [SECONDS [SEED]]
// Blind to coverage, so it only repeats what fuzzing has found and looks a little around it. Prints
// the seed, and keeps the input that ends the program as crash-input.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

namespace {

using Input = std::vector<std::uint8_t>;

constexpr std::size_t input_bytes_max = 4096;
constexpr unsigned one_input_s = 30;  // then it hangs

const Input* current = nullptr;

void keep_input(int signal) {
  constexpr mode_t readable = 0644;
  const int file = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, readable);
  if (current != nullptr && file >= 0) {
    static_cast<void>(!write(file, current->data(), current->size()));
    constexpr char text[] = "FAILED: the input is in ./crash-input\n";
    static_cast<void>(!write(STDERR_FILENO, text, sizeof text - 1));
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal == SIGALRM ? SIGABRT : signal);
}

void run(const Input& input) {
  current = &input;
  alarm(one_input_s);
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

std::vector<Input> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path());
  std::sort(names.begin(), names.end());
  std::vector<Input> corpus;
  for (const auto& name : names) {
    std::ifstream file(name, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : generator_(seed) {}

  std::size_t below(std::size_t count) { return generator_() % std::max<std::size_t>(count, 1); }

  Input mutate(const std::vector<Input>& corpus) {
    Input input = corpus[below(corpus.size())];
    for (std::size_t times = 1 + below(6); times > 0; --times)
      change(input, corpus[below(corpus.size())]);
    input.resize(std::min(input.size(), input_bytes_max));
    return input;
  }

 private:
  auto at(Input& input, std::size_t place) {
    return input.begin() + static_cast<std::ptrdiff_t>(place);
  }

  void change(Input& input, const Input& other) {
    constexpr std::uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};
    const std::size_t place = below(input.size() + 1);
    const std::size_t bytes = below(input.size() - place + 1);
    switch (below(6)) {
      case 0:
        if (place < input.size()) input[place] ^= static_cast<std::uint8_t>(1U << below(8));
        return;
      case 1:
        if (place < input.size()) input[place] = edges[below(std::size(edges))];
        return;
      case 2:
        input.insert(at(input, place), static_cast<std::uint8_t>(generator_()));
        return;
      case 3:
        input.erase(at(input, place), at(input, place + bytes));
        return;
      case 4: {
        const Input copy(at(input, place), at(input, place + bytes));
        input.insert(at(input, below(input.size() + 1)), copy.begin(), copy.end());
        return;
      }
      default: {
        const std::size_t from = below(other.size() + 1);
        input.insert(at(input, place), other.begin() + static_cast<std::ptrdiff_t>(from),
                     other.end());
        return;
      }
    }
  }

  std::mt19937_64 generator_;
};

}  // namespace

int main(int count, char** words) {
  if (count < 2 || count > 4) {
    std::fprintf(stderr, "usage: %s FOLDER [SECONDS [SEED]]\n", words[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV})
    std::signal(signal, keep_input);
  std::vector<Input> corpus = read_corpus(words[1]);
  for (const Input& input : corpus)
    run(input);
  if (corpus.empty()) corpus.emplace_back();
  const double seconds = count > 2 ? std::strtod(words[2], nullptr) : 0;
  const std::uint64_t seed =
      count > 3 ? std::strtoull(words[3], nullptr, 10) : std::random_device{}();
  std::printf("%zu inputs; seed %llu\n", corpus.size(), static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Mutator mutator(seed);
  std::uint64_t runs = 0;
  for (; Clock::now() < end; ++runs)
    run(mutator.mutate(corpus));
  std::printf("%llu mutations\n", static_cast<unsigned long long>(runs));
  return 0;
}
