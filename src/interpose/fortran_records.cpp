#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <ferry/error.hpp>
#include <ferry/fortran_records.hpp>

namespace ferry {
namespace {

constexpr std::uint64_t word_bytes = 4;
constexpr std::uint64_t subrecord_bytes_limit = 2147483639;  // 2^31 - 1 and two control words
constexpr std::size_t converted_bytes = 64 << 10;            // at once

void require(std::int64_t moved, std::uint64_t bytes, const std::string& doing) {
  if (moved < 0) throw Error(static_cast<int>(-moved), doing);
  if (static_cast<std::uint64_t>(moved) != bytes) {
    throw Error(EBADMSG, doing + ": the file ends inside a record");
  }
}

std::string record_at(std::uint64_t at) {
  return "the Fortran record at " + std::to_string(at);
}

FortranOptions checked(const FortranOptions& options) {
  if (options.subrecord_bytes_max == 0 || options.subrecord_bytes_max > subrecord_bytes_limit) {
    throw Error(EINVAL, "Fortran subrecords of " + std::to_string(options.subrecord_bytes_max) +
                            " bytes (1 to 2147483639)");
  }
  return options;
}

void check_elements(std::size_t bytes, std::size_t element_bytes) {
  if (!std::has_single_bit(element_bytes) || element_bytes > 16 || bytes % element_bytes != 0) {
    throw Error(EINVAL, std::to_string(bytes) + " bytes are not whole elements of " +
                            std::to_string(element_bytes) + " bytes (1, 2, 4, 8 or 16)");
  }
}

}  // namespace

ByteOrder fortran_byte_order(BufferedFile& file) {
  for (const ByteOrder order : {ByteOrder::native, ByteOrder::little, ByteOrder::big}) {
    if (order != ByteOrder::native && !is_foreign(order)) continue;
    try {
      FortranReader(file, {order}).next();
      return order;
    } catch (const Error& error) {
      if (error.code().value() != EBADMSG) throw;
    }
  }
  throw Error(EBADMSG, "the file does not begin with a Fortran record of either byte order");
}

// ---- writing -----------------------------------------------------------------------------------

FortranWriter::FortranWriter(BufferedFile& file, const FortranOptions& options,
                             std::uint64_t offset)
    : file_(file), options_(checked(options)), at_(offset) {}

void FortranWriter::write(std::span<const std::byte> data, std::size_t element_bytes) {
  begin();
  append(data, element_bytes);
  end();
}

void FortranWriter::begin() {
  if (is_open_) throw Error(EINVAL, "begin() inside a Fortran record; call end() first");
  is_open_ = true;
  continues_ = false;
  subrecord_at_ = at_;
  subrecord_bytes_ = 0;
  at_ += word_bytes;
}

void FortranWriter::append(std::span<const std::byte> data, std::size_t element_bytes) {
  if (!is_open_) throw Error(EINVAL, "append() outside a Fortran record; call begin() first");
  check_elements(data.size(), element_bytes);
  if (element_bytes == 1 || !is_foreign(options_.order)) {
    put(data.data(), data.size());
    return;
  }
  std::vector<std::byte> converted(std::min(data.size(), converted_bytes));
  while (!data.empty()) {
    const std::size_t step = std::min(data.size(), converted.size());
    copy_swapped(converted.data(), data.data(), step, element_bytes);
    put(converted.data(), step);
    data = data.subspan(step);
  }
}

void FortranWriter::put(const std::byte* data, std::uint64_t bytes) {
  while (bytes > 0) {
    if (subrecord_bytes_ == options_.subrecord_bytes_max) end_subrecord(true);
    const std::uint64_t step = std::min(bytes, options_.subrecord_bytes_max - subrecord_bytes_);
    require(file_.pwrite(data, step, at_), step, "writing " + record_at(subrecord_at_));
    at_ += step;
    subrecord_bytes_ += step;
    data += step;
    bytes -= step;
  }
}

void FortranWriter::end() {
  if (!is_open_) throw Error(EINVAL, "end() outside a Fortran record; call begin() first");
  end_subrecord(false);
  is_open_ = false;
}

void FortranWriter::end_subrecord(bool goes_on) {
  put_word(subrecord_at_, subrecord_bytes_, goes_on);
  put_word(at_, subrecord_bytes_, continues_);
  at_ += word_bytes;
  if (!goes_on) return;
  continues_ = true;
  subrecord_at_ = at_;
  subrecord_bytes_ = 0;
  at_ += word_bytes;
}

void FortranWriter::put_word(std::uint64_t at, std::uint64_t bytes, bool is_negative) {
  auto word = static_cast<std::int32_t>(bytes);
  if (is_negative) word = -word;
  if (is_foreign(options_.order)) swap_bytes(&word, sizeof word, sizeof word);
  require(file_.pwrite(&word, sizeof word, at), sizeof word, "writing " + record_at(subrecord_at_));
}

// ---- reading -----------------------------------------------------------------------------------

FortranReader::FortranReader(BufferedFile& file, const FortranOptions& options,
                             std::uint64_t offset)
    : file_(file), options_(checked(options)), next_(offset) {}

bool FortranReader::next() {
  subrecords_.clear();
  record_bytes_ = 0;
  subrecord_ = 0;
  inside_ = 0;
  std::byte none{};
  const std::int64_t there = file_.pread(&none, 1, next_);
  if (there < 0) require(there, 1, "reading " + record_at(next_));
  if (there == 0) return false;
  const std::uint64_t record = next_;
  bool goes_on = true;
  for (bool continues = false; goes_on; continues = true) {
    const std::uint64_t bytes = word_at(next_, goes_on);
    bool behind_continues = false;
    const std::uint64_t behind = word_at(next_ + word_bytes + bytes, behind_continues);
    if (behind != bytes || behind_continues != continues) {
      subrecords_.clear();
      throw Error(EBADMSG, "reading " + record_at(record) + ": the control words around " +
                               std::to_string(bytes) + " bytes at " + std::to_string(next_) +
                               " differ; is this another byte order, or not a Fortran file?");
    }
    subrecords_.push_back({next_ + word_bytes, bytes});
    record_bytes_ += bytes;
    next_ += bytes + 2 * word_bytes;
  }
  return true;
}

std::uint64_t FortranReader::word_at(std::uint64_t at, bool& is_negative) {
  std::int32_t word = 0;
  require(file_.pread(&word, sizeof word, at), sizeof word, "reading " + record_at(next_));
  if (is_foreign(options_.order)) swap_bytes(&word, sizeof word, sizeof word);
  is_negative = word < 0;
  return static_cast<std::uint64_t>(word < 0 ? -std::int64_t{word} : std::int64_t{word});
}

void FortranReader::read(std::span<std::byte> data, std::size_t element_bytes) {
  check_elements(data.size(), element_bytes);
  std::uint64_t left =
      subrecord_ < subrecords_.size() ? subrecords_[subrecord_].bytes - inside_ : 0;
  for (std::size_t i = subrecord_ + 1; i < subrecords_.size(); ++i)
    left += subrecords_[i].bytes;
  if (data.size() > left) {
    throw Error(EINVAL, "reading " + std::to_string(data.size()) +
                            " bytes, but the Fortran record has " + std::to_string(left) + " left");
  }
  std::uint64_t done = 0;
  while (done < data.size()) {
    const Subrecord& subrecord = subrecords_[subrecord_];
    const std::uint64_t step = std::min(data.size() - done, subrecord.bytes - inside_);
    const std::uint64_t at = subrecord.at + inside_;
    if (step > 0) require(file_.pread(data.data() + done, step, at), step, "reading a record");
    done += step;
    inside_ += step;
    if (inside_ == subrecord.bytes && subrecord_ + 1 < subrecords_.size()) {
      ++subrecord_;
      inside_ = 0;
    }
  }
  if (is_foreign(options_.order)) swap_bytes(data.data(), data.size(), element_bytes);
}

}  // namespace ferry
