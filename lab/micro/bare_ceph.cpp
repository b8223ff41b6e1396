// The minimal work to write files to CephFS: calls of libcephfs with 1 MiB each, --depth threads
// for each of the --threads files, one client for all. The files are FILE0, FILE1 and so on; all
// calls have one buffer. Returns the seconds from the first open to the last close; each file is
// synced before. The client exists before.
#define _FILE_OFFSET_BITS 64  // which cephfs/libcephfs.h demands

#include <algorithm>
#include <atomic>

#include <cephfs/libcephfs.h>
#include <fcntl.h>

#include "micro/benchmark.hpp"

namespace {

using namespace ferry::benchmarks;

constexpr std::uint64_t piece_bytes = 4 << 20;
constexpr std::uint64_t call_bytes = 1 << 20;

int done(int result, const std::string& what) {
  if (result < 0) fail(what + " gave " + std::to_string(result));
  return result;
}

ceph_mount_info* client_of(const std::string& configuration) {
  ceph_mount_info* client = nullptr;
  done(ceph_create(&client, nullptr), "ceph_create");
  done(ceph_conf_read_file(client, configuration.c_str()), configuration);
  done(ceph_mount(client, "/"), "ceph_mount");
  return client;
}

void bare_ceph(const BenchmarkOptions& options) {
  ceph_mount_info* client = client_of(options.path);
  const std::vector<char> memory(piece_bytes, 'x');
  const auto write_file = [&](std::uint64_t number) {
    const std::string name = "/" + options.other + std::to_string(number);
    const int file = done(ceph_open(client, name.c_str(), O_RDWR | O_CREAT, 0644), name);
    std::atomic<std::uint64_t> next{0};
    seconds_on_threads(options.depth, [&](std::uint64_t) {
      for (std::uint64_t at; (at = next.fetch_add(piece_bytes)) < options.bytes;) {
        const std::uint64_t end = std::min(at + piece_bytes, options.bytes);
        for (; at < end; at += call_bytes) {
          const auto bytes = static_cast<std::int64_t>(std::min(call_bytes, end - at));
          const auto offset = static_cast<std::int64_t>(at);
          done(ceph_write(client, file, memory.data(), bytes, offset), "ceph_write");
        }
      }
    });
    done(ceph_fsync(client, file, 0), "ceph_fsync");
    done(ceph_close(client, file), "ceph_close");
  };
  report_figure("write", "s", {seconds_on_threads(options.threads, write_file)});
  done(ceph_unmount(client), "ceph_unmount");
  done(ceph_release(client), "ceph_release");
}

const Subcommand registered("bare-ceph", "CONFIGURATION FILE --threads --depth --bytes",
                            "files of CephFS, written by bare calls of libcephfs", bare_ceph);

}  // namespace
