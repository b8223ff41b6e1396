// Ranks in different calls, or unable to take part: an error on all of them, and none waits.
#include <functional>
#include <optional>

#include <unistd.h>

#include "collective/world.hpp"

namespace ferry::collective::mismatch_test {
namespace {

using namespace test;

constexpr std::int64_t piece_bytes = 5000;

// Identical on all ranks: a number that identifies texts.
bool same_on_all(const std::string& text) {
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>()(text) >> 1);
  std::int64_t extremes[] = {hash, -hash};
  world().maximum(extremes);
  return extremes[0] == -extremes[1];
}

class Mismatches : public testing::Test {
 protected:
  void SetUp() override {
    if (ranks() == 1) GTEST_SKIP() << "one rank is always in one call";
  }
  void make(int files = 0, Method method = Method::automatic) {
    Options options = options_of(method);
    options.files = files;
    file_.emplace(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options);
    file_->write_at_all(rank() * piece_bytes, bytes_of(data_));
  }
  void make_call(Call call) {
    std::string got(piece_bytes, '?');
    switch (call) {
      case Call::open:
        return;
      case Call::set_view:
        return file_->set_view(0, TypeMap());
      case Call::read_all:
        file_->read_at_all(0, bytes_of(got));
        return;
      case Call::write_all:
        file_->write_at_all(rank() * piece_bytes, bytes_of(data_));
        return;
      case Call::sync:
        return file_->sync();
      case Call::resize:
        return file_->resize(1);
      case Call::size_bytes:
        file_->size_bytes();
        return;
      case Call::statistics:
        file_->statistics();
        return;
      case Call::close:
        return file_->close();
    }
  }
  // All but `open`, which has no file to meet in.
  static constexpr Call calls[] = {Call::set_view, Call::read_all,   Call::write_all,  Call::sync,
                                   Call::resize,   Call::size_bytes, Call::statistics, Call::close};

  const SharedDirectory directory_;
  const std::string data_ = pattern(piece_bytes, 1);
  std::optional<File> file_;
};

TEST_F(Mismatches, AreErrorsOnAllRanksThatNameBothCalls) {
  bool swapped = false;
  for (const Call one : calls) {
    for (const Call two : calls) {
      if (one >= two) continue;
      swapped = !swapped;
      const Call first = swapped ? two : one;
      const Call other = swapped ? one : two;
      make();
      const ThrownError failure = failure_of([&] { make_call(rank() == 0 ? first : other); });
      EXPECT_EQ(failure.error, EPROTO);
      EXPECT_EQ(failure.text, "calls on " + (directory_ / "file") +
                                  " do not match (rank 0 called " + name_of(first) +
                                  ", rank 1 called " + name_of(other) + "): Protocol error");
      file_.reset();
    }
  }
}

TEST_F(Mismatches, ChangeNothing) {
  for (const Call other : {Call::resize, Call::write_all}) {
    make();
    const std::string before = read_file(directory_ / "file");
    barrier();
    EXPECT_EQ(error_of([&] { make_call(rank() == 0 ? other : Call::sync); }), EPROTO);
    file_.reset();
    barrier();
    EXPECT_TRUE(same_bytes(read_file(directory_ / "file"), before));
  }
}

// Later calls of one rank have no partner on another: no collective call waits after it.
TEST_F(Mismatches, AreTheErrorOfEveryLaterCall) {
  make();
  if (rank() == 0) {
    EXPECT_EQ(error_of([&] { file_->statistics(); }), EPROTO);
    for (const Call later : calls)
      EXPECT_EQ(error_of([&] { make_call(later); }), EPROTO) << name_of(later);
  } else {
    EXPECT_EQ(error_of([&] { file_->close(); }), EPROTO);
  }
  EXPECT_EQ(error_of([&] { file_->sync(); }), EBADF) << "it is closed";
  file_.reset();
  make();  // another file of the same ranks
  make_call(Call::close);
}

TEST_F(Mismatches, OfOneRankInALoopAreFoundWhateverTheMethod) {
  Random random;
  for (const Method method :
       {Method::independent, Method::serial, Method::aggregate, Method::mpiio}) {
    const auto odd = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks())));
    make(0, method);
    for (int i = 0; i < 3; ++i)
      make_call(Call::write_all);
    if (rank() != odd) {
      EXPECT_EQ(error_of([&] { make_call(Call::read_all); }), EPROTO);
    }
    EXPECT_EQ(error_of([&] { make_call(Call::sync); }), EPROTO) << name_of(method);
    EXPECT_EQ(error_of([&] { make_call(Call::close); }), EPROTO);
    file_.reset();
  }
}

TEST_F(Mismatches, OfNonblockingCallsAreThrownByWait) {
  make();
  if (rank() == 0) {
    Transfer transfer = file_->iwrite_at_all(0, bytes_of(data_));
    Transfer next = file_->iwrite_at_all(0, bytes_of(data_));
    EXPECT_EQ(error_of([&] { transfer.wait(); }), EPROTO);
    EXPECT_EQ(error_of([&] { next.wait(); }), EPROTO);
  } else {
    EXPECT_EQ(error_of([&] { file_->size_bytes(); }), EPROTO);
  }
  EXPECT_EQ(error_of([&] { file_->close(); }), EPROTO);
}

// Within a group and between groups.
TEST_F(Mismatches, OfFilesOfGroupsAreThrownOnAllRanks) {
  for (const int files : {2, ranks()}) {
    for (const int odd : {0, ranks() - 1}) {
      for (const auto& [most, one] :
           {std::pair(Call::write_all, Call::statistics), std::pair(Call::statistics, Call::close),
            std::pair(Call::close, Call::set_view)}) {
        make(files);
        const Call mine = rank() == odd ? one : most;
        const ThrownError failure = failure_of([&] { make_call(mine); });
        EXPECT_EQ(failure.error, EPROTO) << files;
        for (const std::string& call : {"rank " + std::to_string(odd) + " called " + name_of(one),
                                        std::string(" called ") + name_of(most)})
          EXPECT_NE(failure.text.find(call), std::string::npos) << failure.text;
        EXPECT_EQ(error_of([&] { make_call(Call::close); }), mine == Call::close ? EBADF : EPROTO);
        file_.reset();
      }
    }
  }
}

TEST_F(Mismatches, AnArgumentThatOneRankRefusesFailsOnAll) {
  make();
  const int bad = ranks() - 1;
  const std::string why = "TypeError: no buffer";
  for (int round = 0; round < 2; ++round) {
    for (const Call call : calls) {
      if (call == Call::close) continue;
      EXPECT_EQ(error_of([&] { rank() == bad ? file_->refuse(call, why) : make_call(call); },
                         "(rank " + std::to_string(bad) + ": " + why + ")"),
                EINVAL)
          << name_of(call);
    }
    make_call(Call::sync);  // the file keeps working
  }
  EXPECT_EQ(file_->size_bytes(), ranks() * piece_bytes);
  file_->close();
  EXPECT_EQ(error_of([&] { file_->refuse(Call::sync, why); }), EBADF);
}

TEST_F(Mismatches, ANonblockingCallThatOneRankRefusesFailsOnTheOthers) {
  for (const bool thread : {true, false}) {
    Options options;
    options.progress_thread = thread;
    file_.emplace(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options);
    if (rank() == 0) {
      file_->irefuse(Call::write_all, "TypeError: no buffer");
    } else {
      Transfer transfer = file_->iwrite_all(bytes_of(data_));
      EXPECT_EQ(error_of([&] { transfer.wait(); }, "(rank 0: TypeError: no buffer)"), EINVAL);
    }
    EXPECT_EQ(file_->size_bytes(), 0);
    file_->close();  // nothing is left to report
    file_.reset();
  }
}

TEST_F(Mismatches, OpeningThatOneRankRefusesFailsOnAllAndMakesNoFile) {
  for (const int files : {0, 2}) {
    Options options;
    options.files = files;
    // Long, and cut between characters.
    if (rank() == 1) options.refusal = "ValueError: " + std::string(700, 'x');
    for (int i = 0; i < 700 && rank() == 1; ++i)
      options.refusal += "ü";
    const ThrownError failure = failure_of(
        [&] { File(MPI_COMM_WORLD, directory_ / "none", O_CREAT | O_RDWR, options).close(); });
    EXPECT_EQ(failure.error, EINVAL);
    EXPECT_NE(failure.text.find("(rank 1: ValueError: xxx"), std::string::npos) << failure.text;
    EXPECT_NE(failure.text.find("ü: Invalid argument"), std::string::npos) << failure.text;
    barrier();
    for (const char* name : {"none", "none.0", "none.1"})
      EXPECT_EQ(::access((directory_ / name).c_str(), F_OK), -1);
  }
}

TEST_F(Mismatches, ErrorsReadTheSameOnAllRanks) {
  make(2);
  const int bad = ranks() - 1;
  const ThrownError failure =
      failure_of([&] { file_->write_at_all(rank() == bad ? -1 : 0, bytes_of(data_)); });
  EXPECT_EQ(failure.text, "writing " + (directory_ / "file.1") + " (rank " + std::to_string(bad) +
                              "): Invalid argument");
  EXPECT_TRUE(same_on_all(failure.text));
  file_->close();
}

}  // namespace
}  // namespace ferry::collective::mismatch_test
