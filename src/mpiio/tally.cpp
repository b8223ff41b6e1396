#include "mpiio/tally.hpp"

#include <cmath>

namespace ferry::mpiio {
namespace {

using collective::CallCounts;
using collective::Counts;
using collective::Method;
using collective::Phases;

constexpr struct {
  Number number;
  std::uint64_t Counts::*member;
} counters[] = {{Number::messages, &Counts::messages},
                {Number::message_bytes, &Counts::message_bytes},
                {Number::remote_messages, &Counts::remote_messages},
                {Number::remote_bytes, &Counts::remote_bytes},
                {Number::shared_bytes, &Counts::shared_bytes},
                {Number::storage_opens, &Counts::storage_opens},
                {Number::storage_requests, &Counts::storage_requests},
                {Number::storage_bytes, &Counts::storage_bytes},
                {Number::gpu_bytes, &Counts::gpu_bytes}};

constexpr struct {
  Number number;
  double Phases::*member;
} phases[] = {{Number::plan_time, &Phases::plan_ns}, {Number::exchange_time, &Phases::exchange_ns},
              {Number::pack_time, &Phases::pack_ns}, {Number::file_io_time, &Phases::file_io_ns},
              {Number::sync_time, &Phases::sync_ns}, {Number::wait_time, &Phases::wait_ns}};

Number number_of(Method method) {
  switch (method) {
    case Method::independent:
      return Number::transfers_independent;
    case Method::serial:
      return Number::transfers_serial;
    case Method::aggregate:
      return Number::transfers_aggregate;
    case Method::mpiio:
      return Number::transfers_mpiio;
    case Method::automatic:
      break;
  }
  return Number::transfers_empty;
}

}  // namespace

Tally& Tally::whole() {
  static Tally& tally = *new Tally(nullptr);  // a program may end while a thread counts
  return tally;
}

std::shared_ptr<Tally> Tally::of_a_file() {
  return std::shared_ptr<Tally>(new Tally(&whole()));
}

void Tally::add(Number number, std::uint64_t more) {
  if (more == 0) return;  // most are, of a call
  values_[index(number)] += more;
  if (whole_ != nullptr) whole_->add(number, more);
}

void Tally::add(const CallCounts& counts) {
  for (const auto& [number, member] : counters)
    add(number, counts.counts.*member);
  for (const auto& [number, member] : phases)
    add(number, static_cast<std::uint64_t>(std::llround(counts.phases.*member)));
  if (!counts.is_carried_out) return;
  const bool reads = counts.call == collective::Call::read_all;
  add(reads ? Number::read_bytes : Number::written_bytes, static_cast<std::uint64_t>(counts.bytes));
}

void Tally::add_transfer_by(Method method) {
  add(number_of(method), 1);
}

void Tally::open(int writers, bool as_writer) {
  const auto count = static_cast<std::uint64_t>(writers);
  values_[index(Number::writers)] = count;
  if (whole_ != nullptr) whole_->values_[index(Number::writers)] = count;
  add(Number::open_files, 1);
  add(Number::as_writer, as_writer ? 1 : 0);
}

void Tally::close() {
  for (const Number level : {Number::open_files, Number::as_writer})
    whole_->values_[index(level)] -= values_[index(level)].exchange(0);
}

}  // namespace ferry::mpiio
