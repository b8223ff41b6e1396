// The pieces of HDF5's selections, as the library's own iterators list them. Without functions for
// selections a driver gets one vector with all of their pieces: with small pieces, going through
// the memory of its lists takes most of the time.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <ferry/error.hpp>

#include "hdf5/driver_interface.hpp"

namespace ferry::hdf5 {

// What the library that calls has for that (H5Spublic.h, since HDF5 1.12).
struct SelectionFunctions {
  using Create = Identifier(Identifier space, std::size_t element_bytes, unsigned flags);
  using Next = Outcome(Identifier, std::size_t sequences_max, std::size_t elements_max,
                       std::size_t* sequences, std::size_t* elements, Address* offsets,
                       std::size_t* bytes);
  using Close = Outcome(Identifier);
  Create* create = nullptr;
  Next* next = nullptr;
  Close* close = nullptr;

  bool are_there() const { return create != nullptr && next != nullptr && close != nullptr; }
};

// The runs of bytes that one dataspace selects, in its order.
class SelectedRuns {
 public:
  SelectedRuns(const SelectionFunctions& functions, Identifier space, std::size_t element_bytes)
      : functions_(functions), iterator_(functions.create(space, element_bytes, shares_the_space)) {
    if (iterator_ < 0) throw Error(EINVAL, "HDF5 cannot iterate over the selection");
    try {
      refill();
    } catch (...) {
      functions_.close(iterator_);
      throw;
    }
  }
  ~SelectedRuns() { functions_.close(iterator_); }
  SelectedRuns(const SelectedRuns&) = delete;
  SelectedRuns& operator=(const SelectedRuns&) = delete;

  bool at_end() const { return run_ == runs_; }
  // What is left of the current run.
  Address offset() const { return offsets_[run_]; }
  std::size_t bytes() const { return bytes_[run_]; }
  void skip(std::size_t bytes) {
    offsets_[run_] += bytes;
    bytes_[run_] -= bytes;
    if (bytes_[run_] == 0 && ++run_ == runs_) refill();
  }

 private:
  static constexpr unsigned shares_the_space = 0x2;  // H5S_SEL_ITER_SHARE_WITH_DATASPACE
  static constexpr std::size_t runs_max = 256;

  void refill() {
    std::size_t elements = 0;
    run_ = 0;
    if (functions_.next(iterator_, runs_max, SIZE_MAX, &runs_, &elements, offsets_.data(),
                        bytes_.data()) < 0)
      throw Error(EIO, "HDF5 cannot list the selection");
  }

  const SelectionFunctions& functions_;
  const Identifier iterator_;
  std::size_t run_ = 0;
  std::size_t runs_ = 0;
  std::array<Address, runs_max> offsets_;
  std::array<std::size_t, runs_max> bytes_;
};

// As HDF5 hands them to a driver. A zero in `element_bytes` and a null in `data` stand for the
// entry before them, there and from there on.
template <class Pointer>
struct Selections {
  std::uint32_t count;
  const Identifier* memory_spaces;
  const Identifier* file_spaces;
  const Address* offsets;
  const std::size_t* element_bytes;
  Pointer* const* data;
};

// Calls `use` with the pieces, as many at once as a processor's cache holds.
template <class Piece, class Pointer, class Use>
void for_pieces(const SelectionFunctions& functions, const Selections<Pointer>& selections,
                const Use& use) {
  constexpr std::size_t pieces_max = 2048;
  using Byte = std::remove_pointer_t<decltype(Piece::data)>;
  std::vector<Piece> pieces;
  std::size_t element_bytes = 0;
  Byte* data = nullptr;
  bool same_bytes = false;
  bool same_data = false;
  for (std::uint32_t i = 0; i < selections.count; ++i) {
    same_bytes = same_bytes || selections.element_bytes[i] == 0;
    same_data = same_data || selections.data[i] == nullptr;
    if (!same_bytes) element_bytes = selections.element_bytes[i];
    if (!same_data) data = static_cast<Byte*>(selections.data[i]);
    SelectedRuns in_file(functions, selections.file_spaces[i], element_bytes);
    SelectedRuns in_memory(functions, selections.memory_spaces[i], element_bytes);
    while (!in_file.at_end() && !in_memory.at_end()) {
      const std::size_t bytes = std::min(in_file.bytes(), in_memory.bytes());
      pieces.push_back(
          {selections.offsets[i] + in_file.offset(), bytes, data + in_memory.offset()});
      in_file.skip(bytes);
      in_memory.skip(bytes);
      if (pieces.size() < pieces_max) continue;
      use(pieces);
      pieces.clear();
    }
    if (in_file.at_end() != in_memory.at_end())
      throw Error(EINVAL, "the selections of the file and of memory differ in size");
  }
  if (!pieces.empty()) use(pieces);
}

}  // namespace ferry::hdf5
