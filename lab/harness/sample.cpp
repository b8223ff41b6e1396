#include "harness/sample.hpp"

#include <algorithm>
#include <utility>

#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

using Threads = std::vector<ThreadResult>;

std::uint64_t begin_of(const Threads& threads, Span ThreadResult::*span) {
  std::uint64_t first = UINT64_MAX;
  for (const ThreadResult& thread : threads)
    first = std::min(first, (thread.*span).begin_ns);
  return first;
}
std::uint64_t end_of(const Threads& threads, Span ThreadResult::*span) {
  std::uint64_t last = 0;
  for (const ThreadResult& thread : threads)
    last = std::max(last, (thread.*span).end_ns);
  return last;
}
std::uint64_t length_of(const Threads& threads, Span ThreadResult::*span) {
  return end_of(threads, span) - begin_of(threads, span);
}

// That were read or written.
std::uint64_t count_places(const Cell& cell, const Threads& threads) {
  std::uint64_t count = 0;
  for (unsigned i = 0; i < threads.size(); ++i) {
    const std::vector<bool> places = places_of(cell, i, threads[i].output.operations);
    count += static_cast<std::uint64_t>(std::count(places.begin(), places.end(), true));
  }
  return count;
}

ThreadRates rates_of(const Threads& threads) {
  std::vector<double> rates;
  for (const ThreadResult& thread : threads) {
    const Span& span = thread.transfers;
    const std::uint64_t ns = span.end_ns - span.begin_ns - thread.output.ramp_ns;
    const std::uint64_t calls = thread.output.operations - thread.output.ramp_operations;
    rates.push_back(static_cast<double>(calls) * 1e9 /
                    static_cast<double>(std::max<std::uint64_t>(ns, 1)));
  }
  std::sort(rates.begin(), rates.end());
  const double median = (rates[(rates.size() - 1) / 2] + rates[rates.size() / 2]) / 2;
  return {rates.front(), median, rates.back()};
}

}  // namespace

Counting::Counting(std::function<RuntimeStatistics()> read, const Cell& cell,
                   std::string block_device)
    : read_(std::move(read)),
      cell_(cell),
      block_device_(std::move(block_device)),
      network_(is_uri(cell.path) ? Network::counted : Network::not_counted) {}

// The runtime's statistics bring the CPU time of the server's loops up to date, wherever they run,
// so the process's usage is asked for after them. What the asking costs is a caller's.
void Counting::begin() {
  storage_ = read_storage_counters(block_device_, network_);
  statistics_ = read_();
  process_ = process_usage();
}

void Counting::end() {
  const Usage before = thread_usage();
  const RuntimeStatistics now = read_();
  process_ = process_usage() - process_;
  counting_ = thread_usage() - before;
  statistics_ = difference(now, statistics_);
  storage_ = read_storage_counters(block_device_, network_) - storage_;
}

void Counting::add_to(Sample& sample) {
  sample.counted = statistics_;
  sample.storage = storage_;
  counting_ += sample.callers;
  sample.others = others(process_, counting_);
}

Sample Counting::make_sample(const Threads& threads, const std::vector<unsigned>& parts) {
  Sample sample = combine(cell_, threads, parts);
  add_to(sample);
  if ((cell_.operation == MeasuredOperation::read || cell_.warm) && cell_.is_cached()) {
    sample.device_cache = device_cache_state(cell_, sample.distinct_bytes, filling_, statistics_);
  }
  return sample;
}

Sample combine(const Cell& cell, const Threads& threads, const std::vector<unsigned>& parts) {
  Sample sample;
  // What a ramp leaves out.
  const auto shortest_ramp = std::min_element(
      threads.begin(), threads.end(),
      [](const auto& a, const auto& b) { return a.output.ramp_ns < b.output.ramp_ns; });
  const std::uint64_t ramp_ns = shortest_ramp->output.ramp_ns;
  sample.begin_ns = begin_of(threads, &ThreadResult::open) + ramp_ns;
  sample.elapsed_ns = end_of(threads, &ThreadResult::close) - sample.begin_ns;
  sample.open_ns = length_of(threads, &ThreadResult::open);
  sample.flush_ns = cell.flushes() ? length_of(threads, &ThreadResult::flush) : 0;
  sample.sync_ns = cell.syncs() ? length_of(threads, &ThreadResult::sync) : 0;
  sample.close_ns = length_of(threads, &ThreadResult::close);
  sample.io_begin_ns = begin_of(threads, &ThreadResult::transfers) + ramp_ns;
  const auto [first, last] = std::minmax_element(
      threads.begin(), threads.end(),
      [](const auto& a, const auto& b) { return a.transfers.end_ns < b.transfers.end_ns; });
  sample.first_done_ns = first->transfers.end_ns - sample.io_begin_ns;
  sample.last_done_ns = last->transfers.end_ns - sample.io_begin_ns;
  sample.io_ns = cell.computes() ? last->output.calls_ns : sample.last_done_ns;
  sample.compute_ns = last->output.compute_ns;
  sample.calls_of_part.resize(threads.size());
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const ThreadResult& thread = threads[i];
    sample.callers += thread.usage;
    sample.operations += thread.output.operations - thread.output.ramp_operations;
    sample.calls_of_part[parts[i]] = thread.output.operations;
    sample.deadline_reached = sample.deadline_reached || thread.output.deadline_reached;
    sample.sum += thread.output.sum;
    sample.latencies.add(thread.output.latencies);
    sample.read_operations += thread.output.read_operations;
    sample.read_latencies.add(thread.output.read_latencies);
  }
  sample.rates = rates_of(threads);
  sample.bytes = sample.operations * cell.call_bytes();
  sample.distinct_bytes =
      cell.may_return() ? count_places(cell, threads) * cell.call_bytes() : sample.bytes;
  return sample;
}

Sample combine(const std::vector<Sample>& jobs) {
  Sample all;
  all.begin_ns = all.io_begin_ns = UINT64_MAX;
  for (const Sample& job : jobs) {
    all.begin_ns = std::min(all.begin_ns, job.begin_ns);
    all.io_begin_ns = std::min(all.io_begin_ns, job.io_begin_ns);
  }
  for (const Sample& job : jobs) {
    all.elapsed_ns = std::max(all.elapsed_ns, job.begin_ns + job.elapsed_ns - all.begin_ns);
    all.io_ns = std::max(all.io_ns, job.io_begin_ns + job.io_ns - all.io_begin_ns);
    all.bytes += job.bytes;
    all.operations += job.operations;
    all.callers += job.callers;
  }
  return all;
}

}  // namespace ferry::bench
