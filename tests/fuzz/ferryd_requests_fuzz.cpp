// What ferryd believes of the processes that it serves: their messages with descriptors of any
// kind, and the words of the table that they may store into. It must go on answering.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/socket_messages.hpp"
#include "daemon/daemon.hpp"
#include "fuzz/bytes.hpp"
#include "support/files.hpp"

namespace ferry::fuzz {
namespace {

using namespace daemon;

constexpr int answer_ms = 10'000;
constexpr int tries_max = 50;

class ServedProcess {
 public:
  explicit ServedProcess(const test::ScratchDirectory& folder)
      : daemon_({.socket = folder / "run/s", .cache_bytes = 2 << 20}) {
    socket_path = folder / "run/s";
    thread_ = std::thread([this] { daemon_.serve(); });
    thread_.detach();  // until the process ends
    const std::string name = folder / "f";
    test::write_file(name, test::pattern(200'000, 1));
    int pipes[2] = {-1, -1};
    require(pipe2(pipes, O_CLOEXEC) == 0, "a pipe");
    descriptors = {-1,
                   open(name.c_str(), O_RDONLY | O_CLOEXEC),
                   open(name.c_str(), O_RDWR | O_CLOEXEC),
                   open(name.c_str(), O_PATH | O_CLOEXEC),
                   open(folder.path().c_str(), O_RDONLY | O_CLOEXEC),
                   open("/dev/null", O_RDONLY | O_CLOEXEC),
                   memfd_create("fuzz", MFD_CLOEXEC),
                   pipes[0]};
    attach();
  }

  // With the message, or as much of it as there is.
  int send(const void* message, std::size_t bytes, int descriptor, DaemonAnswer& answer) const {
    const int socket = connect_to(socket_path.c_str(), answer_ms);
    require(socket >= 0, "ferryd does not take a connection");
    int received = -1;
    int error = send_message(socket, message, bytes, descriptor);
    if (error == 0) error = receive_message(socket, &answer, sizeof answer, received);
    if (received >= 0) close(received);
    close(socket);
    return error;
  }

  void check() const {
    const DaemonRequest request;
    DaemonAnswer answer;
    int error = -1;
    // It hangs up on who does not send at once, as happens where the CPUs are busy.
    for (int tries = 0; tries < tries_max && error != 0; ++tries)
      error = send(&request, sizeof request, -1, answer);
    require(error == 0 && answer.error == 0, "ferryd does not answer any more");
    require(answer.status.files <= files_max, "ferryd serves more files than it can");
  }

  SharedTable* table = nullptr;
  std::vector<int> descriptors;
  std::string socket_path;

 private:
  void attach() {
    DaemonRequest request;
    request.kind = RequestKind::attach;
    DaemonAnswer answer;
    int file = -1;
    for (int tries = 0; tries < tries_max && file < 0; ++tries) {
      const int socket = connect_to(socket_path.c_str(), answer_ms);
      static_cast<void>(exchange(socket, request, -1, answer, file));
      close(socket);
    }
    require(file >= 0, "attaching");
    void* memory = mmap(nullptr, answer.memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    require(memory != MAP_FAILED, "mapping");
    table =
        reinterpret_cast<SharedTable*>(static_cast<unsigned char*>(memory) + answer.memory.table);
    close(file);
  }

  Daemon daemon_;
  std::thread thread_;
};

void store_into_table(SharedTable& table, InputBytes& input) {
  const std::uint64_t edges[] = {offsetof(SharedTable, hinted), offsetof(SharedTable, hints),
                                 offsetof(SharedTable, files), sizeof(SharedTable)};
  for (unsigned left = input.take<std::uint8_t>() % 8; left > 0; --left) {
    // Not `alive`: with that a process says for ferryd that it is dead.
    const std::uint64_t words = sizeof table / 8 - 8;
    const std::uint64_t at = 8 + input.number(edges) / 8 % words;
    reinterpret_cast<std::atomic<std::uint64_t>*>(&table)[at] = input.take<std::uint64_t>();
  }
  const std::uint64_t pages[] = {3, 4, hint_pages_max, std::uint64_t{1} << 43};
  const PageHint hint{static_cast<std::uint32_t>(input.number({}) % files_max), input.number(pages),
                      static_cast<std::uint32_t>(input.number(pages) % 256)};
  const auto reader = input.take<std::uint8_t>();
  table.hints[reader].hint = hint.word();
  table.hinted[reader / 64].fetch_or(std::uint64_t{1} << reader % 64);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const test::ScratchDirectory folder{test::build_folder()};  // on a disk, for leases
  static auto& process = *new ServedProcess(folder);
  InputBytes input(data, bytes);
  const auto choice = input.take<std::uint8_t>();
  if (choice % 2 != 0) store_into_table(*process.table, input);
  DaemonRequest request;
  request.kind =
      static_cast<RequestKind>(choice < 240 ? 1 + choice % 4 : input.take<std::uint32_t>());
  if (request.kind == RequestKind::stop) request.kind = RequestKind::offer;
  if (choice >= 250) request.magic = input.take<std::uint32_t>();
  if (choice >= 252) request.version = input.take<std::uint32_t>();
  unsigned char message[2 * sizeof request]{};
  std::memcpy(message, &request, sizeof request);
  const std::size_t length =
      choice < 245 ? sizeof request
                   : std::size_t{1} + input.take<std::uint8_t>() % (sizeof message - 1);
  const int descriptor =
      process.descriptors[input.take<std::uint8_t>() % process.descriptors.size()];
  DaemonAnswer answer;
  const int error = process.send(message, length, descriptor, answer);
  if (error == 0) {
    require(answer.reader_count <= readers_at_once && answer.file.entry < files_max,
            "ferryd answers what no client may believe");
    require(answer.error >= 0, "a negative error");
  }
  process.check();
  return 0;
}

}  // namespace ferry::fuzz
