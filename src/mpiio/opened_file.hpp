// A file that a program has opened with MPI-IO: a collective::File beside the MPI library's handle.
//
// The handle is real, and it is what the program holds. So every function that Ferry does not carry
// out works: the MPI library does it on its own handle. A file that the library cannot open (a URI)
// is Ferry's alone: its handle is one of /dev/null, and what Ferry does not carry out is an error.
//
// H1  The handle always has the program's view, position, atomicity and hints: Ferry's functions
// set
//     them there first. The position lives nowhere else.
// H2  Whether Ferry or the library carries out a collective transfer is the same on all ranks. It
//     depends on what collective calls have agreed on, and on arguments that the standard wants to
//     be the same on all ranks, never on this rank's alone.
// H3  Both work on one file through the kernel, and neither holds back data between calls.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <mpi.h>

#include <ferry/collective.hpp>

#include "base/direction.hpp"

namespace ferry::mpiio {

int rank_in(MPI_Comm communicator);
// Whether the hint says that the MPI library shall do everything.
bool is_disabled(MPI_Info info);

// What a program passes to a transfer.
struct Arguments {
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

// Says that the MPI library cannot open the file.
struct Alone {};

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
  OpenedFile(MPI_Comm communicator, MPI_File handle, const std::string& path, int mode,
             MPI_Info info, Alone alone);
  bool is_alone() const { return alone_; }
  int mode() const { return mode_; }
  // Throws ferry::Error (ENOTSUP), with a text that names the file.
  [[noreturn]] void refuse(const std::string& what) const;

  // Why the MPI library carries out the next collective transfer; empty: Ferry does.
  std::string why_left(Direction direction) const;
  void count_left(const std::string& why);

  // Collective, after the library has been asked for the same view with `result`.
  // Returns why Ferry cannot have it, or nothing.
  std::string set_view(int result, MPI_Offset displacement, MPI_Datatype etype,
                       MPI_Datatype filetype, const char* representation);
  void set_atomicity(bool atomic) { atomic_ = atomic; }

  // Collective. Fill in the status; throw ferry::Error on all ranks.
  void transfer_at(Direction direction, MPI_Offset offset, const Arguments& arguments,
                   MPI_Status* status);
  void transfer_next(Direction direction, const Arguments& arguments, MPI_Status* status);
  // Split ones.
  void begin_at(Direction direction, MPI_Offset offset, const Arguments& arguments);
  void begin_next(Direction direction, const Arguments& arguments);
  bool is_split() const { return split_; }
  void end(MPI_Status* status);

  // By this rank, for files that Ferry has alone. Nonblocking ones are done when they return.
  void transfer_at_here(Direction direction, MPI_Offset offset, const Arguments& arguments,
                        MPI_Status* status);
  void transfer_at_here(Direction direction, MPI_Offset offset, const Arguments& arguments,
                        MPI_Request* request);
  template <class Result>
  void transfer_next_here(Direction direction, const Arguments& arguments, Result* result) {
    const MPI_Offset from = position();
    transfer_at_here(direction, from, arguments, result);
    move_position(from, bytes_of(arguments));
  }
  std::int64_t size_bytes();
  // In etypes of the view.
  MPI_Offset end_of_file();
  // Collective.
  void resize(std::int64_t bytes) { file_.resize(bytes); }
  void grow(std::int64_t bytes);

  void sync();
  // Puts the hints in force over those of the library.
  void add_hints(MPI_Info info) const;
  void close();
  bool is_first_rank() const { return is_first_rank_; }
  // One line: what Ferry and what the library carried out.
  std::string summary() const;

 private:
  // The bytes of the view before an offset in etypes.
  std::int64_t bytes_before(MPI_Offset etypes) const;
  MPI_Offset position() const;
  void move_position(MPI_Offset from, std::int64_t bytes) const;
  static std::int64_t bytes_of(const Arguments& arguments);
  std::int64_t count_of(const Arguments& arguments) const;
  std::string refusal(const Arguments& arguments) const;
  std::int64_t move_here(Direction direction, MPI_Offset offset, const Arguments& arguments);
  collective::File& file_here();
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
  std::shared_ptr<const collective::TypeMap> accept(Direction direction,
                                                    const Arguments& arguments);
  std::int64_t carry_out(Direction direction, MPI_Offset offset, const Arguments& arguments);

  const bool is_first_rank_;
  const MPI_File handle_;
  const int mode_;
  const bool alone_;
  collective::File file_;
  std::int64_t etype_bytes_ = 1;
  std::int64_t displacement_ = 0;
  std::shared_ptr<const collective::TypeMap> view_ = std::make_shared<collective::TypeMap>();
  std::string view_left_;  // why the library carries out transfers with this view
  bool atomic_ = false;
  bool split_ = false;
  collective::Transfer pending_;  // the split one
  std::int64_t transfers_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t left_ = 0;
  std::mutex here_mutex_;                   // guards the next two
  std::unique_ptr<collective::File> here_;  // of this rank alone, from its first such call on
  bool here_has_view_ = false;
  std::string left_why_;
};

}  // namespace ferry::mpiio
