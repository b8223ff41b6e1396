#include "storage/nfs/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cpus.hpp"
#include "base/sanitizer.hpp"

namespace ferry::storage {
namespace {

// Enough to keep a server and the way to it busy; more only waits in its memory instead of ours.
constexpr std::size_t flights_max = 64;
constexpr std::size_t flight_bytes_max = std::size_t{4} << 20;
constexpr std::chrono::milliseconds connect_slice{1000};
constexpr std::chrono::milliseconds pause{100};
constexpr std::chrono::milliseconds idle_nap{60'000};
// Of a server that hangs. With more, requests go on over the last one.
constexpr std::size_t retired_max = 4;

int make_eventfd() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::system_category(), "eventfd");
  return fd;
}

}  // namespace

NfsConnection::NfsConnection(const NfsLibrary& library, const NfsAddress& address)
    : library_(library), address_(address), line_(new_line()), wake_(make_eventfd()) {
  try {
    if (!make_room(0)) throw std::bad_alloc();
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    ::close(wake_);
    throw;
  }
}

NfsConnection::~NfsConnection() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  look_again();
  thread_.join();
  ::close(wake_);
}

void NfsConnection::add(NfsPieceOf piece) {
  Flights one = new_flight(std::move(piece));
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = added_.empty();
    added_.splice(added_.end(), one);
  }
  if (first) ::eventfd_write(wake_, 1);
}

void NfsConnection::add_late(std::unique_ptr<NfsRpc> rpc, std::unique_ptr<LateChange> change) {
  auto line = std::make_unique<Line>();
  line->rpc = std::move(rpc);
  line->late = std::move(change);
  {
    const std::lock_guard lock(mutex_);
    added_late_.push_back(std::move(line));
  }
  ::eventfd_write(wake_, 1);
}

void NfsConnection::look_again() {
  look_again_.store(true, std::memory_order_release);
  ::eventfd_write(wake_, 1);
}

void NfsConnection::run() {
  name_this_thread("ferry-nfs");
  run_this_thread_on(address_.cpus);
  for (;;) {
    take_added();
    if (look_again_.exchange(false, std::memory_order_acquire)) {
      drop_cancelled();
      const std::lock_guard lock(mutex_);
      if (closing_) break;
    }
    if (!waiting_.empty() && !line_->rpc->connected()) connect();
    start_commits_ahead();
    issue();
    sleep_and_serve();
    expire();
  }
  for (const auto& line : retired_)
    lose_connection(*line);
  lose_connection(*line_);
}

std::unique_ptr<NfsConnection::Line> NfsConnection::new_line() const {
  auto line = std::make_unique<Line>();
  line->rpc = std::make_unique<NfsRpc>(library_, address_);
  return line;
}

NfsConnection::Flights NfsConnection::new_flight(NfsPieceOf what) {
  Flights one(1);
  one.front().connection = this;
  one.front().what = std::move(what);
  one.front().self = one.begin();
  return one;
}

// For one more line than these that are retired: whether all of them can be watched.
bool NfsConnection::make_room(std::size_t lines) try {
  retired_.reserve(lines);
  sources_.reserve(lines + 2);
  watched_.reserve(lines + 2);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void NfsConnection::take_added() {
  const auto now = NfsClock::now();
  const std::lock_guard lock(mutex_);
  lacks_room_ = !added_late_.empty() && !make_room(retired_.size() + added_late_.size());
  if (!lacks_room_) {
    std::move(added_late_.begin(), added_late_.end(), std::back_inserter(retired_));
    added_late_.clear();
  }
  for (const Flight& flight : added_)
    flight.what.piece().queued = now;
  waiting_.splice(waiting_.end(), added_);
}

void NfsConnection::fail(const NfsPieceOf& what, int error) {
  what.piece().error = error;
  what.transfer->finish_piece();
}

void NfsConnection::drop_cancelled() {
  std::erase_if(waiting_, [](const Flight& flight) {
    if (!flight.what.transfer->cancelled()) return false;
    fail(flight.what, -ECANCELED);
    return true;
  });
  for (Flight& flight : flights_) {
    if (!flight.abandoned && flight.what.transfer->cancelled()) give_up(flight, -ECANCELED);
  }
}

// The request is on its way and cannot be called back.
void NfsConnection::give_up(Flight& flight, int error) {
  flight.abandoned = true;
  NfsTransfer& transfer = *flight.what.transfer;
  if (transfer.kind() == Kind::write) flight.late.emplace(transfer.changes(), error);
  fail(flight.what, error);
}

// ---- the connection ----------------------------------------------------------------------------

void NfsConnection::connect() {
  const auto now = NfsClock::now();
  if (now < connect_not_before_) return;
  const auto patience = std::min<NfsClock::duration>(connect_slice, address_.timeout);
  try {
    if (line_->rpc->connect(nfs_program, nfs_version, address_.nfs_port, now + patience) == 0)
      return;
  } catch (const std::bad_alloc&) {
    line_->rpc->disconnect();
  }
  connect_not_before_ = NfsClock::now() + pause;
}

// Unanswered requests wait for the next connection, before everything else and in the old order.
void NfsConnection::lose_connection(Line& line) {
  line.rpc->disconnect();  // ends every flight on it
  unanswered_.sort([](const Flight& a, const Flight& b) {
    return a.what.piece().queued < b.what.piece().queued;
  });
  waiting_.splice(waiting_.begin(), unanswered_);
}

// The server is late, so that requests go over another connection from now on. Writes wait on this
// one for their answers: sent again they could be carried out twice, the second time over newer
// bytes. Without memory for that, all of them wait.
void NfsConnection::retire_connection() {
  const auto on_line = [this](const Flight& flight) { return flight.line == line_.get(); };
  const bool writes = std::any_of(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    return on_line(flight) && flight.what.transfer->kind() == Kind::write;
  });
  if (!writes) {
    lose_connection(*line_);
    return;
  }
  if (retired_.size() >= retired_max || !make_room(retired_.size() + 1)) return;
  const auto is_repeated = [&](const Flight& flight) {
    return on_line(flight) && !flight.abandoned && flight.what.transfer->kind() != Kind::write;
  };
  Flights again;
  std::unique_ptr<Line> fresh;
  try {
    fresh = new_line();
    for (const Flight& flight : flights_)
      if (is_repeated(flight)) again.splice(again.end(), new_flight(flight.what));
  } catch (const std::bad_alloc&) {
    return;
  }
  for (Flight& flight : flights_)
    if (is_repeated(flight)) flight.abandoned = true;
  waiting_.splice(waiting_.begin(), again);
  retired_.push_back(std::exchange(line_, std::move(fresh)));
}

std::chrono::milliseconds NfsConnection::nap() const {
  if (waiting_.empty() && flights_.empty() && !lacks_room_) return idle_nap;
  return pause;
}

void NfsConnection::sleep_and_serve() {
  sources_.assign(1, {wake_, POLLIN, 0});
  watched_.assign(1, nullptr);
  watch(*line_);
  for (const auto& line : retired_)
    watch(*line);
  if (::poll(sources_.data(), sources_.size(), static_cast<int>(nap().count())) < 0) return;
  if (sources_[0].revents != 0) {
    eventfd_t woken = 0;
    ::eventfd_read(wake_, &woken);
  }
  for (std::size_t i = 1; i < sources_.size(); ++i)
    if (sources_[i].revents != 0) serve(*watched_[i], sources_[i].revents);
  std::erase_if(retired_, [](const auto& line) {
    return !line->rpc->connected() || (line->flights == 0 && !line->rpc->waits());
  });
}

void NfsConnection::watch(Line& line) {
  if (!line.rpc->connected()) return;
  rpc_context* const rpc = line.rpc->context();
  sources_.push_back(
      {library_.rpc_get_fd(rpc), static_cast<short>(library_.rpc_which_events(rpc)), 0});
  watched_.push_back(&line);
}

void NfsConnection::serve(Line& line, int events) {
  if (!line.rpc->service(events)) {
    lose_connection(line);
    return;
  }
  // The connection works, so the server's RPC layer has refused these calls.
  for (const Flight& flight : unanswered_)
    fail(flight.what, -EIO);
  unanswered_.clear();
}

void NfsConnection::expire() {
  const auto now = NfsClock::now();
  const auto overdue = [&](const NfsPiece& piece) {
    // One that was not sent yet waits for those before it, while these are answered.
    const auto since = piece.begun ? piece.begin : std::max(piece.queued, last_answer_);
    return now - since > address_.timeout;
  };
  bool late = false;
  for (Flight& flight : flights_) {
    if (flight.abandoned || !overdue(flight.what.piece())) continue;
    late = late || flight.line == line_.get();
    give_up(flight, -ETIMEDOUT);
  }
  if (late) retire_connection();
  std::erase_if(waiting_, [&](const Flight& flight) {
    if (!overdue(flight.what.piece())) return false;
    fail(flight.what, -ETIMEDOUT);
    return true;
  });
}

// ---- requests ----------------------------------------------------------------------------------

void NfsConnection::issue() {
  const auto now = NfsClock::now();
  for (auto next = waiting_.begin(); next != waiting_.end() && line_->rpc->connected();) {
    if (line_->flights >= flights_max || line_->bytes >= flight_bytes_max) return;
    Flight& flight = *next++;
    if (flight.what.piece().not_before > now) continue;
    if (!send(flight)) return;
  }
}

// False if the connection is lost, and with it all that went over it.
bool NfsConnection::send(Flight& flight) {
  NfsPiece& piece = flight.what.piece();
  if (!piece.begun) {
    piece.begun = true;
    piece.begin = NfsClock::now();
  }
  flights_.splice(flights_.end(), waiting_, flight.self);
  flight.line = line_.get();
  flight.bytes = piece.bytes - piece.moved;
  ++line_->flights;
  line_->bytes += flight.bytes;
  int error = 0;
  try {
    if (start_call(flight) == 0) return true;
  } catch (const std::bad_alloc&) {
    error = -ENOMEM;
  }
  --line_->flights;
  line_->bytes -= flight.bytes;
  if (error != 0) {
    fail(flight.what, error);
    flights_.erase(flight.self);
    return true;
  }
  // libnfs could not take it: as if the connection had broken.
  unanswered_.splice(unanswered_.end(), flights_, flight.self);
  lose_connection(*line_);
  return false;
}

int NfsConnection::start_call(Flight& flight) {
  NfsTransfer& transfer = *flight.what.transfer;
  NfsPiece& piece = flight.what.piece();
  rpc_context* const rpc = flight.line->rpc->context();
  const nfs_fh3 handle = transfer.file().handle.argument();
  const std::uint64_t offset = piece.offset + piece.moved;
  const auto count = static_cast<count3>(flight.bytes);
  if (transfer.kind() == Kind::read) {
    READ3args arguments{handle, offset, count};
    return library_.rpc_nfs3_read_async(rpc, on_reply, &arguments, &flight);
  }
  if (transfer.kind() == Kind::write) {
    WRITE3args arguments{};
    arguments.file = handle;
    arguments.offset = offset;
    arguments.count = count;
    arguments.stable = transfer.file().synchronous ? FILE_SYNC : UNSTABLE;
    arguments.data.data_len = count;
    arguments.data.data_val = const_cast<char*>(transfer.source(piece, gathered_));
    const UnseenReads unseen;  // as in NfsTransfer::source()
    return library_.rpc_nfs3_write_async(rpc, on_reply, &arguments, &flight);
  }
  transfer.commit_begun = transfer.writes().begin_commit();
  COMMIT3args arguments{handle, 0, 0};  // the whole file
  return library_.rpc_nfs3_commit_async(rpc, on_reply, &arguments, &flight);
}

// No call waits for these: one that cannot be sent is dropped, because the following sync commits
// all.
void NfsConnection::start_commits_ahead() {
  while (!commits_due_.empty()) {
    const auto commit = commits_due_.begin();
    commit->self = commit;
    COMMIT3args arguments{commit->handle.argument(), 0, 0};  // the whole file
    const NfsRpc& rpc = *line_->rpc;
    if (rpc.connected() &&
        library_.rpc_nfs3_commit_async(rpc.context(), on_commit_ahead, &arguments, &*commit) == 0) {
      commits_ahead_.splice(commits_ahead_.end(), commits_due_, commit);
    } else {
      commit->writes->committed_ahead(nullptr, 0);
      commits_due_.erase(commit);
    }
  }
}

void NfsConnection::on_commit_ahead(rpc_context*, int status, void* data, void* commit_data) {
  auto& commit = *static_cast<CommitAhead*>(commit_data);
  const auto* reply = status == rpc_success ? static_cast<const COMMIT3res*>(data) : nullptr;
  if (reply == nullptr || reply->status == NFS3ERR_JUKEBOX) {
    commit.writes->committed_ahead(nullptr, 0);
  } else if (reply->status != NFS3_OK) {
    // The server may report it only once, so keep it for the sync.
    commit.writes->committed_ahead(nullptr, nfs_error(reply->status));
  } else {
    commit.writes->committed_ahead(reply->resok.verf, 0);
  }
  commit.connection->commits_ahead_.erase(commit.self);
}

void NfsConnection::on_reply(rpc_context*, int status, void* data, void* flight_data) {
  auto& flight = *static_cast<Flight*>(flight_data);
  NfsConnection& self = *flight.connection;
  --flight.line->flights;
  flight.line->bytes -= flight.bytes;
  if (flight.abandoned) {
    if (status == rpc_success) answered_late(flight, data);
    self.flights_.erase(flight.self);
  } else if (status == rpc_success) {
    self.answered(flight, data);
  } else {
    self.unanswered_.splice(self.unanswered_.end(), self.flights_, flight.self);
  }
}

// No call waits for it. A write's data may be lost like any other's, and the server may report a
// failed commit only once.
void NfsConnection::answered_late(const Flight& flight, const void* data) {
  const NfsTransfer& transfer = *flight.what.transfer;
  if (transfer.kind() == Kind::read) return;
  if (transfer.kind() != Kind::write) {
    const auto& commit = *static_cast<const COMMIT3res*>(data);
    if (commit.status != NFS3_OK && commit.status != NFS3ERR_JUKEBOX)
      transfer.writes().commit_failed(nfs_error(commit.status));
    return;
  }
  const auto& reply = *static_cast<const WRITE3res*>(data);
  if (reply.status != NFS3_OK || reply.resok.committed != UNSTABLE) return;
  transfer.writes().acknowledged(reply.resok.verf);
}

void NfsConnection::answered(Flight& flight, void* data) {
  last_answer_ = NfsClock::now();
  const NfsPieceOf& what = flight.what;
  bool finished = false;
  switch (what.transfer->kind()) {
    case Kind::read:
      finished = answered_read(what, *static_cast<const READ3res*>(data));
      break;
    case Kind::write:
      finished = answered_write(what, *static_cast<const WRITE3res*>(data));
      break;
    default:
      finished = answered_commit(what, *static_cast<const COMMIT3res*>(data));
      break;
  }
  if (finished && what.piece().error == -EAGAIN) {
    // The server asks for a later retry. That is still the same request.
    what.piece().error = 0;
    what.piece().not_before = last_answer_ + pause;
    finished = false;
  } else if (!finished) {
    what.piece().begun = false;  // the rest is another request
  }
  if (finished) {
    what.transfer->finish_piece();
    flights_.erase(flight.self);
    return;
  }
  waiting_.splice(waiting_.begin(), flights_, flight.self);
}

// Whether the piece is done; otherwise the rest is sent.
bool NfsConnection::answered_read(const NfsPieceOf& what, const READ3res& reply) {
  NfsPiece& piece = what.piece();
  if (reply.status != NFS3_OK) {
    piece.error = nfs_error(reply.status);
    return true;
  }
  const READ3resok& read = reply.resok;
  const std::size_t bytes = std::min<std::size_t>(read.data.data_len, piece.bytes - piece.moved);
  what.transfer->take(piece, read.data.data_val, bytes);
  piece.moved += bytes;
  if (bytes == 0 && read.eof == 0) piece.error = -EIO;
  return piece.moved == piece.bytes || read.eof != 0 || piece.error != 0;
}

bool NfsConnection::answered_write(const NfsPieceOf& what, const WRITE3res& reply) {
  NfsPiece& piece = what.piece();
  if (reply.status != NFS3_OK) {
    piece.error = nfs_error(reply.status);
    return true;
  }
  const WRITE3resok& written = reply.resok;
  if (written.committed == UNSTABLE) {
    NfsFile& file = what.transfer->file();
    NfsWrites& writes = what.transfer->writes();
    writes.acknowledged(written.verf);
    if (what.transfer->sync_follows() && writes.begin_ahead(written.count)) {
      try {
        commits_due_.push_back({this, file.handle, file.writes->of_file(), {}});
      } catch (const std::bad_alloc&) {  // then the sync has more to do
        writes.committed_ahead(nullptr, 0);
      }
    }
  }
  piece.moved += std::min<std::size_t>(written.count, piece.bytes - piece.moved);
  if (written.count == 0) piece.error = -EIO;
  return piece.moved == piece.bytes || piece.error != 0;
}

bool NfsConnection::answered_commit(const NfsPieceOf& what, const COMMIT3res& reply) {
  NfsTransfer& transfer = *what.transfer;
  int& error = what.piece().error;
  if (reply.status == NFS3ERR_JUKEBOX) {
    error = nfs_error(reply.status);
    return true;
  }
  // The server may report it only once, to one opening of the file.
  if (reply.status != NFS3_OK) {
    transfer.writes().commit_failed(nfs_error(reply.status));
  } else {
    transfer.writes().committed(reply.resok.verf, transfer.commit_begun);
  }
  const int of_file = transfer.file().writes->error();
  error = reply.status != NFS3_OK ? nfs_error(reply.status) : of_file;
  return true;
}

}  // namespace ferry::storage
