// Fortran's unformatted sequential records, as gfortran and most other compilers write them: each
// between two control words of 4 bytes that say its length. A record too long for one is split into
// subrecords, whose control words are negative where the record goes on.
//
//   ferry::FortranWriter writer(file, {.order = ferry::ByteOrder::big});
//   writer.write(std::as_bytes(std::span(field)), sizeof(double));
//   ferry::FortranReader reader(file, {.order = ferry::ByteOrder::big});
//   while (reader.next()) reader.read(std::as_writable_bytes(std::span(field)), sizeof(double));
//
// Errors are thrown as ferry::Error: those of the file, EBADMSG for a file that has no such records
// (the message says where), EINVAL for wrong arguments. An object belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ferry/buffered_file.hpp>
#include <ferry/byte_order.hpp>

namespace ferry {

struct FortranOptions {
  // Of control words and of data.
  ByteOrder order = ByteOrder::native;
  // What a longer record is cut into when it is written. gfortran's: 2^31 - 9.
  std::uint64_t subrecord_bytes_max = 2147483639;
};

// The order in which the first record's control words agree. An empty file is native.
ByteOrder fortran_byte_order(BufferedFile& file);

class FortranWriter {
 public:
  // The first record begins at `offset`. `file` must outlive it; flush() it to know all errors.
  FortranWriter(BufferedFile& file, const FortranOptions& options, std::uint64_t offset = 0);

  // A whole record. Data of elements (1, 2, 4, 8 or 16 bytes each) is converted to the file's
  // order.
  void write(std::span<const std::byte> data, std::size_t element_bytes = 1);
  // A record in parts, such as variables of different types.
  void begin();
  void append(std::span<const std::byte> data, std::size_t element_bytes = 1);
  void end();

  // Where the next record begins.
  std::uint64_t offset() const { return at_; }

 private:
  void put(const std::byte* data, std::uint64_t bytes);
  void put_word(std::uint64_t at, std::uint64_t bytes, bool is_negative);
  void end_subrecord(bool goes_on);

  BufferedFile& file_;
  const FortranOptions options_;
  std::uint64_t at_;
  std::uint64_t subrecord_at_ = 0;
  std::uint64_t subrecord_bytes_ = 0;
  bool continues_ = false;  // the subrecord is not the record's first
  bool is_open_ = false;
};

class FortranReader {
 public:
  FortranReader(BufferedFile& file, const FortranOptions& options, std::uint64_t offset = 0);

  // Goes to the next record, whatever is left of this one. False at the end of the file.
  bool next();
  std::uint64_t record_bytes() const { return record_bytes_; }
  // The record's next bytes; EINVAL where fewer are left.
  void read(std::span<std::byte> data, std::size_t element_bytes = 1);

 private:
  struct Subrecord {
    std::uint64_t at;
    std::uint64_t bytes;
  };

  // Its length, and whether it is negative.
  std::uint64_t word_at(std::uint64_t at, bool& is_negative);

  BufferedFile& file_;
  const FortranOptions options_;
  std::uint64_t next_;
  std::vector<Subrecord> subrecords_;
  std::uint64_t record_bytes_ = 0;
  std::size_t subrecord_ = 0;  // where the next byte is read
  std::uint64_t inside_ = 0;
};

}  // namespace ferry
