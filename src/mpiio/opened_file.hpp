// A file that a program has opened with MPI-IO: a collective::File beside the MPI library's handle.
//
// The handle is real, and it is what the program holds. So every function that Ferry does not carry
// out works: the MPI library does it on its own handle. A file that the library cannot open (a URI)
// is Ferry's alone: its handle is one of /dev/null, and what Ferry does not carry out is an error.
//
// H1  The handle always has the program's atomicity and hints, and its view, but for one that
//     converts, which the library may not know: Ferry's functions set them there first. The
//     position lives there alone, or, of a file that only Ferry has, here alone: MPICH 4.0 reports
//     -1 where a view's lower bound is not 0.
// H2  Whether Ferry or the library carries out a collective transfer is the same on all ranks. It
//     depends on what collective calls have agreed on, and on arguments that the standard wants to
//     be the same on all ranks, never on this rank's alone.
// H3  Both work on one file through the kernel, and neither holds back data between calls.
// H4  In atomic mode each rank moves its data by itself, while it is its turn: what ranks do to the
//     same bytes then happens in some order, the same for all bytes.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>

#include <mpi.h>

#include <ferry/collective.hpp>

#include "base/direction.hpp"
#include "mpiio/moved_data.hpp"
#include "mpiio/representations.hpp"
#include "mpiio/shared_numbers.hpp"
#include "mpiio/tally.hpp"

namespace ferry::mpiio {

int rank_in(MPI_Comm communicator);
// Whether the hint says that the MPI library shall do everything. `defaults` counts where the info
// does not have it.
bool is_disabled(MPI_Info info, const std::map<std::string, std::string>& defaults);

// Why a rank cannot take part; 0: it can.
struct RankRefusal {
  int error = 0;
  std::string why;
};

// Says that the MPI library cannot open the file.
struct Alone {};

// Why other transfers are refused.
inline constexpr const char* only_in_sequence =
    "MPI_MODE_SEQUENTIAL allows transfers at the shared file pointer alone";

// Thrown on all ranks: the MPI library has to carry out this transfer.
struct LeftToLibrary {
  std::string why;
};

// Removes a file that Ferry has alone. Throws ferry::Error.
void remove_file(const std::string& path);

// Collective calls are not thread-safe: the standard forbids them on one handle at the same time.
// What one rank does for itself is, also beside a collective call: it has a file of its own.
class OpenedFile {
 public:
  // Collective. Throws ferry::Error on all ranks if Ferry cannot have the file.
  OpenedFile(MPI_Comm communicator, MPI_File handle, const std::string& path, int mode,
             MPI_Info info);
  // The same for one that Ferry has alone; makes it if the mode says so.
  OpenedFile(MPI_Comm communicator, const std::string& path, int mode, MPI_Info info, Alone alone);
  ~OpenedFile() { tally_->close(); }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  // What the program holds of such a file; before it has it.
  void hold(MPI_File handle) { handle_ = handle; }
  bool is_alone() const { return alone_; }
  // Of a file that Ferry has alone: MPI_MODE_SEQUENTIAL.
  bool is_in_sequence() const { return (mode_ & MPI_MODE_SEQUENTIAL) != 0; }
  int mode() const { return mode_; }
  const std::string& path() const { return file_.path(); }
  const std::shared_ptr<Tally>& tally() const { return tally_; }
  // Throws ferry::Error (ENOTSUP), with a text that names the file.
  [[noreturn]] void refuse(const std::string& what) const;

  // Why the MPI library carries out the next collective transfer; empty: Ferry does.
  // `at_offset`: it says where, and has one half.
  std::string why_left(Direction direction, bool at_offset) const;
  void count_left(const std::string& why);

  // Collective, after the library has been asked for the same view with `result`.
  // Returns why Ferry cannot have it, or nothing.
  std::string set_view(int result, MPI_Offset displacement, MPI_Datatype etype,
                       MPI_Datatype filetype, const char* representation);
  // The errno of the last view that was refused.
  int error_of_view() const { return error_of_view_; }
  void set_atomicity(bool atomic) { atomic_ = atomic; }
  // Collective, of a file that Ferry has alone: before the ranks meet in the library, where no
  // transfer of this process would go on.
  void meet() const { shared().meet(); }

  // Collective. Fill in the status; throw ferry::Error or LeftToLibrary on all ranks.
  void transfer_at(Direction direction, MPI_Offset offset, const Arguments& arguments,
                   MPI_Status* status);
  void transfer_next(Direction direction, const Arguments& arguments, MPI_Status* status);
  // Split ones.
  void begin_at(Direction direction, MPI_Offset offset, const Arguments& arguments);
  void begin_next(Direction direction, const Arguments& arguments);
  bool is_split() const { return !std::holds_alternative<std::monostate>(split_); }
  void end(MPI_Status* status);

  // The rest is for files that Ferry has alone.

  // Nonblocking collective ones.
  void start_at(Direction direction, MPI_Offset offset, const Arguments& arguments,
                MPI_Request* request);
  void start_next(Direction direction, const Arguments& arguments, MPI_Request* request);
  // Collective ones at the shared file pointer, in the order of the ranks.
  void transfer_in_order(Direction direction, const Arguments& arguments, MPI_Status* status) {
    transfer_at(direction, shared().advance_in_order(etypes_of(arguments)), arguments, status);
  }
  void begin_in_order(Direction direction, const Arguments& arguments) {
    begin_at(direction, shared().advance_in_order(etypes_of(arguments)), arguments);
  }

  // By this rank. A thread carries out nonblocking ones; in atomic mode, and where the library asks
  // no requests whether they are done, they are done when they return.
  void transfer_at_here(Direction direction, MPI_Offset offset, const Arguments& arguments,
                        MPI_Status* status);
  void transfer_at_here(Direction direction, MPI_Offset offset, const Arguments& arguments,
                        MPI_Request* request);
  template <class Result>
  void transfer_next_here(Direction direction, const Arguments& arguments, Result* result) {
    at_position(arguments,
                [&](MPI_Offset from) { transfer_at_here(direction, from, arguments, result); });
  }
  // At the shared file pointer.
  template <class Result>
  void transfer_shared(Direction direction, const Arguments& arguments, Result* result) {
    transfer_at_here(direction, shared().advance(etypes_of(arguments)), arguments, result);
  }
  // What MPI_File_get_view returns, of a view that converts; null: the library knows it.
  struct ConvertingView {
    ConvertingView(MPI_Datatype of_etype, MPI_Datatype of_filetype, const char* named)
        : etype(of_etype), filetype(of_filetype), representation(named) {}
    const KeptType etype;
    const KeptType filetype;
    const std::string representation;
  };
  const ConvertingView* converting_view() const { return converting_view_.get(); }
  // How far copies of a datatype lie apart in the file.
  std::int64_t extent_in_file(MPI_Datatype type) const;
  // In etypes of the view.
  MPI_Offset position() const;
  MPI_Offset shared_position() const { return shared().pointer(); }
  // Where in the file an offset in etypes lies.
  MPI_Offset place_of(MPI_Offset etypes) const;
  void seek(MPI_Offset offset, int whence);
  std::int64_t size_bytes();
  // In etypes of the view.
  MPI_Offset end_of_file();
  // Collective.
  MPI_Offset shared_place();
  void seek_shared(MPI_Offset offset, int whence);
  void resize(std::int64_t bytes) { file_.resize(bytes); }
  void grow(std::int64_t bytes);

  // For all files again.

  void sync();
  // Puts the hints in force over those of the library.
  void add_hints(MPI_Info info) const;
  void close();
  bool is_first_rank() const { return is_first_rank_; }
  // One line: what Ferry and what the library carried out.
  std::string summary() const;

 private:
  void require_open() const;
  SharedNumbers& shared() const;
  // The bytes of the view before an offset in etypes.
  std::int64_t bytes_before(MPI_Offset etypes) const;
  // Carries out `body` at the position, and moves that by what was asked for, also at the end of
  // the file: MPI 4.0, 14.4.1. Of a file that Ferry has alone it moves before, for other threads.
  template <class Body>
  void at_position(const Arguments& arguments, Body&& body) {
    const MPI_Offset etypes = etypes_of(arguments);
    const MPI_Offset from = alone_ ? position_.fetch_add(etypes) : position();
    try {
      body(from);
    } catch (...) {
      MPI_Offset moved = from + etypes;  // unless another thread has moved it since
      if (alone_) position_.compare_exchange_strong(moved, from);
      throw;
    }
    if (!alone_) seek_in_library(from + etypes);
  }
  void seek_in_library(MPI_Offset position);
  // Collective: whether the library has no position on some rank, or a wrong one.
  bool is_lost_on_some();
  // The MPI library's calls may end on one rank before another has written; Ferry's may begin
  // before the ranks meet.
  void meet_after_library(Direction direction);
  // Whether the file takes other bytes than those of memory, or of each number's in reverse.
  bool converts(const Arguments& arguments) const;
  // In the file. Throws ferry::Error if this rank cannot take part.
  std::int64_t bytes_of(const Arguments& arguments) const;
  MPI_Offset etypes_of(const Arguments& arguments) const;
  // Collective; throws ferry::Error on all ranks if Ferry cannot have the view.
  void take_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                 const std::string& refusal,
                 const std::shared_ptr<const DataRepresentation>& conversion);
  std::int64_t move_here(Direction direction, MPI_Offset offset, const Arguments& arguments);
  // Both with the lock held.
  collective::File& file_here();
  collective::File& view_here();
  struct Started {
    collective::Transfer transfer;
    std::shared_ptr<const MovedData> data;  // null: it will fail
    Direction direction = Direction::read;
  };
  Started start(Direction direction, MPI_Offset offset, const Arguments& arguments);
  Started start_here(Direction direction, MPI_Offset offset, const Arguments& arguments);
  Started started_in(collective::File& file, Direction direction, std::int64_t at,
                     std::shared_ptr<const MovedData> data) const;
  std::int64_t carry_out(Direction direction, MPI_Offset offset, const Arguments& arguments);
  // In atomic mode: moves the data now; agrees with the other ranks on errors later.
  struct InTurn {
    Direction direction = Direction::read;
    std::int64_t moved = 0;
    int error = 0;
  };
  InTurn move_in_turn(Direction direction, MPI_Offset offset, const Arguments& arguments);
  std::int64_t agree_in_turn(const InTurn& done);
  void count(std::int64_t moved);
  // Of a collective transfer in atomic mode: each rank carries it out by itself.
  void count_in_turn();
  void count_open(MPI_Comm communicator);
  // Returns the errno of `body` on this rank's own file, or 0 if it has none.
  template <class Body>
  int finish_here(Body&& body) {
    const std::lock_guard guard(here_mutex_);
    try {
      if (here_ != nullptr) body(*here_);
      return 0;
    } catch (const Error& error) {
      return error.code().value();
    }
  }
  // Throws ferry::Error if this rank cannot take part: left_errno if the MPI library may be able
  // to, and has the file.
  // `is_begun`: the program gets its datatype back before the end.
  std::shared_ptr<const MovedData> data_of(Direction direction, const Arguments& arguments,
                                           bool is_begun) const;
  // Of data that was moved in a collective call. A program's own conversion may fail on one rank.
  std::int64_t finish_on_all(Direction direction, const MovedData& data, std::int64_t moved);
  // A view without data shows nothing, however much a program asks for.
  std::int64_t count_of(const MovedData& data) const {
    return view_->data_bytes() == 0 ? 0 : data.count();
  }

  const bool is_first_rank_;
  MPI_File handle_;
  const int mode_;
  const bool alone_;
  const std::shared_ptr<Tally> tally_ = Tally::of_a_file();
  collective::File file_;
  std::int64_t etype_bytes_ = 1;
  std::int64_t displacement_ = 0;
  collective::Representation representation_;
  std::unique_ptr<const ConvertingView> converting_view_;
  std::shared_ptr<const DataRepresentation> conversion_;  // null: native
  std::shared_ptr<const collective::TypeMap> view_ = std::make_shared<collective::TypeMap>();
  int error_of_view_ = ENOTSUP;
  std::string view_left_;                  // why the library carries out transfers with this view
  bool some_lost_ = false;                 // the library has no position in it on some rank
  std::unique_ptr<SharedNumbers> shared_;  // of a file that Ferry has alone
  std::atomic<MPI_Offset> position_ = 0;   // of such a file; in etypes
  std::atomic<bool> atomic_ = false;
  bool is_closed_ = false;  // by the end of the program, which may go on to use the handle
  std::variant<std::monostate, Started, InTurn> split_;  // that was begun
  std::atomic<std::int64_t> transfers_ = 0;  // threads may wait for requests at the same time
  std::atomic<std::int64_t> bytes_ = 0;
  std::int64_t left_ = 0;
  bool is_after_library_ = false;           // since the last transfer of Ferry's
  std::mutex here_mutex_;                   // guards the next two
  std::unique_ptr<collective::File> here_;  // of this rank alone, from its first such call on
  bool here_has_view_ = false;
  std::string left_why_;
};

}  // namespace ferry::mpiio
