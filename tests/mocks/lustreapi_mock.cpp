// A mock of liblustreapi and of a Lustre for it. It has the symbols of the real library that Ferry
// calls, and checks no more than that (2.17): what it leaves to its caller or to the servers is
// unchecked here too. The attribute user.ferry.mock.lov holds the layout, in the format of the real
// lustre.lov. The mock file system has four OSTs, the pool "fast" and, for directories without a
// layout, only defaults.
//
// Preloaded into a program, it also makes statfs(2) and fstatfs(2) report Lustre for everything
// below the folder FERRY_MOCK_LUSTRE, and getxattr(2) return lustre.lov there; its read number
// FERRY_MOCK_LUSTRE_FAILS fails.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mocks/lustre_words.hpp"

namespace {

using ferry::test::LustreWords;

namespace fs = std::filesystem;

constexpr std::uint64_t left_to_lustre = 0x1000000000000002;
constexpr std::uint64_t everywhere = left_to_lustre + 1;
constexpr std::uint64_t raid0 = 0;
constexpr std::uint64_t overstriping = 4;
constexpr std::uint32_t osts = 4;
constexpr std::size_t pool_name_max = 15;
constexpr const char* attribute = "user.ferry.mock.lov";
int level = 4;  // of messages, as the real one has it before it is set

struct Component {
  std::uint64_t begin = 0;
  std::uint64_t end = UINT64_MAX;
  std::uint64_t stripe_bytes = left_to_lustre;
  std::uint64_t stripe_count = left_to_lustre;
  std::uint64_t pattern = raid0;
  std::uint64_t first = left_to_lustre;
  std::string pool;
};

int fail(int error) {
  errno = error;
  return -1;
}

// ---- the words of lustre.lov

std::uint16_t count_in_words(std::uint64_t count) {
  if (count == left_to_lustre) return 0;
  return count == everywhere ? 0xffff : static_cast<std::uint16_t>(count);
}

// `in_file`: it has objects, or gets them later, and no word for the requested server.
LustreWords words_of(const Component& one, bool in_file) {
  const std::uint32_t magic = one.pool.empty() ? 0x0BD10BD0 : 0x0BD30BD0;
  const std::uint32_t pattern = one.pattern == overstriping ? 0x201 : 1;
  const std::uint64_t bytes = one.stripe_bytes == left_to_lustre ? 0 : one.stripe_bytes;
  const std::uint64_t server = in_file ? 1 : one.first == left_to_lustre ? 0xffff : one.first;
  LustreWords words =
      ferry::test::stripes(magic, pattern, static_cast<std::uint32_t>(bytes),
                           count_in_words(one.stripe_count), static_cast<std::uint16_t>(server));
  if (!one.pool.empty()) words.add(ferry::test::pool(one.pool));
  if (!in_file || one.begin > 0) return words;
  for (std::uint64_t stripe = 0; stripe < one.stripe_count; ++stripe) {
    const auto on = static_cast<std::uint32_t>((one.first + stripe) % osts);
    words.add(ferry::test::object(on, stripe));
  }
  return words;
}

LustreWords words_of(const std::vector<Component>& components, bool is_composite, bool in_file) {
  if (!is_composite) return words_of(components.front(), in_file);
  std::vector<ferry::test::LustrePiece> pieces;
  for (const Component& one : components) {
    const std::uint32_t flags = in_file && one.begin == 0 ? 0x10 : 0;
    pieces.push_back({one.begin, one.end, words_of(one, in_file), flags});
  }
  return ferry::test::composite(pieces);
}

// What new files in a folder get, if it is not composite.
Component of_folder(const fs::path& folder) {
  Component found;
  char words[56] = {};
  const ssize_t bytes = getxattr(folder.c_str(), attribute, words, sizeof words);
  std::uint32_t magic = 0;
  std::memcpy(&magic, words, sizeof magic);
  if (bytes < 32 || magic == 0x0BD60BD0) return found;
  std::uint32_t stripe_bytes = 0;
  std::uint16_t count = 0;
  std::uint16_t server = 0;
  std::memcpy(&stripe_bytes, words + 24, sizeof stripe_bytes);
  std::memcpy(&count, words + 28, sizeof count);
  std::memcpy(&server, words + 30, sizeof server);
  if (stripe_bytes > 0) found.stripe_bytes = stripe_bytes;
  if (count > 0) found.stripe_count = count == 0xffff ? everywhere : count;
  if (server != 0xffff) found.first = server;
  if (magic == 0x0BD30BD0) found.pool = words + 32;
  return found;
}

// ---- the servers

// Defaults come from the folder, then from the file system. As for a new file, there are never more
// stripes than OSTs unless they may share them, which is reported only if they do. A component that
// does not begin the file gets its servers with the first byte written to it, and until then
// reports its initial values.
Component granted(Component one, const Component& folder) {
  const auto fill = [](std::uint64_t& value, std::uint64_t from_folder, std::uint64_t otherwise) {
    if (value == left_to_lustre) value = from_folder;
    if (value == left_to_lustre) value = otherwise;
  };
  fill(one.stripe_bytes, folder.stripe_bytes, 1 << 20);
  fill(one.stripe_count, folder.stripe_count, 1);
  if (one.pool.empty()) one.pool = folder.pool;
  if (one.begin > 0) return one;
  fill(one.first, folder.first, 0);
  if (one.stripe_count == everywhere) one.stripe_count = osts;
  if (one.stripe_count <= osts) one.pattern = raid0;
  if (one.pattern != overstriping)
    one.stripe_count = std::min<std::uint64_t>(one.stripe_count, osts);
  return one;
}

// The real library's checks of components before it asks the file system.
bool is_sane(const std::vector<Component>& components) {
  std::uint64_t end = 0;
  for (const Component& one : components) {
    const bool has_size = one.stripe_bytes != left_to_lustre;
    const bool is_aligned = one.end == UINT64_MAX || !has_size || one.end % one.stripe_bytes == 0;
    if (one.begin != end || one.begin >= one.end || !is_aligned) return false;
    end = one.end;
  }
  return true;
}

// It prints, and returns -1 with the current errno: it clears the errno of a missing pool.
int insane(int error) {
  if (level > 0) std::fprintf(stderr, "Invalid layout, unrecognized error: -1\n");
  return fail(error);
}

}  // namespace

struct llapi_layout {
  std::vector<Component> components = {Component{}};
  std::size_t current = 0;
  bool is_composite = false;

  Component& now() { return components[current]; }
  const Component& now() const { return components[current]; }
};

extern "C" {

void llapi_msg_set_level(int wanted) {
  level = wanted;
}

llapi_layout* llapi_layout_alloc() {
  return new llapi_layout;
}

void llapi_layout_free(llapi_layout* layout) {
  delete layout;
}

int llapi_layout_stripe_count_set(llapi_layout* layout, std::uint64_t count) {
  if (count != left_to_lustre && count != everywhere && (count == 0 || count > 2000))
    return fail(EINVAL);
  layout->now().stripe_count = count;
  return 0;
}

int llapi_layout_stripe_size_set(llapi_layout* layout, std::uint64_t bytes) {
  if (bytes != left_to_lustre && (bytes == 0 || bytes % 65536 != 0)) return fail(EINVAL);
  layout->now().stripe_bytes = bytes;
  return 0;
}

int llapi_layout_pattern_set(llapi_layout* layout, std::uint64_t pattern) {
  if (pattern != raid0 && pattern != overstriping) return fail(EOPNOTSUPP);
  layout->now().pattern = pattern;
  return 0;
}

// Like the real one: turns no count into 1.
int llapi_layout_ost_index_set(llapi_layout* layout, int stripe, std::uint64_t index) {
  if (stripe != 0) return fail(ENOTSUP);
  layout->now().first = index;
  if (layout->now().stripe_count == left_to_lustre) layout->now().stripe_count = 1;
  return 0;
}

int llapi_layout_pool_name_get(const llapi_layout* layout, char* name, std::size_t bytes) {
  std::snprintf(name, bytes, "%s", layout->now().pool.c_str());
  return 0;
}

int llapi_layout_pool_name_set(llapi_layout* layout, const char* name) {
  if (std::strlen(name) > pool_name_max) return fail(EINVAL);
  layout->now().pool = name;
  return 0;
}

int llapi_layout_comp_extent_set(llapi_layout* layout, std::uint64_t begin, std::uint64_t end) {
  if (begin > end) return fail(EINVAL);
  layout->now().begin = begin;
  layout->now().end = end;
  layout->is_composite = true;
  return 0;
}

// Like Lustre 2.10, whose new component inherits from the current one.
int llapi_layout_comp_add(llapi_layout* layout) {
  layout->components.push_back({.begin = layout->components.back().end,
                                .end = UINT64_MAX - 1,
                                .stripe_bytes = layout->now().stripe_bytes,
                                .stripe_count = layout->now().stripe_count,
                                .pool = layout->now().pool});
  layout->current = layout->components.size() - 1;
  layout->is_composite = true;
  return 0;
}

int llapi_layout_comp_use(llapi_layout* layout, unsigned which) {
  if (which == 1) {
    layout->current = 0;
    return 0;
  }
  if (which != 3) return fail(EINVAL);
  if (layout->current + 1 == layout->components.size()) {
    errno = ENOENT;
    return 1;
  }
  ++layout->current;
  return 0;
}

int llapi_layout_file_open(const char* path, int flags, mode_t mode, const llapi_layout* layout) {
  // Looks for pools only if the current component has one; the servers take any name.
  const bool looks = !layout->now().pool.empty();
  const bool has_all =
      std::all_of(layout->components.begin(), layout->components.end(),
                  [](const Component& one) { return one.pool.empty() || one.pool == "fast"; });
  if (looks && !has_all) return insane(0);
  if (layout->is_composite && !is_sane(layout->components)) return insane(EINVAL);
  const int fd = open(path, flags, mode);
  if (fd < 0) return fd;
  const bool is_file = (flags & O_CREAT) != 0;
  Component folder;
  if (is_file && !layout->is_composite) folder = of_folder(fs::path(path).parent_path());
  int error = 0;
  std::vector<Component> stored = layout->components;
  for (Component& one : stored) {
    if (one.first != left_to_lustre && one.first >= osts) error = ENODEV;
    if (is_file) one = granted(one, folder);
  }
  const std::vector<std::byte> words = words_of(stored, layout->is_composite, is_file).get();
  if (error == 0 && fsetxattr(fd, attribute, words.data(), words.size(), 0) != 0)
    error = errno == ENOTSUP ? ENOTTY : errno;
  if (error == 0) return fd;
  close(fd);  // the file stays, as with the real one
  return fail(error);
}

// ---- of a program that it is preloaded into

static bool is_lustre(const std::string& path) {
  const char* folder = std::getenv("FERRY_MOCK_LUSTRE");
  return folder != nullptr && path.rfind(folder, 0) == 0;
}

// By either name: a program that asks for 64-bit offsets calls the longer one.
static_assert(sizeof(struct statfs) == sizeof(struct statfs64));

int statfs64(const char* path, struct statfs64* system) {
  using Real = int (*)(const char*, struct statfs64*);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "statfs64"));
  const int result = real(path, system);
  if (result == 0 && is_lustre(path)) system->f_type = 0x0BD00BD0;
  return result;
}

int fstatfs64(int fd, struct statfs64* system) {
  using Real = int (*)(int, struct statfs64*);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "fstatfs64"));
  const int result = real(fd, system);
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  char path[4096] = {};
  if (result == 0 && readlink(link, path, sizeof path - 1) > 0 && is_lustre(path))
    system->f_type = 0x0BD00BD0;
  return result;
}

int statfs(const char* path, struct statfs* system) noexcept {
  return statfs64(path, reinterpret_cast<struct statfs64*>(system));
}

int fstatfs(int fd, struct statfs* system) noexcept {
  return fstatfs64(fd, reinterpret_cast<struct statfs64*>(system));
}

ssize_t getxattr(const char* path, const char* name, void* value, size_t bytes) noexcept {
  using Real = ssize_t (*)(const char*, const char*, void*, size_t);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "getxattr"));
  static std::atomic<int> reads{0};
  const bool told = is_lustre(path) && std::strcmp(name, "lustre.lov") == 0;
  const char* fails = std::getenv("FERRY_MOCK_LUSTRE_FAILS");
  if (told && fails != nullptr && ++reads == std::atoi(fails)) return fail(EIO);
  return real(path, told ? attribute : name, value, bytes);
}

}  // extern "C"
