#include "storage/posix/places.hpp"

#include <algorithm>
#include <climits>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "storage/posix/file.hpp"

namespace ferry::storage {
namespace {

constexpr unsigned links_max = 40;  // as in the kernel

// Without links followed. ".." stays: behind a link it leads elsewhere than by its words.
std::string absolute(const char* path) {
  std::string text = path;
  if (text.empty() || text.front() != '/') {
    char folder[PATH_MAX];
    if (::getcwd(folder, sizeof folder) != nullptr) text = std::string(folder) + '/' + text;
  }
  std::string whole;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    if (!name.empty() && name != ".") whole += '/' + name;
    begin = end + 1;
  }
  // The rest after a link at the end of a path stays, too.
  const bool is_folder = text.ends_with('/') || text.ends_with("/.");
  return is_folder || whole.empty() ? whole + '/' : whole;
}

// The part of an absolute path before its first "..".
std::string before_parents(const std::string& path) {
  const std::string ended = path + '/';
  const std::size_t at = ended.find("/../");
  return at == std::string::npos ? path : ended.substr(0, std::max<std::size_t>(at, 1));
}

const Mount* mount_above(const std::vector<Mount>& mounts, const std::string& path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    if (best != nullptr && mount.point.size() < best->point.size()) continue;
    if (lies_under(path, mount.point)) best = &mount;
  }
  return best;
}

// A call on two file systems may wait for either.
Place both(Place one, Place other) {
  constexpr Place odd = 0x9e3779b97f4a7c15;
  return one == other ? one : one * odd + other;
}

bool follows_last_link(const Operation& operation) {
  switch (operation.kind) {
    case Kind::open:
    case Kind::path_status:
    case Kind::set_attributes:
      return (operation.flags & O_NOFOLLOW) == 0;
    case Kind::path_layout:
    case Kind::set_layout:
    case Kind::list_directory:
      return true;
    default:
      return false;
  }
}

}  // namespace

Places::~Places() {
  if (table_ >= 0) ::close(table_);
}

Places::Mounts Places::mounts() {
  const std::lock_guard lock(mutex_);
  if (table_ < 0) table_ = ::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
  pollfd changed{table_, POLLPRI, 0};
  const bool is_old = table_ >= 0 && ::poll(&changed, 1, 0) > 0;
  if (mounts_ == nullptr || is_old)
    mounts_ = std::make_shared<const std::vector<Mount>>(read_mounts());
  return mounts_;
}

Place Places::of(const Operation& operation) {
  if (operation.file != nullptr) return static_cast<const PosixFile*>(operation.file)->place;
  const Mounts known = mounts();
  // Where there are two paths, links are not resolved: only the text of the paths counts.
  const bool by_words = has_new_path(operation.kind);
  const auto place_of = [&](const char* path) -> Place {
    const std::string whole = absolute(path);
    const Mount* mount =
        mount_above(*known, by_words ? std::filesystem::path(whole).lexically_normal().string()
                                     : before_parents(whole));
    return mount == nullptr ? 0 : mount->device;
  };
  const Place place = place_of(operation.path);
  return by_words ? both(place, place_of(operation.new_path)) : place;
}

Place Places::find(const Operation& operation, Place place) {
  if (operation.file != nullptr || has_new_path(operation.kind)) return place;
  return follow(absolute(operation.path), place, follows_last_link(operation));
}

Place Places::follow(const std::string& path, Place place, bool follows_last) {
  const Mounts known = mounts();
  std::string whole;
  const Mount* mount = nullptr;
  std::size_t end = 0;  // no link and no ".." before here
  // From now on this is the rest of the path, of which this much is known. Returns false if it
  // leads elsewhere.
  const auto go_on = [&](const std::string& with, std::size_t resolved) {
    whole = with;
    mount = mount_above(*known, before_parents(whole));
    if (mount == nullptr || mount->device != place) return false;
    end = std::max(resolved, mount->point == "/" ? 0 : mount->point.size());
    return true;
  };
  bool here = go_on(path, 0);
  for (unsigned links = 0; here && end < whole.size() && links < links_max;) {
    const std::size_t next = std::min(whole.find('/', end + 1), whole.size());
    const std::string name = whole.substr(0, next);
    if (name.substr(end) == "/..") {
      const std::size_t parent = end == 0 ? 0 : whole.rfind('/', end - 1);
      const std::string rest = whole.substr(0, parent) + whole.substr(next);
      here = go_on(rest.empty() ? "/" : rest, parent);
      continue;
    }
    end = next;
    if (end >= whole.size() && !follows_last) break;
    char target[PATH_MAX];
    const ssize_t bytes = ::readlink(name.c_str(), target, sizeof target);
    if (bytes <= 0) continue;
    ++links;
    const std::string to(target, static_cast<std::size_t>(bytes));
    const std::string from = to.front() == '/' ? "" : name.substr(0, name.rfind('/') + 1);
    here = go_on(absolute((from + to + whole.substr(end)).c_str()), 0);
  }
  return here || mount == nullptr ? place : mount->device;
}

}  // namespace ferry::storage
