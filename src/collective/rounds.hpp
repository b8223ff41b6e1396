// What the rounds of a collective write and of a collective read share: the windows, and starting
// and ending a round's transfers between them and the file.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/plan.hpp"

namespace ferry::collective {

// The base of Writing and Reading; `kind` is what they do with the file.
class Rounds {
 protected:
  Rounds(Context& context, const Request& request, Plan& plan, storage::Kind kind)
      : context_(context), request_(request), plan_(plan), kind_(kind) {}

  // Null where this rank does not gather data in file order.
  std::unique_ptr<std::byte[]> make_window() const {
    if (plan_.own_writer() < 0 || !plan_.domains()) return nullptr;
    return std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(plan_.domains()->window_bytes()));
  }
  std::vector<Run> runs(const Part& part) const {
    return runs_of(request_.view.map, request_.view.displacement, part.stream, part.bytes);
  }
  // The rank of a part's writer.
  int writer(const Part& part) const {
    return context_.writers[static_cast<std::size_t>(part.writer)];
  }

  // Starts the transfers of these extents of the round's window.
  void start_in_window(Batch& batch, std::span<const Extent> extents, std::byte* window,
                       int round) {
    const std::int64_t begin = plan_.domains()->window(plan_.own_writer(), round).offset;
    for (const Extent& extent : extents)
      start(batch, extent, window + (extent.offset - begin));
  }
  // Starts those of the contributions' extents, which lie one behind the other in their data.
  void start_streams(Batch& batch, std::span<const Contribution> contributions) {
    for (const Contribution& one : contributions) {
      std::byte* memory = one.data;
      for_each_extent(one.runs, [&](const Extent& extent) {
        start(batch, extent, memory);
        memory += extent.bytes;
      });
    }
  }
  // Waits for all that was started; the first error of all rounds stays.
  void finish(Batch& batch) {
    const Stopwatch stopwatch(context_.phases.file_io_ns);
    const int error = context_.file->finish(batch);
    if (error_ == 0) error_ = error;
  }

  Context& context_;
  const Request& request_;
  Plan& plan_;
  int error_ = 0;

 private:
  void start(Batch& batch, const Extent& extent, std::byte* memory) {
    const iovec vector{memory, static_cast<std::size_t>(extent.bytes)};
    context_.file->start(batch, kind_, extent.offset, std::span(&vector, 1));
  }

  const storage::Kind kind_;
};

}  // namespace ferry::collective
