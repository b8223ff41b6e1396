// Sets up random_calls.hpp and evaluates it.
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/random_calls.hpp"

namespace ferry::test {

inline std::string text_of(const CallRecord& call) {
  static constexpr const char* names[] = {
      "nothing", "open",     "close",       "read",         "write",      "pread", "pwrite",
      "preadv",  "pwritev",  "pread_batch", "pwrite_async", "pread_each", "hold",  "prefetch",
      "evict",   "truncate", "fstat",       "flush",        "fsync"};
  return std::string(names[static_cast<std::uint32_t>(call.did)]) + " " +
         std::to_string(call.bytes) + " at " + std::to_string(call.offset) + ", placement " +
         std::to_string(call.placement);
}

// The files of some groups. Thread-safe for different groups.
class RandomFiles {
 public:
  explicit RandomFiles(std::uint32_t groups) : plans_(groups) {}

  // For the next group. `name`: the path for its calls; `path`: the local path; `inside`: memory
  // whose transfers need no bounce buffer, as the program addresses it.
  void add(const std::string& name, const std::string& path, unsigned char* inside, Random random,
           bool mixed) {
    One& one = files_.emplace_back(name, path);
    std::copy(name.begin(), name.end(), one.name.data());
    one.state[0].seed = random.bits();
    plans_[files_.size() - 1] =
        CallsPlan{one.name.data(),  inside, one.outside.data(), one.model.data(), one.state.data(),
                  one.lists.data(), mixed};
  }
  const CallsPlan* plans() const { return plans_.data(); }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(files_.size()); }

  // Compares the storage with the models. Returns nothing, or the first difference.
  std::string failure() const {
    for (const One& one : files_) {
      if (const std::string text = failure_of(one); !text.empty()) return one.path + ": " + text;
    }
    return "";
  }

 private:
  struct One {
    One(const std::string& called, std::string where)
        : path(std::move(where)),
          name(called.size() + 1),
          outside(calls_memory_bytes),
          model(calls_size_max + 1),
          state(1),
          lists(1) {}
    std::string path;
    SharedArray<char> name;
    SharedArray<unsigned char> outside;
    SharedArray<unsigned char> model;
    SharedArray<CallsState> state;
    SharedArray<CallsLists> lists;
  };

  static std::string failure_of(const One& one) {
    const CallsState& state = one.state[0];
    std::string text;
    if (state.failed != 0) {
      text = state.other_bytes != 0
                 ? std::string("other bytes")
                 : std::to_string(state.got) + " instead of " + std::to_string(state.wanted);
    } else {
      const std::string model(reinterpret_cast<const char*>(one.model.data()), state.size);
      const testing::AssertionResult same = same_bytes(read_file(one.path), model);
      if (!same) text = std::string("the file differs: ") + same.message();
    }
    if (text.empty()) return "";
    text += state.append != 0 ? " (appending), after:" : ", after:";
    const std::uint32_t kept = std::min(state.history_count, calls_kept);
    for (std::uint32_t i = state.history_count - kept; i < state.history_count; ++i)
      text += "\n  " + text_of(state.history[i % calls_kept]);
    return text;
  }

  SharedArray<CallsPlan> plans_;
  std::deque<One> files_;
};

// `count` calls by each group, in several runs of `run(program)`, with comparisons between. Returns
// nothing, or the first fault.
template <class Run>
std::string make_random_calls(const RandomFiles& files, const device::Context* context,
                              std::uint64_t count, Run run) {
  constexpr std::uint64_t at_once = 2000;
  while (count > 0) {
    const std::uint64_t step = std::min(count, at_once);
    count -= step;
    run(RandomCallsProgram{context, files.plans(), step, count == 0});
    if (std::string failure = files.failure(); !failure.empty()) return failure;
  }
  return "";
}

}  // namespace ferry::test
