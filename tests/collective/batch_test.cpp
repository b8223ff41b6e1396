// Batches of transfers in flight.
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "collective/storage_file.hpp"
#include "support/failing_storage.hpp"
#include "support/files.hpp"

namespace ferry::collective {
namespace {

TEST(Batch, LeavesNothingInFlightThatItsMemoryDoesNotOutlive) {
  test::FailingStorage storage{test::Random()};
  storage.faults.delays = 2;
  Counts counts;
  const bool write_out = false;
  StorageFile file(storage, counts, write_out, false);
  ASSERT_EQ(file.open("file", O_CREAT | O_RDWR, 0600), 0);
  constexpr std::size_t piece = 1000;
  const std::string all = test::pattern(8 * piece, 1);
  {
    std::string memory = all;
    Batch batch;
    for (std::size_t at = 0; at < memory.size(); at += piece) {
      const iovec vector{memory.data() + at, piece};
      file.start(batch, storage::Kind::write, static_cast<std::int64_t>(at), {&vector, 1});
    }
    EXPECT_EQ(storage.contents("file"), "") << "nothing has begun";
  }
  EXPECT_TRUE(test::same_bytes(storage.contents("file"), all));
  EXPECT_EQ(file.close(), 0);
}

}  // namespace
}  // namespace ferry::collective
