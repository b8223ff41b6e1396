// The plug-in that HDF5 loads for HDF5_DRIVER=ferry: its class of files, whose functions are calls
// of a DriverFile. Errors go to HDF5's error stack, in the words of its own drivers, because h5py
// reads the errno from them.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>

#include "base/forks.hpp"
#include "hdf5/driver_file.hpp"
#include "hdf5/driver_interface.hpp"
#include "hdf5/engine.hpp"
#include "hdf5/selections.hpp"

namespace ferry::hdf5 {
namespace {

// HDF5 leaves values from 256 on to drivers of others. This one is not registered with it.
constexpr int driver_value = 439;
constexpr Address address_max = (Address{1} << 63) - 1;
constexpr int weak_close = 1;

// The HDF5 library that calls. Several may be in a process, and none need be among those where
// names are looked up; so it is found by an address in it. One that is linked statically into a
// program has its functions where names are looked up, or cannot be asked.
class Library {
 public:
  static Library at(const void* caller) {
    Library found;
    Dl_info where{};
    if (dladdr(caller, &where) != 0) {
      found.handle_ = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
      found.base_ = where.dli_fbase;
    }
    return found;
  }

  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

  // None if they are another library's, whose identifiers these are not.
  SelectionFunctions selection_functions() const {
    Dl_info where{};
    const void* create = symbol("H5Ssel_iter_create");
    if (create == nullptr || dladdr(create, &where) == 0 || where.dli_fbase != base_) return {};
    return {function<SelectionFunctions::Create>("H5Ssel_iter_create"),
            function<SelectionFunctions::Next>("H5Ssel_iter_get_seq_list"),
            function<SelectionFunctions::Close>("H5Ssel_iter_close")};
  }

  // An identifier that the library has made when it was initialised.
  Identifier identifier(const char* name) const {
    const auto* found = static_cast<const Identifier*>(symbol(name));
    return found == nullptr ? -1 : *found;
  }

 private:
  void* symbol(const char* name) const {
    return dlsym(handle_ == nullptr ? RTLD_DEFAULT : handle_, name);
  }

  void* handle_ = nullptr;
  void* base_ = nullptr;
};

// At the address that the function which has this in it returns to.
#define FERRY_CALLING_LIBRARY Library::at(__builtin_return_address(0))

struct ErrorClass {
  const char* major;
  const char* minor;
};
constexpr ErrorClass cannot_open{"H5E_FILE_g", "H5E_CANTOPENFILE_g"};
constexpr ErrorClass cannot_close{"H5E_IO_g", "H5E_CANTCLOSEFILE_g"};
constexpr ErrorClass cannot_read{"H5E_IO_g", "H5E_READERROR_g"};
constexpr ErrorClass cannot_write{"H5E_IO_g", "H5E_WRITEERROR_g"};
constexpr ErrorClass cannot_lock{"H5E_VFL_g", "H5E_CANTLOCKFILE_g"};
constexpr ErrorClass cannot_delete{"H5E_VFL_g", "H5E_CANTDELETEFILE_g"};
constexpr ErrorClass not_supported{"H5E_VFL_g", "H5E_UNSUPPORTED_g"};

void report(const Library& library, const ErrorClass& error, const std::string& text) {
  using Push = Outcome(Identifier, const char*, const char*, unsigned, Identifier, Identifier,
                       Identifier, const char*, ...);
  auto* push = library.function<Push>("H5Epush2");
  if (push == nullptr) return;
  push(0, "libferry_hdf5", "ferry", 0, library.identifier("H5E_ERR_CLS_g"),
       library.identifier(error.major), library.identifier(error.minor), "%s", text.c_str());
}

std::string described(const std::string& what, int error_number) {
  return what + ", errno = " + std::to_string(error_number) + ", error message = '" +
         std::system_category().message(error_number) + "'";
}

// Runs `action`, whose exceptions HDF5 gets with the errno behind what `describe` says.
template <class Describe, class Action>
Outcome guarded(const Library& library, const ErrorClass& error, const Describe& describe,
                const Action& action) noexcept {
  try {
    action();
    return succeeded;
  } catch (const std::system_error& thrown) {  // also where no thread can be started
    std::string text = described(describe(), thrown.code().value());
    const std::string reason = Error(thrown.code().value(), thrown.what()).reason();
    if (text.find(reason) == std::string::npos) text += ", " + reason;
    report(library, error, text);
  } catch (const std::bad_alloc&) {
    report(library, error, described(describe(), ENOMEM));
  } catch (const std::exception& thrown) {
    report(library, error, described(describe(), EIO) + ", " + thrown.what());
  }
  return failed;
}

struct OpenFile : LibraryFile {
  OpenFile(const Library& of, const char* name, int flags)
      : LibraryFile{}, library(of), path(name), file(name, flags) {}
  const Library library;
  const SelectionFunctions selections = library.selection_functions();
  const std::string path;
  Address end_of_allocation = 0;
  DriverFile file;
  bool insists_on_locks = false;
  int descriptor = -1;  // get_handle() leads here
};

OpenFile& of(LibraryFile* file) {
  return static_cast<OpenFile&>(*file);
}
const OpenFile& of(const LibraryFile* file) {
  return static_cast<const OpenFile&>(*file);
}

std::string named(const char* what, const std::string& path) {
  return std::string(what) + ": name = '" + path + "'";
}

int open_flags(unsigned access_flags) {
  int flags = (access_flags & access_flag::read_write) != 0 ? O_RDWR : O_RDONLY;
  if ((access_flags & access_flag::truncate) != 0) flags |= O_TRUNC;
  if ((access_flags & access_flag::create) != 0) flags |= O_CREAT;
  if ((access_flags & access_flag::exclusive) != 0) flags |= O_EXCL;
  return flags;
}

void refuse_options(const Library& library, Identifier access_list) {
  using Get = long(Identifier, char*, std::size_t);
  auto* get = library.function<Get>("H5Pget_driver_config_str");
  if (get == nullptr || get(access_list, nullptr, 0) <= 0) return;
  throw Error(EINVAL, "this driver takes no options: unset HDF5_DRIVER_CONFIG");
}

// As HDF5's own drivers do, a file that cannot be locked is accepted unless the user insists.
bool insists_on_locks(const Library& library, Identifier access_list) {
  const char* wish = std::getenv("HDF5_USE_FILE_LOCKING");
  if (wish != nullptr && *wish != '\0')
    return std::strcmp(wish, "TRUE") == 0 || std::strcmp(wish, "1") == 0;
  using Get = Outcome(Identifier, bool*, bool*);
  auto* get = library.function<Get>("H5Pget_file_locking");
  bool use = false;
  bool ignore = true;
  if (get != nullptr) get(access_list, &use, &ignore);
  return use && !ignore;
}

// Files of servers that are open, by their libraries.
struct OpenFiles {
  std::mutex mutex;
  std::vector<const OpenFile*> files;
  bool ending = false;

  void add(const OpenFile* file) {
    const std::lock_guard lock(mutex);
    files.push_back(file);
  }
  void remove(const OpenFile* file) {
    const std::lock_guard lock(mutex);
    std::erase(files, file);
  }
  const OpenFile* any() {
    const std::lock_guard lock(mutex);
    return files.empty() ? nullptr : files.front();
  }
};

OpenFiles& open_files() {
  return of_this_process<OpenFiles>();
}

// HDF5 closes what a program has left open, but only after whatever ends the clients of servers. So
// it is asked to do so earlier.
void end_of_program() {
  OpenFiles& open = open_files();
  open.ending = true;
  for (const OpenFile* file = open.any(); file != nullptr;) {
    if (auto* close_library = file->library.function<Outcome()>("H5close")) close_library();
    const OpenFile* next = open.any();
    if (next == file) break;  // it cannot be closed
    file = next;
  }
  end_engine();
}

// Said again with each name that may have brought a client: what was said last is done first.
void end_in_time(const char* name) {
  if (std::strchr(name, ':') != nullptr) std::atexit(end_of_program);
}

LibraryFile* open(const char* name, unsigned access_flags, Identifier access_list, Address) {
  const Library library = FERRY_CALLING_LIBRARY;
  OpenFile* opened = nullptr;
  guarded(
      library, cannot_open, [&] { return named("unable to open file", name); },
      [&] {
        refuse_options(library, access_list);
        opened = new OpenFile(library, name, open_flags(access_flags));
        opened->insists_on_locks = insists_on_locks(library, access_list);
        if (!opened->file.is_mounted()) open_files().add(opened);
      });
  end_in_time(name);
  return opened;
}

Outcome close(LibraryFile* library_file) {
  OpenFile* file = &of(library_file);
  const Outcome outcome = guarded(
      file->library, cannot_close, [&] { return named("unable to close file", file->path); },
      [&] {
        try {
          file->file.close();
        } catch (const std::exception& error) {
          // Nobody looks at HDF5's stack any more.
          if (open_files().ending)
            std::fprintf(stderr, "ferry-hdf5: %s was not written: %s\n", file->path.c_str(),
                         error.what());
          throw;
        }
      });
  open_files().remove(file);
  delete file;  // HDF5 never asks again
  return outcome;
}

int compare(const LibraryFile* one, const LibraryFile* other) {
  const bulk::OpenStatus& left = of(one).file.status();
  const bulk::OpenStatus& right = of(other).file.status();
  if (left.device == right.device && left.inode == right.inode) return 0;
  return std::tie(left.device, left.inode) < std::tie(right.device, right.inode) ? -1 : 1;
}

Outcome terminate() {
  end_engine();
  return succeeded;
}

// Also asked without a file.
Outcome query(const LibraryFile* file, unsigned long* features) {
  if (features == nullptr) return succeeded;
  *features = feature::aggregate_metadata | feature::accumulate_metadata | feature::data_sieve |
              feature::aggregate_small_data | feature::default_compatible;
  // Several programs cannot use a server's file at once: blocks of it are kept.
  if (file == nullptr || of(file).file.is_mounted())
    *features |= feature::posix_compatible_handle | feature::supports_swmr;
  return succeeded;
}

Address get_end_of_allocation(const LibraryFile* file, AllocationType) {
  return of(file).end_of_allocation;
}

Outcome set_end_of_allocation(LibraryFile* file, AllocationType, Address address) {
  of(file).end_of_allocation = address;
  return succeeded;
}

Address get_end_of_file(const LibraryFile* file, AllocationType) {
  return of(file).file.size_bytes();
}

Outcome get_handle(LibraryFile* library_file, Identifier, void** handle) {
  OpenFile& file = of(library_file);
  return guarded(
      file.library, not_supported, [&] { return named("no descriptor", file.path); },
      [&] {
        file.descriptor = file.file.descriptor();
        if (file.descriptor < 0) throw Error(ENOTSUP, "a file of a server has none");
        *handle = &file.descriptor;
      });
}

// A zero in `bytes` stands for the size before it.
template <class Piece, class Pointer>
std::vector<Piece> pieces_of(std::uint32_t count, const Address* addresses,
                             const std::size_t* bytes, Pointer* const* data) {
  using Byte = decltype(Piece::data);
  std::vector<Piece> pieces;
  pieces.reserve(count);
  std::size_t same = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (same == 0 && i > 0 && bytes[i] == 0) same = bytes[i - 1];
    pieces.push_back({addresses[i], same != 0 ? same : bytes[i], static_cast<Byte>(data[i])});
  }
  return pieces;
}

std::string ranged(const char* what, const std::string& path, Address address, std::size_t bytes) {
  return named(what, path) + ", offset = " + std::to_string(address) +
         ", size = " + std::to_string(bytes);
}

Outcome read(LibraryFile* library_file, AllocationType, Identifier, Address address,
             std::size_t bytes, void* data) {
  OpenFile& file = of(library_file);
  return guarded(
      file.library, cannot_read,
      [&] { return ranged("file read failed", file.path, address, bytes); },
      [&] {
        file.file.read({address, bytes, static_cast<std::byte*>(data)});
      });
}

Outcome write(LibraryFile* library_file, AllocationType, Identifier, Address address,
              std::size_t bytes, const void* data) {
  OpenFile& file = of(library_file);
  return guarded(
      file.library, cannot_write,
      [&] { return ranged("file write failed", file.path, address, bytes); },
      [&] {
        file.file.write({address, bytes, static_cast<const std::byte*>(data)});
      });
}

Outcome read_vector(LibraryFile* library_file, Identifier, std::uint32_t count,
                    const AllocationType*, const Address* addresses, const std::size_t* bytes,
                    void* const* data) {
  OpenFile& file = of(library_file);
  return guarded(
      file.library, cannot_read, [&] { return named("file read failed", file.path); },
      [&] {
        std::vector<ReadPiece> pieces = pieces_of<ReadPiece>(count, addresses, bytes, data);
        file.file.read_vector(pieces);
      });
}

Outcome write_vector(LibraryFile* library_file, Identifier, std::uint32_t count,
                     const AllocationType*, const Address* addresses, const std::size_t* bytes,
                     const void* const* data) {
  OpenFile& file = of(library_file);
  return guarded(
      file.library, cannot_write, [&] { return named("file write failed", file.path); },
      [&] { file.file.write_vector(pieces_of<WritePiece>(count, addresses, bytes, data)); });
}

Outcome read_selection(LibraryFile* library_file, AllocationType, Identifier, std::uint32_t count,
                       const Identifier* memory_spaces, const Identifier* file_spaces,
                       const Address* offsets, const std::size_t* element_bytes,
                       void* const* data) {
  OpenFile& file = of(library_file);
  const Selections<void> selections{count,   memory_spaces, file_spaces,
                                    offsets, element_bytes, data};
  return guarded(
      file.library, cannot_read, [&] { return named("file read failed", file.path); },
      [&] {
        for_pieces<ReadPiece>(file.selections, selections, [&](std::vector<ReadPiece>& pieces) {
          file.file.read_vector(pieces);
        });
      });
}

Outcome write_selection(LibraryFile* library_file, AllocationType, Identifier, std::uint32_t count,
                        const Identifier* memory_spaces, const Identifier* file_spaces,
                        const Address* offsets, const std::size_t* element_bytes,
                        const void* const* data) {
  OpenFile& file = of(library_file);
  const Selections<const void> selections{count,   memory_spaces, file_spaces,
                                          offsets, element_bytes, data};
  return guarded(
      file.library, cannot_write, [&] { return named("file write failed", file.path); },
      [&] {
        for_pieces<WritePiece>(file.selections, selections, [&](std::vector<WritePiece>& pieces) {
          file.file.write_vector(pieces);
        });
      });
}

Outcome flush(LibraryFile* library_file, Identifier, bool) {
  OpenFile& file = of(library_file);
  return guarded(
      file.library, cannot_write, [&] { return named("unable to flush file", file.path); },
      [&] { file.file.flush(); });
}

Outcome truncate(LibraryFile* library_file, Identifier, bool) {
  OpenFile& file = of(library_file);
  if (file.end_of_allocation == file.file.size_bytes()) return succeeded;
  return guarded(
      file.library, cannot_write, [&] { return named("unable to truncate file", file.path); },
      [&] { file.file.truncate(file.end_of_allocation); });
}

Outcome flock_file(LibraryFile* library_file, int operation, const char* what) {
  OpenFile& file = of(library_file);
  return guarded(
      file.library, cannot_lock, [&] { return named(what, file.path); },
      [&] {
        const int descriptor = file.file.descriptor();
        const bool is_there = descriptor >= 0 && flock(descriptor, operation) == 0;
        if (is_there) return;
        const int error = descriptor < 0 ? ENOSYS : errno;
        if (error == ENOSYS && !file.insists_on_locks) return;
        throw Error(error, descriptor < 0 ? "files of servers have no locks" : file.path);
      });
}

Outcome lock(LibraryFile* file, bool for_writing) {
  return flock_file(file, (for_writing ? LOCK_EX : LOCK_SH) | LOCK_NB, "unable to lock file");
}

Outcome unlock(LibraryFile* file) {
  return flock_file(file, LOCK_UN, "unable to unlock file");
}

Outcome remove(const char* name, Identifier) {
  const Outcome outcome = guarded(
      FERRY_CALLING_LIBRARY, cannot_delete, [&] { return named("unable to delete file", name); },
      [&] { engine_of_this_process().unlink(name); });
  end_in_time(name);
  return outcome;
}

constexpr DriverClass make_class(bool with_selections) {
  DriverClass made{};
  made.version = 1;
  made.value = driver_value;
  made.name = "ferry";
  made.address_max = address_max;
  made.close_degree = weak_close;
  made.terminate = terminate;
  made.open = open;
  made.close = close;
  made.compare = compare;
  made.query = query;
  made.get_end_of_allocation = get_end_of_allocation;
  made.set_end_of_allocation = set_end_of_allocation;
  made.get_end_of_file = get_end_of_file;
  made.get_handle = get_handle;
  made.read = read;
  made.write = write;
  made.read_vector = read_vector;
  made.write_vector = write_vector;
  if (with_selections) {
    made.read_selection = read_selection;
    made.write_selection = write_selection;
  }
  made.flush = flush;
  made.truncate = truncate;
  made.lock = lock;
  made.unlock = unlock;
  made.remove = remove;
  // Data and metadata apart, as the library's own drivers have them.
  for (AllocationType& list : made.free_lists)
    list = AllocationType::super;
  made.free_lists[static_cast<int>(AllocationType::draw)] = AllocationType::draw;
  made.free_lists[static_cast<int>(AllocationType::gheap)] = AllocationType::draw;
  return made;
}

constexpr DriverClass driver_class = make_class(true);
// For a library that cannot be asked for its functions.
constexpr DriverClass class_without_selections = make_class(false);

}  // namespace
}  // namespace ferry::hdf5

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): HDF5 looks for these names

__attribute__((visibility("default"))) int H5PLget_plugin_type() {
  return ferry::hdf5::plugin_is_driver;
}

__attribute__((visibility("default"))) const void* H5PLget_plugin_info() {
  using namespace ferry::hdf5;
  const bool can_list = FERRY_CALLING_LIBRARY.selection_functions().are_there();
  return can_list ? &driver_class : &class_without_selections;
}
// NOLINTEND(readability-identifier-naming)
}
