#include "collective/impl.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <map>

#include <fcntl.h>

#include "collective/exchange.hpp"
#include "collective/independent.hpp"
#include "storage/router.hpp"
#include "storage/uri.hpp"

namespace ferry::collective {
namespace {

constexpr int ranks_per_writer = 8;
constexpr int node_writers_min = 2;
// Windows that stay in a processor's cache are best within a node; messages between nodes are
// better fewer.
constexpr std::int64_t node_buffer_bytes = 4 << 20;
constexpr std::int64_t buffer_bytes = 16 << 20;
constexpr std::int64_t block_bytes_min = 4096;
// From this mean size of its extents on, a request is as good as it gets.
constexpr double large_extent_bytes = 1 << 20;

// A rank whose storage cannot even be made has an error like any other.
int errno_of(const std::system_error& error) {
  return error.code().value() != 0 ? error.code().value() : EIO;
}

// One for every eight ranks of a node, but two where there are two ranks: while one waits for the
// storage, the other gathers.
int default_writers(const std::vector<int>& node_of) {
  std::map<int, int> ranks_of;
  for (const int node : node_of)
    ++ranks_of[node];
  int writers = 0;
  for (const auto& [node, ranks] : ranks_of) {
    const int share = (ranks + ranks_per_writer - 1) / ranks_per_writer;
    writers += std::min(ranks, std::max(share, node_writers_min));
  }
  return writers;
}

bool is_one_node(const std::vector<int>& node_of) {
  return std::all_of(node_of.begin(), node_of.end(), [&](int node) { return node == node_of[0]; });
}

}  // namespace

File::Impl::Impl(MPI_Comm communicator, std::string path, int flags, const Options& options,
                 std::shared_ptr<storage::Storage> storage)
    : team_(communicator),
      path_(std::move(path)),
      flags_(flags),
      mode_(options.mode),
      storage_(std::move(storage)) {
  share_settings(options);
  open();
  if (options.hints != MPI_INFO_NULL) MPI_Info_dup(options.hints, &hints_);
}

File::Impl::~Impl() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (hints_ != MPI_INFO_NULL && finalized == 0) MPI_Info_free(&hints_);
}

// Rank 0 reads the hints for all.
void File::Impl::share_settings(const Options& options) {
  std::string lines;
  if (team_.rank() == 0) {
    settings_ = settings_of(options, warnings_);
    for (const std::string& warning : warnings_) {
      lines += warning + '\n';
      if (options.warn) {
        options.warn(warning);
      } else {
        std::fprintf(stderr, "ferry: %s: %s\n", path_.c_str(), warning.c_str());
      }
    }
  }
  struct {
    Settings settings;
    int flags;
    int line_bytes;
  } shared{settings_, flags_, static_cast<int>(lines.size())};
  team_.broadcast(&shared, sizeof shared);
  settings_ = shared.settings;
  flags_ = shared.flags;
  if (shared.line_bytes == 0) return;
  lines.resize(static_cast<std::size_t>(shared.line_bytes));
  team_.broadcast(lines.data(), shared.line_bytes);
  if (team_.rank() == 0) return;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at);
    warnings_.push_back(lines.substr(at, end - at));
    at = end + 1;
  }
}

void File::Impl::open() {
  const Stopwatch stopwatch(phases_.plan_ns);
  int error = (flags_ & O_APPEND) != 0 ? EINVAL : 0;
  std::int64_t block_bytes = 0;
  if (team_.rank() == 0 && error == 0) {
    error = open_here(flags_);
    storage::Status status;
    if (error == 0) error = file_->status(status);
    block_bytes = std::max(block_bytes_min, std::int64_t{status.block_bytes});
  }
  team_.agree(error, doing("opening"));
  if (settings_.alignment_bytes == 0) {
    team_.broadcast(&block_bytes, sizeof block_bytes);
    settings_.alignment_bytes = block_bytes;
  }
  if (settings_.buffer_bytes == 0) {
    settings_.buffer_bytes = is_one_node(team_.node_of()) ? node_buffer_bytes : buffer_bytes;
  }
  if (settings_.writers == 0) settings_.writers = default_writers(team_.node_of());
  writers_ = choose_writers(team_.node_of(), settings_.writers);
  settings_.writers = static_cast<int>(writers_.size());
  flags_ &= ~(O_CREAT | O_EXCL | O_TRUNC);
  team_.agree(writes_here() && !file_ ? open_here(flags_) : 0, doing("opening"));
}

int File::Impl::open_here(int flags) {
  try {
    if (storage_ == nullptr) storage_ = storage::make_router();
    file_.emplace(*storage_, counts_, settings_.write_out);
  } catch (const std::system_error& error) {
    return errno_of(error);
  }
  const int error = file_->open(path_, flags, mode_);
  if (error != 0) file_.reset();
  return error;
}

bool File::Impl::writes_here() const {
  return std::find(writers_.begin(), writers_.end(), team_.rank()) != writers_.end();
}

void File::Impl::require_open() const {
  if (closed_) throw Error(EBADF, doing("using the closed file"));
}

void File::Impl::set_view(std::int64_t displacement, const TypeMap& view,
                          const Representation& representation) {
  require_open();
  const std::int64_t element = representation.element_bytes;
  const bool sized = element >= 1 && element <= element_bytes_max && (element & (element - 1)) == 0;
  const std::int64_t swapped = is_foreign(representation.order) && sized ? element : 1;
  std::array<std::int64_t, 2> extremes{swapped, -swapped};
  team_.maximum(extremes);
  const bool right = displacement >= 0 && view.is_file_view() && sized && extremes[0] == swapped &&
                     extremes[1] == -swapped;
  team_.agree(right ? 0 : EINVAL, doing("setting a view of"));
  view_ = {displacement, view, swapped};
  position_ = 0;
  mpiio_has_view_ = false;
}

int File::Impl::check(bool writes, std::int64_t offset, std::int64_t bytes) const {
  const int access = flags_ & O_ACCMODE;
  if (access == (writes ? O_RDONLY : O_WRONLY)) return EBADF;
  if (offset < 0 || bytes < 0) return EINVAL;
  if (offset % view_.swapped_bytes != 0 || bytes % view_.swapped_bytes != 0) return EINVAL;
  if (bytes == 0) return 0;
  const TypeMap& map = view_.map;
  if (map.data_bytes() == 0) return EINVAL;
  // Nothing of the request may lie beyond what an offset can name.
  std::int64_t last = 0;
  if (__builtin_add_overflow(offset, bytes, &last)) return EOVERFLOW;
  const std::int64_t periods = last / map.data_bytes() + 2;
  std::int64_t end = 0;
  if (__builtin_mul_overflow(periods, std::max<std::int64_t>(map.period_bytes(), 1), &end) ||
      __builtin_add_overflow(end, view_.displacement, &end) ||
      end > std::numeric_limits<std::int64_t>::max() / 2) {
    return EOVERFLOW;
  }
  return 0;
}

int File::Impl::size_here(std::int64_t& size_bytes) {
  storage::Status status;
  const int error = file_->status(status);
  size_bytes = static_cast<std::int64_t>(status.size_bytes);
  return error;
}

// Throws on all ranks if one of them has a request that is wrong. Cuts a read at the end of the
// file.
File::Impl::Agreed File::Impl::agree_on(bool writes, Request& request) {
  const Stopwatch stopwatch(phases_.plan_ns);
  int error = check(writes, request.stream, request.bytes);
  std::int64_t size = -1;
  if (!writes && error == 0 && team_.rank() == 0) error = size_here(size);
  const bool has_data = error == 0 && request.bytes > 0;
  constexpr auto none = std::numeric_limits<std::int64_t>::min();
  std::array<std::int64_t, 5> values{team_.fault(error), has_data ? -request.begin() : none,
                                     has_data ? request.end() : 0, size, request.bytes};
  team_.maximum(values);
  team_.throw_if(values[0], doing(writes ? "writing" : "reading"));
  Agreed agreed{values[1] == none ? 0 : -values[1], values[2], values[4]};
  if (writes) return agreed;
  agreed.end = std::min(agreed.end, values[3]);
  const std::int64_t there = view_.stream_at(values[3]) - request.stream;
  request.bytes = std::clamp(there, std::int64_t{0}, request.bytes);
  return agreed;
}

// The rule of method automatic.
Method File::Impl::choose(bool writes, const Request& request) {
  const Method wanted = writes ? settings_.write_method : settings_.read_method;
  if (wanted != Method::automatic) {
    reason_ = "asked for";
    return wanted;
  }
  if (team_.size() == 1) {
    reason_ = "one rank";
    return Method::independent;
  }
  const Stopwatch stopwatch(phases_.plan_ns);
  const TypeMap& map = view_.map;
  std::array<double, 2> sums{static_cast<double>(request.bytes), request.bytes > 0 ? 1.0 : 0.0};
  if (!map.is_dense() && request.bytes > 0) {
    sums[1] = std::max(1.0, static_cast<double>(request.bytes) *
                                static_cast<double>(map.extents().size()) /
                                static_cast<double>(map.data_bytes()));
  }
  team_.sum(sums);
  const double mean = sums[0] / std::max(1.0, sums[1]);
  const bool large = mean >= large_extent_bytes;
  reason_ = "extents of " + std::to_string(static_cast<std::int64_t>(mean)) +
            " bytes on average, " + (large ? "at least" : "less than") + " 1 MiB";
  return large ? Method::independent : Method::aggregate;
}

std::int64_t File::Impl::transfer_all(bool writes, std::int64_t offset, const void* base,
                                      const TypeMap& memory, std::int64_t count) {
  require_open();
  std::int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, memory.data_bytes(), &bytes)) bytes = -1;
  Request request{view_, Memory(base, memory, view_.swapped_bytes), offset, bytes};
  const Agreed agreed = agree_on(writes, request);
  if (agreed.end <= agreed.begin) return 0;  // nobody has anything, and all know it
  method_ = choose(writes, request);
  int error = move(method_, writes, request, agreed);
  if (error == ENODATA) error = EIO;  // the file became shorter meanwhile
  const Stopwatch stopwatch(phases_.wait_ns);
  team_.agree(error, doing(writes ? "writing" : "reading"));
  return request.bytes;
}

int File::Impl::move(Method method, bool writes, const Request& request, const Agreed& agreed) {
  if (method == Method::mpiio) return move_by_mpiio(writes, request, agreed);
  if (method != Method::independent) {
    return move_through_writers(method, writes, request, agreed);
  }
  if (request.bytes == 0) return 0;
  const int error = file_ ? 0 : open_here(flags_);
  if (error != 0) return error;
  return transfer_alone(*file_, phases_, request,
                        writes ? storage::Kind::write : storage::Kind::read);
}

int File::Impl::move_through_writers(Method method, bool writes, const Request& request,
                                     const Agreed& agreed) {
  Context context{team_, file_ ? &*file_ : nullptr, phases_, counts_, writers_, nullptr};
  std::optional<Domains> domains;
  std::vector<Part> parts;
  std::optional<Plan> plan;
  {
    const Stopwatch stopwatch(phases_.plan_ns);
    if (method == Method::aggregate) {
      domains.emplace(agreed.begin, agreed.end, settings_.writers, settings_.buffer_bytes,
                      settings_.alignment_bytes);
      if (!node_memory_) node_memory_.emplace(team_, writers_, domains->window_bytes_max());
      context.node_memory = &*node_memory_;
      parts = aggregate_parts(request, *domains);
    } else {
      std::vector<std::int64_t> bytes_of(static_cast<std::size_t>(team_.size()));
      MPI_Request pending = MPI_REQUEST_NULL;
      MPI_Iallgather(&request.bytes, 1, MPI_INT64_T, bytes_of.data(), 1, MPI_INT64_T,
                     team_.communicator(), &pending);
      team_.wait(pending);
      parts = serial_parts(request, bytes_of, groups_of(team_.node_of(), writers_), team_.rank(),
                           settings_.buffer_bytes);
    }
    plan.emplace(context, request, std::move(parts), domains);
  }
  const int error =
      writes ? write_exchanged(context, request, *plan) : read_exchanged(context, request, *plan);
  if (domains) node_memory_->end_transfer(domains->rounds());
  return error;
}

int File::Impl::move_by_mpiio(bool writes, const Request& request, const Agreed& agreed) {
  // The library would take the scheme of a URI for the name of one of its drivers.
  if (storage::scheme_of(path_) != storage::Scheme::posix) {
    throw Error(ENOTSUP, doing("using the MPI library's MPI-IO for"));
  }
  if (!mpiio_.is_open()) team_.agree(mpiio_.open(team_, path_, flags_, hints_), doing("opening"));
  if (!mpiio_has_view_) team_.agree(mpiio_.set_view(view_), doing("setting a view of"));
  mpiio_has_view_ = true;
  const Stopwatch stopwatch(phases_.file_io_ns);  // where its time goes is the library's secret
  const std::int64_t piece_bytes = MpiIo::piece_bytes(view_);
  const std::int64_t pieces = (agreed.bytes_max + piece_bytes - 1) / piece_bytes;
  return mpiio_.transfer(request, writes, pieces);
}

std::int64_t File::Impl::transfer_next(bool writes, const void* base, std::int64_t bytes) {
  const std::int64_t moved = transfer_all(writes, position_, base, TypeMap(), bytes);
  position_ += moved;
  return moved;
}

std::int64_t File::Impl::transfer_here(bool writes, std::int64_t offset, const void* base,
                                       std::int64_t bytes) {
  require_open();
  const TypeMap memory;
  Request request{view_, Memory(base, memory, view_.swapped_bytes), offset, bytes};
  int error = check(writes, offset, bytes);
  if (error == 0 && !file_) error = open_here(flags_);
  if (error == 0 && !writes) {
    std::int64_t size = 0;
    error = size_here(size);
    const std::int64_t there = view_.stream_at(size) - offset;
    request.bytes = std::clamp(there, std::int64_t{0}, bytes);
  }
  if (error == 0) {
    error = transfer_alone(*file_, phases_, request,
                           writes ? storage::Kind::write : storage::Kind::read);
  }
  if (error == ENODATA) error = EIO;
  if (error != 0) throw Error(error, doing(writes ? "writing" : "reading"));
  return request.bytes;
}

void File::Impl::sync() {
  require_open();
  int error = 0;
  {
    // Nobody may still be writing what another is to make durable.
    const Stopwatch stopwatch(phases_.wait_ns);
    team_.agree(0, doing("syncing"));
  }
  {
    const Stopwatch stopwatch(phases_.sync_ns);
    if (file_) error = file_->sync();
    if (mpiio_.is_open()) {
      const int other = mpiio_.sync();
      if (error == 0) error = other;
    }
  }
  const Stopwatch stopwatch(phases_.wait_ns);
  team_.agree(error, doing("syncing"));
}

void File::Impl::resize(std::int64_t size_bytes) {
  require_open();
  int error = size_bytes < 0 ? EINVAL : 0;
  // Nobody may still be writing where the file is cut.
  team_.agree(error, doing("resizing"));
  if (team_.rank() == 0) error = file_->resize(size_bytes);
  team_.agree(error, doing("resizing"));
}

std::int64_t File::Impl::size_bytes() {
  require_open();
  std::int64_t size = -1;
  // Whatever anybody has written before the call counts.
  team_.agree(0, doing("asking for the size of"));
  const int error = team_.rank() == 0 ? size_here(size) : 0;
  std::array<std::int64_t, 2> values{team_.fault(error), size};
  team_.maximum(values);
  team_.throw_if(values[0], doing("asking for the size of"));
  return values[1];
}

void File::Impl::close() {
  require_open();
  closed_ = true;
  int error = mpiio_.is_open() ? mpiio_.close() : 0;
  if (file_) {
    const int other = file_->close();
    if (error == 0) error = other;
    file_.reset();
  }
  team_.agree(error, doing("closing"));
}

Statistics File::Impl::statistics() {
  constexpr std::size_t phase_count = sizeof(Phases) / sizeof(double);
  std::array<double, phase_count> mean{phases_.plan_ns,    phases_.exchange_ns, phases_.pack_ns,
                                       phases_.file_io_ns, phases_.sync_ns,     phases_.wait_ns};
  auto maximum = mean;
  std::array<double, 6> counts{
      static_cast<double>(counts_.messages),      static_cast<double>(counts_.message_bytes),
      static_cast<double>(counts_.shared_bytes),  static_cast<double>(counts_.storage_requests),
      static_cast<double>(counts_.storage_bytes), static_cast<double>(counts_.storage_opens)};
  team_.sum(mean);
  team_.maximum(std::span<double>(maximum));
  team_.sum(counts);
  for (double& value : mean)
    value /= team_.size();
  const auto whole = [&](std::size_t i) { return static_cast<std::uint64_t>(counts[i]); };
  Statistics statistics;
  statistics.mean = {mean[0], mean[1], mean[2], mean[3], mean[4], mean[5]};
  statistics.maximum = {maximum[0], maximum[1], maximum[2], maximum[3], maximum[4], maximum[5]};
  statistics.counts = {whole(0), whole(1), whole(2), whole(3), whole(4), whole(5)};
  statistics.method = method_;
  statistics.reason = reason_;
  statistics.writers = settings_.writers;
  if (method_ == Method::independent) statistics.writers = team_.size();
  return statistics;
}

}  // namespace ferry::collective
