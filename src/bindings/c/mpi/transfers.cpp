// Collective transfers, and those of one rank.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "bindings/c/mpi/collective_handles.hpp"

namespace ferry::c {
namespace {

using collective::Call;
using collective::File;
using collective::Transfer;
using collective::TypeMap;

static_assert(FERRY_MPI_CALL_OPEN == static_cast<int>(Call::open));
static_assert(FERRY_MPI_CALL_SET_VIEW == static_cast<int>(Call::set_view));
static_assert(FERRY_MPI_CALL_READ_ALL == static_cast<int>(Call::read_all));
static_assert(FERRY_MPI_CALL_WRITE_ALL == static_cast<int>(Call::write_all));
static_assert(FERRY_MPI_CALL_SYNC == static_cast<int>(Call::sync));
static_assert(FERRY_MPI_CALL_RESIZE == static_cast<int>(Call::resize));
static_assert(FERRY_MPI_CALL_SIZE == static_cast<int>(Call::size_bytes));
static_assert(FERRY_MPI_CALL_STATISTICS == static_cast<int>(Call::statistics));
static_assert(FERRY_MPI_CALL_CLOSE == static_cast<int>(Call::close));

std::span<const std::byte> source(const void* data, std::uint64_t bytes) {
  if (bytes > 0) given(data, "data");
  bounded(bytes, "bytes");
  return {static_cast<const std::byte*>(data), bytes};
}

std::span<std::byte> target(void* data, std::uint64_t bytes) {
  source(data, bytes);
  return {static_cast<std::byte*>(data), bytes};
}

// Memory that a map describes. Keeps the map.
struct MappedMemory {
  std::shared_ptr<const TypeMap> map;
  std::int64_t count;
};

MappedMemory mapped(const void* base, const ferry_mpi_map* memory, std::uint64_t count) {
  MappedMemory found{CollectiveMaps::mine().get(memory), bounded(count, "count")};
  if (found.map->data_bytes() > 0 && count > 0) given(base, "base");
  return found;
}

// A collective transfer: `prepare()` makes its arguments, and `move(file, arguments)` it.
template <class Prepare, class Move>
int64_t transfer(ferry_mpi_file* handle, Call call, Prepare prepare, Move move) {
  return guarded([&]() -> int64_t {
    const auto file = collective_file(handle);
    return move(*file, prepared(*file, call, prepare));
  });
}

// The same, nonblocking: what is wrong with the arguments is an error of the transfer.
template <class Prepare, class Start>
int start(ferry_mpi_transfer** transfer, ferry_mpi_file* handle, Call call, Prepare prepare,
          Start start) {
  return guarded([&] {
    if (transfer != nullptr) *transfer = nullptr;
    const auto file = collective_file(handle);
    auto started = std::make_shared<Transfer>();
    try {
      given(transfer, "transfer");
      *started = start(*file, prepare());
    } catch (...) {
      const Refusal refusal = refusal_of_exception();
      *started = file->irefuse(call, refusal.why, refusal.error);
      if (transfer == nullptr) throw;
    }
    *transfer = CollectiveTransfers::mine().add(std::move(started));
    return 0;
  });
}

std::shared_ptr<Transfer> started_transfer(const ferry_mpi_transfer* handle) {
  require_mpi();
  return CollectiveTransfers::mine().get(handle);
}

Call call_of(std::uint32_t number) {
  if (number > FERRY_MPI_CALL_CLOSE) refuse("call: one of FERRY_MPI_CALL_...");
  return static_cast<Call>(number);
}

// 0 would only have the ranks meet.
int error_of(int error) {
  return error > 0 ? error : EINVAL;
}

}  // namespace
}  // namespace ferry::c

using namespace ferry::c;

int64_t ferry_mpi_write_at_all(ferry_mpi_file* file, int64_t offset_bytes, const void* data,
                               uint64_t bytes) {
  return transfer(
      file, Call::write_all, [&] { return source(data, bytes); },
      [&](File& open, auto memory) { return open.write_at_all(offset_bytes, memory); });
}

int64_t ferry_mpi_read_at_all(ferry_mpi_file* file, int64_t offset_bytes, void* data,
                              uint64_t bytes) {
  return transfer(
      file, Call::read_all, [&] { return target(data, bytes); },
      [&](File& open, auto memory) { return open.read_at_all(offset_bytes, memory); });
}

int64_t ferry_mpi_write_all(ferry_mpi_file* file, const void* data, uint64_t bytes) {
  return transfer(
      file, Call::write_all, [&] { return source(data, bytes); },
      [&](File& open, auto memory) { return open.write_all(memory); });
}

int64_t ferry_mpi_read_all(ferry_mpi_file* file, void* data, uint64_t bytes) {
  return transfer(
      file, Call::read_all, [&] { return target(data, bytes); },
      [&](File& open, auto memory) { return open.read_all(memory); });
}

int64_t ferry_mpi_write_mapped_at_all(ferry_mpi_file* file, int64_t offset_bytes, const void* base,
                                      const ferry_mpi_map* memory, uint64_t count) {
  return transfer(
      file, Call::write_all, [&] { return mapped(base, memory, count); },
      [&](File& open, const MappedMemory& in) {
        return open.write_at_all(offset_bytes, base, *in.map, in.count);
      });
}

int64_t ferry_mpi_read_mapped_at_all(ferry_mpi_file* file, int64_t offset_bytes, void* base,
                                     const ferry_mpi_map* memory, uint64_t count) {
  return transfer(
      file, Call::read_all, [&] { return mapped(base, memory, count); },
      [&](File& open, const MappedMemory& in) {
        return open.read_at_all(offset_bytes, base, *in.map, in.count);
      });
}

int64_t ferry_mpi_write_at(ferry_mpi_file* file, int64_t offset_bytes, const void* data,
                           uint64_t bytes) {
  return guarded([&]() -> int64_t {
    return collective_file(file)->write_at(offset_bytes, source(data, bytes));
  });
}

int64_t ferry_mpi_read_at(ferry_mpi_file* file, int64_t offset_bytes, void* data, uint64_t bytes) {
  return guarded([&]() -> int64_t {
    return collective_file(file)->read_at(offset_bytes, target(data, bytes));
  });
}

int ferry_mpi_iwrite_at_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file,
                            int64_t offset_bytes, const void* data, uint64_t bytes) {
  return start(
      transfer, file, Call::write_all, [&] { return source(data, bytes); },
      [&](File& open, auto memory) { return open.iwrite_at_all(offset_bytes, memory); });
}

int ferry_mpi_iread_at_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file,
                           int64_t offset_bytes, void* data, uint64_t bytes) {
  return start(
      transfer, file, Call::read_all, [&] { return target(data, bytes); },
      [&](File& open, auto memory) { return open.iread_at_all(offset_bytes, memory); });
}

int ferry_mpi_iwrite_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file, const void* data,
                         uint64_t bytes) {
  return start(
      transfer, file, Call::write_all, [&] { return source(data, bytes); },
      [&](File& open, auto memory) { return open.iwrite_all(memory); });
}

int ferry_mpi_iread_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file, void* data,
                        uint64_t bytes) {
  return start(
      transfer, file, Call::read_all, [&] { return target(data, bytes); },
      [&](File& open, auto memory) { return open.iread_all(memory); });
}

int ferry_mpi_iwrite_mapped_at_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file,
                                   int64_t offset_bytes, const void* base,
                                   const ferry_mpi_map* memory, uint64_t count) {
  return start(
      transfer, file, Call::write_all, [&] { return mapped(base, memory, count); },
      [&](File& open, const MappedMemory& in) {
        return open.iwrite_at_all(offset_bytes, base, *in.map, in.count);
      });
}

int ferry_mpi_iread_mapped_at_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file,
                                  int64_t offset_bytes, void* base, const ferry_mpi_map* memory,
                                  uint64_t count) {
  return start(
      transfer, file, Call::read_all, [&] { return mapped(base, memory, count); },
      [&](File& open, const MappedMemory& in) {
        return open.iread_at_all(offset_bytes, base, *in.map, in.count);
      });
}

int64_t ferry_mpi_transfer_wait(ferry_mpi_transfer* transfer) {
  return guarded([&]() -> int64_t { return started_transfer(transfer)->wait(); });
}

int ferry_mpi_transfer_test(ferry_mpi_transfer* transfer) {
  return guarded([&] { return started_transfer(transfer)->test() ? 1 : 0; });
}

int ferry_mpi_transfer_free(ferry_mpi_transfer* transfer) {
  return guarded([&] {
    CollectiveTransfers::mine().take(transfer).reset();
    return 0;
  });
}

int ferry_mpi_refuse(ferry_mpi_file* file, uint32_t call, int error, const char* why) {
  return guarded([&] {
    const Call refused = call_of(call);
    const auto open = collective_file(file);
    // As on the ranks that close: the handle is gone in any case.
    if (refused == Call::close) CollectiveFiles::mine().take(file).reset();
    open->refuse(refused, why != nullptr ? why : "", error_of(error));
    return 0;
  });
}

int ferry_mpi_irefuse(ferry_mpi_transfer** transfer, ferry_mpi_file* file, uint32_t call, int error,
                      const char* why) {
  return guarded([&] {
    *given(transfer, "transfer") = nullptr;
    auto refused = std::make_shared<Transfer>(
        collective_file(file)->irefuse(call_of(call), why != nullptr ? why : "", error_of(error)));
    *transfer = CollectiveTransfers::mine().add(std::move(refused));
    return 0;
  });
}
