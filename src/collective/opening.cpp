// Opens and closes a collective::File: settings, writers, stripes, handles.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <sstream>

#include <fcntl.h>

#include "collective/impl.hpp"
#include "collective/kept_storage.hpp"
#include "collective/plan.hpp"
#include "storage/uri.hpp"

namespace ferry::collective {
namespace {

constexpr int ranks_per_writer = 8;
constexpr int node_writers_min = 2;
// Within a node, windows should fit a processor's cache; between nodes, messages should be few.
constexpr std::int64_t node_buffer_bytes = 4 << 20;
constexpr std::int64_t default_buffer_bytes = 16 << 20;
constexpr std::int64_t block_bytes_min = 4096;

// Per node: the profile's number; else one per eight ranks, and two if there are two, so that one
// collects data while the other waits for the storage.
int default_writers(const std::vector<int>& node_of, int per_node) {
  std::map<int, int> ranks_of;
  for (const int node : node_of)
    ++ranks_of[node];
  int writers = 0;
  for (const auto& [node, ranks] : ranks_of) {
    const int share = (ranks + ranks_per_writer - 1) / ranks_per_writer;
    writers += std::min(ranks, per_node > 0 ? per_node : std::max(share, node_writers_min));
  }
  return writers;
}

// PATH.0, PATH.1 and so on, padded to equal length; in a URI before its query.
std::string path_of(std::string path, int file, int files) {
  std::string number = std::to_string(file);
  number.insert(0, std::to_string(files - 1).size() - number.size(), '0');
  return path.insert(storage::path_end(path), "." + number);
}

// What a new file asks for: the hints, or with `automatic` one stripe per window and one server per
// writer, so that writers use different servers at any time.
storage::Layout asked_layout(const Settings& settings, StripesOrigin& origin) {
  storage::Layout layout;
  layout.at_most = true;
  if (settings.alignment_bytes > 0 || settings.stripe_count > 0) {
    origin = StripesOrigin::asked;
    layout.stripe_bytes = static_cast<std::uint64_t>(settings.alignment_bytes);
    layout.stripe_count = static_cast<std::uint32_t>(settings.stripe_count);
  } else if (settings.write_method == Method::automatic) {
    origin = StripesOrigin::automatic;
    layout.stripe_bytes = static_cast<std::uint64_t>(settings.buffer_bytes);
    layout.stripe_count = static_cast<std::uint32_t>(settings.writers);
  }
  // Ceph: an object has space for a stripe.
  if (layout.stripe_bytes > 0) layout.extras[storage::object_bytes_name] = layout.stripe_bytes;
  return layout;
}

// By StripesOrigin.
constexpr std::array stripes_reasons{
    "those that the file has, or gets in its directory", "asked for",
    "a stripe for each window of a writer, a server for each writer"};

}  // namespace

File::Impl::Impl(MPI_Comm communicator, std::string path, int flags, const Options& options,
                 std::shared_ptr<storage::Storage> storage)
    : all_(communicator),
      files_(std::clamp(options.files, 0, all_.size())),
      team_(&all_),
      path_(std::move(path)),
      flags_(flags),
      mode_(options.mode),
      writes_first_(options.writes_first),
      storage_(std::move(storage)),
      count_(options.count) {
  const Counting counting(*this, Call::open);
  reason_.reserve(reason_bytes_max);
  static_cast<void>(all_bytes());
  divide(communicator);
  // Before any file is made.
  const std::string refusal = " (" + all_.rank_name(all_.rank()) + ": " + options.refusal + ")";
  agree_of_all(Call::open, options.refusal.empty() ? 0 : EINVAL, true, doing("opening") + refusal);
  on_all(Call::open, [&] {
    has_begun_ = true;
    share_settings(options);
    open();
  });
  if (options.hints != MPI_INFO_NULL) MPI_Info_dup(options.hints, &hints_);
  int threads = MPI_THREAD_SINGLE;
  MPI_Query_thread(&threads);
  const bool may_have_thread = threads == MPI_THREAD_MULTIPLE || calls_no_mpi();
  orders_ = std::make_shared<Orders>(options.progress_thread && may_have_thread);
  Orders::add(orders_);
}

// Whether transfers are this rank's business alone.
bool File::Impl::calls_no_mpi() const {
  const auto is_own = [](Method method) {
    return method == Method::automatic || method == Method::independent;
  };
  return all_.size() == 1 && is_own(settings_.write_method) && is_own(settings_.read_method);
}

std::unique_ptr<File::Impl> File::Impl::make(MPI_Comm communicator, const std::string& path,
                                             int flags, const Options& options,
                                             std::shared_ptr<storage::Storage> storage) {
  try {
    return std::make_unique<Impl>(communicator, path, flags, options, std::move(storage));
  } catch (const std::bad_alloc&) {  // the other ranks may be in any part of it
    std::fprintf(stderr, "ferry: no memory for opening %s\n", path.c_str());
    MPI_Abort(communicator, EXIT_FAILURE);
    throw;
  }
}

const TypeMap& File::Impl::all_bytes() {
  static const TypeMap all;
  return all;
}

File::Impl::~Impl() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (orders_ && finalized == 0) orders_->finish_all();
  let_go();  // errors are lost where nobody closed
  if (hints_ != MPI_INFO_NULL && finalized == 0) MPI_Info_free(&hints_);
}

// Gives this rank's group its own file, if rank 0 wants several. Neighbours share one.
void File::Impl::divide(MPI_Comm communicator) {
  all_.broadcast(&files_, sizeof files_);
  if (files_ == 0) return;
  file_index_ = group_of(all_.rank(), files_, all_.size());
  path_ = path_of(path_, file_index_, files_);
  if (files_ == 1) return;
  const bool alone = files_ == all_.size();
  const MPI_Comm own = alone ? MPI_COMM_SELF : group_communicator(communicator, files_);
  int rank = 0;
  MPI_Comm_rank(own, &rank);
  group_ = std::make_unique<Team>(own, all_.rank() - rank);
  team_ = group_.get();
}

// Rank 0 reads the hints for all ranks of its file.
void File::Impl::share_settings(const Options& options) {
  std::string lines;
  if (team_->rank() == 0) {
    settings_ = settings_of(options, warnings_);
    take_profile(settings_, path_);
    for (const std::string& warning : warnings_) {
      lines += warning + '\n';
      if (all_.rank() != 0) continue;
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
  team_->broadcast(&shared, sizeof shared);
  settings_ = shared.settings;
  flags_ = shared.flags;
  if (shared.line_bytes == 0) return;
  lines.resize(static_cast<std::size_t>(shared.line_bytes));
  team_->broadcast(lines.data(), shared.line_bytes);
  if (team_->rank() == 0) return;
  std::istringstream sent(lines);
  for (std::string line; std::getline(sent, line);)
    warnings_.push_back(line);
}

void File::Impl::open() {
  const Stopwatch stopwatch(phases_.plan_ns);
  if (settings_.buffer_bytes == 0) {
    settings_.buffer_bytes = team_->is_one_node() ? node_buffer_bytes : default_buffer_bytes;
  }
  if (settings_.writers == 0) {
    settings_.writers = default_writers(team_->node_of(), settings_.writers_per_node);
  }
  writers_ = choose_writers(team_->node_of(), settings_.writers);
  settings_.writers = static_cast<int>(writers_.size());
  // Writes are sieved only where ranges can be locked.
  const bool locks = storage::scheme_of(path_) == storage::Scheme::posix;
  if (settings_.write_sieving == Sieving::automatic || !locks) {
    settings_.write_sieving = Sieving::disabled;
  }
  int error = (flags_ & O_APPEND) != 0 ? EINVAL : 0;
  Granted granted;
  if (team_->rank() == 0 && error == 0) error = open_first(granted);
  if (team_->rank() != 0 && error == 0 && writes_here()) error = prepare_writer();
  agree_on_opening(error);
  team_->broadcast(&granted, sizeof granted);
  take(granted);
  writes_out_ = settings_.write_out == WriteOut::enabled ||
                (settings_.write_out == WriteOut::automatic && !page_cache_);
  flags_ &= ~(O_CREAT | O_EXCL | O_TRUNC);
  team_->agree(writes_here() && team_->rank() != 0 ? open_here(flags_) : 0, "opening", path_);
}

// Says what the storage of the rank that fails knows.
void File::Impl::agree_on_opening(int error) {
  std::int64_t worst = team_->fault(error);
  team_->maximum(std::span(&worst, 1));
  if (worst == 0) return;
  const int from = team_->rank_of(worst);
  std::string why;
  if (team_->rank() == from && storage_) why = storage::reason_of(*storage_, error, path_);
  why = team_->text_of(from, why);
  if (!why.empty()) why.insert(0, path_ + ": ");
  team_->throw_if(worst, "opening", why.empty() ? path_ : why);
}

// On rank 0: makes a new file with the requested stripes, or those that suit the writers, and reads
// back what was granted.
int File::Impl::open_first(Granted& granted) {
  storage::Layout layout = asked_layout(settings_, granted.origin);
  // Files start on consecutive servers, if the storage allows that choice.
  if (files_ > 1) layout.first_server = file_index_;
  int error = EOPNOTSUPP;
  const bool is_new = (flags_ & O_CREAT) != 0;
  if (is_new && (granted.origin != StripesOrigin::found || files_ > 1)) {
    error = open_here(flags_ | O_EXCL, &layout);
    if (error == EINVAL && layout.first_server >= 0) {
      // More files than servers: the storage places the rest.
      layout.first_server = -1;
      error = open_here(flags_ | O_EXCL, &layout);
    }
  }
  // It exists, or the storage does not grant such stripes; hints are only requests.
  const bool made_plainly = error == EOPNOTSUPP || error == EINVAL;
  if (made_plainly || (error == EEXIST && (flags_ & O_EXCL) == 0)) {
    granted.origin = StripesOrigin::found;
    error = open_here(flags_);
  }
  if (error != 0) return error;
  storage::Status status;
  error = file_->status(status);
  granted.block_bytes = std::max(block_bytes_min, std::int64_t{status.block_bytes});
  granted.page_cache = uses_cache();
  if (error == 0 && file_->layout(path_, layout) == 0) {
    granted.stripe_bytes = static_cast<std::int64_t>(layout.stripe_bytes);
    granted.stripe_count = static_cast<int>(layout.stripe_count);
  }
  return error;
}

// Domains end at stripe borders, so that no two writers share a stripe.
void File::Impl::take(const Granted& granted) {
  page_cache_ = granted.page_cache && team_->is_one_node();
  settings_.stripe_count = granted.stripe_count;
  const bool is_free = granted.stripe_bytes <= 0 && settings_.alignment_bytes == 0;
  if (granted.stripe_bytes > 0) {
    settings_.alignment_bytes = granted.stripe_bytes;
    if (settings_.buffer_origin != Origin::asked && granted.stripe_bytes <= default_buffer_bytes &&
        granted.stripe_bytes > settings_.buffer_bytes) {
      settings_.buffer_bytes = granted.stripe_bytes;
      settings_.buffer_origin = Origin::stripes;
    }
  } else if (is_free) {
    settings_.alignment_bytes = granted.block_bytes;
  }
  // Writers may share a page of one page cache.
  kept_unit_bytes_ = is_free && page_cache_ ? 1 : settings_.alignment_bytes;
  stripes_ = {granted.stripe_bytes, granted.stripe_count,
              granted.stripe_bytes == 0
                  ? "the storage tells no stripes"
                  : stripes_reasons.at(static_cast<std::size_t>(granted.origin))};
}

// What a rank needs before it can open.
int File::Impl::prepare_here() {
  try {
    if (storage_ == nullptr) storage_ = storage_for(path_);
    // A thread of ours may use it (Orders), and one of the program's that did not open it.
    int threads = MPI_THREAD_SINGLE;
    MPI_Query_thread(&threads);
    const bool changes = threads >= MPI_THREAD_SERIALIZED || calls_no_mpi();
    file_.emplace(*storage_, counts_, writes_out_, changes);
  } catch (...) {
    const int error = caught_error();
    return error != 0 ? error : EIO;
  }
  return 0;
}

// The same for a writer, while rank 0 opens. Clients connect to their servers slowly; asking for
// the folder makes them connect, whatever the answer. Not for the file itself: clients might cache
// that it does not exist.
int File::Impl::prepare_writer() {
  const int error = prepare_here();
  if (error != 0 || storage::scheme_of(path_) == storage::Scheme::posix) return error;
  std::string folder = path_;
  const std::size_t end = std::min(folder.find('?'), folder.size());
  const std::size_t name = folder.rfind('/', end) + 1;
  file_->ask_for(folder.erase(name, end - name));
  return 0;
}

int File::Impl::open_here(int flags, storage::Layout* layout) {
  if (const int error = file_ ? 0 : prepare_here(); error != 0) return error;
  const int error = outcome_of([&] { return file_->open(path_, flags, mode_, layout); });
  if (error == 0) {
    file_->set_reads_in_order(uses_cache());
  } else {
    file_.reset();
  }
  return error;
}

bool File::Impl::writes_here() const {
  return std::find(writers_.begin(), writers_.end(), team_->rank()) != writers_.end();
}

void File::Impl::close() {
  require_idle();
  closed_ = true;
  const Counting counting(*this, Call::close);
  try {
    on_all(Call::close, [&] {
      begin(Call::close, "closing");
      close_here();
    });
  } catch (const Mismatch&) {
    let_go();
    throw;
  }
}

void File::Impl::close_here() {
  int error = orders_->untold_error();
  if (mpiio_.is_open()) keep(error, mpiio_.close());
  keep(error, let_go());
  team_->agree(error, "closing", path_);
}

int File::Impl::let_go() {
  int error = 0;
  const bool may_keep =
      (flags_ & O_ACCMODE) != O_RDONLY && storage::scheme_of(path_) != storage::Scheme::posix;
  if (file_ && may_keep) keep(error, outcome_of([&] { return file_->sync(); }));
  if (file_) keep(error, outcome_of([&] { return file_->close(); }));
  file_.reset();
  storage_.reset();
  return error;
}

}  // namespace ferry::collective
