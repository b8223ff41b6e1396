// Between nodes: all data of a node's ranks for a writer is one message.
#include <cstdlib>

#include "collective/world.hpp"

namespace ferry::collective::node_merge_test {
namespace {

using namespace test;

constexpr std::int64_t piece_bytes = 1024;
constexpr std::int64_t pieces = 240;

// Files opened while it lives see nodes of two ranks, and the last of one if ranks are odd.
class Nodes : public testing::Test {
 protected:
  void SetUp() override {
    if (ranks() < 3) GTEST_SKIP() << "two nodes need three ranks";
    if (const char* before = std::getenv("FERRY_RANKS_PER_NODE")) before_ = before;
    setenv("FERRY_RANKS_PER_NODE", "2", 1);
  }
  void TearDown() override {
    if (before_.empty()) {
      unsetenv("FERRY_RANKS_PER_NODE");
    } else {
      setenv("FERRY_RANKS_PER_NODE", before_.c_str(), 1);
    }
  }
  static int nodes() { return (ranks() + 1) / 2; }
  // One writer for each node, and all in one round.
  static Options options(bool merges) {
    Options options = options_of(Method::aggregate, nodes());
    options.node_merge = merges;
    return options;
  }
  // Writes through the view, reads it back, and returns what was counted for each of the two.
  std::vector<Counts> counts_of(const TypeMap& view, std::int64_t displacement, bool merges) {
    File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR | O_TRUNC, options(merges));
    file.set_view(displacement, view);
    const std::string mine = pattern(piece_bytes * pieces, static_cast<std::uint64_t>(rank()));
    file.write_at_all(0, bytes_of(mine));
    const Counts written = file.statistics().counts;
    expect_at(file, 0, mine);
    Counts read = file.statistics().counts;
    read.remote_messages -= written.remote_messages;
    read.remote_bytes -= written.remote_bytes;
    file.close();
    return {written, read};
  }
  const SharedDirectory directory_;

 private:
  std::string before_;
};

std::uint64_t count(std::int64_t number) {
  return static_cast<std::uint64_t>(number);
}

TEST_F(Nodes, RegularViewsAreAMessageForEachNodeAndWriter) {
  const TypeMap view = TypeMap::strided(pieces, piece_bytes, piece_bytes * ranks());
  const auto merged = counts_of(view, rank() * piece_bytes, true);
  const auto single = counts_of(view, rank() * piece_bytes, false);
  // Every domain has data of every rank, so each node has data for the other nodes' writers.
  const std::uint64_t away = count(nodes() - 1);
  for (const std::size_t operation : {0U, 1U}) {
    EXPECT_EQ(merged[operation].remote_messages, count(nodes()) * away);
    EXPECT_EQ(single[operation].remote_messages, count(ranks()) * away);
    EXPECT_EQ(merged[operation].remote_bytes, single[operation].remote_bytes)
        << "the data, and not a byte besides";
  }
}

TEST_F(Nodes, ExtentsOfIrregularViewsAreMergedBeforeTheyCross) {
  // Ranks take pieces of growing length in turn: each has a list of unequal extents, which join to
  // one extent on a node.
  std::vector<Extent> mine;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    for (int of = 0; of < ranks(); ++of) {
      const std::int64_t length = 100 + i * 7 + of;
      if (of == rank()) mine.push_back({at, length});
      at += length;
    }
  }
  const TypeMap view = TypeMap::list(mine, at);
  const auto merged = counts_of(view, 0, true);
  const auto single = counts_of(view, 0, false);
  EXPECT_LT(merged[0].remote_messages, single[0].remote_messages);
  EXPECT_LT(merged[0].remote_bytes, single[0].remote_bytes);
  EXPECT_LT(merged[1].remote_messages, single[1].remote_messages);
  EXPECT_LT(merged[1].remote_bytes, single[1].remote_bytes);
  // One message per pair of a node with two ranks and a writer elsewhere; a single rank sends its
  // extents separately.
  const std::uint64_t away = count(nodes() - 1);
  const std::uint64_t pairs = count(ranks() / 2);
  EXPECT_EQ(merged[0].remote_messages, (pairs + 2 * (count(nodes()) - pairs)) * away);
  EXPECT_EQ(single[0].remote_messages, 2 * count(ranks()) * away);
}

// Data that all ranks of a node read is sent once.
TEST_F(Nodes, ReadingTheSameBytesTheyGetThemOnce) {
  constexpr std::int64_t bytes = 300'000;
  const std::string all = pattern(bytes, 7);
  if (rank() == 0) write_file(directory_ / "same", all);
  barrier();
  for (const bool merges : {true, false}) {
    File file(MPI_COMM_WORLD, directory_ / "same", O_RDONLY, options(merges));
    expect_at(file, 0, all);
    const std::uint64_t sent = file.statistics().counts.remote_bytes;
    const std::int64_t receivers = merges ? nodes() : ranks();
    // Each needs all domains except its own node's; extents add a little.
    EXPECT_GE(sent, count(bytes * (receivers - 1)) / 2);
    if (merges) {
      EXPECT_LT(sent, count(bytes * (nodes() - 1)) + 10'000);
    } else {
      EXPECT_GT(sent, count(bytes * (nodes() - 1)) + 10'000);
    }
    file.close();
  }
}

}  // namespace
}  // namespace ferry::collective::node_merge_test
