// Each reply of an NFS server (one in this process) is an error, says that half was moved, or does
// not come, for every one that a device program or bulk transfers get, mounting included.
#include <cerrno>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "faults/device_program.hpp"
#include "faults/nfs_bulk_program.hpp"
#include "faults/resources.hpp"
#include "storage/router.hpp"
#include "support/depth.hpp"
#include "support/fake_nfs_server.hpp"
#include "support/one_caller_rig.hpp"

namespace ferry::test {
namespace {

enum class ReplyFault : std::uint8_t { error, shortened, lost };
constexpr ReplyFault reply_faults[] = {ReplyFault::error, ReplyFault::shortened, ReplyFault::lost};
constexpr const char* reply_fault_names[] = {"an error", "shortened", "lost"};

struct ServerError {
  nfsstat3 status;
  mountstat3 of_mount;
  int error;
};
constexpr ServerError server_errors[] = {{NFS3ERR_IO, MNT3ERR_IO, EIO},
                                         {NFS3ERR_NOSPC, MNT3ERR_IO, ENOSPC},
                                         {NFS3ERR_DQUOT, MNT3ERR_IO, EDQUOT},
                                         {NFS3ERR_STALE, MNT3ERR_IO, ESTALE}};

template <class Reply>
bool refuse(void* reply, nfsstat3 status) {
  *static_cast<Reply*>(reply) = {};
  static_cast<Reply*>(reply)->status = status;
  return true;
}

// Returns false for a reply that has no error.
bool make_error(std::string_view encoder, void* reply, const ServerError& error) {
  using Refuse = bool (*)(void* reply, nfsstat3 status);
  static constexpr std::pair<std::string_view, Refuse> kinds[] = {
      {"zdr_GETATTR3res", refuse<GETATTR3res>}, {"zdr_SETATTR3res", refuse<SETATTR3res>},
      {"zdr_LOOKUP3res", refuse<LOOKUP3res>},   {"zdr_ACCESS3res", refuse<ACCESS3res>},
      {"zdr_READ3res", refuse<READ3res>},       {"zdr_WRITE3res", refuse<WRITE3res>},
      {"zdr_CREATE3res", refuse<CREATE3res>},   {"zdr_REMOVE3res", refuse<REMOVE3res>},
      {"zdr_FSINFO3res", refuse<FSINFO3res>},   {"zdr_COMMIT3res", refuse<COMMIT3res>}};
  for (const auto& [name, make] : kinds)
    if (name == encoder) return make(reply, error.status);
  if (encoder != "zdr_mountres3") return false;
  *static_cast<mountres3*>(reply) = {};
  static_cast<mountres3*>(reply)->fhs_status = error.of_mount;
  return true;
}

// Returns false for one that moves nothing.
bool halve(std::string_view encoder, void* reply) {
  if (encoder == "zdr_READ3res") {
    READ3resok& read = static_cast<READ3res*>(reply)->READ3res_u.resok;
    if (read.count < 2) return false;
    read.count /= 2;
    read.data.data_len = read.count;
    read.eof = 0;
    return true;
  }
  if (encoder != "zdr_WRITE3res") return false;
  WRITE3resok& written = static_cast<WRITE3res*>(reply)->WRITE3res_u.resok;
  if (written.count < 2) return false;
  written.count /= 2;
  return true;
}

struct NfsSetup {
  const char* name;
  device::Placement placement = device::Placement::compute;
  std::uint32_t cache_pages = 16;  // 0: no cache
};

void PrintTo(const NfsSetup& setup, std::ostream* out) {
  *out << setup.name;
}

// A server whose n-th reply has the fault.
class SpoiledReplies {
 protected:
  SpoiledReplies() {
    server_.spoil([this](std::string_view encoder, void* reply) { spoil(encoder, reply); });
    server_.lose([this](std::string_view encoder) { return is_lost(encoder); });
  }

  bool loses() const { return fault_ == ReplyFault::lost; }
  std::string settings() const { return loses() ? "&timeout=1" : "&timeout=60"; }
  bool is_expected(int error) const {
    return error == (loses() ? ETIMEDOUT : error_->error) || error == EIO;
  }
  // Calls run() with each fault of each reply, and with some that are late.
  template <class Run>
  void fail_each(const Run& run) {
    std::uint64_t points = 0;
    for (const ReplyFault fault : reply_faults) {
      SCOPED_TRACE(reply_fault_names[static_cast<std::size_t>(fault)]);
      fault_ = fault;
      const auto run_with = [&](std::uint64_t n) {
        error_ = &server_errors[n % std::size(server_errors)];
        point_.arm(n);
        run();
        point_.disarm();
      };
      run_with(never);  // what is made once for the process
      points += for_every_point(
          point_,
          [&](std::uint64_t n) {
            run_with(n);
            SCOPED_TRACE(struck_);
          },
          loses() ? (is_deep() ? 5 : 50) : 1);
      if (testing::Test::HasFailure()) return;
    }
    std::cout << "[  POINTS  ] " << points << '\n';
  }

  // On the server's thread.
  void spoil(std::string_view encoder, void* reply) {
    if (fault_ == ReplyFault::lost) return;
    if (fault_ == ReplyFault::shortened && !moves(encoder, reply)) return;
    if (encoder == "zdr_exports" || !point_.strikes()) return;
    struck_ = encoder;
    if (fault_ == ReplyFault::error) {
      make_error(encoder, reply, *error_);
    } else {
      halve(encoder, reply);
    }
  }
  static bool moves(std::string_view encoder, void* reply) {
    if (encoder == "zdr_READ3res") return static_cast<READ3res*>(reply)->READ3res_u.resok.count > 1;
    return encoder == "zdr_WRITE3res" &&
           static_cast<WRITE3res*>(reply)->WRITE3res_u.resok.count > 1;
  }
  bool is_lost(std::string_view encoder) {
    if (fault_ != ReplyFault::lost || !point_.strikes()) return false;
    struck_ = encoder;
    return true;
  }

  FakeNfsServer server_;
  NthPoint point_;
  ReplyFault fault_ = ReplyFault::error;
  const ServerError* error_ = server_errors;
  std::string struck_;
};

class NfsReplies : public SpoiledReplies, public testing::TestWithParam<NfsSetup> {};

TEST_P(NfsReplies, EachFailsOnce) {
  TestedFile file;
  file.write = [this](std::string_view bytes) { server_.put("f", bytes); };
  file.read = [this] { return server_.contents("f"); };
  file.exists = [this] { return server_.has("f"); };
  file.remove = [this] { server_.remove("f"); };
  const ByteSources sources;
  fail_each([&] {
    file.path = server_.uri("f", settings());
    const FaultInForce in_force{
        point_, [&](int error) { return is_expected(error); }, loses(), true,
        [&] { return fault_ == ReplyFault::error && struck_ == "zdr_WRITE3res"; }};
    OneCallerRig<storage::Storage> rig(storage::make_router({}), GetParam().placement,
                                       GetParam().cache_pages);
    rig.align_memory();
    DeviceProgram(*rig.calls, file, rig.memory, in_force, sources, GetParam().cache_pages > 0)
        .run();
  });
}

INSTANTIATE_TEST_SUITE_P(, NfsReplies,
                         testing::Values(NfsSetup{"Host", device::Placement::host, 0},
                                         NfsSetup{"Compute"},
                                         NfsSetup{"FewPages", device::Placement::service, 4}),
                         [](const auto& test) { return std::string(test.param.name); });

class NfsRepliesInBulk : public SpoiledReplies, public testing::Test {};

TEST_F(NfsRepliesInBulk, EachFailsOnce) {
  fail_each([&] {
    NfsBulkProgram program(
        server_, settings() + "&connections=2", point_,
        [&](int error) { return is_expected(error); }, loses());
    program.run();
  });
}

}  // namespace
}  // namespace ferry::test
