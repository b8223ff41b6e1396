#include "harness/plan.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/json_fields.hpp"
#include "harness/layout.hpp"

namespace ferry::bench::plan_test {
namespace {

const std::string cell = R"("id": "a", "interface": "ferry", "operation": "write", "path": "/f",
  "ranks": 4, "transfer_bytes": 1024, "total_bytes": 8192)";

Plan read(const std::string& cells) {
  return read_plan(R"({"schema": "ferry.plan/3", "runtime": {"device": "ranks"}, "cells": [)" +
                   cells + "]}");
}

// The error for a cell with overrides.
std::string refusal(const std::string& changes) {
  try {
    read("{" + cell + ", " + changes + "}");
  } catch (const PlanError& error) {
    return error.what();
  }
  return "taken";
}

TEST(RanksPlan, IsRead) {
  const Plan plan = read("{" + cell + R"(, "method": "serial", "writers": 2, "sync": "fsync",
    "byte_order": "big", "element_bytes": 4, "file_per_writer": true})");
  ASSERT_EQ(plan.cells.size(), 1U);
  const Cell& read = plan.cells[0];
  EXPECT_EQ(plan.runtime.device_threads, 4U);
  EXPECT_EQ(read.method, CollectiveMethod::serial);
  EXPECT_EQ(file_count(read), 2U);
  EXPECT_EQ(read.part_bytes(), 2048U);
  EXPECT_EQ(read.order, ByteOrder::big);
  EXPECT_TRUE(read.syncs());
}

TEST(RanksPlan, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(refusal(R"("writers": 5)"), "cells[0].writers: must be at most ranks");
  EXPECT_EQ(refusal(R"("file_per_writer": true)"), "cells[0].writers: must be given");
  EXPECT_EQ(refusal(R"("cold": true)"),
            "cells[0].operation: cold, reorder and expect_pattern_seed are for reads");
  EXPECT_EQ(refusal(R"("collective": true)"),
            "cells[0].collective: is for interface mpiio, and for ferry with streams");
  EXPECT_EQ(refusal(R"("segments": 2)").substr(0, 27), "cells[0].streams: is needed");
  EXPECT_EQ(refusal(R"("streams": true, "pattern": "interleaved", "piece_bytes": 4)").substr(0, 23),
            "cells[0].streams: needs");
  EXPECT_EQ(refusal(R"("pattern": "interleaved")"),
            "cells[0].transfer_bytes: must be a multiple of piece_bytes");
  EXPECT_EQ(refusal(R"("pattern": "subarray")"),
            "cells[0].pattern: cannot be subarray: that many ranks do not divide the array");
  EXPECT_EQ(refusal(R"("element_bytes": 3)"), "cells[0].element_bytes: must be 1, 2, 4, 8 or 16");
  EXPECT_EQ(refusal(R"("sync": "flush")"),
            "cells[0].sync: must be none or fsync with device ranks");
  EXPECT_EQ(refusal(R"("queue_depth": 2)"), "cells[0].queue_depth: is not known");
  EXPECT_EQ(refusal(R"("speed": 1)"), "cells[0].speed: is not known");
}

TEST(RanksPlan, StreamsAsThreadsDo) {
  const Plan plan = read("{" + cell + R"(, "streams": true, "collective": true, "segments": 2,
    "file_per_rank": true, "offsets": "random", "overwrite": true, "keep": true})");
  const Cell& read = plan.cells[0];
  EXPECT_EQ(read.offsets, Offsets::random);
  EXPECT_EQ(read.segments, 2U);
  EXPECT_EQ(file_count(read), 4U);
  EXPECT_EQ(file_bytes(read, 3), 2048U);
  EXPECT_TRUE(read.collective && read.keep && read.overwrite);
  EXPECT_EQ(refusal(R"("time_ms": 5)").substr(0, 27), "cells[0].streams: is needed");
  EXPECT_EQ(refusal(R"("streams": true, "deadline_ms": 5, "time_ms": 5)"),
            "cells[0].time_ms: and deadline_ms exclude each other");
  EXPECT_EQ(refusal(R"("streams": true, "direct": true, "interface": "mpiio")"),
            "cells[0].direct: is for interface posix and ferry with device ranks");
}

TEST(RanksPlan, RefusesUrisWhereNoneIsTaken) {
  const std::string uri = R"({"id": "a", "interface": "posix", "operation": "read",
    "path": "ceph:/f", "transfer_bytes": 1, "total_bytes": 1})";
  EXPECT_THROW(read(uri), PlanError);
}

TEST(RanksPlan, KeepsInterfacesAndFieldsToTheirDevice) {
  EXPECT_THROW(read(R"({"id": "a", "interface": "mmap", "operation": "read",
    "path": "/f", "transfer_bytes": 1, "total_bytes": 1})"),
               PlanError);
  for (const char* changes : {R"("interface": "mpiio")", R"("interface": "posix", "ranks": 2)"}) {
    EXPECT_THROW(read_plan(R"({"schema": "ferry.plan/3", "cells": [{"id": "a", "operation": "read",
      "path": "/f", "transfer_bytes": 1, "total_bytes": 2, )" +
                           std::string(changes) + "}]}"),
                 PlanError);
  }
}

Cell with_pattern(const std::string& pattern) {
  return read_plan(R"({"schema": "ferry.plan/3", "cells": [{"id": "a", "interface": "posix",
    "operation": "read", "path": "/f", "transfer_bytes": 1, "total_bytes": 2, "pattern": ")" +
                   pattern + R"("}]})")
      .cells[0];
}

TEST(Plan, ReadsHowOffsetsAreDrawn) {
  EXPECT_EQ(with_pattern("sequential").offsets, Offsets::sequential);
  EXPECT_EQ(with_pattern("random").offsets, Offsets::random);
  EXPECT_DOUBLE_EQ(with_pattern("zipf:0.25").zipf_exponent, 0.25);
  const Cell hotspot = with_pattern("hotspot:20/100");
  EXPECT_EQ(hotspot.offsets, Offsets::hotspot);
  EXPECT_EQ(hotspot.hot_file_percent, 20U);
  EXPECT_EQ(hotspot.hot_call_percent, 100U);
  for (const char* wrong :
       {"", "zipf", "zipf:", "zipf:0", "zipf:-1", "zipf:11", "zipf:1.1x", "hotspot", "hotspot:20",
        "hotspot:20/", "hotspot:0/80", "hotspot:100/80", "hotspot:20/101", "hotspot:20/80%", "x"})
    EXPECT_THROW(with_pattern(wrong), PlanError) << wrong;
}

TEST(Plan, RefusesPacesThatDoNotGoTogether) {
  const auto refused = [](const std::string& changes) {
    try {
      read_plan(R"({"schema": "ferry.plan/3", "cells": [{"id": "a", "interface": "uring",
        "operation": "read", "path": "/f", "transfer_bytes": 4, "total_bytes": 8, )" +
                changes + "}]}");
    } catch (const PlanError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(refused(R"("time_ms": 2, "ramp_ms": 1, "rate_bytes_per_s": 2000)"), "taken");
  EXPECT_EQ(refused(R"("time_ms": 2, "rate_bytes_per_s": 1999)"),
            "cells[0].rate_bytes_per_s: makes less than one call in time_ms");
  EXPECT_EQ(refused(R"("ramp_ms": 1)"), "cells[0].ramp_ms: needs time_ms");
  EXPECT_EQ(refused(R"("time_ms": 2, "deadline_ms": 1)"),
            "cells[0].time_ms: and deadline_ms exclude each other");
  EXPECT_EQ(refused(R"("rate_bytes_per_s": 9, "queue_depth": 2)"),
            "cells[0].rate_bytes_per_s: needs queue_depth 1");
  EXPECT_EQ(refused(R"("program": "once", "time_ms": 2)"),
            "cells[0].time_ms: needs program stream");
}

// What cached reads in these calls of a file of this size get without "cache_bytes", with 1 MiB
// pages.
std::uint64_t cache_bytes_for(const std::string& file_bytes, const std::string& call_bytes) {
  return read_plan(R"({"schema": "ferry.plan/3", "runtime": {"page_bytes": 1048576}, "cells": [
    {"id": "a", "interface": "ferry", "placement": "compute", "operation": "read", "path": "/f",
    "transfer_bytes": )" +
                   call_bytes + R"(, "total_bytes": )" + file_bytes + "}]}")
      .runtime.cache_bytes;
}

TEST(Plan, CachesThatNobodySizedHoldTheFileOrAQuarterOfTheMemory) {
  constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
  EXPECT_EQ(cache_bytes_for("1048576", "4096"), 64 * MiB);
  EXPECT_EQ(cache_bytes_for("104857600", "4096"), 125 * MiB);
  const auto memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t largest = cache_bytes_for("1125899906842624", "1073741824");
  EXPECT_LE(largest, memory_bytes / 4);
  EXPECT_GT(largest, 125 * MiB);
}

Cell with_operation(const std::string& changes) {
  return read_plan(R"({"schema": "ferry.plan/3", "cells": [{"id": "a", "interface": "uring",
    "path": "/f", "transfer_bytes": 4, "total_bytes": 8, "operation": )" +
                   changes + "}]}")
      .cells[0];
}

TEST(Plan, MixedCallsRewriteAFile) {
  const Cell mixed = with_operation(R"("mixed", "read_percent": 70, "queue_depth": 3)");
  EXPECT_EQ(mixed.operation, MeasuredOperation::write);
  EXPECT_TRUE(mixed.rewrite);
  EXPECT_EQ(mixed.buffer_bytes(), 2U * 3 * 4);
  for (const char* wrong :
       {R"("mixed")", R"("write", "read_percent": 70)", R"("mixed", "read_percent": 100)",
        R"("mixed", "read_percent": 7, "keep": true)",
        R"("mixed", "read_percent": 7, "program": "once")",
        R"("mixed", "read_percent": 7, "queue_depth": 2, "check": true, "time_ms": 1)"})
    EXPECT_THROW(with_operation(wrong), PlanError) << wrong;
}

std::string job(const std::string& id, const std::string& group, const std::string& changes) {
  return R"({"id": ")" + id + R"(", "group": ")" + group + R"(", "interface": "ferry",
    "operation": "read", "path": "/f", "transfer_bytes": 4096, "total_bytes": 1073741824)" +
         changes + "}";
}
Plan with_jobs(const std::string& jobs, const std::string& device = "cpu") {
  return read_plan(R"({"schema": "ferry.plan/3", "runtime": {"device": ")" + device +
                   R"("}, "cells": [)" + jobs + "]}");
}

TEST(Plan, AGroupHasTheThreadsTheMemoryAndTheCacheOfAllItsJobs) {
  const Plan plan = with_jobs(
      job("a", "g", R"(, "threads": 4, "queue_depth": 2)") + "," +
      job("b", "g", R"(, "threads": 16, "placement": "compute", "total_bytes": 67108864)") + "," +
      job("c", "g", R"(, "threads": 8, "placement": "service", "total_bytes": 67108864)") + "," +
      job("d", "", R"(, "threads": 16)"));
  EXPECT_EQ(plan.runtime.device_threads, 28U);
  EXPECT_GE(plan.runtime.arena_bytes, (4 * 2 + 16 + 8) * 4096U + (std::uint64_t{4} << 20));
  EXPECT_EQ(plan.runtime.cache_bytes, std::uint64_t{160} << 20);
  EXPECT_TRUE(plan.cells[0].with_cache);  // host, beside others that use it
  EXPECT_FALSE(plan.cells[3].with_cache);
  const std::vector<std::vector<std::size_t>> groups = {{0, 1, 2}, {3}};
  EXPECT_EQ(groups_of(plan.cells), groups);
}

TEST(Plan, GroupsAreForTheDeviceCpu) {
  EXPECT_THROW(with_jobs(job("a", "g", ""), "cuda"), PlanError);
  EXPECT_NO_THROW(with_jobs(job("a", "", ""), "cuda"));
}

TEST(RanksPlan, RefusesTwoCellsOfOneName) {
  EXPECT_THROW(read("{" + cell + "}, {" + cell + "}"), PlanError);
}

}  // namespace
}  // namespace ferry::bench::plan_test
