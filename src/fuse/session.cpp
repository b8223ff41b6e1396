#include "fuse/session.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include <linux/fuse.h>
#include <unistd.h>

#include "base/cpus.hpp"
#include "fuse/answer.hpp"

namespace ferry::fuse {
namespace {

constexpr std::uint32_t transfer_bytes_max = 1 << 20;
constexpr std::uint16_t in_background_max = 64;  // the kernel's reads ahead, and its writes
// The kernel refuses to fill less.
constexpr std::size_t request_bytes_max =
    transfer_bytes_max + sizeof(fuse_in_header) + sizeof(fuse_write_in) + 4096;

void begin(const KernelRequest& request, KernelAnswer& answer) {
  const auto offered = request.arguments<fuse_init_in>();
  fuse_init_out to{};
  to.major = FUSE_KERNEL_VERSION;
  to.minor = FUSE_KERNEL_MINOR_VERSION;
  if (offered.major != FUSE_KERNEL_VERSION) {
    // A newer kernel asks again with our version; an older one is of before 2006.
    if (offered.major < FUSE_KERNEL_VERSION) return answer.fail(-EPROTO);
    answer.add(to);
    return;
  }
  constexpr std::uint32_t wanted = FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES |
                                   FUSE_PARALLEL_DIROPS | FUSE_AUTO_INVAL_DATA | FUSE_MAX_PAGES |
                                   FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO;
  to.max_readahead = offered.max_readahead;
  to.flags = offered.flags & wanted;
  to.max_background = in_background_max;
  to.congestion_threshold = in_background_max * 3 / 4;
  to.max_write = transfer_bytes_max;
  to.max_pages = static_cast<std::uint16_t>(transfer_bytes_max / sysconf(_SC_PAGESIZE));
  to.time_gran = 1;
  answer.add(to);
}

void serve_requests(int device, MappedTree& tree, storage::Storage& storage) {
  TreeWorker worker(storage);
  std::vector<char> memory(request_bytes_max);
  while (true) {
    const ssize_t got = read(device, memory.data(), memory.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
    // ENODEV: it is mounted nowhere any more.
    if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;
    const KernelRequest request({memory.data(), static_cast<std::size_t>(got)});
    KernelAnswer answer;
    if (request.header().opcode == FUSE_INIT) {
      begin(request, answer);
    } else if (request.header().opcode != FUSE_DESTROY) {
      tree.answer(worker, request, answer);
    }
    answer.send(device, request.header().unique);
  }
}

}  // namespace

void serve(int device, storage::Storage& storage, const SessionOptions& options) {
  MappedTree tree(storage, options.root, options.only_user);
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < options.threads; ++i)
    threads.emplace_back([&] {
      name_this_thread("ferry-mount");
      serve_requests(device, tree, storage);
    });
  serve_requests(device, tree, storage);
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace ferry::fuse
