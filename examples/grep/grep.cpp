// Counts the lines of a large text file that contain a string, like `grep -F -c`; every device
// thread searches. It uses the file only through file calls, and reads its next piece while it
// searches the current one.
//
//   ferry-grep [--threads N] STRING FILE
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "../common/command.hpp"

namespace {

namespace examples = ferry::examples;
using examples::check_call;

constexpr std::uint64_t piece_bytes = 1 << 20;

// The search on one device thread. A line belongs to the piece with its first byte.
class Search {
 public:
  Search(ferry::DeviceThread& self, const std::string& path, std::string_view wanted, char* buffers)
      : files_(self.files),
        wanted_(wanted),
        path_(path),
        buffers_{buffers, buffers + piece_bytes},
        file_(static_cast<int>(check_call(files_.open(path.c_str(), O_RDONLY), path))) {}
  ~Search() { files_.close(file_); }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Takes pieces from the shared counter until none are left; returns the matching lines.
  std::uint64_t run(std::atomic<std::uint64_t>& next_piece) {
    std::uint64_t piece = next_piece.fetch_add(1);
    ferry::device::Pending pending = start(piece, 0);
    for (unsigned turn = 0;; turn ^= 1) {
      const auto got = static_cast<std::uint64_t>(check_call(files_.wait(pending), path_));
      if (got == 0) return lines_;
      const std::uint64_t following = next_piece.fetch_add(1);
      pending = start(following, turn ^ 1);
      search_piece(piece, {buffers_[turn], got});
      piece = following;
    }
  }

 private:
  ferry::device::Pending start(std::uint64_t piece, unsigned turn) {
    return files_.pread_async(file_, buffers_[turn], piece_bytes,
                              static_cast<std::int64_t>(piece * piece_bytes));
  }

  void search_piece(std::uint64_t piece, std::string_view text) {
    std::uint64_t position = piece * piece_bytes;
    const std::uint64_t end = position + text.size();
    if (piece > 0 && !begins_line(position)) {
      const std::size_t newline = text.find('\n');
      if (newline == std::string_view::npos) return;
      text.remove_prefix(newline + 1);
    }
    while (!text.empty()) {
      const std::size_t newline = text.find('\n');
      if (newline == std::string_view::npos) {
        count(std::string(text) + rest_of_line(end));
        return;
      }
      count(text.substr(0, newline));
      text.remove_prefix(newline + 1);
    }
  }

  // Whether a line starts at `position`: the byte before ends one.
  bool begins_line(std::uint64_t position) {
    char before = 0;
    check_call(files_.pread(file_, &before, 1, static_cast<std::int64_t>(position) - 1), path_);
    return before == '\n';
  }

  // From `position` to the end of the line or of the file.
  std::string rest_of_line(std::uint64_t position) {
    constexpr std::uint64_t step_bytes = 4096;
    std::string rest;
    for (;;) {
      char step[step_bytes];
      const auto got = static_cast<std::size_t>(check_call(
          files_.pread(file_, step, step_bytes, static_cast<std::int64_t>(position)), path_));
      const std::string_view text(step, got);
      const std::size_t newline = text.find('\n');
      rest += text.substr(0, newline);
      if (got == 0 || newline != std::string_view::npos) return rest;
      position += got;
    }
  }

  void count(std::string_view line) {
    const void* found = memmem(line.data(), line.size(), wanted_.data(), wanted_.size());
    if (wanted_.empty() || found != nullptr) ++lines_;
  }

  ferry::device::FileCalls<ferry::device::ThreadGroup>& files_;
  std::string_view wanted_;
  const std::string& path_;
  char* buffers_[2];
  int file_;
  std::uint64_t lines_ = 0;
};

std::uint64_t matching_lines(const std::string& wanted, const std::string& path, unsigned threads) {
  ferry::RuntimeOptions options;
  options.device_threads = threads;
  ferry::Runtime runtime(options);
  const unsigned count = runtime.info().device_threads;
  std::vector<ferry::Buffer> buffers;
  for (unsigned i = 0; i < count; ++i)
    buffers.push_back(runtime.allocate(2 * piece_bytes));
  std::atomic<std::uint64_t> next_piece{0};
  std::atomic<std::uint64_t> lines{0};
  runtime.run([&](ferry::DeviceThread& self) {
    Search search(self, path, wanted, buffers[self.index].as<char>());
    lines += search.run(next_piece);
  });
  return lines;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_command("ferry-grep", argc, argv, 2, [](examples::Words words) {
    const auto threads =
        static_cast<unsigned>(examples::take_number(words, "--threads", 0, 1, 1024));
    if (words.size() != 2)
      throw examples::WrongArguments("usage: ferry-grep [--threads N] STRING FILE");
    const std::uint64_t lines = matching_lines(words[0], words[1], threads);
    std::printf("%lu\n", lines);
    return lines > 0 ? 0 : 1;
  });
}
