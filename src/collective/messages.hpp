// The messages of one round, with the memory they need until they arrive.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "collective/plan.hpp"

namespace ferry::collective {

class Messages {
 public:
  Messages(Context& context, MPI_Datatype run_type) : context_(context), run_type_(run_type) {}
  ~Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // `writer`: index of the data's writer. At most the requested bytes arrive.
  void send_data(int rank, int writer, const std::byte* data, std::int64_t bytes) {
    count(rank, bytes);
    MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, rank, data_tag(writer), communicator(),
              &add());
  }
  void get_data(int rank, int writer, std::byte* data, std::int64_t bytes) {
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, rank, data_tag(writer), communicator(),
              &add());
  }
  // Keeps the runs until they are sent.
  void send_runs(int rank, int writer, std::vector<Run> runs) {
    const auto& kept = runs_.emplace_back(std::move(runs));
    count(rank, static_cast<std::int64_t>(kept.size() * sizeof(Run)));
    MPI_Isend(kept.data(), static_cast<int>(kept.size()), run_type_, rank, runs_tag(writer),
              communicator(), &add());
  }
  void get_runs(int rank, int writer, std::vector<Run>& runs) {
    MPI_Irecv(runs.data(), static_cast<int>(runs.size()), run_type_, rank, runs_tag(writer),
              communicator(), &add());
  }
  // A relay's runs and data: see Rounds::packet_runs().
  void send_packet(int rank, int writer, const Run* packet, std::int64_t runs) {
    count(rank, runs * static_cast<std::int64_t>(sizeof(Run)));
    MPI_Isend(packet, static_cast<int>(runs), run_type_, rank, data_tag(writer), communicator(),
              &add());
  }
  void get_packet(int rank, int writer, Run* packet, std::int64_t runs_max) {
    MPI_Irecv(packet, static_cast<int>(runs_max), run_type_, rank, data_tag(writer), communicator(),
              &add());
  }
  // Memory that lasts until the messages have arrived.
  std::byte* memory(std::int64_t bytes) {
    memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes)));
    return memory_.back().get();
  }

  void wait() {
    const Stopwatch stopwatch(context_.phases.exchange_ns);
    context_.team.wait_all(requests_);
    requests_.clear();
  }
  // After wait(), once the received data has been used.
  void clear() {
    memory_.clear();
    runs_.clear();
  }

 private:
  // A rank may send another rank data for several writers in a round.
  static int data_tag(int writer) { return 2 * writer; }
  static int runs_tag(int writer) { return 2 * writer + 1; }

  MPI_Comm communicator() const { return context_.team.communicator(); }
  MPI_Request& add() { return requests_.emplace_back(MPI_REQUEST_NULL); }
  void count(int rank, std::int64_t bytes) {
    ++context_.counts.messages;
    context_.counts.message_bytes += static_cast<std::uint64_t>(bytes);
    if (context_.team.is_near(rank)) return;
    ++context_.counts.remote_messages;
    context_.counts.remote_bytes += static_cast<std::uint64_t>(bytes);
  }

  Context& context_;
  MPI_Datatype run_type_;
  std::vector<MPI_Request> requests_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::deque<std::vector<Run>> runs_;
};

}  // namespace ferry::collective
