// The processes whose calls are recorded. The seed of a round chooses the calls; threads and
// processes run freely.
#pragma once

#include <cstdint>

#include <ferry/runtime.hpp>

#include "histories/recording.hpp"

namespace ferry::histories {

// A process's part in rounds.
class Member {
 public:
  virtual ~Member() = default;
  virtual void play(SharedRecords& shared) = 0;
};

// A device with a runtime of its own, and threads beside it for bulk transfers.
class DeviceMember final : public Member {
 public:
  DeviceMember(const RuntimeOptions& options, unsigned first_client, Domain domain, bool with_bulk);
  void play(SharedRecords& shared) override;

 private:
  Runtime runtime_;
  Buffer memory_;
  unsigned first_client_;
  Domain domain_;
  bool with_bulk_;
  bool has_cache_;
};

class PlainMember final : public Member {
 public:
  void play(SharedRecords& shared) override;
};

}  // namespace ferry::histories
