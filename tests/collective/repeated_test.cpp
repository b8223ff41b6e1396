// Transfers that repeat earlier ones further on in the file, and such that only seem to.
#include <optional>
#include <string>
#include <vector>

#include "collective/type_maps.hpp"
#include "collective/world.hpp"

namespace ferry::collective::repeated_test {
namespace {

using namespace test;

// Ranks write pieces of 100 bytes in turn.
class Repeated : public testing::Test {
 protected:
  static constexpr std::int64_t bytes = 5000;
  void open(std::int64_t alignment_bytes) {
    Options options;
    options.alignment_bytes = alignment_bytes;
    file_.emplace(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options);
    set_view(0);
  }

  void SetUp() override {
    if (ranks() == 1) GTEST_SKIP() << "one rank exchanges nothing";
    open(1);
  }
  void set_view(std::int64_t displacement, std::int64_t piece = 100) {
    file_->set_view(displacement + rank() * piece, TypeMap::strided(1, piece, piece * ranks()));
  }
  // Whether it is made as one before.
  bool repeats(std::int64_t offset, std::int64_t length = bytes) {
    const std::string mine = pattern(static_cast<std::size_t>(length), ++seed_);
    file_->write_at_all(offset, bytes_of(mine));
    const Statistics statistics = file_->statistics();
    EXPECT_EQ(statistics.method, Method::aggregate);
    std::string found(mine.size(), '?');
    EXPECT_EQ(file_->read_at(offset, bytes_of(found)), length);
    EXPECT_TRUE(same_bytes(found, mine));
    return statistics.reason == "like an earlier transfer";
  }

  const SharedDirectory directory_;
  std::optional<File> file_;
  std::uint64_t seed_ = static_cast<std::uint64_t>(rank()) * 1000;
};

TEST_F(Repeated, OnesAtAnyDistanceAreRecognised) {
  EXPECT_FALSE(repeats(0));
  for (const std::int64_t offset : {bytes, bytes, 0L, 700L, 20 * bytes})
    EXPECT_TRUE(repeats(offset)) << offset;
}

TEST_F(Repeated, OnesInViewsThatAreSetAgainAreRecognised) {
  EXPECT_FALSE(repeats(0));
  set_view(12'345);
  EXPECT_TRUE(repeats(0));
  set_view(0, 50);
  EXPECT_FALSE(repeats(0)) << "other pieces";
  set_view(1);
  EXPECT_TRUE(repeats(100));
}

TEST_F(Repeated, BordersOfDomainsStayAligned) {
  open(512);
  EXPECT_FALSE(repeats(0));
  set_view(100);
  EXPECT_FALSE(repeats(0));
  set_view(512);
  EXPECT_TRUE(repeats(0));
}

TEST_F(Repeated, EightInTurnAreRecognised) {
  for (const bool first : {true, false})
    for (std::int64_t variable = 0; variable < 8; ++variable)
      EXPECT_EQ(repeats(0, bytes + 100 * variable), !first) << variable;
  EXPECT_FALSE(repeats(0, 2 * bytes)) << "takes the place of the first";
  EXPECT_FALSE(repeats(0));
  EXPECT_TRUE(repeats(0, bytes + 700));
}

TEST_F(Repeated, OnesThatDifferOnOneRankAreNotTakenForTheSame) {
  EXPECT_FALSE(repeats(0));
  const bool odd = rank() == ranks() - 1;
  EXPECT_FALSE(repeats(odd ? bytes + 100 : bytes)) << "at another distance";
  EXPECT_FALSE(repeats(0, odd ? bytes - 1 : bytes)) << "of another length";
  EXPECT_FALSE(repeats(odd ? bytes + 50 : bytes)) << "from within a piece";
  EXPECT_TRUE(repeats(bytes));
}

// The same begin, end and bytes at a distance, with other pieces between them.
TEST(RepeatedWrites, BeginWithTheSamePieceOfTheirView) {
  const SharedDirectory directory;
  constexpr std::int64_t apart = 10'000;
  const Extent pieces[] = {{0, 100}, {200, 200}, {600, 100}};
  Options options = options_of(Method::aggregate, 1);
  options.alignment_bytes = 1;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  file.set_view(rank() * apart, TypeMap::list(pieces, 800));
  for (const std::int64_t stream : {0, 100, 300, 400, 500}) {
    const std::string mine = pattern(400, static_cast<std::uint64_t>(stream + rank()));
    file.write_at_all(stream, bytes_of(mine));
    barrier();
    const std::string contents = read_file(directory / "file");
    std::string found;
    for (std::int64_t period = 0; period < 4; ++period)
      for (const auto& [offset, bytes] : pieces)
        found += contents.substr(
            std::min(contents.size(),
                     static_cast<std::size_t>(rank() * apart + period * 800 + offset)),
            static_cast<std::size_t>(bytes));
    EXPECT_TRUE(same_bytes(found.substr(static_cast<std::size_t>(stream), 400), mine));
    barrier();
  }
  file.close();
}

TEST_F(Repeated, RanksThatNeverHaveDataGoAlong) {
  const bool has_data = rank() != ranks() - 1;
  EXPECT_FALSE(repeats(0, has_data ? bytes : 0));
  EXPECT_TRUE(repeats(bytes, has_data ? bytes : 0));
  EXPECT_FALSE(repeats(2 * bytes));
  EXPECT_FALSE(repeats(3 * bytes, has_data ? bytes : 0)) << "now it had some";
}

// A variable of a program: each rank has a part of each record.
struct Variable {
  explicit Variable(Random& random)
      : parts(random_partition(random, static_cast<std::size_t>(ranks()))),
        displacement(static_cast<std::int64_t>(random.below(3000))),
        periods(static_cast<std::int64_t>(random.between(1, 3))) {}
  const FlatMap& part(int of) const { return parts[static_cast<std::size_t>(of)]; }

  std::vector<FlatMap> parts;
  std::int64_t displacement;
  std::int64_t periods;  // of a record
};

// One transfer of a record; all ranks know all of it.
struct Record {
  Record(Random& random, const Variable& of, std::int64_t step)
      : variable(of),
        moves_view(random.one_in(2)),
        step_bytes(step * of.periods * of.part(0).period_bytes) {
    const int odd =
        random.one_in(6) ? static_cast<int>(random.below(static_cast<std::uint64_t>(ranks()))) : -1;
    for (int i = 0; i < ranks(); ++i) {
      const auto size = static_cast<std::int64_t>(of.part(i).bytes.size());
      offsets.push_back(moves_view ? 0 : step * of.periods * size);
      std::int64_t length = of.periods * size;
      if (i == odd && length > 0) {
        const auto less =
            static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(length) + 1));
        offsets.back() += random.one_in(2) ? less : 0;
        length -= less;
      }
      data.push_back(pattern(static_cast<std::size_t>(length), random.bits()));
    }
  }
  std::int64_t displacement() const {
    return variable.displacement + (moves_view ? step_bytes : 0);
  }
  std::int64_t offset() const { return offsets[static_cast<std::size_t>(rank())]; }
  const std::string& mine() const { return data[static_cast<std::size_t>(rank())]; }
  std::size_t place(int of, std::size_t byte) const {
    const std::int64_t stream =
        offsets[static_cast<std::size_t>(of)] + static_cast<std::int64_t>(byte);
    return static_cast<std::size_t>(displacement() + variable.part(of).position_of(stream));
  }
  void put(std::string& contents) const {
    for (int i = 0; i < ranks(); ++i) {
      const std::string& theirs = data[static_cast<std::size_t>(i)];
      for (std::size_t byte = 0; byte < theirs.size(); ++byte) {
        const std::size_t at = place(i, byte);
        if (at >= contents.size()) contents.resize(at + 1, '\0');
        contents[at] = theirs[byte];
      }
    }
  }

  const Variable& variable;
  bool moves_view;
  std::int64_t step_bytes;
  std::vector<std::int64_t> offsets;
  std::vector<std::string> data;
};

void check_read(File& file, const Record& record, const std::string& contents) {
  std::string found(record.mine().size(), '?');
  std::string expected = found;
  std::int64_t there = 0;
  for (std::size_t byte = 0; byte < found.size(); ++byte) {
    const std::size_t at = record.place(rank(), byte);
    if (at >= contents.size()) break;
    expected[byte] = contents[at];
    ++there;
  }
  EXPECT_EQ(file.read_at_all(record.offset(), bytes_of(found)), there);
  EXPECT_TRUE(same_bytes(found, expected));
}

TEST(RandomRecords, AreWhatAPlainFileHolds) {
  Random random;
  const SharedDirectory directory;
  const std::uint64_t rounds = scaled(8);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    Options options = options_of(random.one_in(2) ? Method::automatic : Method::aggregate,
                                 static_cast<int>(random.below(4)),
                                 static_cast<std::int64_t>(random.between(1, 30'000)));
    if (random.one_in(3))
      options.alignment_bytes =
          static_cast<std::int64_t>(random.pick(std::vector<int>{1, 1, 10, 500}));
    options.writes_first = random.one_in(2);
    options.node_merge = !random.one_in(3);
    const std::string name = "file" + std::to_string(i);
    File file(MPI_COMM_WORLD, directory / name, O_CREAT | O_RDWR, options);
    std::string contents;
    std::vector<Variable> variables;
    for (std::uint64_t count = random.between(1, 10); count > 0; --count)
      variables.emplace_back(random);
    for (std::int64_t step = 0; step < 6; ++step) {
      for (const Variable& variable : variables) {
        if (random.one_in(6)) continue;
        const Record record(random, variable, random.one_in(5) ? 0 : step);
        file.set_view(record.displacement(), variable.part(rank()).map());
        if (!random.one_in(3)) {
          // A view without data takes none.
          EXPECT_EQ(file.write_at_all(record.offset(), bytes_of(record.mine())),
                    std::ssize(record.mine()));
          record.put(contents);
        } else {
          check_read(file, record, contents);
        }
      }
    }
    file.close();
    EXPECT_TRUE(same_bytes(read_file(directory / name), contents));
    barrier();
  }
}

}  // namespace
}  // namespace ferry::collective::repeated_test
