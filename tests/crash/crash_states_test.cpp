// What a crash may leave of programs of one and two operations keeps what Ferry promised them: what
// was acknowledged as synced is there, the rest is old or new, never foreign.
#include "crash/crash_states.hpp"

#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "crash/crash_programs.hpp"
#include "crash/crash_promises.hpp"
#include "crash/recording_storage.hpp"
#include "support/depth.hpp"

namespace ferry::test {
namespace {

using Steps = std::vector<const CrashStep*>;

const ByteSources& all_sources() {
  static const ByteSources sources;
  return sources;
}

std::string words(const Steps& steps) {
  std::string all;
  for (const CrashStep* step : steps)
    all += (all.empty() ? "" : ", then ") + std::string(step->name);
  return all;
}

// Files after a crash, for another device.
class CrashReopened {
 public:
  CrashReopened() : rig_(device::Placement::compute, 16) {}

  FoundFiles operator()(const FoundFiles& left) {
    rig_.storage->clear();
    for (const auto& [name, bytes] : left)
      rig_.storage->put(name, bytes);
    FoundFiles found;
    for (const std::string name : {"file", "other", "renamed"}) {
      const int file = rig_.calls->open(name.c_str(), O_RDONLY);
      if (file < 0) continue;
      found[name] = read_at(*rig_.calls, file, ByteSources::file_bytes_max, 0);
      EXPECT_EQ(rig_.calls->close(file), 0);
    }
    return found;
  }

 private:
  CrashRig rig_;
};

// Runs programs, and looks at the states that crashes may leave.
class CrashCheck {
 public:
  explicit CrashCheck(std::size_t states_of_each) : most_(states_of_each) {}

  // Empty, or the first broken promise.
  std::string look_at(CrashRig& rig, const CrashSetup& setup, const Steps& steps, bool syncs) {
    CrashProgram program(rig, setup, all_sources());
    for (const CrashStep* step : steps)
      program.make(*step);
    if (syncs) {
      static const CrashStep last{"fsync", CrashStep::Does::fsync};
      program.make(last);
    }
    ++programs;
    const std::vector<Recorded> log = rig.storage->log();
    for (std::size_t length = 0; length <= log.size(); ++length) {
      const CrashStates left(log, length, program.contents);
      std::string problem = after_power_loss(left, program, length);
      if (problem.empty()) problem = after_the_process(left, program, length);
      if (!problem.empty())
        return std::string(setup.name) + ": " + words(steps) + (syncs ? ", then fsync" : "") +
               ": after " + std::to_string(length) + " of " + std::to_string(log.size()) +
               " changes: " + problem;
    }
    return "";
  }

  std::uint64_t programs = 0;
  std::uint64_t states = 0;    // after a loss of power: different ones at each point
  std::uint64_t reopened = 0;  // by another device

 private:
  std::string after_power_loss(const CrashStates& left, const CrashProgram& program,
                               std::size_t length) {
    CrashPromises promises(all_sources(), program.first, program.calls, length, CrashKind::power);
    std::unordered_set<std::uint64_t> seen;
    std::string problem;
    left.each(most_, random_, [&](const FoundFiles& state) {
      if (!problem.empty() || !seen.insert(hash(state)).second) return;
      ++states;
      problem = promises.look_at(state);
      if (!problem.empty() || states % 16 != 0) return;
      ++reopened;
      if (reopen_(state) != state) problem = "another device finds something else";
    });
    return problem.empty() ? "" : "power: " + problem;
  }
  std::string after_the_process(const CrashStates& left, const CrashProgram& program,
                                std::size_t length) {
    CrashPromises promises(all_sources(), program.first, program.calls, length, CrashKind::process);
    const std::string problem = promises.look_at(left.everything());
    return problem.empty() ? "" : "process: " + problem;
  }
  static std::uint64_t hash(const FoundFiles& state) {
    std::uint64_t all = 0;
    for (const auto& [name, bytes] : state) {
      all = all * 0x9e3779b97f4a7c15ULL + std::hash<std::string>()(name);
      all = all * 0x9e3779b97f4a7c15ULL + std::hash<std::string>()(bytes);
    }
    return all;
  }

  const std::size_t most_;
  Random random_;
  CrashReopened reopen_;
};

class CrashStatesOf : public testing::TestWithParam<CrashSetup> {};

TEST_P(CrashStatesOf, KeepWhatWasPromised) {
  const CrashSetup& setup = GetParam();
  const bool all = is_deep() && !sanitized;
  CrashCheck check(all ? 512 : 24);
  CrashRig rig(setup.placement, setup.cache_pages);
  Random random;
  const auto look = [&](const Steps& steps) {
    for (const bool syncs : {false, true})
      ASSERT_EQ(check.look_at(rig, setup, steps, syncs), "");
  };
  for (const CrashStep& one : crash_steps()) {
    ASSERT_NO_FATAL_FAILURE(look({&one}));
    for (const CrashStep& other : crash_steps()) {
      // All of them in the deep run.
      if (all || random.one_in(sanitized ? 80 : 20)) {
        ASSERT_NO_FATAL_FAILURE(look({&one, &other}));
      }
    }
  }
  std::cout << check.programs << " programs, " << check.states << " states, " << check.reopened
            << " of them opened by another device\n";
  if (all) {
    EXPECT_GE(check.states, 60'000U);  // a million in all
  }
}

INSTANTIATE_TEST_SUITE_P(Setups, CrashStatesOf, testing::ValuesIn(crash_setups()),
                         [](const auto& one) { return std::string(one.param.name); });

// ---- the checker finds what is wrong ------------------------------------------------------------

struct WrongStorage {
  const char* name;
  SeededFault fault;
  std::vector<const char*> steps;  // of a program that shows it
};

void PrintTo(const WrongStorage& wrong, std::ostream* out) {
  *out << wrong.name;
}

class CrashFaults : public testing::TestWithParam<WrongStorage> {
 protected:
  static std::string found(SeededFault fault, const std::vector<const char*>& names) {
    Steps steps;
    for (const std::string name : names) {
      for (const CrashStep& step : crash_steps()) {
        if (step.name == name) steps.push_back(&step);
      }
    }
    EXPECT_EQ(steps.size(), names.size());
    const CrashSetup setup{"Compute"};
    CrashCheck check(64);
    CrashRig rig(setup.placement, setup.cache_pages);
    rig.storage->fault = fault;
    return check.look_at(rig, setup, steps, false);
  }
};

TEST_P(CrashFaults, AreFound) {
  EXPECT_EQ(found(SeededFault::none, GetParam().steps), "");
  const std::string problem = found(GetParam().fault, GetParam().steps);
  EXPECT_NE(problem, "");
  std::cout << problem << '\n';
}

INSTANTIATE_TEST_SUITE_P(
    Seeded, CrashFaults,
    testing::Values(
        WrongStorage{
            "SyncBeforeWrite", SeededFault::sync_before_write, {"overwrite a few bytes", "fsync"}},
        WrongStorage{
            "PageSkipped", SeededFault::page_skipped, {"overwrite across pages", "fdatasync"}},
        WrongStorage{"WriteAfterTruncate",
                     SeededFault::write_after_truncate,
                     {"overwrite whole pages", "cut in a page", "fsync"}},
        WrongStorage{"StaleTail", SeededFault::stale_tail, {"write across the end", "flush"}},
        WrongStorage{
            "WholeSectors", SeededFault::whole_sectors, {"overwrite a few bytes", "flush"}},
        WrongStorage{"SyncLost", SeededFault::sync_lost, {"append a few bytes", "fsync"}},
        WrongStorage{"RenameInTwoSteps", SeededFault::rename_in_two_steps, {"rename over a file"}}),
    [](const auto& one) { return std::string(one.param.name); });

// A sync that is asked for while a write is on its way does not cover it.
TEST(CrashStatesOfALog, ASyncCoversWhatWasAnsweredBefore) {
  Random random;
  const std::vector<std::pair<std::string, std::string>> first = {{"file", std::string(10, 'o')}};
  const auto states = [&](std::uint64_t answered) {
    const std::vector<Recorded> log = {
        {.offset = 0, .data = "new", .asked = 1, .answered = answered},
        {.what = Recorded::What::sync, .asked = 3, .answered = 4}};
    std::vector<std::string> all;
    CrashStates(log, log.size(), first).each(100, random, [&](const FoundFiles& state) {
      all.push_back(state.at("file"));
    });
    return all;
  };
  const std::string written = "newooooooo";
  EXPECT_EQ(states(2), std::vector<std::string>{written});
  EXPECT_EQ(states(5), (std::vector<std::string>{written, std::string(10, 'o')}));
}

// Names in folders: which may be missing after the sync of what.
TEST(CrashStatesOfALog, AFolderSecuresItsNames) {
  using What = Recorded::What;
  const std::vector<std::pair<std::string, std::string>> first = {{"/", ""}, {"folder/", ""}};
  const auto may_be_lost = [&](std::size_t synced, SyncedName names) {
    const std::vector<Recorded> log = {
        {.what = What::create, .file = 2, .name = "folder/new", .answered = 1, .folder = 1},
        {.what = What::rename,
         .file = 2,
         .name = "folder/new",
         .new_name = "folder/newer",
         .answered = 2,
         .folder = 1},
        {.what = What::sync, .file = synced, .asked = 3, .answered = 4}};
    Random random(1);
    std::set<std::string> found;
    CrashStates(log, log.size(), first, names).each(100, random, [&](const FoundFiles& state) {
      std::string all;
      for (const auto& [name, bytes] : state)
        all += name + " ";
      found.insert(all);
    });
    return found;
  };
  const std::string nothing = "folder/ ";
  const std::string old_name = "folder/ folder/new ";
  const std::string new_name = "folder/ folder/newer ";
  using Found = std::set<std::string>;
  EXPECT_EQ(may_be_lost(1, SyncedName::not_kept), (Found{new_name}));
  EXPECT_EQ(may_be_lost(2, SyncedName::kept), (Found{old_name, new_name}));
  EXPECT_EQ(may_be_lost(2, SyncedName::not_kept), (Found{nothing, old_name, new_name}));
  EXPECT_EQ(may_be_lost(0, SyncedName::not_kept), (Found{nothing, old_name, new_name}));
}

TEST(CrashStatesOfALog, AFileNeedsItsFolder) {
  using What = Recorded::What;
  const std::vector<Recorded> log = {
      {.what = What::create,
       .file = 1,
       .name = "folder",
       .answered = 1,
       .folder = 0,
       .is_folder = true},
      {.what = What::create, .file = 2, .name = "folder/new", .answered = 2, .folder = 1},
      {.what = What::sync, .file = 1, .asked = 3, .answered = 4}};
  Random random(1);
  CrashStates(log, log.size(), {{"/", ""}}, SyncedName::not_kept)
      .each(100, random, [](const FoundFiles& state) {
        EXPECT_EQ(state.contains("folder/"), state.contains("folder/new"));
      });
}

}  // namespace
}  // namespace ferry::test
