#include "mpiio/opened_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "collective/datatype.hpp"
#include "collective/extents.hpp"
#include "collective/kept_storage.hpp"
#include "collective/mpiio.hpp"
#include "mpiio/library.hpp"
#include "mpiio/requests.hpp"
#include "mpiio/romio_hints.hpp"
#include "mpiio/type_maps.hpp"
#include "storage/sync_file.hpp"

namespace ferry::mpiio {
namespace {

using collective::Call;
using collective::TypeMap;

// A program that has synced a file syncs the next one, too.
std::atomic<bool> program_syncs{false};

int access_of(int mode) {
  if ((mode & MPI_MODE_RDONLY) != 0) return O_RDONLY;
  return (mode & MPI_MODE_WRONLY) != 0 ? O_WRONLY : O_RDWR;
}

int creation_of(int mode) {
  return ((mode & MPI_MODE_CREATE) != 0 ? O_CREAT : 0) | ((mode & MPI_MODE_EXCL) != 0 ? O_EXCL : 0);
}

// Why this rank wants the MPI library to do everything.
std::string refusal_of(MPI_Comm communicator, const std::string& path, int mode,
                       const collective::Options& options) {
  if ((mode & MPI_MODE_SEQUENTIAL) != 0) return "MPI_MODE_SEQUENTIAL";
  if (is_disabled(options.hints, options.default_hints)) return "the hint ferry_mpiio";
  struct stat found {};
  if (rank_in(communicator) != 0 || stat(path.c_str(), &found) != 0) return {};
  struct statfs system {};
  const bool made_up = statfs(path.c_str(), &system) == 0 &&
                       (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC);
  if (!S_ISREG(found.st_mode) || made_up) return "not a regular file";
  return {};
}

// `of_all_ranks`: not of this rank alone.
collective::Options options_with(const std::shared_ptr<Tally>& tally, bool of_all_ranks) {
  collective::Options options;
  options.count = [tally, of_all_ranks](const collective::CallCounts& counts) {
    tally->add(counts);
    if (of_all_ranks && counts.is_carried_out) tally->add_transfer_by(counts.method);
  };
  options.warn = [](const std::string&) {};  // MPI ignores unknown hints
  using collective::WriteOut;
  options.write_out = program_syncs ? WriteOut::enabled : WriteOut::automatic;
  options.writes_first = true;  // of a call that fails MPI promises nothing
  return options;
}

// The first rank's hints count for all.
collective::Options options_of(MPI_Comm communicator, MPI_Info info,
                               const std::shared_ptr<Tally>& tally) {
  collective::Options options = options_with(tally, true);
  options.hints = info;
  if (rank_in(communicator) == 0) options.default_hints = hints_of_the_environment();
  return options;
}

// Of a file that the MPI library has, too.
collective::Options options_beside(MPI_Comm communicator, const std::string& path, int mode,
                                   MPI_Info info, const std::shared_ptr<Tally>& tally) {
  collective::Options options = options_of(communicator, info, tally);
  options.refusal = refusal_of(communicator, path, mode, options);
  return options;
}

// The error of a transfer that the MPI library may be able to carry out. No storage and no driver
// has it. It does not leave this file.
constexpr int left_errno = EXFULL;

// The errno of the exception that is being handled.
int error_of_exception() {
  try {
    throw;
  } catch (const std::system_error& error) {
    return error.code().value();
  } catch (const std::exception&) {
    return ENOMEM;
  }
}

// Runs `body` and returns its error, which the other ranks wait to be told, also without memory.
template <class Body>
RankRefusal refusal_by(Body&& body) {
  RankRefusal refusal;
  try {
    try {
      body();
    } catch (const Error& error) {
      refusal.error = error.code().value();
      refusal.why = error.reason();
    }
  } catch (const std::bad_alloc&) {  // of the error, too, which then has no text
    if (refusal.error == 0) refusal.error = ENOMEM;
  }
  return refusal;
}

Call call_of(Direction direction) {
  return direction == Direction::read ? Call::read_all : Call::write_all;
}

}  // namespace

void remove_file(const std::string& path) {
  const auto storage = collective::storage_for(path);
  storage::SyncCalls calls(*storage);
  storage::checked(calls.run({.kind = storage::Kind::unlink, .path = path.c_str()}),
                   "removing " + path);
}

bool is_disabled(MPI_Info info, const std::map<std::string, std::string>& defaults) {
  constexpr const char* name = collective::mpiio_hint;
  char value[16] = {};
  int found = 0;
  if (info != MPI_INFO_NULL) PMPI_Info_get(info, name, sizeof value - 1, value, &found);
  const auto other = defaults.find(name);
  if (found == 0) return other != defaults.end() && other->second == "disable";
  return std::strcmp(value, "disable") == 0;
}

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  PMPI_Comm_rank(communicator, &rank);
  return rank;
}

OpenedFile::OpenedFile(MPI_Comm communicator, MPI_File handle, const std::string& path, int mode,
                       MPI_Info info)
    : is_first_rank_(rank_in(communicator) == 0),
      handle_(handle),
      mode_(mode),
      alone_(false),
      file_(communicator, path, access_of(mode),
            options_beside(communicator, path, mode, info, tally_)) {
  count_open(communicator);
}

OpenedFile::OpenedFile(MPI_Comm communicator, const std::string& path, int mode, MPI_Info info,
                       Alone /*alone*/)
    : is_first_rank_(rank_in(communicator) == 0),
      handle_(MPI_FILE_NULL),
      mode_(mode),
      alone_(true),
      file_(communicator, path, access_of(mode) | creation_of(mode),
            options_of(communicator, info, tally_)) {
  shared_ = std::make_unique<SharedNumbers>(communicator);
  if ((mode & MPI_MODE_APPEND) != 0) {
    const std::int64_t end = file_.size_bytes();
    position_ = end;
    if (is_first_rank_) shared().set_pointer(end);
    shared().meet();
  }
  count_open(communicator);  // nothing can fail any more
}

void OpenedFile::refuse(const std::string& what) const {
  throw Error(ENOTSUP, file_.path() + ": " + what + " (not carried out by Ferry without a mount)");
}

std::string OpenedFile::why_left(Direction direction, bool at_offset) const {
  if (atomic_ && !alone_) return "atomic mode";
  const int wrong = direction == Direction::read ? MPI_MODE_WRONLY : MPI_MODE_RDONLY;
  if ((mode_ & wrong) != 0 && !alone_) return "not opened for this";  // the library's error
  if (some_lost_ && !at_offset) return "a view in which the MPI library has no position";
  return view_left_;
}

void OpenedFile::count_left(const std::string& why) {
  ++left_;
  tally_->add(Number::transfers_left, 1);
  left_why_ = why;
  is_after_library_ = true;
}

std::string OpenedFile::set_view(int result, MPI_Offset displacement, MPI_Datatype etype,
                                 MPI_Datatype filetype, const char* representation) {
  std::string why;
  std::shared_ptr<const DataRepresentation> conversion;
  if (result != MPI_SUCCESS) {
    why = "the MPI library refuses it";
  } else if (std::strcmp(representation, "native") != 0 &&
             std::strcmp(representation, "internal") != 0) {
    if (alone_) conversion = representation_named(representation);
    if (conversion == nullptr) why = std::string("the representation ") + representation;
  }
  try {
    take_view(displacement, etype, filetype, why, conversion);
    converting_view_.reset();
    if (conversion != nullptr)
      converting_view_ = std::make_unique<const ConvertingView>(etype, filetype, representation);
    view_left_.clear();
    // All ranks have met for the view.
    if (is_first_rank_ && alone_) shared().set_pointer(0);
    if (alone_) {
      shared().meet();
    } else {
      some_lost_ = is_lost_on_some();
    }
  } catch (const Error& error) {
    // On all ranks: H2.
    std::string left = "the view: " + error.reason();
    error_of_view_ = error.code().value() == EILSEQ ? EILSEQ : ENOTSUP;
    if (alone_) return left;  // an error, and the view is the one before
    view_left_ = left;        // the library keeps to the view, or has said what is wrong with it
  }
  return view_left_;
}

void OpenedFile::take_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                           const std::string& refusal,
                           const std::shared_ptr<const DataRepresentation>& conversion) {
  if (!refusal.empty()) file_.refuse(Call::set_view, refusal);
  std::shared_ptr<const TypeMap> map;
  MPI_Count bytes = 0;
  collective::Representation representation;
  try {
    if (conversion == nullptr) {
      map = map_of(filetype);
      bytes = size_of(etype);
    } else {
      // The library is not asked about these.
      if (etype == MPI_DATATYPE_NULL || filetype == MPI_DATATYPE_NULL)
        throw Error(EINVAL, "MPI_DATATYPE_NULL");
      map = std::make_shared<const TypeMap>(conversion->map_in_file(filetype));
      bytes = conversion->size_in_file(etype);
      if (bytes > 0 && map->data_bytes() % bytes != 0)
        throw Error(EINVAL, "a filetype with a part of an etype");
      // The file swaps numbers of one size.
      const int element = conversion == external32() ? static_cast<int>(element_bytes(etype)) : 0;
      if (element > 0) representation = {ByteOrder::big, element};
    }
  } catch (const Error& error) {
    file_.refuse(Call::set_view, error.reason(), error.code().value());
  } catch (const std::exception& error) {
    file_.refuse(Call::set_view, error.what());
  }
  file_.set_view(displacement, *map, representation);
  etype_bytes_ = bytes;
  displacement_ = displacement;
  position_ = 0;
  const std::lock_guard guard(here_mutex_);
  view_ = map;
  representation_ = representation;
  conversion_ = conversion;
  here_has_view_ = false;
}

std::int64_t OpenedFile::extent_in_file(MPI_Datatype type) const {
  return conversion_ != nullptr ? conversion_->extent_in_file(type) : period_of(type);
}

// MPICH 4.0 gives -1 for the position where a view's lower bound is not 0, and wrong ones where its
// copies interleave.
bool OpenedFile::is_lost_on_some() {
  const bool is_lost = position() < 0 || !view_->is_file_view();
  try {
    file_.refuse(Call::set_view, "", is_lost ? EINVAL : 0);
    return false;
  } catch (const Error&) {
    return true;
  }
}

std::int64_t OpenedFile::bytes_before(MPI_Offset etypes) const {
  std::int64_t bytes = 0;
  return __builtin_mul_overflow(std::int64_t{etypes}, etype_bytes_, &bytes) ? -1 : bytes;
}

MPI_Offset OpenedFile::position() const {
  if (alone_) return position_;
  MPI_Offset position = 0;
  library().file_get_position(handle_, &position);
  return position;
}

void OpenedFile::seek_in_library(MPI_Offset position) {
  library().file_seek(handle_, position, MPI_SEEK_SET);
}

void OpenedFile::seek(MPI_Offset offset, int whence) {
  if (is_in_sequence()) refuse(only_in_sequence);
  if (whence == MPI_SEEK_END) {
    offset += end_of_file();
  } else if (whence != MPI_SEEK_CUR && whence != MPI_SEEK_SET) {
    throw Error(EINVAL, "seeking in " + file_.path() + " from nowhere");
  }
  MPI_Offset from = position_;
  MPI_Offset to = offset;
  do {
    if (whence == MPI_SEEK_CUR) to = from + offset;
    if (to < 0) throw Error(EINVAL, "seeking before the view of " + file_.path());
  } while (!position_.compare_exchange_weak(from, to));
}

MPI_Offset OpenedFile::place_of(MPI_Offset etypes) const {
  const std::int64_t bytes = bytes_before(etypes);
  if (bytes < 0) throw Error(EINVAL, "an offset before the view of " + file_.path());
  if (view_->data_bytes() == 0) return displacement_;
  return displacement_ + view_->position_of(bytes);
}

MPI_Offset OpenedFile::shared_place() {
  shared().meet();
  const MPI_Offset place = place_of(shared_position());
  shared().meet();  // before one of them moves it
  return place;
}

bool OpenedFile::converts(const Arguments& arguments) const {
  if (conversion_ == nullptr) return false;
  return representation_.order != ByteOrder::big ||
         element_bytes(arguments.type) != representation_.element_bytes;
}

std::int64_t OpenedFile::bytes_of(const Arguments& arguments) const {
  if (arguments.count < 0) throw Error(EINVAL, "a negative count");
  if (arguments.type == MPI_DATATYPE_NULL) throw Error(EINVAL, "MPI_DATATYPE_NULL");
  std::int64_t size = size_of(arguments.type);
  if (arguments.count == 0 || size == 0) return 0;
  if (converts(arguments)) size = conversion_->size_in_file(arguments.type);
  if (size == 0) throw Error(EILSEQ, "a datatype that has no bytes in the file");
  std::int64_t bytes = 0;
  const std::int64_t count = arguments.count;
  if (__builtin_mul_overflow(count, size, &bytes)) throw Error(EINVAL, "too many bytes");
  if (etype_bytes_ > 0 && bytes % etype_bytes_ != 0) throw Error(EINVAL, "a part of an etype");
  return bytes;
}

MPI_Offset OpenedFile::etypes_of(const Arguments& arguments) const {
  if (etype_bytes_ == 0) return 0;
  std::int64_t bytes = 0;  // of what will be refused
  refusal_by([&] { bytes = bytes_of(arguments); });
  return static_cast<MPI_Offset>(bytes / etype_bytes_);
}

std::shared_ptr<const MovedData> OpenedFile::data_of(Direction direction,
                                                     const Arguments& arguments,
                                                     bool is_begun) const {
  const std::int64_t bytes = bytes_of(arguments);
  const int left = alone_ ? ENOTSUP : left_errno;
  try {
    if (bytes == 0 || !converts(arguments)) return std::make_shared<const MovedData>(arguments);
    const bool swaps = is_foreign(representation_.order);
    return std::make_shared<const MovedData>(arguments, direction, conversion_,
                                             swaps ? representation_.element_bytes : 1, is_begun);
  } catch (const Error& error) {
    throw Error(error.code().value() == ENOTSUP ? left : error.code().value(), error.reason());
  } catch (const std::bad_alloc&) {
    throw Error(ENOMEM, "a datatype of many pieces");
  }
}

void OpenedFile::count(std::int64_t moved) {
  ++transfers_;
  bytes_ += moved;
  tally_->add(Number::transfers, 1);
}

void OpenedFile::count_in_turn() {
  tally_->add_transfer_by(collective::Method::independent);
}

void OpenedFile::count_open(MPI_Comm communicator) {
  const std::vector<int>& writers = file_.writers();
  const bool as_writer = std::ranges::find(writers, rank_in(communicator)) != writers.end();
  tally_->open(static_cast<int>(writers.size()), as_writer);
}

void OpenedFile::meet_after_library(Direction direction) {
  if (std::exchange(is_after_library_, false)) file_.refuse(call_of(direction), "", 0);
}

std::int64_t OpenedFile::carry_out(Direction direction, MPI_Offset offset,
                                   const Arguments& arguments) {
  meet_after_library(direction);
  if (atomic_) return agree_in_turn(move_in_turn(direction, offset, arguments));
  const std::int64_t at = bytes_before(offset);
  std::shared_ptr<const MovedData> data;
  const RankRefusal refusal = refusal_by([&] { data = data_of(direction, arguments, false); });
  if (data == nullptr) file_.refuse(call_of(direction), refusal.why, refusal.error);
  const std::int64_t count = count_of(*data);
  const std::int64_t moved = direction == Direction::read
                                 ? file_.read_at_all(at, data->base(), data->map(), count)
                                 : file_.write_at_all(at, data->base(), data->map(), count);
  return finish_on_all(direction, *data, moved);
}

std::int64_t OpenedFile::finish_on_all(Direction direction, const MovedData& data,
                                       std::int64_t moved) {
  if (direction == Direction::write || conversion_ == nullptr || !conversion_->may_fail())
    return data.finish(moved);
  const RankRefusal refusal = refusal_by([&] { moved = data.finish(moved); });
  file_.refuse(call_of(direction), refusal.why, refusal.error);
  return moved;
}

OpenedFile::Started OpenedFile::start(Direction direction, MPI_Offset offset,
                                      const Arguments& arguments) {
  meet_after_library(direction);
  const std::int64_t at = bytes_before(offset);
  std::shared_ptr<const MovedData> data;
  const RankRefusal refusal = refusal_by([&] { data = data_of(direction, arguments, true); });
  if (data == nullptr) {
    // What has begun cannot be left to the library.
    const int error = refusal.error == left_errno ? ENOTSUP : refusal.error;
    return {file_.irefuse(call_of(direction), refusal.why, error), nullptr, direction};
  }
  return started_in(file_, direction, at, std::move(data));
}

OpenedFile::Started OpenedFile::started_in(collective::File& file, Direction direction,
                                           std::int64_t at,
                                           std::shared_ptr<const MovedData> data) const {
  const std::int64_t count = count_of(*data);
  collective::Transfer transfer = direction == Direction::read
                                      ? file.iread_at_all(at, data->base(), data->map(), count)
                                      : file.iwrite_at_all(at, data->base(), data->map(), count);
  return {std::move(transfer), std::move(data), direction};
}

OpenedFile::InTurn OpenedFile::move_in_turn(Direction direction, MPI_Offset offset,
                                            const Arguments& arguments) {
  InTurn done{direction};
  try {
    done.moved = move_here(direction, offset, arguments);
  } catch (const std::exception&) {
    done.error = error_of_exception();
  }
  return done;
}

std::int64_t OpenedFile::agree_in_turn(const InTurn& done) {
  const char* what =
      done.direction == Direction::read ? "reading in atomic mode" : "writing in atomic mode";
  shared().team().agree(done.error, what, file_.path());
  count_in_turn();
  return done.moved;
}

void OpenedFile::transfer_at(Direction direction, MPI_Offset offset, const Arguments& arguments,
                             MPI_Status* status) {
  try {
    const std::int64_t moved = carry_out(direction, offset, arguments);
    count(moved);
    fill_in(status, moved);
  } catch (const Error& error) {
    if (error.code().value() != left_errno) throw;
    // This is the error of the lowest rank; what another may not ask for is an error of all first.
    const RankRefusal refusal = refusal_by([&] {
      if (offset < 0) throw Error(EINVAL, "a negative offset");
      bytes_of(arguments);
    });
    file_.refuse(call_of(direction), refusal.why, refusal.error);
    throw LeftToLibrary{error.reason()};
  }
}

void OpenedFile::transfer_next(Direction direction, const Arguments& arguments,
                               MPI_Status* status) {
  at_position(arguments, [&](MPI_Offset from) { transfer_at(direction, from, arguments, status); });
}

std::int64_t OpenedFile::move_here(Direction direction, MPI_Offset offset,
                                   const Arguments& arguments) {
  const std::int64_t at = bytes_before(offset);
  const auto data = data_of(direction, arguments, false);
  const std::lock_guard guard(here_mutex_);
  collective::File& file = view_here();
  std::optional<SharedNumbers::Turn> turn;  // asked for last: the others wait for its end
  if (atomic_) turn.emplace(shared());
  const std::int64_t count = count_of(*data);
  return data->finish(direction == Direction::read
                          ? file.read_at_all(at, data->base(), data->map(), count)
                          : file.write_at_all(at, data->base(), data->map(), count));
}

// A call of one rank must not wait for what it has begun with others.
collective::File& OpenedFile::file_here() {
  static std::mutex& opening = *new std::mutex;  // MPI_COMM_SELF takes one call at a time
  require_open();
  if (here_ == nullptr) {
    const std::lock_guard guard(opening);
    here_ = std::make_unique<collective::File>(MPI_COMM_SELF, file_.path(), access_of(mode_),
                                               options_with(tally_, false));
  }
  return *here_;
}

collective::File& OpenedFile::view_here() {
  collective::File& file = file_here();
  if (!here_has_view_) file.set_view(displacement_, *view_, representation_);
  here_has_view_ = true;
  return file;
}

std::int64_t OpenedFile::size_bytes() {
  const std::lock_guard guard(here_mutex_);
  return file_here().size_bytes();
}

void OpenedFile::transfer_at_here(Direction direction, MPI_Offset offset,
                                  const Arguments& arguments, MPI_Status* status) {
  const std::int64_t moved = move_here(direction, offset, arguments);
  tally_->add(Number::transfers_single, 1);
  fill_in(status, moved);
}

void OpenedFile::transfer_at_here(Direction direction, MPI_Offset offset,
                                  const Arguments& arguments, MPI_Request* request) {
  if (atomic_ || !can_be_pending()) {
    const std::int64_t moved = move_here(direction, offset, arguments);
    tally_->add(Number::transfers_single, 1);
    make_done(request, moved);
    return;
  }
  Started started = start_here(direction, offset, arguments);
  make_pending(request, handle_, std::move(started.transfer),
               [tally = tally_, data = std::move(started.data)](std::int64_t moved) {
                 tally->add(Number::transfers_single, 1);
                 return data->finish(moved);
               });
}

OpenedFile::Started OpenedFile::start_here(Direction direction, MPI_Offset offset,
                                           const Arguments& arguments) {
  const std::int64_t at = bytes_before(offset);
  if (at < 0) throw Error(EINVAL, "a negative offset");
  if (access_of(mode_) == (direction == Direction::read ? O_WRONLY : O_RDONLY))
    throw Error(EBADF, file_.path() + " was not opened for this");
  auto data = data_of(direction, arguments, true);
  const std::lock_guard guard(here_mutex_);
  return started_in(view_here(), direction, at, std::move(data));
}

void OpenedFile::begin_at(Direction direction, MPI_Offset offset, const Arguments& arguments) {
  if (atomic_) {
    split_ = move_in_turn(direction, offset, arguments);
  } else {
    split_ = start(direction, offset, arguments);
  }
}

void OpenedFile::begin_next(Direction direction, const Arguments& arguments) {
  at_position(arguments, [&](MPI_Offset from) { begin_at(direction, from, arguments); });
}

void OpenedFile::end(MPI_Status* status) {
  auto begun = std::exchange(split_, std::monostate());
  const auto* in_turn = std::get_if<InTurn>(&begun);
  std::int64_t moved = 0;
  if (in_turn != nullptr) {
    moved = agree_in_turn(*in_turn);
  } else {
    auto& started = std::get<Started>(begun);
    moved = started.transfer.wait();
    moved = finish_on_all(started.direction, *started.data, moved);
  }
  count(moved);
  fill_in(status, moved);
}

void OpenedFile::start_at(Direction direction, MPI_Offset offset, const Arguments& arguments,
                          MPI_Request* request) {
  if (atomic_) {
    const std::int64_t moved = move_here(direction, offset, arguments);
    count(moved);
    count_in_turn();
    make_done(request, moved);
    return;
  }
  if (!can_be_pending()) refuse("nonblocking collective transfers with this MPI library");
  Started started = start(direction, offset, arguments);
  make_pending(request, handle_, std::move(started.transfer),
               [this, data = std::move(started.data)](std::int64_t moved) {
                 moved = data->finish(moved);
                 count(moved);
                 return moved;
               });
}

void OpenedFile::start_next(Direction direction, const Arguments& arguments, MPI_Request* request) {
  at_position(arguments, [&](MPI_Offset from) { start_at(direction, from, arguments, request); });
}

void OpenedFile::seek_shared(MPI_Offset offset, int whence) {
  if (is_in_sequence()) refuse(only_in_sequence);
  const bool is_known = whence == MPI_SEEK_SET || whence == MPI_SEEK_CUR || whence == MPI_SEEK_END;
  int error = is_known ? 0 : EINVAL;
  shared().meet();
  try {
    if (is_first_rank_ && whence == MPI_SEEK_CUR) offset += shared().pointer();
    if (is_first_rank_ && whence == MPI_SEEK_END) offset += end_of_file();
  } catch (const std::exception&) {
    error = error_of_exception();
  }
  if (is_first_rank_ && offset < 0) error = EINVAL;
  if (is_first_rank_ && error == 0) shared().set_pointer(offset);
  shared().team().agree(error, "moving the shared file pointer of", file_.path());
}

MPI_Offset OpenedFile::end_of_file() {
  if (etype_bytes_ == 0 || view_->data_bytes() == 0) return 0;
  const std::int64_t bytes = std::max<std::int64_t>(0, size_bytes() - displacement_);
  const std::int64_t stream =
      view_->is_file_view() ? view_->stream_at(bytes) : collective::first_stream_at(*view_, bytes);
  if (stream < 0) refuse("a view without an end");
  return static_cast<MPI_Offset>((stream + etype_bytes_ - 1) / etype_bytes_);
}

void OpenedFile::grow(std::int64_t bytes) {
  if (bytes < 0 || file_.size_bytes() < bytes) file_.resize(bytes);
}

void OpenedFile::sync() {
  program_syncs = true;
  const int error = finish_here([](collective::File& file) { file.sync(); });
  file_.sync();
  if (error != 0) throw Error(error, "syncing " + file_.path());
}

void OpenedFile::require_open() const {
  if (is_closed_) throw Error(EBADF, "using the closed file " + file_.path());
}

SharedNumbers& OpenedFile::shared() const {
  require_open();
  return *shared_;
}

void OpenedFile::close() {
  require_open();
  is_closed_ = true;
  const int error = finish_here([](collective::File& file) { file.close(); });
  const std::unique_ptr<SharedNumbers> numbers = std::move(shared_);  // freed in any case
  converting_view_.reset();
  tally_->close();
  file_.close();
  destroy_freed();
  const bool removes = alone_ && (mode_ & MPI_MODE_DELETE_ON_CLOSE) != 0;
  if (removes && is_first_rank_) remove_file(file_.path());
  if (error != 0) throw Error(error, "closing " + file_.path());
}

void OpenedFile::add_hints(MPI_Info info) const {
  PMPI_Info_set(info, collective::mpiio_hint, "enable");
  MPI_Info own = file_.hints();
  int count = 0;
  PMPI_Info_get_nkeys(own, &count);
  for (int i = 0; i < count; ++i) {
    char name[MPI_MAX_INFO_KEY + 1] = {};
    char value[MPI_MAX_INFO_VAL + 1] = {};
    int found = 0;
    PMPI_Info_get_nthkey(own, i, name);
    PMPI_Info_get(own, name, MPI_MAX_INFO_VAL, value, &found);
    if (found != 0) PMPI_Info_set(info, name, value);
  }
  PMPI_Info_free(&own);
}

std::string OpenedFile::summary() const {
  std::string text = file_.path() + ": " + std::to_string(transfers_) + " collective transfers, " +
                     std::to_string(bytes_) + " bytes of this rank, by Ferry through " +
                     std::to_string(file_.writers().size()) + " writers";
  if (left_ > 0) {
    text += ", " + std::to_string(left_) + " by the MPI library (" + left_why_ + ")";
  }
  return text;
}

}  // namespace ferry::mpiio
