#include "interpose/preloaded.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_call.hpp"

namespace ferry::run {
namespace {

constexpr std::string_view variable = "LD_PRELOAD=";
constexpr std::array<std::string_view, 2> own_names{"libferry_run.so", "libferry_mpiio.so"};
// The beginnings of the names of glibc's loaders, on all processors.
constexpr std::array<std::string_view, 5> glibcs_loaders{"ld-linux", "ld64.so", "ld.so", "ld-lsb",
                                                         "ld-2."};
constexpr unsigned scripts_max = 5;  // that the kernel follows, one the interpreter of the other
constexpr unsigned segments_max = 64;
#if defined(__x86_64__)
constexpr ElfW(Half) own_processor = EM_X86_64;
#elif defined(__aarch64__)
constexpr ElfW(Half) own_processor = EM_AARCH64;
#else
#error "the number of this processor is not written"
#endif

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // all of it where there is no slash
}

// ---- programs ----------------------------------------------------------------------------------

// An open file, by bare system calls.
class Opened {
 public:
  Opened(int folder, const char* path)
      : file_(static_cast<int>(kernel_call(SYS_openat, folder, path,
                                           O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0))) {}
  ~Opened() { kernel_call(SYS_close, file_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  int number() const { return file_; }

 private:
  const int file_;
};

bool read_at(int file, void* to, std::size_t bytes, std::uint64_t offset) {
  return kernel_call(SYS_pread64, file, to, bytes, offset) == static_cast<long>(bytes);
}

// Of a 64-bit ELF file: true if it is linked with another C library. A static program has no
// loader, and passes the variable on.
bool has_other_loader(int file, const ElfW(Ehdr) & header) {
  const unsigned count = std::min<unsigned>(header.e_phnum, segments_max);
  for (unsigned number = 0; number < count; ++number) {
    ElfW(Phdr) segment;
    if (!read_at(file, &segment, sizeof segment, header.e_phoff + number * sizeof segment))
      return false;
    if (segment.p_type != PT_INTERP) continue;
    std::array<char, 256> loader{};
    if (segment.p_filesz >= loader.size() ||
        !read_at(file, loader.data(), segment.p_filesz, segment.p_offset))
      return false;
    return std::none_of(glibcs_loaders.begin(), glibcs_loaders.end(), [&](std::string_view one) {
      return last_part(loader.data()).starts_with(one);
    });
  }
  return false;
}

// What cannot be read or understood is taken for a program of this C library.
bool refuses(int file, unsigned scripts) {
  std::array<char, 256> head{};
  if (kernel_call(SYS_pread64, file, head.data(), head.size() - 1, 0) <= 0) return false;
  if (head[0] == '#' && head[1] == '!' && scripts > 0) {
    char* const interpreter = head.data() + 2 + std::strspn(head.data() + 2, " \t");
    interpreter[std::strcspn(interpreter, " \t\n")] = '\0';
    const Opened opened(AT_FDCWD, interpreter);
    return opened.number() >= 0 && refuses(opened.number(), scripts - 1);
  }
  ElfW(Ehdr) header;
  static_assert(sizeof header < 256);
  std::memcpy(&header, head.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != own_processor) return true;
  return has_other_loader(file, header);
}

bool refuses(int folder, const char* path) {
  const Opened opened(folder, path);
  return opened.number() >= 0 && refuses(opened.number(), scripts_max);
}

// As execvp finds it: the first that may be executed and is no folder.
bool searched_refuses(std::string_view name) {
  const char* const places = std::getenv("PATH");
  std::string_view rest = places != nullptr ? places : "/bin:/usr/bin";
  std::array<char, PATH_MAX> path;
  while (true) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (folder.size() + name.size() + 3 <= path.size()) {
      char* at = std::copy(folder.begin(), folder.end(), path.data());
      if (!folder.empty()) *at++ = '/';
      at = std::copy(name.begin(), name.end(), at);
      at[0] = '/';
      at[1] = '\0';
      const bool is_folder = kernel_call(SYS_faccessat, AT_FDCWD, path.data(), F_OK) == 0;
      at[0] = '\0';
      if (!is_folder && kernel_call(SYS_faccessat, AT_FDCWD, path.data(), X_OK) == 0)
        return refuses(AT_FDCWD, path.data());
    }
    if (folder.size() == rest.size()) return false;
    rest.remove_prefix(folder.size() + 1);
  }
}

bool refuses(const ProgramName& program) {
  if (program.path == nullptr) return refuses(program.folder, scripts_max);
  if (program.is_searched && std::strchr(program.path, '/') == nullptr)
    return searched_refuses(program.path);
  return refuses(program.folder, program.path);
}

// ---- the variable ------------------------------------------------------------------------------

// Calls `take` with each library of the list.
template <class Take>
void for_libraries(std::string_view list, Take take) {
  constexpr std::string_view between = " :";
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find_first_of(between));
    if (!one.empty()) take(one);
    list.remove_prefix(std::min(one.size() + 1, list.size()));
  }
}

bool is_own(std::string_view library) {
  return std::find(own_names.begin(), own_names.end(), last_part(library)) != own_names.end();
}

bool names_this_library(std::string_view entry) {
  if (!entry.starts_with(variable)) return false;
  bool found = false;
  for_libraries(entry.substr(variable.size()),
                [&](std::string_view one) { found = found || is_own(one); });
  return found;
}

}  // namespace

std::size_t bytes_without_this_library(const ProgramName& program, char* const* environment) {
  if (environment == nullptr) return 0;
  std::size_t entries = 0;
  std::size_t text_bytes = 0;
  for (; environment[entries] != nullptr; ++entries)
    if (names_this_library(environment[entries]))
      text_bytes += std::strlen(environment[entries]) + 1;
  if (text_bytes == 0 || !refuses(program)) return 0;
  return (entries + 1) * sizeof(char*) + text_bytes;
}

char* const* without_this_library(char* const* environment, void* memory) {
  char** const copy = static_cast<char**>(memory);
  std::size_t entries = 0;
  while (environment[entries] != nullptr)
    ++entries;
  char* text = reinterpret_cast<char*>(copy + entries + 1);
  char** next = copy;
  for (; *environment != nullptr; ++environment) {
    if (!names_this_library(*environment)) {
      *next++ = *environment;
      continue;
    }
    char* const begin = text;
    text = std::copy(variable.begin(), variable.end(), text);
    bool is_empty = true;
    for_libraries(*environment + variable.size(), [&](std::string_view one) {
      if (is_own(one)) return;
      if (!is_empty) *text++ = ':';
      text = std::copy(one.begin(), one.end(), text);
      is_empty = false;
    });
    *text++ = '\0';
    if (!is_empty) *next++ = begin;
  }
  *next = nullptr;
  return copy;
}

}  // namespace ferry::run
