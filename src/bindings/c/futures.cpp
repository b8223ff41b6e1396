// Transfers that are waited for later.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/direction.hpp"
#include "bindings/c/transfers.hpp"

namespace ferry::c {
namespace {

constexpr std::uint64_t parts_max = 1 << 20;

std::shared_ptr<bulk::Future> future_of(const ferry_future* handle) {
  return FutureHandles::mine().get(handle);
}

int start(ferry_future** future, Direction direction, const ferry_part* parts,
          std::uint64_t count) {
  return guarded([&] {
    *given(future, "future") = nullptr;
    if (count > parts_max) refuse("count: at most " + std::to_string(parts_max));
    if (count > 0) given(parts, "parts");
    std::vector<std::shared_ptr<bulk::File>> files;  // open until the transfer has them
    std::vector<bulk::Part> own;
    files.reserve(count);
    own.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const ferry_part& part = parts[i];
      files.push_back(FileHandles::mine().get(part.file));
      check_range(part.data, part.bytes, part.offset_bytes);
      own.push_back({files.back().get(), part.data, part.bytes, part.offset_bytes});
    }
    const bulk::Engine engine = bulk::Engine::common();
    auto started = std::make_shared<bulk::Future>(direction == Direction::read ? engine.read(own)
                                                                               : engine.write(own));
    *future = FutureHandles::mine().add(std::move(started));
    return 0;
  });
}

}  // namespace
}  // namespace ferry::c

using namespace ferry::c;

int ferry_pread_async(ferry_future** future, ferry_file* file, void* data, uint64_t bytes,
                      uint64_t offset_bytes) {
  const ferry_part part{file, data, bytes, offset_bytes};
  return start(future, ferry::Direction::read, &part, 1);
}

int ferry_pwrite_async(ferry_future** future, ferry_file* file, const void* data, uint64_t bytes,
                       uint64_t offset_bytes) {
  const ferry_part part{file, const_cast<void*>(data), bytes, offset_bytes};
  return start(future, ferry::Direction::write, &part, 1);
}

int ferry_read_parts(ferry_future** future, const ferry_part* parts, uint64_t count) {
  return start(future, ferry::Direction::read, parts, count);
}

int ferry_write_parts(ferry_future** future, const ferry_part* parts, uint64_t count) {
  return start(future, ferry::Direction::write, parts, count);
}

int ferry_future_wait(ferry_future* future, int64_t timeout_ms) {
  return guarded([&] {
    const auto waited = future_of(future);
    if (timeout_ms < 0) {
      waited->wait();
      return 1;
    }
    // Nanoseconds in 64 bits last for 292 years.
    constexpr std::int64_t timeout_ms_max = INT64_MAX / 1'000'000;
    return waited->wait_for(std::chrono::milliseconds(std::min(timeout_ms, timeout_ms_max))) ? 1
                                                                                             : 0;
  });
}

int ferry_future_test(ferry_future* future) {
  return guarded([&] { return future_of(future)->ready() ? 1 : 0; });
}

int64_t ferry_future_wait_any(ferry_future* const* futures, uint64_t count) {
  return guarded([&] {
    given(futures, "futures");
    if (count == 0 || count > parts_max) refuse("count: from 1 to " + std::to_string(parts_max));
    std::vector<std::shared_ptr<ferry::bulk::Future>> held;
    std::vector<const ferry::bulk::Future*> waited;
    for (uint64_t i = 0; i < count; ++i) {
      held.push_back(future_of(futures[i]));
      waited.push_back(held.back().get());
    }
    return static_cast<int64_t>(ferry::bulk::wait_any(waited));
  });
}

int64_t ferry_future_result(ferry_future* future) {
  return guarded([&] { return static_cast<int64_t>(future_of(future)->get()); });
}

int64_t ferry_future_part_result(ferry_future* future, uint64_t part) {
  return guarded([&]() -> int64_t {
    const auto waited = future_of(future);
    const std::vector<std::int64_t>& results = waited->results();
    if (part >= results.size()) {
      refuse("part: the transfer has " + std::to_string(results.size()) + " parts");
    }
    if (results[part] < 0) {
      refuse("part " + std::to_string(part), static_cast<int>(-results[part]));
    }
    return results[part];
  });
}

int ferry_future_cancel(ferry_future* future) {
  return guarded([&] {
    future_of(future)->cancel();
    return 0;
  });
}

int ferry_future_free(ferry_future* future) {
  return guarded([&] {
    FutureHandles::mine().take(future).reset();
    return 0;
  });
}
