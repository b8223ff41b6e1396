// A cuFile library over the mock CUDA driver: it moves bytes between files and that driver's GPU
// memory by the driver's own copies. It aborts where a program would misuse the real one: an
// unregistered handle, a descriptor that is closed or not for direct I/O, calls with the driver
// closed.
//
// $FERRY_MOCK_CUFILE lists words that control its answers:
//   nvidia-fs, p2p     the layer below; without either it runs in compatibility mode
//   refuses            the driver does not open
//   no-handles         no file can be registered
//   no-io              transfers say that the file is not supported
//   no-memory          transfers say that the memory cannot be used
//   invalid            transfers fail with EINVAL
//   io-error           transfers fail with EIO
//   short              transfers move at most 12288 bytes, or what is said by set("short_bytes")
//   random             now and then one of the four before these, and short ones
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "backend/cuda/abi.hpp"
#include "backend/cuda/cufile_abi.hpp"

namespace ferry::cuda::cufile {

#define FERRY_DECLARE(name, result, ...) \
  extern "C" __attribute__((visibility("default"))) result name(__VA_ARGS__);
FERRY_CUFILE_FUNCTIONS(FERRY_DECLARE)
#undef FERRY_DECLARE

namespace {

constexpr std::size_t block_bytes = 4096;

struct State {
  std::mutex mutex;  // guards what follows
  std::map<std::string, long> values;
  std::map<Handle, int> handles;  // and their descriptors
  std::uintptr_t next_handle = 1;
  std::atomic<unsigned> calls{0};
};

State& state() {
  static auto* const made = new State;  // transfers may outlive main()
  return *made;
}

long get(const std::string& name) {
  const std::lock_guard lock(state().mutex);
  return state().values[name];
}

void count(const std::string& name, long amount = 1) {
  const std::lock_guard lock(state().mutex);
  long& value = state().values[name];
  value += amount;
  long& largest = state().values[name + "_max"];
  if (value > largest) largest = value;
}

bool wished(const char* word) {
  const char* text = std::getenv("FERRY_MOCK_CUFILE");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string one; words >> one;) {
    if (one == word) return true;
  }
  return false;
}

void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "mock cuFile: %s\n", what);
  std::abort();
}

// A function of the CUDA driver that the process uses.
template <class Function>
Function* driver_function(const char* name) {
  const char* library = std::getenv("FERRY_CUDA_LIBRARY");
  void* handle = library != nullptr ? ::dlopen(library, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  demand(handle != nullptr, "the CUDA driver is not loaded");
  return reinterpret_cast<Function*>(::dlsym(handle, name));
}

int descriptor_of(Handle handle) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().handles.find(handle);
  demand(found != state().handles.end(), "a handle that is not registered");
  demand(state().values["drivers"] > 0, "a transfer with the driver closed");
  return found->second;
}

struct Block {
  void operator()(char* memory) const { std::free(memory); }
};
using Blocks = std::unique_ptr<char, Block>;

Blocks make_blocks(std::size_t bytes) {
  void* memory = nullptr;
  demand(posix_memalign(&memory, block_bytes, bytes) == 0, "no memory");
  return Blocks(static_cast<char*>(memory));
}

// The result of a transfer instead of moving `bytes`; 0: none, but maybe fewer bytes move.
ssize_t trouble(std::size_t& bytes) {
  const unsigned call = state().calls.fetch_add(1);
  const bool at_random = wished("random");
  if (wished("no-io") || (at_random && call % 97 == 13)) return -io_not_supported;
  if (wished("no-memory") || (at_random && call % 7 == 5)) return -pinning_failed;
  if (wished("invalid")) errno = EINVAL;
  if (wished("io-error") || (at_random && call % 41 == 40)) errno = EIO;
  if (errno != 0) return -1;
  if (wished("short") || (at_random && call % 3 == 2)) {
    const long wish = get("short_bytes");
    const std::size_t most = wish > 0 ? static_cast<std::size_t>(wish) : 3 * block_bytes;
    if (bytes > most) bytes = most;
  }
  return 0;
}

// The transfer is in flight from here on, and tests may delay it.
class UnderWay {
 public:
  UnderWay() {
    count("under_way");
    while (get("hold") != 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ~UnderWay() { count("under_way", -1); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

ssize_t read_file(int fd, DevicePointer to, std::size_t bytes, off_t offset) {
  const auto into = static_cast<std::size_t>(offset) % block_bytes;
  const std::size_t whole = rounded_up(into + bytes);
  const Blocks blocks = make_blocks(whole);
  const ssize_t got = pread(fd, blocks.get(), whole, offset - static_cast<off_t>(into));
  if (got < 0) return -1;
  if (static_cast<std::size_t>(got) <= into) return 0;
  const std::size_t moved = std::min(bytes, static_cast<std::size_t>(got) - into);
  const Result result = driver_function<Result(DevicePointer, const void*, std::size_t)>(
      "cuMemcpyHtoD_v2")(to, blocks.get() + into, moved);
  return result == Result::success ? static_cast<ssize_t>(moved) : -pointer_invalid;
}

// Also part of a block, if memory has the rest: the rest of a short write.
ssize_t write_file(int fd, DevicePointer from, std::size_t bytes, off_t offset) {
  const std::size_t whole = rounded_up(bytes);
  const Blocks blocks = make_blocks(whole);
  const Result result = driver_function<Result(void*, DevicePointer, std::size_t)>(
      "cuMemcpyDtoH_v2")(blocks.get(), from, whole);
  if (result != Result::success) return -pointer_invalid;
  return std::min(pwrite(fd, blocks.get(), whole, offset), static_cast<ssize_t>(bytes));
}

// Only device memory; a real one also takes host memory, which Ferry never passes.
bool is_device_memory(DevicePointer memory) {
  int managed = 0;
  MemoryType type = MemoryType::none;
  PointerAttribute attributes[] = {PointerAttribute::is_managed, PointerAttribute::memory_type};
  void* values[] = {&managed, &type};
  const auto ask = driver_function<Result(unsigned, PointerAttribute*, void**, DevicePointer)>(
      "cuPointerGetAttributes");
  return ask(2, attributes, values, memory) == Result::success && managed == 0 &&
         type == MemoryType::device;
}

ssize_t transfer(Handle handle, const void* memory, std::size_t bytes, off_t offset, off_t into,
                 bool writing) {
  const int fd = descriptor_of(handle);
  const UnderWay under_way;
  const DevicePointer device =
      reinterpret_cast<std::uintptr_t>(memory) + static_cast<std::uintptr_t>(into);
  const bool whole = (static_cast<std::size_t>(offset) | bytes) % block_bytes == 0;
  if (writing && !whole) count("torn_blocks");
  errno = 0;
  if (const ssize_t result = trouble(bytes); result != 0) return result;
  if (!is_device_memory(device)) return -(pointer_invalid + 1);
  const ssize_t moved =
      writing ? write_file(fd, device, bytes, offset) : read_file(fd, device, bytes, offset);
  if (moved >= 0) count(writing ? "bytes_written" : "bytes_read", moved);
  return moved;
}

}  // namespace

CuFileError cuFileDriverOpen() {
  if (wished("refuses")) return {not_initialized, 0};
  count("drivers");
  return {0, 0};
}

CuFileError cuFileDriverClose() {
  const std::lock_guard lock(state().mutex);
  demand(state().values["drivers"]-- > 0, "the driver is closed more often than it was opened");
  demand(state().values["drivers"] > 0 || state().handles.empty(),
         "the driver closes under handles");
  return {0, 0};
}

CuFileError cuFileDriverGetProperties(Properties* properties) {
  *properties = {};
  properties->major_version = wished("nvidia-fs") ? 2 : 0;
  properties->minor_version = wished("nvidia-fs") ? 24 : 0;
  if (wished("nvidia-fs")) properties->status_flags = serves_nvme | serves_nfs;
  properties->feature_flags = wished("p2p") ? has_p2p : 0;
  return {0, 0};
}

CuFileError cuFileHandleRegister(Handle* handle, FileDescription* description) {
  if (wished("no-handles")) return {io_not_supported, 0};
  const int fd = description->file.fd;
  demand(description->type == opaque_fd, "a kind of file that it does not know");
  demand((fcntl(fd, F_GETFL) & O_DIRECT) != 0, "a descriptor without O_DIRECT");
  const std::lock_guard lock(state().mutex);
  demand(state().values["drivers"] > 0, "a handle with the driver closed");
  *handle = reinterpret_cast<Handle>(state().next_handle++);
  state().handles[*handle] = fd;
  return {0, 0};
}

void cuFileHandleDeregister(Handle handle) {
  demand(fcntl(descriptor_of(handle), F_GETFD) >= 0, "a handle whose descriptor is closed");
  const std::lock_guard lock(state().mutex);
  state().handles.erase(handle);
}

ssize_t cuFileRead(Handle handle, void* memory, std::size_t bytes, off_t offset, off_t into) {
  return transfer(handle, memory, bytes, offset, into, false);
}

ssize_t cuFileWrite(Handle handle, const void* memory, std::size_t bytes, off_t offset,
                    off_t into) {
  return transfer(handle, memory, bytes, offset, into, true);
}

}  // namespace ferry::cuda::cufile

// By name:
//   hold            1: transfers wait until this is 0
//   short_bytes     what a short transfer moves
//   drivers         how often the driver is open
//   bytes_read, bytes_written, under_way, under_way_max
//   torn_blocks     writes that begin or end inside a block
//   handles         that are registered
extern "C" __attribute__((visibility("default"))) long ferry_mock_cufile_get(const char* name) {
  using ferry::cuda::cufile::state;
  if (std::strcmp(name, "handles") != 0) return ferry::cuda::cufile::get(name);
  const std::lock_guard lock(state().mutex);
  return static_cast<long>(state().handles.size());
}
extern "C" __attribute__((visibility("default"))) void ferry_mock_cufile_set(const char* name,
                                                                             long value) {
  using ferry::cuda::cufile::state;
  const std::lock_guard lock(state().mutex);
  state().values[name] = value;
}
