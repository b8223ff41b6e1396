// A mock of liblustreapi, and of a Lustre for it: no Lustre is behind it. It has the symbols of the
// real library that Ferry calls, and keeps the layout of a file or directory in the attribute
// user.ferry.mock.lustre of that file, one line for each component:
//   begin end stripe_bytes stripe_count pattern first_ost pool
// with - for a pool that is none. The mock file system has four OSTs and the pool "fast".
//
// Preloaded into a program, it also makes statfs(2), as programs with 64-bit offsets call it, say
// that everything under the folder FERRY_MOCK_LUSTRE is Lustre.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t left_to_lustre = 0x1000000000000002;
constexpr std::uint64_t everywhere = left_to_lustre + 1;
constexpr std::uint64_t overstriping = 4;
constexpr std::uint64_t osts = 4;
constexpr const char* attribute = "user.ferry.mock.lustre";

struct Component {
  std::uint64_t begin = 0;
  std::uint64_t end = UINT64_MAX;
  std::uint64_t stripe_bytes = left_to_lustre;
  std::uint64_t stripe_count = left_to_lustre;
  std::uint64_t pattern = 0;
  std::uint64_t first = left_to_lustre;
  std::string pool = "-";
};

int fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

struct llapi_layout {
  std::vector<Component> components = {Component{}};
  std::size_t current = 0;
  bool has_objects = false;
  bool is_composite = false;

  Component& now() { return components[current]; }
  const Component& now() const { return components[current]; }
};

namespace {

// False: it has none.
bool load(const fs::path& path, llapi_layout& layout) {
  char text[4096] = {};
  const ssize_t bytes = getxattr(path.c_str(), attribute, text, sizeof text - 1);
  if (bytes < 0) return false;
  std::istringstream lines(text);
  layout.components.clear();
  for (Component one; lines >> one.begin >> one.end >> one.stripe_bytes >> one.stripe_count >>
                      one.pattern >> one.first >> one.pool;)
    layout.components.push_back(one);
  return !layout.components.empty();
}

bool store(int fd, const llapi_layout& layout) {
  std::ostringstream text;
  for (const Component& one : layout.components) {
    text << one.begin << ' ' << one.end << ' ' << one.stripe_bytes << ' ' << one.stripe_count << ' '
         << one.pattern << ' ' << one.first << ' ' << one.pool << '\n';
  }
  return fsetxattr(fd, attribute, text.str().data(), text.str().size(), 0) == 0;
}

// What the real library finds wrong with components before it asks the file system.
bool is_sane(const llapi_layout& layout) {
  std::uint64_t end = 0;
  for (const Component& one : layout.components) {
    const bool has_size = one.stripe_bytes != left_to_lustre;
    const bool is_aligned = one.end == UINT64_MAX || !has_size || one.end % one.stripe_bytes == 0;
    if (one.begin != end || one.begin >= one.end || !is_aligned) return false;
    end = one.end;
  }
  return true;
}

// What is left to Lustre is taken from the folder, then from the file system; as for a new file,
// there are never more stripes than OSTs unless they may share them. A component that does not
// begin the file gets its servers with the first byte that is written to it, and says until then
// what it was made with.
Component granted(Component one, const Component& of_folder) {
  const auto fill = [](std::uint64_t& value, std::uint64_t folder, std::uint64_t otherwise) {
    if (value == left_to_lustre) value = folder;
    if (value == left_to_lustre) value = otherwise;
  };
  fill(one.stripe_bytes, of_folder.stripe_bytes, 1 << 20);
  fill(one.stripe_count, of_folder.stripe_count, 1);
  if (one.pool == "-") one.pool = of_folder.pool;
  if (one.begin > 0) return one;
  fill(one.first, of_folder.first, 0);
  if (one.stripe_count == everywhere) one.stripe_count = osts;
  if (one.pattern != overstriping) one.stripe_count = std::min(one.stripe_count, osts);
  return one;
}

}  // namespace

extern "C" {

llapi_layout* llapi_layout_alloc() {
  return new llapi_layout;
}

void llapi_layout_free(llapi_layout* layout) {
  delete layout;
}

llapi_layout* llapi_layout_get_by_path(const char* path, unsigned flags) {
  struct stat status {};
  if (stat(path, &status) != 0) return nullptr;
  auto* layout = new llapi_layout;
  layout->has_objects = S_ISREG(status.st_mode);
  const bool has_one = load(path, *layout);
  if (S_ISDIR(status.st_mode) && (flags & 1) != 0 && !has_one)
    layout->now() = granted(Component{}, Component{});
  return layout;
}

int llapi_layout_stripe_count_get(const llapi_layout* layout, std::uint64_t* count) {
  *count = layout->now().stripe_count;
  return 0;
}

int llapi_layout_stripe_count_set(llapi_layout* layout, std::uint64_t count) {
  if (count != left_to_lustre && count != everywhere && (count == 0 || count > 2000))
    return fail(EINVAL);
  layout->now().stripe_count = count;
  return 0;
}

int llapi_layout_stripe_size_get(const llapi_layout* layout, std::uint64_t* bytes) {
  *bytes = layout->now().stripe_bytes;
  return 0;
}

int llapi_layout_stripe_size_set(llapi_layout* layout, std::uint64_t bytes) {
  if (bytes != left_to_lustre && (bytes == 0 || bytes % 65536 != 0)) return fail(EINVAL);
  layout->now().stripe_bytes = bytes;
  return 0;
}

int llapi_layout_pattern_get(const llapi_layout* layout, std::uint64_t* pattern) {
  *pattern = layout->now().pattern;
  return 0;
}

int llapi_layout_pattern_set(llapi_layout* layout, std::uint64_t pattern) {
  if (pattern != 0 && pattern != overstriping) return fail(EOPNOTSUPP);
  layout->now().pattern = pattern;
  return 0;
}

int llapi_layout_ost_index_get(const llapi_layout* layout, std::uint64_t stripe,
                               std::uint64_t* index) {
  const Component& one = layout->now();
  const bool has_servers = layout->has_objects && one.first != left_to_lustre;
  if (!has_servers || stripe >= one.stripe_count) return fail(EINVAL);
  *index = (layout->now().first + stripe) % osts;
  return 0;
}

int llapi_layout_ost_index_set(llapi_layout* layout, int stripe, std::uint64_t index) {
  if (stripe != 0) return fail(ENOTSUP);
  layout->now().first = index;
  return 0;
}

int llapi_layout_pool_name_get(const llapi_layout* layout, char* name, std::size_t bytes) {
  const std::string pool = layout->now().pool == "-" ? "" : layout->now().pool;
  if (pool.size() >= bytes) return fail(EINVAL);
  std::strcpy(name, pool.c_str());
  return static_cast<int>(pool.size());
}

int llapi_layout_pool_name_set(llapi_layout* layout, const char* name) {
  if (std::strlen(name) > 15) return fail(EINVAL);
  layout->now().pool = *name == '\0' ? "-" : name;
  return 0;
}

int llapi_layout_comp_extent_get(const llapi_layout* layout, std::uint64_t* begin,
                                 std::uint64_t* end) {
  *begin = layout->now().begin;
  *end = layout->now().end;
  return 0;
}

// As the real one: extents follow each other.
int llapi_layout_comp_extent_set(llapi_layout* layout, std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return fail(EINVAL);
  const std::size_t at = layout->current;
  if (at > 0 && layout->components[at - 1].end != begin) return fail(EINVAL);
  const bool is_last = at + 1 == layout->components.size();
  if (!is_last && layout->components[at + 1].begin != end) return fail(EINVAL);
  layout->now().begin = begin;
  layout->now().end = end;
  layout->is_composite = true;
  return 0;
}

// As that of Lustre 2.10, which has the new component inherit from the current one.
int llapi_layout_comp_add(llapi_layout* layout) {
  const std::uint64_t last_end = layout->components.back().end;
  if (last_end == UINT64_MAX) return fail(EINVAL);
  Component added;
  added.begin = last_end;
  added.stripe_bytes = layout->now().stripe_bytes;
  added.stripe_count = layout->now().stripe_count;
  added.pool = layout->now().pool;
  layout->components.push_back(added);
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
  if (layout->is_composite && !is_sane(*layout)) return fail(EINVAL);
  const int fd = open(path, flags, mode);
  if (fd < 0) return fd;
  llapi_layout stored = *layout;
  llapi_layout of_folder;
  const bool is_file = (flags & O_CREAT) != 0;
  if (is_file && !layout->is_composite) load(fs::path(path).parent_path(), of_folder);
  int error = 0;
  for (Component& one : stored.components) {
    if (one.pool != "-" && one.pool != "fast") error = EINVAL;
    if (one.first != left_to_lustre && one.first >= osts) error = ENODEV;
    if (is_file) one = granted(one, of_folder.now());
  }
  if (error == 0 && !store(fd, stored)) error = errno == ENOTSUP ? ENOTTY : errno;
  if (error == 0) return fd;
  close(fd);  // the file stays, as with the real one
  return fail(error);
}

// What a program calls whose offsets have 64 bits; the two differ in name alone.
int statfs64(const char* path, struct statfs64* system) {
  using Real = int (*)(const char*, struct statfs64*);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "statfs64"));
  const int result = real(path, system);
  const char* folder = std::getenv("FERRY_MOCK_LUSTRE");
  if (result == 0 && folder != nullptr && std::string(path).rfind(folder, 0) == 0)
    system->f_type = 0x0BD00BD0;
  return result;
}

}  // extern "C"
