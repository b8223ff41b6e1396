// What a process believes of ferryd: its answers, and the memory that they share, into which every
// process of the user may store.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <ferry/device/cache/page_table.hpp>

#include "base/socket_messages.hpp"
#include "daemon/client.hpp"
#include "fuzz/bytes.hpp"
#include "support/files.hpp"

namespace ferry::fuzz {
namespace {

using namespace daemon;
namespace cache = device::cache;

constexpr std::uint64_t table_at = 4096;
constexpr std::uint64_t cache_at = table_at + sizeof(SharedTable);
// A client never gives back what it has attached to, so that many attachments use up the mappings
// that a process may have.
constexpr unsigned attachments_max = 5000;

cache::CacheLayout small_layout() {
  return cache::lay_out(
      {.page_bytes = 4096, .frames = 16, .inodes = 8, .groups = readers_max + 2, .flights = 2});
}

// Stands for ferryd: answers each request with what the input says.
class HostileFerryd {
 public:
  explicit HostileFerryd(const test::ScratchDirectory& folder)
      : layout(small_layout()), bytes(cache_at + layout.bytes) {
    file_ = memfd_create("fuzz", MFD_CLOEXEC);
    require(file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes)) == 0, "a memfd");
    memory = static_cast<unsigned char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
    require(memory != MAP_FAILED, "its mapping");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path = folder / "s";
    std::memcpy(address.sun_path, path.c_str(), path.size());
    socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    require(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                listen(socket_, 10) == 0,
            "a socket");
    thread_ = std::thread([this] { serve(); });
    thread_.detach();  // until the process ends
  }

  // What is not from the input.
  DaemonAnswer right_answer() const {
    DaemonAnswer answer;
    answer.reader_count = 2;
    answer.readers[1] = 1;
    answer.file = {3, 1, 1};
    answer.memory = {bytes, table_at, cache_at, layout, 1};
    return answer;
  }
  void answer_with(const DaemonAnswer& answer, std::size_t answer_bytes) {
    const std::lock_guard lock(mutex_);
    answer_ = answer;
    answer_bytes_ = std::min(answer_bytes, sizeof answer_);
  }

  const cache::CacheLayout layout;
  const std::uint64_t bytes;
  unsigned char* memory = nullptr;
  std::string path;

 private:
  void serve() {
    for (;;) {
      const int one = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (one < 0) continue;
      DaemonRequest request;
      int descriptor = -1;
      if (receive_message(one, &request, sizeof request, descriptor) == 0) {
        const std::lock_guard lock(mutex_);
        send_message(one, &answer_, answer_bytes_,
                     request.kind == RequestKind::attach ? file_ : -1);
      }
      if (descriptor >= 0) close(descriptor);
      close(one);
    }
  }

  int file_ = -1;
  int socket_ = -1;
  std::mutex mutex_;
  DaemonAnswer answer_;
  std::size_t answer_bytes_ = sizeof answer_;
  std::thread thread_;
};

// Changes some words of an answer.
DaemonAnswer changed(DaemonAnswer answer, InputBytes& input, const HostileFerryd& ferryd) {
  const std::uint64_t edges[] = {ferryd.bytes,           table_at,  cache_at,   ~std::uint64_t{0},
                                 std::uint64_t{1} << 31, files_max, readers_max};
  for (unsigned left = input.take<std::uint8_t>() % 4; left > 0; --left) {
    const std::size_t at = input.take<std::uint16_t>() % (sizeof answer / 4) * 4;
    const std::uint64_t value = input.number(edges);
    std::memcpy(reinterpret_cast<unsigned char*>(&answer) + at, &value,
                std::min(sizeof value, sizeof answer - at));
  }
  return answer;
}

// An honest cache with one page of the file, into which others have stored.
void fill_memory(HostileFerryd& ferryd, InputBytes& input) {
  std::memset(ferryd.memory, 0, cache_at + ferryd.layout.pages);
  cache::View view;
  view.layout = ferryd.layout;
  view.base = ferryd.memory + cache_at;
  const std::uint64_t key = cache::key_of(1, 0);
  cache::PageTable(view).insert(cache::hash_of(key), key, 2);
  view.frame(2).key = key;
  view.frame(2).state = cache::State::valid;
  auto* table = reinterpret_cast<SharedTable*>(ferryd.memory + table_at);
  table->files[3].mark = 1;
  table->files[3].size_bytes = 4000;
  const std::uint64_t edges[] = {table_at,
                                 table_at + offsetof(SharedTable, files) + 3 * sizeof(FileEntry),
                                 cache_at,
                                 cache_at + ferryd.layout.marks,
                                 cache_at + ferryd.layout.readers,
                                 cache_at + ferryd.layout.buckets,
                                 cache_at + ferryd.layout.frames + 2 * sizeof(cache::Frame),
                                 cache_at + ferryd.layout.pages};
  const std::uint64_t end = cache_at + ferryd.layout.pages;
  for (unsigned left = input.take<std::uint8_t>() % 8; left > 0; --left) {
    const std::uint64_t at = input.number(edges) % (end - 8);
    const auto value = input.take<std::uint64_t>();
    const unsigned repeats = 1U + input.take<std::uint8_t>();
    for (unsigned i = 0; i < repeats && at + 8 * i + 8 <= end; ++i)
      std::memcpy(ferryd.memory + at + 8 * i, &value, sizeof value);
  }
  // An entry that names any frame, in the page's own bucket.
  if (const auto frame = input.take<std::uint32_t>(); frame % 2 != 0) {
    for (std::uint64_t& entry : view.bucket(cache::hash_of(key)).entries)
      if (entry != 0) entry = entry >> cache::frame_bits << cache::frame_bits | frame >> 8;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const test::ScratchDirectory folder;
  static auto& ferryd = *new HostileFerryd(folder);
  static auto& client = *new Client(ferryd.path.c_str());
  static unsigned attachments = 0;
  InputBytes input(data, bytes);
  const auto choice = input.take<std::uint8_t>();
  fill_memory(ferryd, input);
  if (choice < 8 && attachments++ < attachments_max) {  // the next offer attaches anew
    ferryd.answer_with(changed(ferryd.right_answer(), input, ferryd),
                       choice < 7 ? sizeof(DaemonAnswer) : input.take<std::uint8_t>());
    reinterpret_cast<SharedTable*>(ferryd.memory + table_at)->alive |= FUTEX_OWNER_DIED;
  } else {
    ferryd.answer_with(changed(ferryd.right_answer(), input, ferryd), sizeof(DaemonAnswer));
  }
  ServedFile file{3, 1, 1};
  if (choice % 4 == 0) {
    const int error = client.offer(STDIN_FILENO, file);
    require(error >= 0, "a negative error");
    if (error != 0) return 0;
  }
  const std::uint64_t offsets[] = {4000, 4096, 8192, ~std::uint64_t{0}};
  std::vector<unsigned char> to(input.take<std::uint16_t>() % 10'000);
  const std::int64_t got = client.pread(file, to.data(), to.size(), input.number(offsets));
  require(got >= Client::gone && got <= static_cast<std::int64_t>(to.size()), "a read's result");
  static_cast<void>(client.size_bytes(file));
  return 0;
}

}  // namespace ferry::fuzz
