// A program of MPI-IO that knows nothing of Ferry: memory of a GPU in "external32". Each line names
// a case and what the ranks saw. The last rank's memory is the GPU's, the others' the host's.
//
//   mpiexec -n 2 mpiio_gpu_memory FILE DRIVER
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <mpi.h>

#include "mpiio/ranks.hpp"

namespace {

constexpr int count = 1000;
constexpr int bytes = count * static_cast<int>(sizeof(long));

// As the driver's header declares them, with 0 for success.
struct Driver {
  explicit Driver(const char* library) : library_(dlopen(library, RTLD_NOW | RTLD_LOCAL)) {}
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  void* library_;
};

using DeviceAddress = unsigned long long;

enum class Kind { host, device, managed };

class Memory {
 public:
  Memory(const Driver& driver, Kind kind) : driver_(driver), on_gpu_(kind != Kind::host) {
    if (!on_gpu_) return;
    void* context = nullptr;
    is_there_ = driver_.call("cuInit", 0U) &&
                driver_.call("cuDevicePrimaryCtxRetain", &context, 0) &&
                driver_.call("cuCtxSetCurrent", context) &&
                (kind == Kind::device
                     ? driver_.call("cuMemAlloc_v2", &device_, std::size_t{bytes})
                     : driver_.call("cuMemAllocManaged", &device_, std::size_t{bytes}, 1U));
  }
  bool is_there() const { return is_there_; }
  void* data() { return on_gpu_ ? reinterpret_cast<void*>(device_) : host_; }
  void fill(const void* from) {
    if (on_gpu_) {
      driver_.call("cuMemcpyHtoD_v2", device_, from, std::size_t{bytes});
    } else {
      std::memcpy(host_, from, bytes);
    }
  }
  bool has(const void* wanted) const {
    char found[bytes] = {};
    std::memcpy(found, host_, bytes);
    if (on_gpu_)
      driver_.call("cuMemcpyDtoH_v2", static_cast<void*>(found), device_, std::size_t{bytes});
    return std::memcmp(found, wanted, bytes) == 0;
  }

 private:
  const Driver& driver_;
  bool on_gpu_;
  bool is_there_ = true;
  DeviceAddress device_ = 0;
  char host_[bytes] = {};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  begin(argc, argv);
  const Driver driver(argv[2]);
  const bool has_gpu = rank == ranks - 1;
  Memory memory(driver, has_gpu ? Kind::device : Kind::host);
  print("memory", memory.is_there() ? "there" : "missing");
  long values[count];
  for (int i = 0; i < count; ++i)
    values[i] = rank * count + i;
  memory.fill(values);
  MPI_File file = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  // As large in the file, so that it is converted on the way.
  constexpr int ints = 2 * count;
  MPI_File_set_view(file, rank * bytes, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
  print("writing ints",
        class_of(MPI_File_write_at_all(file, 0, memory.data(), ints, MPI_INT, MPI_STATUS_IGNORE)));
  long zeros[count] = {};
  memory.fill(zeros);
  print("reading ints",
        class_of(MPI_File_read_at_all(file, 0, memory.data(), ints, MPI_INT, MPI_STATUS_IGNORE)));
  print("what was read", memory.has(values) ? "right" : "wrong");

  MPI_File_set_view(file, rank * bytes, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL);
  print("writing longs", class_of(MPI_File_write_at_all(file, 0, memory.data(), count, MPI_LONG,
                                                        MPI_STATUS_IGNORE)));
  print("reading longs",
        class_of(MPI_File_read_at_all(file, 0, memory.data(), count, MPI_LONG, MPI_STATUS_IGNORE)));
  const auto address = reinterpret_cast<MPI_Aint>(memory.data());
  MPI_Datatype at_address = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed_block(1, count, &address, MPI_LONG, &at_address);
  MPI_Type_commit(&at_address);
  print("by their address",
        class_of(MPI_File_write_at_all(file, 0, MPI_BOTTOM, 1, at_address, MPI_STATUS_IGNORE)));
  MPI_Type_free(&at_address);
  int code = MPI_File_read_at_all_begin(file, 0, memory.data(), count, MPI_LONG);
  if (code == MPI_SUCCESS) code = MPI_File_read_at_all_end(file, memory.data(), MPI_STATUS_IGNORE);
  print("reading in two calls", class_of(code));
  print("what is there", memory.has(values) ? "right" : "wrong");
  // A call of each rank: behind the others' ints, of which nothing was written over.
  print("alone", class_of(MPI_File_write_at(file, ranks * bytes, memory.data(), count, MPI_LONG,
                                            MPI_STATUS_IGNORE)));
  MPI_File_set_view(file, rank * bytes, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
  memory.fill(zeros);
  MPI_File_read_at_all(file, 0, memory.data(), ints, MPI_INT, MPI_STATUS_IGNORE);
  print("what the file has", memory.has(values) ? "right" : "wrong");

  MPI_File_set_view(file, rank * bytes, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL);
  Memory managed(driver, has_gpu ? Kind::managed : Kind::host);
  managed.fill(values);
  std::string seen =
      class_of(MPI_File_write_at_all(file, 0, managed.data(), count, MPI_LONG, MPI_STATUS_IGNORE));
  managed.fill(zeros);
  seen += " " + class_of(MPI_File_read_at_all(file, 0, managed.data(), count, MPI_LONG,
                                              MPI_STATUS_IGNORE));
  print("managed memory", seen + (managed.has(values) ? " right" : " wrong"));
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
