#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/error.hpp>
#include <ferry/fortran_records.hpp>

#include "support/depth.hpp"
#include "support/error_of.hpp"
#include "support/files.hpp"

namespace ferry {
namespace {

using test::pattern;
using test::read_file;
using test::same_bytes;
using test::write_file;

// A file with buffers, for as long as it lives.
class Open {
 public:
  explicit Open(const std::string& path)
      : descriptor_(open(path.c_str(), O_CREAT | O_RDWR, 0600)), below_(descriptor_) {}
  BufferedFile& operator*() { return file_; }

 private:
  static constexpr BufferOptions options{8192, 3};

  test::Descriptor descriptor_;
  DescriptorFile below_;
  BufferedFile file_{below_, options};
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
void expect_read(FortranReader& reader, const std::vector<T>& wanted, std::size_t element_bytes) {
  std::vector<T> got(wanted.size());
  reader.read(std::as_writable_bytes(std::span(got)), element_bytes);
  EXPECT_EQ(got, wanted);
}

// What records.f90 writes.
struct Records {
  Records() {
    for (int i = 1; i <= 10; ++i)
      numbers.push_back(i * 1000);
    for (int i = 1; i <= 1000; ++i)
      field.push_back(i * 0.5);
    for (int i = 1; i <= 3; ++i)
      pairs.insert(pairs.end(), {double(i), double(-i)});
  }
  void write(BufferedFile& file, const FortranOptions& options) const {
    FortranWriter writer(file, options);
    writer.write(bytes_of(numbers), 4);
    writer.write(bytes_of(field), 8);
    writer.write({});
    writer.begin();
    writer.append(bytes_of(word));
    writer.append(bytes_of(large), 8);
    writer.append(bytes_of(small), 2);
    writer.end();
    writer.write(bytes_of(pairs), 8);
    EXPECT_EQ(file.flush(), 0);
    EXPECT_EQ(file.size_bytes(), static_cast<std::int64_t>(writer.offset()));
  }
  void expect_in(BufferedFile& file, const FortranOptions& options) const {
    FortranReader reader(file, options);
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.record_bytes(), 40U);
    expect_read(reader, numbers, 4);
    ASSERT_TRUE(reader.next());
    expect_read(reader, field, 8);
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.record_bytes(), 0U);
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.record_bytes(), 15U);
    expect_read(reader, word, 1);
    expect_read(reader, large, 8);
    expect_read(reader, small, 2);
    std::byte more{};
    EXPECT_EQ(test::error_of([&] { reader.read({&more, 1}); }), EINVAL);
    ASSERT_TRUE(reader.next());
    expect_read(reader, pairs, 8);
    EXPECT_FALSE(reader.next());
    EXPECT_FALSE(reader.next());
  }

  std::vector<std::int32_t> numbers;
  std::vector<double> field;
  std::vector<char> word{'h', 'e', 'l', 'l', 'o'};
  std::vector<std::int64_t> large{1234567890123456789};
  std::vector<std::int16_t> small{-77};
  std::vector<double> pairs;
};

TEST(FortranRecords, ControlWordsByHand) {
  const test::ScratchDirectory directory;
  {
    Open file(directory / "little");
    FortranWriter writer(*file, {ByteOrder::little, 4});
    writer.write(bytes_of(std::vector<char>{'a', 'b', 'c'}));
    writer.write(bytes_of(std::vector<char>{'0', '1', '2', '3', '4', '5', '6', '7', '8'}));
  }
  const std::string little = read_file(directory / "little");
  const std::string wanted(
      "\3\0\0\0abc\3\0\0\0"
      "\xfc\xff\xff\xff"
      "0123\4\0\0\0"
      "\xfc\xff\xff\xff"
      "4567\xfc\xff\xff\xff"
      "\1\0\0\0"
      "8\xff\xff\xff\xff",
      11 + 12 + 12 + 9);
  EXPECT_TRUE(same_bytes(little, wanted));
  Open big(directory / "big");
  FortranWriter(*big, {ByteOrder::big}).write(bytes_of(std::vector<std::int32_t>{0x01020304}), 4);
  EXPECT_EQ((*big).flush(), 0);
  EXPECT_TRUE(
      same_bytes(read_file(directory / "big"), std::string("\0\0\0\4\1\2\3\4\0\0\0\4", 12)));
}

TEST(FortranRecords, RandomOnesComeBack) {
  test::Random random;
  const test::ScratchDirectory directory;
  for (std::uint64_t round = 0; round < test::scaled(50); ++round) {
    const std::string path = directory / std::to_string(round);
    const FortranOptions options{random.one_in(2) ? ByteOrder::big : ByteOrder::little,
                                 random.between(1, 400)};
    std::vector<std::string> records;
    const std::size_t element = std::size_t{1} << random.below(4);
    for (std::uint64_t i = random.below(12); i > 0; --i)
      records.push_back(pattern(8 * random.below(random.one_in(5) ? 20'000 : 100), random.bits()));
    Open file(path);
    FortranWriter writer(*file, options);
    for (const std::string& record : records)
      writer.write(std::as_bytes(std::span(record)), element);
    FortranReader reader(*file, options);
    for (const std::string& record : records) {
      ASSERT_TRUE(reader.next());
      ASSERT_EQ(reader.record_bytes(), record.size());
      std::string got(record.size(), '\0');
      const std::size_t first = record.size() / 16 * 8;
      const auto all = std::as_writable_bytes(std::span(got));
      reader.read(all.first(first), element);
      reader.read(all.subspan(first), element);
      ASSERT_TRUE(same_bytes(got, record));
    }
    EXPECT_FALSE(reader.next());
  }
}

TEST(FortranRecords, WhatIsNoRecordSaysWhere) {
  const test::ScratchDirectory directory;
  Records().write(*Open(directory / "file"), {ByteOrder::big});
  const std::string right = read_file(directory / "file");
  const auto error_reading = [&](const std::string& contents, ByteOrder order) {
    write_file(directory / "wrong", contents);
    Open file(directory / "wrong");
    return test::error_of([&] {
      FortranReader reader(*file, {order});
      while (reader.next()) {
      }
    });
  };
  EXPECT_EQ(error_reading(right, ByteOrder::big), 0);
  EXPECT_EQ(error_reading(right, ByteOrder::little), EBADMSG);
  for (const std::size_t bytes : {1U, 3U, 5U, 43U, 47U, 100U})
    EXPECT_EQ(error_reading(right.substr(0, bytes), ByteOrder::big), EBADMSG) << bytes;
  std::string changed = right;
  changed[47] = static_cast<char>(changed[47] + 1);
  EXPECT_EQ(error_reading(changed, ByteOrder::big), EBADMSG);
  EXPECT_EQ(fortran_byte_order(*Open(directory / "file")), ByteOrder::big);
  EXPECT_EQ(fortran_byte_order(*Open(directory / "empty")), ByteOrder::native);
  write_file(directory / "text", "This is no file of Fortran's, but plain text for everybody.");
  EXPECT_EQ(test::error_of([&] { fortran_byte_order(*Open(directory / "text")); }), EBADMSG);
}

TEST(FortranRecords, WrongCalls) {
  const test::ScratchDirectory directory;
  Open file(directory / "file");
  FortranWriter writer(*file, {});
  std::byte data[4]{};
  EXPECT_EQ(test::error_of([&] { writer.end(); }), EINVAL);
  EXPECT_EQ(test::error_of([&] { writer.append(data); }), EINVAL);
  writer.begin();
  EXPECT_EQ(test::error_of([&] { writer.begin(); }), EINVAL);
  EXPECT_EQ(test::error_of([&] { writer.append(data, 3); }), EINVAL);
  EXPECT_EQ(test::error_of([&] { FortranWriter(*file, {ByteOrder::native, 0}); }), EINVAL);
  EXPECT_EQ(test::error_of([&] { FortranReader(*file, {ByteOrder::native, 1ULL << 31}); }), EINVAL);
}

#ifdef FERRY_FORTRAN_RECORDS
// The same records by a program of gfortran: the same bytes, and read by either.
TEST(FortranRecords, AreThoseOfGfortran) {
  const Records records;
  struct Program {
    const char* path;
    std::uint64_t subrecord_bytes_max;
  };
  for (const Program& program :
       {Program{FERRY_FORTRAN_RECORDS, 2147483639}, Program{FERRY_FORTRAN_SUBRECORDS, 100}}) {
    for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
      const test::ScratchDirectory directory;
      const std::string convert = order == ByteOrder::big ? "big_endian" : "little_endian";
      const auto run = [&](const std::string& what, const std::string& path) {
        return std::system(
            ("GFORTRAN_CONVERT_UNIT=" + convert + " " + program.path + " " + what + " " + path)
                .c_str());
      };
      const FortranOptions options{order, program.subrecord_bytes_max};
      ASSERT_EQ(run("write", directory / "theirs"), 0);
      records.write(*Open(directory / "ours"), options);
      EXPECT_TRUE(same_bytes(read_file(directory / "ours"), read_file(directory / "theirs")));
      EXPECT_EQ(run("read", directory / "ours"), 0);
      Open theirs(directory / "theirs");
      records.expect_in(*theirs, options);
      EXPECT_EQ(is_foreign(fortran_byte_order(*theirs)), is_foreign(order));
    }
  }
}
#endif

}  // namespace
}  // namespace ferry
