// A device program for tests: executes a list of calls on a file of its own and writes down what
// each returned and which bytes it read. Compiled for the `cpu` device and for GPUs from this one
// source; script_model.hpp makes the lists and knows what has to come out.
#pragma once

#include <cstdint>

#include <ferry/device/file_calls.hpp>

#include "support/data.hpp"

namespace ferry::test {

struct Step {
  enum Call : std::uint32_t { read, write, truncate, sync, flush, evict, reopen, status };
  Call call = read;
  device::Placement placement = device::Placement::host;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // of a truncation: the new size
  std::uint64_t seed = 0;   // of what is written
  std::uint64_t shift = 0;  // of the buffer's start
};

struct Outcome {
  std::int64_t result = 0;
  std::uint64_t checksum = 0;  // of what was read; the size that a status tells
};

// Summed up over all bytes; the order does not matter, their places do.
FERRY_DEVICE inline std::uint64_t part_of_checksum(std::uint64_t at, unsigned char byte) {
  return (at + 1) * (std::uint64_t{byte} + 1) * 0x9e3779b97f4a7c15ULL;
}

// What one group gets.
struct Script {
  const char* path = nullptr;
  const Step* steps = nullptr;
  std::uint32_t count = 0;
  unsigned char* buffer = nullptr;  // large enough for every step
  Outcome* outcomes = nullptr;      // one for each step, and one for the close at the end
  std::uint64_t* sum = nullptr;     // zero; lanes add to it
};

inline constexpr int script_open_flags =
    2 | 0100;  // O_RDWR | O_CREAT; there is no <fcntl.h> in a kernel

template <class Group>
FERRY_DEVICE std::int64_t run_step(device::FileCalls<Group>& files, Group group, int& file,
                                   const Script& script, const Step& step) {
  unsigned char* memory = script.buffer + step.shift;
  const auto offset = static_cast<std::int64_t>(step.offset);
  switch (step.call) {
    case Step::read:
      return files.pread(file, memory, step.bytes, offset);
    case Step::write:
      for (std::uint64_t at = group.lane(); at < step.bytes; at += group.size())
        memory[at] = byte_of(step.seed, at);
      group.sync();
      return files.pwrite(file, memory, step.bytes, offset);
    case Step::truncate:
      return files.ftruncate(file, static_cast<std::int64_t>(step.bytes));
    case Step::sync:
      return files.fsync(file);
    case Step::flush:
      return files.flush(file);
    case Step::evict:
      return files.evict(file);
    case Step::reopen: {
      const int error = files.close(file);
      file = files.open(script.path, script_open_flags, 0644);
      return file < 0 ? file : error;
    }
    case Step::status: {
      device::FileStatus status{};
      const int error = files.fstat(file, &status);
      if (group.lane() == 0) *script.sum = status.size_bytes;
      return error;
    }
  }
  return -1;
}

template <class Group>
FERRY_DEVICE void run_script(const device::Context& context, Group group, std::uint32_t index,
                             const Script& script) {
  device::FileCalls<Group> files(context, group, index);
  int file = files.open(script.path, script_open_flags, 0644);
  for (std::uint32_t i = 0; i < script.count; ++i) {
    const Step& step = script.steps[i];
    files.use(step.placement);
    const std::int64_t result = run_step(files, group, file, script, step);
    group.sync();
    if (step.call == Step::read && result > 0) {
      std::uint64_t mine = 0;
      const auto got = static_cast<std::uint64_t>(result);
      for (std::uint64_t at = group.lane(); at < got; at += group.size())
        mine += part_of_checksum(at, script.buffer[step.shift + at]);
      device::DeviceRef<std::uint64_t>(*script.sum).fetch_add(mine, device::relaxed);
    }
    group.sync();
    if (group.lane() == 0) {
      script.outcomes[i] = Outcome{result, *script.sum};
      *script.sum = 0;
    }
    group.sync();
  }
  const int closed = files.close(file);
  if (group.lane() == 0) script.outcomes[script.count] = Outcome{closed, 0};
}

}  // namespace ferry::test
