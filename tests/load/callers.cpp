#include "load/callers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "support/files.hpp"

namespace ferry::load {
namespace {

constexpr std::size_t buffer_bytes = 16 << 10;

// What storages may answer while something fails: the injected errors, and what a client says
// whose server is gone.
bool may_be_returned(int error) {
  constexpr int errors[] = {EIO,       ENOSPC,       EDQUOT,     ESTALE,   EINTR,
                            ETIMEDOUT, ECONNREFUSED, ECONNRESET, ENOTCONN, EPIPE};
  return std::ranges::find(errors, error) != std::end(errors);
}

// Up to `bytes` of a file, past Ferry.
std::int64_t plain_read(const std::string& path, unsigned char* to, std::size_t bytes,
                        std::uint64_t offset) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return -errno;
  const std::int64_t got = test::plain(::pread(file, to, bytes, static_cast<off_t>(offset)));
  ::close(file);
  return got;
}

}  // namespace

LoadCaller::LoadCaller(Load& load, std::size_t place, const std::string& kind, std::uint64_t number)
    : load_(load),
      place_(place),
      member_(number % together),
      key_base_(mixed(mixed(load.seed + place) + mixed(number) + kind.size())),
      shared_name_(kind + "-shared-" + std::to_string(number / together)),
      own_name_(kind + "-own-" + std::to_string(number)),
      random_(key_base_),
      pieces_(pieces),
      buffer_(buffer_bytes) {}

std::string LoadCaller::doing() const {
  return where().name + ": " + own_name_ + " in " +
         kind_names[static_cast<std::size_t>(doing_.load())];
}

template <class Call>
std::int64_t LoadCaller::make(const CallerFiles& files, LoadCall kind, const Call& call) {
  const std::uint64_t hung_before = load_.hung_ns();
  const std::uint64_t ready_before = load_.server_ready_ns;
  const auto begin = Clock::now();
  doing_ = kind;
  began_ = static_cast<std::uint64_t>(begin.time_since_epoch().count());
  const auto result = static_cast<std::int64_t>(call());
  began_ = 0;
  const auto took = static_cast<std::uint64_t>((Clock::now() - begin).count());
  const std::uint64_t hung = std::min(load_.hung_ns() - hung_before, took);
  load_.latencies->note(place_, kind, took, hung > 0);
  if (!where().hangs && load_.slow.wants(took))
    load_.slow.note(
        {took, hung, load_.server_ready_ns - ready_before, doing() + ", " + files.way()});
  if (result < 0) {
    ++load_.failed_calls;
    const auto error = static_cast<int>(-result);
    const bool is_gone = error == ENOENT && !own_.is_known() &&
                         (kind == LoadCall::unlink || kind == LoadCall::rename);
    if (!is_gone && (!load_.faults || !may_be_returned(error)))
      find(std::string(kind_names[static_cast<std::size_t>(kind)]) + " returned " +
           std::to_string(result));
  }
  return result;
}

void LoadCaller::find(const std::string& what) {
  load_.findings.add(where().name + ", " + own_name_ + " (member " + std::to_string(member_) +
                     " of " + shared_name_ + "): " + what);
}

// ---- the shared file

bool LoadCaller::open_shared(CallerFiles& files) {
  if (shared_ > 0) return true;
  int flags = O_RDWR | O_CREAT;
  if (random_.one_in(8)) flags |= O_DSYNC;
  if (random_.one_in(8)) flags |= O_DIRECT;
  const std::string path = where().path_of(shared_name_);
  shared_ = static_cast<int>(make(files, LoadCall::open, [&] { return files.open(path, flags); }));
  return shared_ > 0;
}

void LoadCaller::close_shared(CallerFiles& files) {
  if (shared_ <= 0) return;
  const auto result = make(files, LoadCall::close, [&] { return files.close(shared_); });
  shared_ = 0;
  for (OwnedPiece& piece : pieces_)
    result == 0 ? piece.secure() : piece.lose();
}

void LoadCaller::check_piece(std::uint64_t piece, Bytes got, const char* how) {
  load_.checked_bytes += got.size();
  if (!pieces_[piece].allows(got))
    find(std::string(how) + " found foreign bytes, or older ones than it may, in the " +
         std::to_string(got.size()) + " from " + std::to_string(offset_of(piece)));
  if (got.empty() && pieces_[piece].was_written())
    find(std::string(how) + " found the end of the file at " + std::to_string(offset_of(piece)) +
         ", where it has bytes");
}

void LoadCaller::read_piece(CallerFiles& files) {
  const std::uint64_t piece = random_.below(pieces);
  const auto got = make(files, LoadCall::read, [&] {
    return files.read(shared_, buffer_.data(), OwnedPiece::bytes, offset_of(piece));
  });
  if (got >= 0) check_piece(piece, Bytes(buffer_).first(static_cast<std::size_t>(got)), "a read");
}

// Over others' pieces, which they may be writing: a race of the copies, by intention.
void LoadCaller::read_wide(CallerFiles& files) {
#ifdef __SANITIZE_THREAD__
  return read_piece(files);
#endif
  const std::uint64_t begin = random_.below(pieces * together * OwnedPiece::bytes);
  const std::uint64_t bytes = random_.between(1, buffer_.size());
  const auto got = make(files, LoadCall::read,
                        [&] { return files.read(shared_, buffer_.data(), bytes, begin); });
  if (got <= 0) return;
  const std::uint64_t end = begin + static_cast<std::uint64_t>(got);
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const std::uint64_t from = offset_of(piece);
    if (from < begin || from >= end) continue;
    const std::size_t there = std::min<std::uint64_t>(OwnedPiece::bytes, end - from);
    check_piece(piece, Bytes(buffer_).subspan(from - begin, there), "a long read");
  }
}

void LoadCaller::write_piece(CallerFiles& files) {
  const std::uint64_t piece = random_.below(pieces);
  if (pieces_[piece].is_crowded()) return sync_shared(files, false);
  const std::uint64_t key = new_key();
  fill(std::span(buffer_).first(OwnedPiece::bytes), key);
  const auto wrote = make(files, LoadCall::write, [&] {
    return files.write(shared_, buffer_.data(), OwnedPiece::bytes, offset_of(piece));
  });
  pieces_[piece].wrote(key, wrote == static_cast<std::int64_t>(OwnedPiece::bytes));
}

void LoadCaller::sync_shared(CallerFiles& files, bool flushes) {
  const auto result = flushes ? make(files, LoadCall::flush, [&] { return files.flush(shared_); })
                              : make(files, LoadCall::sync, [&] { return files.sync(shared_); });
  if (result != 0) return;
  for (OwnedPiece& piece : pieces_)
    piece.secure();
  if (random_.one_in(4)) check_stored();
}

// What was secured is in the storage: plain system calls find it there.
void LoadCaller::check_stored() {
  if (where().directory.empty()) return;
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    if (!pieces_[piece].was_written()) continue;
    const auto got = plain_read(where().directory + "/" + shared_name_, buffer_.data(),
                                OwnedPiece::bytes, offset_of(piece));
    if (got != static_cast<std::int64_t>(OwnedPiece::bytes)) {
      find("a plain read of what was secured returned " + std::to_string(got));
      continue;
    }
    check_piece(piece, Bytes(buffer_).first(OwnedPiece::bytes), "a plain read of what was secured");
  }
}

// ---- its own file

std::string LoadCaller::own_path(bool other) const {
  return where().path_of(own_name_ + "-" + std::to_string(own_names_) +
                         (own_renamed_ != other ? "-renamed" : ""));
}

bool LoadCaller::make_own_anew(CallerFiles& files) {
  close_own(files);
  if (!remove_own(files)) return false;
  const std::string path = own_path(false);
  constexpr int flags = O_RDWR | O_CREAT | O_APPEND | O_TRUNC;
  own_handle_ =
      static_cast<int>(make(files, LoadCall::open, [&] { return files.open(path, flags); }));
  if (own_handle_ > 0) {
    own_.is_new();
  } else if (where().is_served) {
    ++own_names_;
  }
  return own_handle_ > 0;
}

bool LoadCaller::open_own(CallerFiles& files) {
  if (!own_.is_known()) return make_own_anew(files);
  if (own_handle_ > 0) return true;
  const std::string path = own_path(false);
  own_handle_ = static_cast<int>(
      make(files, LoadCall::open, [&] { return files.open(path, O_RDWR | O_APPEND); }));
  return own_handle_ > 0;
}

void LoadCaller::close_own(CallerFiles& files) {
  if (own_handle_ > 0) make(files, LoadCall::close, [&] { return files.close(own_handle_); });
  own_handle_ = 0;
}

// Under both of its names. Whether that is sure.
bool LoadCaller::remove_own(CallerFiles& files) {
  own_.forget();
  bool removed = true;
  for (const bool other : {false, true}) {
    if (other && !files.can_rename()) continue;
    const std::string path = own_path(other);
    const auto result = make(files, LoadCall::unlink, [&] { return files.unlink(path); });
    removed = removed && (result == 0 || result == -ENOENT);
  }
  // A server may carry out later what it did not answer: that name is used no more.
  if (!removed && where().is_served) ++own_names_;
  return removed;
}

void LoadCaller::use_own(CallerFiles& files) {
  if (!open_own(files)) return;
  switch (random_.below(8)) {
    case 0:
      return truncate_own(files);
    case 1:
      return close_own(files);
    case 2:
      if (files.can_rename()) return rename_own(files);
      [[fallthrough]];
    case 3:
    case 4:
      return read_own(files);
    default:
      return append_own(files);
  }
}

void LoadCaller::append_own(CallerFiles& files) {
  if (own_.size() >= OwnFile::bytes_max) {
    make_own_anew(files);
    return;
  }
  const std::uint64_t bytes = random_.between(1, 3000);
  const std::uint64_t key = new_key();
  fill(std::span(buffer_).first(bytes), key);
  const auto wrote = make(files, LoadCall::append,
                          [&] { return files.append(own_handle_, buffer_.data(), bytes); });
  if (wrote == static_cast<std::int64_t>(bytes)) {
    own_.append(key, bytes);
  } else {
    own_.forget();
  }
}

void LoadCaller::read_own(CallerFiles& files) {
  const auto size = make(files, LoadCall::status, [&] { return files.size(own_handle_); });
  if (size >= 0 && size != static_cast<std::int64_t>(own_.size()))
    find("its own file has " + std::to_string(size) + " bytes instead of " +
         std::to_string(own_.size()));
  const std::uint64_t from = random_.below(own_.size() + 100);
  const auto got = make(files, LoadCall::read, [&] {
    return files.read(own_handle_, buffer_.data(), buffer_.size(), from);
  });
  if (got < 0) return;
  const bool is_end = got == 0 && from < own_.size();
  load_.checked_bytes += static_cast<std::uint64_t>(got);
  if (is_end || (got > 0 && !own_.holds(Bytes(buffer_).first(static_cast<std::size_t>(got)), from)))
    find("a read of " + std::to_string(got) + " bytes at " + std::to_string(from) +
         " of its own file is wrong");
}

void LoadCaller::truncate_own(CallerFiles& files) {
  const std::uint64_t to = random_.below(own_.size() + 2000);
  const auto result =
      make(files, LoadCall::truncate, [&] { return files.truncate(own_handle_, to); });
  if (result == 0) {
    own_.truncate(to);
  } else {
    own_.forget();
  }
}

void LoadCaller::rename_own(CallerFiles& files) {
  close_own(files);
  const std::string from = own_path(false);
  const std::string to = own_path(true);
  const auto result = make(files, LoadCall::rename, [&] { return files.rename(from, to); });
  if (result == 0) {
    own_renamed_ = !own_renamed_;
  } else {
    if (where().is_served) ++own_names_;
    own_.forget();
  }
}

// ---- all of it

void LoadCaller::step(CallerFiles& files) {
  files.choose_way(random_);
  const std::uint64_t what = random_.below(100);
  if (what < 20) return use_own(files);
  if (!open_shared(files)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it may fail for long
  } else if (what < 50) {
    read_piece(files);
  } else if (what < 58) {
    read_wide(files);
  } else if (what < 88) {
    write_piece(files);
  } else if (what < 92) {
    sync_shared(files, true);
  } else if (what < 95) {
    sync_shared(files, false);
  } else {
    close_shared(files);
  }
}

void LoadCaller::work(CallerFiles& files, Clock::time_point until, unsigned steps) {
  for (unsigned i = 0; i < steps && Clock::now() < until; ++i)
    step(files);
  close_shared(files);
  close_own(files);
  remove_own(files);
}

void LoadCaller::check_all(CallerFiles& files) {
  files.choose_way(random_);
  if (!open_shared(files)) return;
  // An error of before may be reported yet; a second sync has nothing left to report.
  files.sync(shared_);
  sync_shared(files, false);
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const auto got = make(files, LoadCall::read, [&] {
      return files.read(shared_, buffer_.data(), OwnedPiece::bytes, offset_of(piece));
    });
    if (got < 0) continue;
    check_piece(piece, Bytes(buffer_).first(static_cast<std::size_t>(got)), "the last read");
    if (pieces_[piece].was_written() && got != static_cast<std::int64_t>(OwnedPiece::bytes))
      find("the last read is short: " + std::to_string(got));
  }
  check_stored();
  close_shared(files);
  remove_own(files);
}

}  // namespace ferry::load
