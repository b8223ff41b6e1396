#include "harness/programs.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "harness/pattern.hpp"
#include "harness/usage.hpp"
#include "harness/verification.hpp"

namespace ferry::bench {
namespace {

constexpr std::uint64_t small_call_bytes = std::uint64_t{64} << 10;
constexpr unsigned small_call_stride = 64;
constexpr unsigned char poison = 0xa5;
constexpr std::uint64_t wait_step_ns = 100'000'000;

void check_moved(const ProgramInput& input, MeasuredOperation operation, std::int64_t moved,
                 std::uint64_t bytes, std::uint64_t offset) {
  if (moved != static_cast<std::int64_t>(bytes))
    report_call(input.cell, operation, input.part, moved, offset);
}

void check_running(const ProgramInput& input) {
  const bool in_vain =
      input.others_failed != nullptr && input.others_failed->load(std::memory_order_relaxed);
  if (in_vain || input.stopped.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
}

// Goes on after a short write, as programs do: it does not say why it is one, and the next one
// does, or has room. `write` takes data, bytes and an offset.
template <class Write>
std::int64_t go_on(std::int64_t moved, unsigned char* data, std::uint64_t bytes,
                   std::uint64_t offset, Write write) {
  while (moved > 0 && static_cast<std::uint64_t>(moved) < bytes) {
    const auto done = static_cast<std::uint64_t>(moved);
    const std::int64_t more = write(data + done, bytes - done, offset + done);
    if (more < 0) return more;
    if (more == 0) break;
    moved += more;
  }
  return moved;
}

std::int64_t write_all(FileAccess& file, unsigned char* data, std::uint64_t bytes,
                       std::uint64_t offset) {
  const auto write = [&file](unsigned char* from, std::uint64_t count, std::uint64_t at) {
    return file.write(from, count, at);
  };
  return go_on(write(data, bytes, offset), data, bytes, offset, write);
}

std::int64_t call(const ProgramInput& input, MeasuredOperation operation, unsigned char* data,
                  std::uint64_t bytes, std::uint64_t offset) {
  FileAccess& file = input.file_at(offset);
  return operation == MeasuredOperation::read ? file.read(data, bytes, offset)
                                              : write_all(file, data, bytes, offset);
}

// Of a transfer in flight, whose slot is free for what is left of it.
std::int64_t finish(const ProgramInput& input, MeasuredOperation operation, unsigned slot,
                    unsigned char* data, std::uint64_t bytes, std::uint64_t offset) {
  const std::int64_t moved = input.file().finish(slot);
  if (operation == MeasuredOperation::read) return moved;
  return go_on(moved, data, bytes, offset,
               [&](unsigned char* from, std::uint64_t count, std::uint64_t at) {
                 input.file().start(slot, operation, from, count, at);
                 return input.file().finish(slot);
               });
}

// When the calls of one thread begin and end: a deadline, a fixed time after a ramp, a rate.
class Pace {
 public:
  Pace(const ProgramInput& input, ProgramOutput& output)
      : input_(input),
        output_(output),
        calls_(input.cell.time_ms == 0 ? input.cell.calls_per_thread() * input.cell.passes
                                       : UINT64_MAX),
        begin_ns_(now_ns()),
        ramp_ns_(input.cell.ramp_ms * ns_per_ms),
        limit_ms_(input.cell.deadline_ms + input.cell.ramp_ms + input.cell.time_ms),
        end_ns_(limit_ms_ == 0 ? never_ns : limit_ms_ * ns_per_ms),
        timed_mask_(latency_stride(input.cell) - 1) {}

  // Whether there is another call. Waits until it is due, or the time is over.
  bool has_call(std::uint64_t call) {
    if (call >= calls_ || is_over_) return false;
    if (input_.cell.rate_bytes_per_s == 0) return true;
    const std::uint64_t due_after_ns = due_after_ns_of(call);
    if (is_in_ramp() && due_after_ns >= ramp_ns_) end_ramp(call, ramp_ns_);
    due_ns_ = begin_ns_ + due_after_ns;
    is_late_ = now_ns() >= due_ns_;
    is_over_ = due_after_ns >= end_ns_;
    wait(std::min(due_after_ns, end_ns_));
    return !is_over_;
  }
  bool is_timed(std::uint64_t call) const { return is_timed_call(call, timed_mask_); }

  // When a call that is timed begins. Behind a call that took so long that it is late, the time
  // that it was late counts as its own (Tene's coordinated omission).
  std::uint64_t begin() const { return is_late_ ? due_ns_ : now_ns(); }
  // Notes the latency of such a call, and whether it was the last.
  void end(std::uint64_t call, MeasuredOperation operation, std::uint64_t call_begin_ns) {
    const std::uint64_t now = now_ns();
    const bool mixed_read = input_.cell.mixes() && operation == MeasuredOperation::read;
    (mixed_read ? output_.read_latencies : output_.latencies).note(now - call_begin_ns);
    std::uint64_t elapsed_ns = now - begin_ns_;
    if (input_.agree_on_time && (limit_ms_ != 0 || input_.cell.rate_bytes_per_s != 0))
      elapsed_ns = agreed_ns_ = input_.agree_on_time(elapsed_ns);
    if (is_in_ramp() && elapsed_ns > ramp_ns_ && elapsed_ns <= never_ns) {
      end_ramp(call + 1, elapsed_ns);
      return;  // one call counts at least
    }
    is_over_ = is_over_ || elapsed_ns > end_ns_;
  }
  void finish(std::uint64_t calls) {
    output_.operations = calls;
    output_.deadline_reached = input_.cell.time_ms == 0 && calls < calls_;
  }

 private:
  static constexpr std::uint64_t ns_per_ms = 1'000'000;
  static constexpr std::uint64_t never_ns = UINT64_MAX / 8;  // below what ranks agree on to end

  bool is_in_ramp() const { return input_.cell.ramp_ms != 0 && output_.ramp_ns == 0; }
  // So many calls do not count.
  void end_ramp(std::uint64_t calls, std::uint64_t elapsed_ns) {
    output_.latencies = output_.read_latencies = {};
    output_.read_operations = 0;
    output_.ramp_operations = calls;
    output_.ramp_ns = elapsed_ns;
  }

  // Until so long after the first call. Ranks that agree do so behind each long step: by the time
  // that they agreed on last, and so behind the same steps.
  void wait(std::uint64_t after_ns) {
    while (input_.agree_on_time && agreed_ns_ + wait_step_ns < after_ns) {
      wait_until(input_, begin_ns_ + agreed_ns_ + wait_step_ns);
      agreed_ns_ = input_.agree_on_time(now_ns() - begin_ns_);
    }
    wait_until(input_, begin_ns_ + after_ns);
  }

  std::uint64_t due_after_ns_of(std::uint64_t call) const {
    const double bytes = static_cast<double>(call) * static_cast<double>(input_.cell.call_bytes());
    const double seconds = bytes / static_cast<double>(input_.cell.rate_bytes_per_s);
    return static_cast<std::uint64_t>(seconds * 1e9);
  }

  const ProgramInput& input_;
  ProgramOutput& output_;
  const std::uint64_t calls_;
  const std::uint64_t begin_ns_;
  const std::uint64_t ramp_ns_;  // since then, likewise the end
  const std::uint64_t limit_ms_;
  const std::uint64_t end_ns_;
  const std::uint64_t timed_mask_;
  std::uint64_t due_ns_ = 0;     // of a call at a rate
  std::uint64_t agreed_ns_ = 0;  // with other ranks
  bool is_late_ = false;
  bool is_over_ = false;
};

// What calls leave in their buffers: compares what was read while the time runs, where the cell
// wants that, and notes what mixed calls must have read at last.
class Readings {
 public:
  Readings(const ProgramInput& input, ProgramOutput& output)
      : input_(input),
        output_(output),
        checks_(input.cell.check &&
                (input.cell.mixes() || input.cell.operation == MeasuredOperation::read)),
        checker_(input.pattern_seed) {
    if (!input.cell.mixes()) return;
    made_checker_.emplace(input.made_seed());
    written_.resize(input.order.size());
    if (!input.cell.may_overlap()) last_.resize(input.cell.queue_depth);
  }
  ~Readings() {
    for (const auto& last : last_)
      if (last) output_.last_reads.push_back(*last);
  }
  Readings(const Readings&) = delete;
  Readings& operator=(const Readings&) = delete;

  void note(std::uint64_t call, MeasuredOperation operation, unsigned slot, std::uint64_t offset) {
    if (input_.cell.mixes()) {
      note_mixed(call, operation, slot, offset);
    } else if (checks_) {
      compare(checker_, slot, offset);
    }
  }

 private:
  void note_mixed(std::uint64_t call, MeasuredOperation operation, unsigned slot,
                  std::uint64_t offset) {
    const std::uint32_t place = input_.place_of_call(call);
    if (operation == MeasuredOperation::write) {
      written_[place] = true;
      return;
    }
    if (call >= output_.ramp_operations) ++output_.read_operations;
    const bool written = written_[place];
    if (!last_.empty())
      last_[slot] = {slot, offset, written ? input_.pattern_seed : input_.made_seed()};
    if (checks_) compare(written ? checker_ : *made_checker_, slot, offset);
  }
  void compare(PatternChecker& checker, unsigned slot, std::uint64_t offset) {
    const Cell& cell = input_.cell;
    const unsigned char* data = input_.buffer_of(slot, MeasuredOperation::read);
    if (cell.meanwhile_pattern_seed) return verify_either(cell, input_.part, data, offset);
    const std::uint64_t at = checker.first_difference(data, cell.call_bytes(), offset);
    if (at == cell.call_bytes()) return;
    output_.wrong = true;
    if (!input_.notes_wrong)
      report_wrong_byte(file_path(cell, input_.part.file), offset + at, cell.interface);
  }

  const ProgramInput& input_;
  ProgramOutput& output_;
  const bool checks_;
  PatternChecker checker_;
  // Of mixed calls.
  std::optional<PatternChecker> made_checker_;
  std::vector<bool> written_;  // by place
  std::vector<std::optional<ProgramOutput::LastRead>> last_;
};

// One call after the other.
void stream(const ProgramInput& input, ProgramOutput& output) {
  const Cell& cell = input.cell;
  const std::uint64_t bytes = cell.call_bytes();
  PatternBuffer pattern(input.buffer, bytes, input.pattern_seed);
  if (cell.operation == MeasuredOperation::write) pattern.assume(input.offset_of(0));
  Readings readings(input, output);
  Pace pace(input, output);
  std::uint64_t done = 0;
  std::uint64_t unsynced = 0;  // writes
  for (; pace.has_call(done); ++done) {
    const std::uint64_t offset = input.offset_of(done);
    const MeasuredOperation operation = input.operation_of(done);
    unsigned char* const data = input.buffer_of(0, operation);
    if (operation == MeasuredOperation::write) pattern.move_to(offset);
    std::int64_t moved = 0;
    if (pace.is_timed(done)) {
      const std::uint64_t begin = pace.begin();
      moved = call(input, operation, data, bytes, offset);
      pace.end(done, operation, begin);
    } else {
      moved = call(input, operation, data, bytes, offset);
    }
    check_moved(input, operation, moved, bytes, offset);
    readings.note(done, operation, 0, offset);
    unsynced += operation == MeasuredOperation::write ? 1 : 0;
    if (cell.sync_every_calls != 0 && unsynced == cell.sync_every_calls) {
      input.file().sync();
      unsynced = 0;
    }
    check_running(input);
  }
  pace.finish(done);
}

// queue_depth calls in flight, waited for in the order they were started.
void stream_deep(const ProgramInput& input, ProgramOutput& output) {
  const Cell& cell = input.cell;
  const std::uint64_t bytes = cell.call_bytes();
  std::vector<std::uint64_t> began_ns(cell.queue_depth);
  std::vector<PatternBuffer> patterns;
  for (unsigned slot = 0; slot < cell.queue_depth; ++slot) {
    patterns.emplace_back(input.buffer + slot * bytes, bytes, input.pattern_seed);
    if (cell.operation == MeasuredOperation::write && slot < cell.calls_per_thread())
      patterns.back().assume(input.offset_of(slot));
  }
  Readings readings(input, output);
  Pace pace(input, output);
  // `waited` of the transfers are done, `started` under way or done.
  std::uint64_t waited = 0;
  for (std::uint64_t started = 0;;) {
    if (started - waited < cell.queue_depth && pace.has_call(started)) {
      const auto slot = static_cast<unsigned>(started % cell.queue_depth);
      const std::uint64_t offset = input.offset_of(started);
      const MeasuredOperation operation = input.operation_of(started);
      if (operation == MeasuredOperation::write) patterns[slot].move_to(offset);
      if (pace.is_timed(started)) began_ns[slot] = pace.begin();
      input.file().start(slot, operation, input.buffer_of(slot, operation), bytes, offset);
      ++started;
      continue;
    }
    if (waited == started) break;
    const auto slot = static_cast<unsigned>(waited % cell.queue_depth);
    const std::uint64_t offset = input.offset_of(waited);
    const MeasuredOperation operation = input.operation_of(waited);
    unsigned char* const data = input.buffer_of(slot, operation);
    const std::int64_t moved = finish(input, operation, slot, data, bytes, offset);
    if (pace.is_timed(waited)) pace.end(waited, operation, began_ns[slot]);
    check_moved(input, operation, moved, bytes, offset);
    readings.note(waited, operation, slot, offset);
    check_running(input);
    ++waited;
  }
  pace.finish(waited);
}

void compute(const ProgramInput& input, ProgramOutput& output, std::uint64_t offset,
             unsigned char* data) {
  const std::uint64_t bytes = input.cell.transfer_bytes;
  if (input.cell.operation == MeasuredOperation::read) {
    output.sum += sum_words(data, bytes);
  } else {
    fill_words(data, bytes, piece_value(offset / bytes, input.pattern_seed));
  }
}

void timed_call(const ProgramInput& input, ProgramOutput& output, std::uint64_t offset) {
  const std::uint64_t bytes = input.cell.call_bytes();
  const std::uint64_t begin = now_ns();
  const std::int64_t moved = call(input, input.cell.operation, input.buffer, bytes, offset);
  const std::uint64_t took = now_ns() - begin;
  output.calls_ns += took;
  output.latencies.note(took);
  check_moved(input, input.cell.operation, moved, bytes, offset);
  ++output.operations;
}

void iterative(const ProgramInput& input, ProgramOutput& output) {
  const bool reads = input.cell.operation == MeasuredOperation::read;
  for (std::uint64_t i = 0; i < input.cell.calls_per_thread(); ++i) {
    const std::uint64_t offset = input.offset_of(i);
    if (reads) timed_call(input, output, offset);
    compute(input, output, offset, input.buffer);
    if (!reads) timed_call(input, output, offset);
    check_running(input);
  }
}

void once(const ProgramInput& input, ProgramOutput& output) {
  const Cell& cell = input.cell;
  const bool reads = cell.operation == MeasuredOperation::read;
  const std::uint64_t begin = input.part.begin;
  if (reads) timed_call(input, output, begin);
  for (std::uint64_t at = 0; at < cell.part_bytes(); at += cell.transfer_bytes)
    compute(input, output, begin + at, input.buffer + at);
  if (!reads) timed_call(input, output, begin);
  check_running(input);
}

// One file after the other.
void each_file(const ProgramInput& input, ProgramOutput& output) {
  const Cell& cell = input.cell;
  const std::uint64_t bytes = cell.transfer_bytes;
  const bool writes = cell.operation == MeasuredOperation::write;
  PatternBuffer pattern(input.buffer, bytes, input.pattern_seed);
  if (writes) pattern.assume(input.offset_of(0));
  for (const std::uint32_t call : input.order) {
    const std::uint64_t offset = input.part.offset_of(call);
    if (writes) pattern.move_to(offset);
    FileAccess& file = *input.files[call];
    const std::uint64_t begin = now_ns();
    file.open(input.open_flags);
    const std::int64_t moved =
        writes ? write_all(file, input.buffer, bytes, 0) : file.read(input.buffer, bytes, 0);
    file.close();
    output.latencies.note(now_ns() - begin);
    check_moved(input, cell.operation, moved, bytes, offset);
    check_running(input);
    ++output.operations;
  }
}

// How often places are drawn, beside each other.
std::vector<double> make_weights(const Cell& cell) {
  std::vector<double> weights(cell.calls_per_thread());
  const auto count = static_cast<double>(weights.size());
  const double hot = std::max(1.0, std::floor(count * cell.hot_file_percent / 100));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto rank = static_cast<double>(i + 1);
    if (cell.offsets == Offsets::zipf) {
      weights[i] = std::pow(rank, -cell.zipf_exponent);
    } else if (rank <= hot) {
      weights[i] = cell.hot_call_percent / hot;
    } else {
      weights[i] = (100 - cell.hot_call_percent) / (count - hot);
    }
  }
  return weights;
}

}  // namespace

void report_wrong_byte(const std::string& path, std::uint64_t offset, Interface interface) {
  throw ContentsError("the contents of " + path + " are wrong at byte " + std::to_string(offset) +
                      ", by way of " + name_of(interface));
}

void report_call(const Cell& cell, MeasuredOperation operation, const ThreadPart& part,
                 std::int64_t moved, std::uint64_t offset) {
  const Place place = place_of(cell, part, offset);
  const std::string what =
      std::string(operation == MeasuredOperation::read ? "reading " : "writing ") +
      std::to_string(cell.call_bytes()) + " bytes at " + std::to_string(place.offset) + " of " +
      file_path(cell, place.file);
  if (moved < 0) throw Error(static_cast<int>(-moved), what);
  throw Error(EIO, what + " moved only " + std::to_string(moved));
}

unsigned latency_stride(const Cell& cell) {
  const bool samples = !cell.latency && cell.rate_bytes_per_s == 0 &&
                       cell.program == Program::stream && cell.call_bytes() <= small_call_bytes;
  return samples ? small_call_stride : 1;
}

std::vector<std::uint32_t> make_order(const Cell& cell, unsigned thread) {
  std::vector<std::uint32_t> order(cell.calls_per_thread());
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937_64 generator(cell.seed + thread);
  if (cell.offsets == Offsets::random || cell.offsets == Offsets::zipf)
    std::shuffle(order.begin(), order.end(), generator);
  if (!cell.draws()) return order;
  const std::vector<double> weights = make_weights(cell);
  std::discrete_distribution<std::size_t> draw(weights.begin(), weights.end());
  std::vector<std::uint32_t> drawn(order.size());
  for (std::uint32_t& place : drawn)
    place = order[draw(generator)];
  return drawn;
}

MeasuredOperation operation_of(const Cell& cell, unsigned thread, std::uint64_t call) {
  if (!cell.mixes()) return cell.operation;
  const std::uint64_t who = cell.collective ? 0 : thread;
  const std::uint64_t drawn = mix(mix(cell.seed + who) ^ call) % 100;
  return drawn < cell.read_percent ? MeasuredOperation::read : MeasuredOperation::write;
}

std::vector<bool> places_of(const Cell& cell, unsigned thread, std::uint64_t calls) {
  const std::vector<std::uint32_t> order = make_order(cell, thread);
  std::vector<bool> places(order.size());
  // The second pass goes to the same places, and only mixed calls do something else there.
  const std::uint64_t end = cell.mixes() ? calls : std::min<std::uint64_t>(calls, order.size());
  for (std::uint64_t call = 0; call < end; ++call) {
    if (operation_of(cell, thread, call) == cell.operation)
      places[order[call % order.size()]] = true;
  }
  return places;
}

void prepare_buffer(const ProgramInput& input) {
  const Cell& cell = input.cell;
  if (cell.operation == MeasuredOperation::read || cell.computes()) {
    std::memset(input.buffer, poison, cell.buffer_bytes());
    return;
  }
  if (cell.mixes())
    std::memset(input.buffer_of(0, MeasuredOperation::read), poison, cell.buffer_bytes() / 2);
  for (unsigned slot = 0; slot < cell.queue_depth && slot < cell.calls_per_thread(); ++slot) {
    fill_pattern(input.buffer + slot * cell.call_bytes(), cell.call_bytes(), input.offset_of(slot),
                 input.pattern_seed);
  }
}

void wait_until(const ProgramInput& input, std::uint64_t due_ns) {
  for (std::uint64_t now = now_ns(); now < due_ns; now = now_ns()) {
    check_running(input);
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(due_ns - now, wait_step_ns)));
  }
}

void open_each(const ProgramInput& input) {
  for (const auto& file : input.files) {
    check_running(input);
    file->open(input.open_flags);
  }
}

void read_each_place(const ProgramInput& input) {
  open_each(input);
  const std::uint64_t bytes = input.cell.call_bytes();
  for (std::uint64_t place = 0; place < input.cell.calls_per_thread(); ++place) {
    check_running(input);
    const std::uint64_t offset = input.part.offset_of(place);
    const std::int64_t moved = call(input, MeasuredOperation::read, input.buffer, bytes, offset);
    check_moved(input, MeasuredOperation::read, moved, bytes, offset);
  }
}

void run_program(const ProgramInput& input, ProgramOutput& output) {
  const std::uint64_t begin_ns = now_ns();
  switch (input.cell.program) {
    case Program::stream:
      if (input.cell.queue_depth > 1) {
        stream_deep(input, output);
      } else {
        stream(input, output);
      }
      return;
    case Program::files:
      each_file(input, output);
      return;
    case Program::iterative:
      iterative(input, output);
      break;
    case Program::once:
      once(input, output);
      break;
    case Program::metadata:  // harness/metadata.cpp
      return;
  }
  output.compute_ns = now_ns() - begin_ns - output.calls_ns;
}

}  // namespace ferry::bench
