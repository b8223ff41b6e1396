#include "collective/impl.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>
#include <tuple>
#include <utility>

#include <fcntl.h>

#include "base/residency.hpp"
#include "collective/plan.hpp"
#include "storage/uri.hpp"

namespace ferry::collective {
namespace {

// Requests with a mean extent of this size gain nothing from merging.
constexpr double large_extent_bytes = 1 << 20;
// Larger extents are faster to copy from a page cache than to exchange. From a disk they are not:
// whether the kernel reads ahead for extents with gaps depends on its settings.
constexpr double cached_extent_bytes = 4096;
// Between these the rule is not sure, and measures.
constexpr double tried_bytes_min = 1 << 20;
constexpr double tried_extent_bytes_min = 16 << 10;
constexpr double tried_by_servers_bytes_min = 256 << 10;
constexpr double tried_extent_bytes_max = 16 << 20;
// Contiguous reads up to this size are made before the ranks meet, and lose little if the other
// ranks' data turns out to be scattered.
constexpr std::int64_t small_transfer_bytes = 64 << 10;
// Defaults: sieve pieces up to this size, and read through holes up to this size.
constexpr std::int64_t sieved_bytes_max = 32 << 10;
// The position of a rank without data, for finding the minimum.
constexpr auto nothing = std::numeric_limits<std::int64_t>::min();
// Where the numbers are that describe a rank's request. The maximum of each counts.
namespace place {
enum : std::size_t {
  minus_begin,
  end,
  file_bytes,
  bytes,
  need,
  wish,
  minus_wish,
  took_ns,
  in_parts
};
}
// How much of its transfer a rank needs the others for; the maximum counts.
constexpr std::int64_t goes_alone = 1;  // 0: it has moved all its data, or has none
constexpr std::int64_t sparse_data = 2;
constexpr std::int64_t staged_memory = 3;
constexpr const char* through_one_cache = "contiguous data of each rank, through one page cache";

// The error of a transfer, given that of its requests.
int error_of_transfer(int error) {
  return error == ENODATA ? EIO : error;  // the file has become shorter
}

}  // namespace

void File::Impl::require_open() const {
  if (closed_) throw Error(EBADF, doing("using the closed file"));
}

void File::Impl::require_idle() {
  require_open();
  orders_->finish_all();
}

void File::Impl::set_view_of_group(std::int64_t displacement, const TypeMap& view,
                                   const Representation& representation) {
  const std::int64_t element = representation.element_bytes;
  const bool sized = element >= 1 && element <= element_bytes_max && (element & (element - 1)) == 0;
  const std::int64_t swapped = is_foreign(representation.order) && sized ? element : 1;
  FileView wanted = view_of(displacement, view, swapped);
  const bool right = displacement >= 0 && may_be_view(wanted) && sized;
  const Values extremes = begin(Call::set_view, "setting a view of",
                                {swapped, -swapped, view.is_dense() ? 0 : 1}, right ? 0 : EINVAL);
  if (extremes[0] != -extremes[1]) {
    throw Error(EINVAL, doing("setting a view of") + " (ranks differ in the order of its bytes)");
  }
  view_ = std::move(wanted);
  all_dense_ = extremes[2] == 0;
  position_ = 0;
  mpiio_has_view_ = false;
}

FileView File::Impl::view_of(std::int64_t displacement, const TypeMap& map,
                             std::int64_t swapped_bytes) const {
  FileView view{displacement, map, swapped_bytes};
  view.needs_order = !map.is_file_view();
  if (view.needs_order && map.ascends()) view.copy = TypeMap::list(map.extents());
  return view;
}

// Where copies interleave, or pieces of a file that is read overlap, requests are put in order. The
// MPI library's MPI-IO gets the view as it is.
bool File::Impl::may_be_view(const FileView& view) const {
  if (!view.needs_order || view.copy) {
    const bool by_library =
        settings_.write_method == Method::mpiio || settings_.read_method == Method::mpiio;
    return !view.needs_order || !by_library;
  }
  const auto extents = view.map.extents();
  const auto descends = [](const Extent& a, const Extent& b) { return b.offset < a.offset; };
  return (flags_ & O_ACCMODE) == O_RDONLY && settings_.read_method != Method::mpiio &&
         extents.front().offset >= 0 &&
         std::ranges::adjacent_find(extents, descends) == extents.end();
}

int File::Impl::check(Direction direction, const RankRequest& request) const {
  const auto& [view, memory, offset, bytes] = request;
  const int access = flags_ & O_ACCMODE;
  if (access == (direction == Direction::write ? O_RDONLY : O_WRONLY)) return EBADF;
  if (offset < 0 || bytes < 0) return EINVAL;
  if (offset % view.swapped_bytes != 0 || bytes % view.swapped_bytes != 0) return EINVAL;
  if (bytes == 0) return 0;
  const TypeMap& map = view.map;
  if (map.data_bytes() == 0) return EINVAL;
  // No part of the request may exceed the largest offset.
  std::int64_t last = 0;
  if (__builtin_add_overflow(offset, bytes, &last)) return EOVERFLOW;
  const std::int64_t periods = last / map.data_bytes() + 2;
  std::int64_t end = 0;
  if (__builtin_mul_overflow(periods, std::max<std::int64_t>(map.period_bytes(), 1), &end) ||
      __builtin_add_overflow(end, view.displacement, &end) ||
      (view.needs_order && __builtin_add_overflow(end, reach_of(map), &end)) ||
      end > std::numeric_limits<std::int64_t>::max() / 2) {
    return EOVERFLOW;
  }
  return 0;
}

int File::Impl::size_here(std::int64_t& size_bytes) {
  storage::Status status;
  const int error = outcome_of([&] { return file_->status(status); });
  size_bytes = static_cast<std::int64_t>(status.size_bytes);
  return error;
}

// Whether this rank moves its data before the ranks meet: if it has the file open, and method
// automatic has each rank move its own should the others have contiguous data, too. A read changes
// nothing if the call fails.
bool File::Impl::may_go_first(Direction direction, const RankRequest& request) const {
  if (!page_cache_ || !file_ || team_->size() == 1 || request.bytes == 0 ||
      !request.is_contiguous())
    return false;
  const bool is_wanted = request.bytes <= small_transfer_bytes || all_dense_;
  if (direction == Direction::write) {
    return writes_first_ && settings_.write_method == Method::automatic && is_wanted;
  }
  // What is converted or sieved has to know where the file ends.
  return settings_.read_method == Method::automatic && is_wanted && !request.memory.converts() &&
         settings_.read_sieving != Sieving::enabled;
}

// Limits a read to the end of the file.
void File::Impl::limit(RankRequest& request, std::int64_t file_bytes) const {
  const std::int64_t there = request.view.stream_at(file_bytes) - request.stream;
  request.bytes = std::clamp(there, std::int64_t{0}, request.bytes);
}

// Moves this rank's data before the ranks meet, as choose() would have it moved.
int File::Impl::move_first(Direction direction, RankRequest& request) {
  const int error = move_alone(direction, request);
  if (direction == Direction::write || error != ENODATA) return error;
  // Nothing is there for a part of it.
  std::int64_t size = 0;
  if (const int failed = size_here(size); failed != 0) return failed;
  limit(request, size);
  return error_of_transfer(move_alone(direction, request));
}

// What this rank wrote may come later, over what others write: not before it is over.
int File::Impl::late_change() const {
  return file_ ? file_->late_change() : 0;
}

// Throws on all ranks if one has an invalid request. Limits a read to the end of the file. Where
// all ranks that have data could go first, this is the only time in the call that they meet.
File::Impl::Agreed File::Impl::agree_on(Direction direction, RankRequest& request, int error,
                                        bool staged, Timing timing, bool& goes_first) {
  if (const int wrong = check(direction, request); wrong != 0) error = wrong;
  if (direction == Direction::write && error == 0) error = late_change();
  goes_first = error == 0 && !staged && may_go_first(direction, request);
  std::int64_t size = -1;
  if (goes_first) {
    error = move_first(direction, request);
  } else if (direction == Direction::read && error == 0 && team_->rank() == 0) {
    const Stopwatch stopwatch(phases_.plan_ns);
    error = size_here(size);
  }
  Values values = wanted(request, error, size);
  if (staged) values[place::need] = staged_memory;
  if (goes_first) values[place::need] = 0;
  const auto wish = error == 0 ? kept(direction).wish_of(request) : std::array{nothing, nothing};
  std::copy(wish.begin(), wish.end(), values.begin() + place::wish);
  values[place::took_ns] = std::exchange(took_ns_[static_cast<std::size_t>(direction)], 0);
  values[place::in_parts] = timing == Timing::parts ? 1 : 0;
  {
    const Stopwatch stopwatch(goes_first ? phases_.wait_ns : phases_.plan_ns);
    values = begin(call_of(direction), verb_of(direction), values, error);
  }
  trials(direction).tell(values[place::took_ns]);
  // Rank 0 may have asked before another rank's last write of its own.
  if (direction == Direction::read && values[place::need] != 0 &&
      values[place::end] > values[place::file_bytes])
    values[place::file_bytes] = size_of_file();
  Agreed agreed = agreed_of(direction, values);
  if (agreed.moved) return agreed;
  if (!agreed.staged) {
    agreed.repetition = kept(direction).agreed({values[place::wish], values[place::minus_wish]},
                                               agreed.begin, agreed.end, kept_unit_bytes_);
  }
  if (direction == Direction::read) limit(request, agreed.file_bytes);
  return agreed;
}

// This rank's request, in a form whose maximum over all ranks describes all requests. `file_bytes`
// is known on one rank, else -1.
File::Impl::Values File::Impl::wanted(const RankRequest& request, int error,
                                      std::int64_t file_bytes) {
  const bool has_data = error == 0 && request.bytes > 0;
  return {has_data ? -request.begin() : nothing,
          has_data ? request.end() : 0,
          file_bytes,
          request.bytes,
          !has_data ? 0 : (request.is_contiguous() ? goes_alone : sparse_data),
          nothing,
          nothing,
          0,
          0};
}

File::Impl::Agreed File::Impl::agreed_of(Direction direction, const Values& values) {
  const bool is_empty = values[place::minus_begin] == nothing;
  Agreed agreed{is_empty ? 0 : -values[place::minus_begin],
                values[place::end],
                values[place::bytes],
                values[place::file_bytes],
                values[place::need] == staged_memory,
                values[place::need] <= goes_alone,
                values[place::need] == 0,
                values[place::in_parts] != 0,
                std::nullopt,
                {}};
  if (direction == Direction::read && !agreed.moved)
    agreed.end = std::min(agreed.end, agreed.file_bytes);
  return agreed;
}

// The same for a part of a transfer in which all ranks take part.
File::Impl::Agreed File::Impl::agree_on_piece(Direction direction, const RankRequest& request,
                                              int error, std::int64_t file_bytes) {
  const Stopwatch stopwatch(phases_.plan_ns);
  Values values = wanted(request, error, file_bytes);
  std::array<std::int64_t, 1 + std::tuple_size_v<Values>> all{team_->fault(error)};
  std::copy(values.begin(), values.end(), all.begin() + 1);
  team_->maximum(all);
  team_->throw_if(all[0], verb_of(direction), path_);
  std::copy(all.begin() + 1, all.end(), values.begin());
  Agreed agreed = agreed_of(direction, values);
  agreed.staged = true;
  return agreed;
}

// Whether transfers go through this node's page cache and wait for no server and no disk cache.
bool File::Impl::uses_cache() const {
  const storage::File* file = file_ ? file_->opened() : nullptr;
  constexpr int otherwise = O_DIRECT | O_SYNC | O_DSYNC;
  return file != nullptr && file->descriptor() >= 0 && (flags_ & otherwise) == 0 &&
         !file->may_hang();
}

bool File::Impl::is_in_cache(std::int64_t begin, std::int64_t end) const {
  const storage::File* file = file_ ? file_->opened() : nullptr;
  if (file == nullptr || file->descriptor() < 0 || (flags_ & O_DIRECT) != 0) return false;
  const auto bytes = static_cast<std::uint64_t>(end - begin);
  const auto resident =
      resident_bytes(file->descriptor(), static_cast<std::uint64_t>(begin), bytes);
  return resident && *resident >= bytes;
}

// What the file's own transfers have shown, where the rule is not sure. A server charges for each
// of many small extents: there a try could cost more than it tells.
Method File::Impl::learned(Direction direction, const Agreed& agreed, Method by_rule) {
  const TransferShape& shape = agreed.shape;
  const double extent_bytes_min = page_cache_ ? tried_extent_bytes_min : tried_by_servers_bytes_min;
  const bool sure = agreed.staged || shape.bytes < tried_bytes_min ||
                    shape.mean_extent_bytes < extent_bytes_min ||
                    shape.mean_extent_bytes > tried_extent_bytes_max;
  if (sure) return by_rule;
  MethodTrials& trials = this->trials(direction);
  const Method method = trials.next(shape, by_rule, !agreed.in_parts);
  if (method == by_rule) return by_rule;
  std::array<char, reason_bytes_max> text;
  if (trials.ratio() > 0) {
    std::snprintf(text.data(), text.size(), "in %.2f of the time of %s, measured on this file",
                  trials.ratio(), name_of(by_rule));
  } else {
    std::snprintf(text.data(), text.size(), "tried, and measured beside %s", name_of(by_rule));
  }
  reason_ = text.data();
  return method;
}

// The rule of method automatic.
Method File::Impl::choose(Direction direction, const RankRequest& request, Agreed& agreed) {
  const Method wanted =
      direction == Direction::write ? settings_.write_method : settings_.read_method;
  if (wanted != Method::automatic) {
    reason_ = "asked for";
    return wanted;
  }
  if (team_->size() == 1) {
    reason_ = "one rank";
    return Method::independent;
  }
  // What suits a write depends on its shape alone.
  if (agreed.repetition && direction == Direction::write) {
    reason_ = "like an earlier transfer";
    agreed.shape = kept(direction).shape_of(*agreed.repetition);
    return learned(direction, agreed, Method::aggregate);
  }
  // An exchange would copy once more, and wait, and its writers would read as the ranks do.
  if (page_cache_ && agreed.dense) {
    reason_ = through_one_cache;
    return Method::independent;
  }
  const Stopwatch stopwatch(phases_.plan_ns);
  const TypeMap& map = request.view.map;
  const bool asks = direction == Direction::read && team_->rank() == 0 && team_->is_one_node();
  const bool in_cache = asks && is_in_cache(agreed.begin, agreed.end);
  std::array<double, 3> sums{static_cast<double>(request.bytes), request.bytes > 0 ? 1.0 : 0.0,
                             in_cache ? 1.0 : 0.0};
  if (!map.is_dense() && request.bytes > 0) {
    sums[1] = std::max(1.0, static_cast<double>(request.bytes) *
                                static_cast<double>(map.extents().size()) /
                                static_cast<double>(map.data_bytes()));
  }
  team_->sum(sums);
  const double mean = sums[0] / std::max(1.0, sums[1]);
  agreed.shape = {sums[0], mean};
  const auto tell = [&](const char* before, const char* after) {
    std::array<char, reason_bytes_max> text;
    std::snprintf(text.data(), text.size(), "%sextents of %.0f bytes on average%s", before,
                  std::floor(mean), after);
    reason_ = text.data();
  };
  if (sums[2] > 0 && mean >= cached_extent_bytes) {
    tell("in the page cache, ", "");
    return Method::independent;
  }
  const bool large = mean >= large_extent_bytes;
  tell("", large ? ", at least 1 MiB" : ", less than 1 MiB");
  return learned(direction, agreed, large ? Method::independent : Method::aggregate);
}

std::int64_t File::Impl::transfer_all(Direction direction, std::int64_t offset, const void* base,
                                      const TypeMap& memory, std::int64_t count) {
  return meet(call_of(direction),
              [&] { return carry_out(direction, offset, base, memory, count, Timing::whole); });
}

std::shared_ptr<Order> File::Impl::start_all(Direction direction, std::int64_t offset,
                                             const void* base, const TypeMap& memory,
                                             std::int64_t count) {
  return start(call_of(direction), [&] {
    return [this, direction, offset, base, memory, count] {
      const Counting counting(*this, call_of(direction));
      return on_all(call_of(direction), [&] {
        return carry_out(direction, offset, base, memory, count, Timing::parts);
      });
    };
  });
}

std::shared_ptr<Order> File::Impl::start_next(Direction direction, const void* base,
                                              std::int64_t bytes) {
  auto order = start_all(direction, position_, base, all_bytes(), bytes);
  position_ += bytes;
  return order;
}

std::int64_t File::Impl::carry_out(Direction direction, std::int64_t offset, const void* base,
                                   const TypeMap& memory, std::int64_t count, Timing timing) {
  std::int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, memory.data_bytes(), &bytes)) bytes = -1;
  RankRequest asked{view_, Memory(base, memory, view_.swapped_bytes), offset, bytes};
  int error = 0;
  const auto ordered = in_file_order(direction, asked, error);
  RankRequest& request = ordered ? ordered->request() : asked;
  auto staged = stage(direction, request, error);
  bool went_first = false;
  Agreed agreed = agree_on(direction, request, error, staged != nullptr, timing, went_first);
  if (agreed.end <= agreed.begin) {  // no rank has data, and all know it
    count_transfer(Method::automatic, 0);
    return 0;
  }
  if (agreed.moved) {
    method_ = Method::independent;
    reason_ = through_one_cache;
  } else {
    method_ = choose(direction, request, agreed);
    double took_ns = 0;
    {
      const Stopwatch stopwatch(took_ns);
      if (agreed.staged) {
        error = error_of_transfer(move_staged(direction, request, agreed, std::move(staged)));
      } else if (!went_first || method_ != Method::independent) {  // else it is done
        error = error_of_transfer(move(method_, direction, request, agreed));
      }
    }
    const Stopwatch stopwatch(phases_.wait_ns);
    team_->agree(error, verb_of(direction), path_);
    took_ns_[static_cast<std::size_t>(direction)] = static_cast<std::int64_t>(took_ns);
  }
  const std::int64_t moved = ordered ? ordered->finish() : request.bytes;
  count_transfer(method_, moved);
  return moved;
}

std::unique_ptr<FileOrder> File::Impl::in_file_order(Direction direction, const RankRequest& asked,
                                                     int& error) {
  if (!view_.needs_order) return nullptr;
  std::unique_ptr<FileOrder> ordered;
  error = check(direction, asked);
  if (error == 0) {
    error = outcome_of([&] {
      const Stopwatch stopwatch(phases_.pack_ns);
      const bool may_have_buffer = gpu_staging_.owner_of(asked) == nullptr;
      ordered = std::make_unique<FileOrder>(direction, asked, may_have_buffer);
      return 0;
    });
  }
  return ordered;
}

int File::Impl::move(Method method, Direction direction, const RankRequest& request,
                     const Agreed& agreed) {
  if (method == Method::mpiio) return move_by_mpiio(direction, request, agreed);
  if (method != Method::independent) {
    return move_through_writers(method, direction, request, agreed);
  }
  if (request.bytes == 0) return 0;
  const int error = file_ ? 0 : open_here(flags_);
  if (error != 0) return error;
  return outcome_of([&] { return move_alone(direction, request); });
}

// On this rank, with data sieving if requested or useful.
int File::Impl::move_alone(Direction direction, const RankRequest& request) {
  if (request.bytes == 0) return 0;
  if (direction == Direction::write) {
    if (settings_.write_sieving != Sieving::enabled || (flags_ & O_ACCMODE) != O_RDWR) {
      return transfer_alone(*file_, phases_, request, storage::Kind::write, team_->has_two_cpus());
    }
    if (!lock_) lock_ = RangeLock::make(path_);
    if (!lock_) return ENOLCK;
    const std::int64_t bytes = settings_.write_sieve_bytes;
    return write_sieved(*file_, phases_, request, {bytes, bytes}, *lock_);
  }
  // A page cache serves small pieces as fast as large ones; a server does not.
  const bool pays = storage::scheme_of(path_) != storage::Scheme::posix;
  const bool sieves = settings_.read_sieving == Sieving::enabled ||
                      (settings_.read_sieving == Sieving::automatic && pays);
  const TypeMap& map = request.view.map;
  const auto extents = static_cast<std::int64_t>(map.extents().size());
  if (!sieves || map.is_dense() || map.data_bytes() / extents > sieved_bytes_max) {
    return transfer_alone(*file_, phases_, request, storage::Kind::read, team_->has_two_cpus());
  }
  const std::int64_t bytes = settings_.read_sieve_bytes;
  const bool asked = settings_.read_sieving == Sieving::enabled;
  return read_sieved(*file_, phases_, request, {bytes, asked ? bytes : sieved_bytes_max});
}

int File::Impl::move_through_writers(Method method, Direction direction, const RankRequest& request,
                                     const Agreed& agreed) {
  MethodContext context{*team_, file_ ? &*file_ : nullptr, phases_, counts_, writers_, nullptr};
  std::unique_ptr<ExchangePlan> made;
  ExchangePlan* plan = nullptr;
  {
    const Stopwatch stopwatch(phases_.plan_ns);
    if (method == Method::aggregate && agreed.repetition) {
      context.node_memory = &*node_memory_;
      plan = &kept(direction).again(*agreed.repetition, request);
    } else {
      made = plan_exchange(method, request, agreed, context);
      plan = made.get();
    }
  }
  const int error = direction == Direction::write ? write_exchanged(context, request, *plan)
                                                  : read_exchanged(context, request, *plan);
  if (method != Method::aggregate) return error;
  node_memory_->end_transfer(plan->domains()->rounds());
  // Pieces of a staged transfer are not repeated.
  if (made != nullptr && !agreed.staged)
    kept(direction).keep(request, agreed.begin, agreed.end, agreed.shape, std::move(made));
  return error;
}

std::unique_ptr<ExchangePlan> File::Impl::plan_exchange(Method method, const RankRequest& request,
                                                        const Agreed& agreed,
                                                        MethodContext& context) {
  if (method == Method::aggregate) {
    const Domains domains(agreed.begin, agreed.end, settings_.writers, settings_.buffer_bytes,
                          settings_.alignment_bytes);
    if (!node_memory_) {
      node_memory_.emplace(*team_, writers_, domains.window_bytes_max(), settings_.node_merge);
    }
    context.node_memory = &*node_memory_;
    return std::make_unique<ExchangePlan>(context, request, aggregate_parts(request, domains),
                                          domains);
  }
  std::vector<std::int64_t> bytes_of(static_cast<std::size_t>(team_->size()));
  team_->gather(&request.bytes, sizeof request.bytes, bytes_of.data());
  return std::make_unique<ExchangePlan>(
      context, request,
      serial_parts(request, bytes_of, groups_of(team_->node_of(), writers_), team_->rank(),
                   settings_.buffer_bytes),
      std::nullopt);
}

int File::Impl::move_by_mpiio(Direction direction, const RankRequest& request,
                              const Agreed& agreed) {
  // The library would take a URI's scheme for a driver's name.
  if (storage::scheme_of(path_) != storage::Scheme::posix) {
    throw Error(ENOTSUP, doing("using the MPI library's MPI-IO for"));
  }
  if (!mpiio_.is_open()) team_->agree(mpiio_.open(*team_, path_, flags_, hints_), "opening", path_);
  if (!mpiio_has_view_) team_->agree(mpiio_.set_view(view_), "setting a view of", path_);
  mpiio_has_view_ = true;
  const Stopwatch stopwatch(phases_.file_io_ns);  // the library does not say where its time goes
  const std::int64_t piece_bytes = MpiIo::piece_bytes(view_);
  const std::int64_t pieces = (agreed.bytes_max + piece_bytes - 1) / piece_bytes;
  return mpiio_.transfer(request, direction, pieces);
}

std::int64_t File::Impl::transfer_next(Direction direction, const void* base, std::int64_t bytes) {
  const std::int64_t moved = transfer_all(direction, position_, base, all_bytes(), bytes);
  position_ += moved;
  return moved;
}

std::int64_t File::Impl::transfer_here(Direction direction, std::int64_t offset, const void* base,
                                       std::int64_t bytes) {
  require_idle();
  const Counting counting(*this, call_of(direction), false);
  RankRequest asked{view_, Memory(base, all_bytes(), view_.swapped_bytes), offset, bytes};
  int error = check(direction, asked);
  const auto ordered = error == 0 ? in_file_order(direction, asked, error) : nullptr;
  RankRequest& request = ordered ? ordered->request() : asked;
  const auto staged = error == 0 ? stage(direction, request, error) : nullptr;
  if (error == 0 && !file_) error = open_here(flags_);
  if (error == 0 && direction == Direction::read) {
    std::int64_t size = 0;
    error = size_here(size);
    limit(request, size);
  }
  if (error == 0) {
    error =
        staged ? move_staged_alone(direction, request, *staged) : move_alone(direction, request);
  }
  error = error_of_transfer(error);
  if (error != 0) throw Error(error, doing(verb_of(direction)));
  const std::int64_t moved = ordered ? ordered->finish() : request.bytes;
  count_transfer(Method::independent, moved);
  return moved;
}

void File::Impl::sync_group() {
  int error = 0;
  {
    // Ranks must not write while another makes the data durable.
    const Stopwatch stopwatch(phases_.wait_ns);
    begin(Call::sync, "syncing");
  }
  {
    const Stopwatch stopwatch(phases_.sync_ns);
    if (file_) error = outcome_of([&] { return file_->sync(); });
    if (mpiio_.is_open()) keep(error, mpiio_.sync());
  }
  if (settings_.write_out == WriteOut::automatic) writes_out_ = true;
  const Stopwatch stopwatch(phases_.wait_ns);
  team_->agree(error, "syncing", path_);
}

void File::Impl::resize_group(std::int64_t size_bytes) {
  // Ranks must not write where the file is cut.
  begin(Call::resize, "resizing", {}, size_bytes < 0 ? EINVAL : late_change());
  const int error = team_->rank() == 0 ? outcome_of([&] { return file_->resize(size_bytes); }) : 0;
  team_->agree(error, "resizing", path_);
}

std::int64_t File::Impl::size_of_group() {
  // Includes everything written before the call.
  begin(Call::size_bytes, "asking for the size of");
  return size_of_file();
}

// Collective. Within a call.
std::int64_t File::Impl::size_of_file() {
  std::int64_t size = -1;
  const int error = team_->rank() == 0 ? size_here(size) : 0;
  std::array<std::int64_t, 2> values{team_->fault(error), size};
  team_->maximum(values);
  team_->throw_if(values[0], "asking for the size of", path_);
  return values[1];
}

}  // namespace ferry::collective
