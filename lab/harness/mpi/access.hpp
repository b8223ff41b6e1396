// The interfaces: one rank's reads and writes of its part of a shared file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <ferry/collective.hpp>
#include <ferry/error.hpp>

#include "harness/mpi/rank_part.hpp"
#include "harness/mpi/ranks.hpp"
#include "storage/storage.hpp"

namespace ferry::bench {

// All functions throw ferry::Error. Those marked "collective" are called by all ranks of the cell,
// and throw on all of a file or on none; of the others a caller must let the ranks agree.
class RankAccess {
 public:
  // The ranks of the cell, and those of them that share this rank's file.
  struct Teams {
    const Ranks& all;
    const Ranks& of_file;
  };
  RankAccess(const Teams& teams, const RankPart& part)
      : team_(teams.of_file), all_(teams.all), part_(part) {}
  virtual ~RankAccess() = default;
  RankAccess(const RankAccess&) = delete;
  RankAccess& operator=(const RankAccess&) = delete;

  // Collective. A file that is to be written is made, unless it has been made before with its
  // layout.
  virtual void open() = 0;
  // `bytes` from RankPart::offset_of() on, collective where the cell's calls are. Of those, what
  // fails on one rank alone is kept for end_transfers(): the others wait for it in their next one.
  virtual void transfer(MeasuredOperation operation, std::byte* data, std::uint64_t at,
                        std::uint64_t bytes) = 0;
  bool has_failed() const { return failed_.has_value(); }
  void end_transfers() {
    if (failed_) throw Error(*std::exchange(failed_, std::nullopt));
  }
  virtual void sync() = 0;
  // Collective, before close(): what all ranks have counted. Absent where the interface does not
  // tell.
  virtual std::optional<collective::Statistics> counted() = 0;
  virtual void close() = 0;

 protected:
  // In a transfer. `alone`: the other ranks may not know.
  void fail(const Error& error, bool alone) {
    if (!alone) throw Error(error);
    if (!failed_) failed_ = error;
  }
  bool writes() const { return part_.cell.operation == MeasuredOperation::write; }

  const Ranks& team_;  // of the file
  const Ranks& all_;
  const RankPart& part_;

 private:
  std::optional<Error> failed_;
};

// `storage` serves interface native, and must outlive it.
std::unique_ptr<RankAccess> make_access(const RankAccess::Teams& teams, const RankPart& part,
                                        storage::Storage& storage);

}  // namespace ferry::bench
