// What a fuzz target makes of its input: values that lie where bounds are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace ferry::fuzz {

// Ends the program, so that the fuzzer keeps the input.
[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::abort();
}
inline void require(bool holds, const char* what) {
  if (!holds) fail(what);
}

// The input, taken from the front; zeros follow its end.
class InputBytes {
 public:
  InputBytes(const std::uint8_t* data, std::size_t bytes) : left_(data, bytes) {}

  bool empty() const { return left_.empty(); }

  template <class T>
  T take() {
    T value{};
    const std::size_t bytes = sizeof value < left_.size() ? sizeof value : left_.size();
    if (bytes > 0) std::memcpy(&value, left_.data(), bytes);
    left_ = left_.subspan(bytes);
    return value;
  }

  // A small number, one beside an edge, or any: so that few bytes reach every bound.
  std::uint64_t number(std::span<const std::uint64_t> edges) {
    const auto choice = take<std::uint8_t>();
    if (choice < 64) return choice;
    if (choice < 80) return take<std::uint16_t>();
    if (choice < 88) return take<std::uint64_t>();
    const std::uint64_t edge = edges.empty() ? 0 : edges[choice % edges.size()];
    return edge + static_cast<std::uint64_t>(std::int64_t{take<std::int8_t>()});
  }

  std::string text(std::size_t bytes_max) {
    const std::size_t bytes = bytes_max < left_.size() ? bytes_max : left_.size();
    std::string taken(reinterpret_cast<const char*>(left_.data()), bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  std::string rest() { return text(left_.size()); }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace ferry::fuzz
