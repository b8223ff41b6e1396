// Ferry's indices among those of the MPI library: for one kind of things that MPI_T numbers.
//
// A library may get more of them while a program runs, but none may change its index. So Ferry's
// stand where the library's ended when they were first asked for, and later ones of the library
// stand behind them.
#pragma once

#include <atomic>

namespace ferry::mpiio {

// Thread-safe.
class ToolIndices {
 public:
  explicit ToolIndices(int own) : own_(own) {}

  int own() const { return own_; }
  bool have_begun() const { return begin_ >= 0; }
  // To be called before the rest, with the number of the library's.
  void begin_behind(int theirs) {
    int unknown = -1;
    begin_.compare_exchange_strong(unknown, theirs);
  }
  bool is_own(int index) const { return index >= begin_ && index < begin_ + own_; }
  // Between 0 and own().
  int own_of(int index) const { return index - begin_; }
  int index_of_own(int own) const { return begin_ + own; }
  int theirs_of(int index) const { return index < begin_ ? index : index - own_; }
  int index_of_theirs(int theirs) const { return theirs < begin_ ? theirs : theirs + own_; }

 private:
  const int own_;
  std::atomic<int> begin_ = -1;
};

}  // namespace ferry::mpiio
