// Fortran's unformatted sequential records, in the format of gfortran and most other compilers:
// each record is between two 4-byte control words with its length. Longer records are split into
// subrecords, whose control words are negative if the record continues.
//
//   ferry::FortranWriter writer(file, {.order = ferry::ByteOrder::big});
//   writer.write(std::as_bytes(std::span(field)), sizeof(double));
//   ferry::FortranReader reader(file, {.order = ferry::ByteOrder::big});
//   while (reader.next()) reader.read(std::as_writable_bytes(std::span(field)), sizeof(double));
//
// Throws ferry::Error: errors of the file, EBADMSG for a file without such records (with the
// position), EINVAL for wrong arguments. Use an object on one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ferry/buffered_file.hpp>
#include <ferry/byte_order.hpp>

namespace ferry {

struct FortranOptions {
  // Of control words and data.
  ByteOrder order = ByteOrder::native;
  // Writing splits longer records at this size. gfortran's is 2^31 - 9.
  std::uint64_t subrecord_bytes_max = 2147483639;
};

// The byte order in which the first record's control words agree. Native for an empty file.
ByteOrder fortran_byte_order(BufferedFile& file);

class FortranWriter {
 public:
  // The first record begins at `offset`. `file` must outlive it; flush() it to see all errors.
  FortranWriter(BufferedFile& file, const FortranOptions& options, std::uint64_t offset = 0);

  // Writes one record. Elements (1, 2, 4, 8 or 16 bytes) are converted to the file's byte order.
  void write(std::span<const std::byte> data, std::size_t element_bytes = 1);
  // Writes one record in parts, such as variables of different types.
  void begin();
  void append(std::span<const std::byte> data, std::size_t element_bytes = 1);
  void end();

  // The offset of the next record.
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
  bool continues_ = false;  // the subrecord continues a record
  bool is_open_ = false;
};

class FortranReader {
 public:
  FortranReader(BufferedFile& file, const FortranOptions& options, std::uint64_t offset = 0);

  // Skips to the next record. Returns false at the end of the file.
  bool next();
  std::uint64_t record_bytes() const { return record_bytes_; }
  // Reads the record's next bytes; EINVAL if fewer are left.
  void read(std::span<std::byte> data, std::size_t element_bytes = 1);

 private:
  struct Subrecord {
    std::uint64_t at;
    std::uint64_t bytes;
  };

  // Its length, and whether it was negative.
  std::uint64_t word_at(std::uint64_t at, bool& is_negative);

  BufferedFile& file_;
  const FortranOptions options_;
  std::uint64_t next_;
  std::vector<Subrecord> subrecords_;
  std::uint64_t record_bytes_ = 0;
  std::size_t subrecord_ = 0;  // offset of the next byte
  std::uint64_t inside_ = 0;
};

}  // namespace ferry
