// A thread that executes claims: copies immediately, everything else through its own queue with
// many transfers in flight.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "backend/cuda/copy_engine.hpp"
#include "base/staging.hpp"
#include "bulk/lanes.hpp"
#include "bulk/request.hpp"
#include "bulk/routing.hpp"
#include "storage/storage.hpp"

namespace ferry::bulk {

class Scheduler;

class Worker {
 public:
  // `number`: of the engine's workers, from 0 on.
  Worker(Scheduler& scheduler, std::size_t number);
  // After leave(): waits for the thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void ring() { storage::Doorbell{&bell_}.ring(); }
  // The thread ends once nothing is in flight.
  void leave();

  // Both are guarded by the scheduler's mutex.
  bool asleep = false;
  std::optional<std::uint64_t> line;  // the place

 private:
  // A claim with pieces in flight.
  struct Active {
    Claim claim;
    std::size_t in_flight = 0;
    bool all_started = false;
    bool slots_only = false;  // the next piece waits for a slot: GPUDirect did not take it
  };
  // A piece in the queue.
  struct Flight : storage::Operation {
    cuda::Copy copy;
    iovec target{};
    std::shared_ptr<Active> active;
    RoutedPiece piece;
    storage::File* through = nullptr;
    std::size_t part = 0;
    std::uint64_t begin = 0;  // offset of the piece in the part
    DataPath way = DataPath::cached;
    std::byte* slot = nullptr;     // a bounce buffer, or page-locked memory for a GPU
    std::uint64_t head_bytes = 0;  // offset in the slot
    std::uint64_t moved_bytes = 0;
    std::int64_t outcome = 0;  // once only a copy to a GPU is left
    bool in_storage = false;   // else a GPU copies
    bool cancel_sent = false;
  };

  void run();
  // Each returns whether it did anything.
  bool start_work();
  bool land_flights();
  static void refuse(Claim& claim);
  void start_next_piece();
  // Returns false if the piece must wait for a bounce buffer or for room. Throws before anything of
  // it is recorded or in flight.
  bool try_piece(RoutedPiece& piece);
  std::uint64_t piece_bytes_max(const RoutedPiece& piece, DataPath way) const;
  void finish_current();
  bool take_off(std::size_t part, std::uint64_t begin, const RoutedPiece& piece, DataPath way);
  bool take_slot(Flight& flight);
  void give_back_slot(Flight& flight);
  void go_to_storage(Flight& flight);
  void submit(Flight& flight);
  void land(Flight& flight);
  bool goes_on(Flight& flight, std::int64_t result);
  void leave_storage(Flight& flight);
  void start_gpu_copy(Flight& flight, std::uint64_t bytes) noexcept;
  bool land_gpu_copies();
  bool gpus_copy() const;
  void end_flight(Flight& flight, std::int64_t result);
  void cancel_flights();
  void make_queue();

  Scheduler& scheduler_;
  const std::size_t number_;
  std::uint32_t bell_ = 0;
  std::atomic<bool> leaving_{false};
  std::unique_ptr<Lane> lane_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<storage::Queue> queue_;
  std::unique_ptr<cuda::PinnedSlots> pinned_;  // once a transfer used GPU memory
  std::map<const cuda::PrimaryContext*, cuda::CopyEngine> copy_engines_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> free_;
  unsigned in_flight_ = 0;
  std::shared_ptr<Active> current_;  // some of it has not started
  std::thread thread_;
};

}  // namespace ferry::bulk
