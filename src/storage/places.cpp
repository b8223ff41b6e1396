#include "storage/places.hpp"

#include <algorithm>
#include <climits>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "storage/posix_file.hpp"

namespace ferry::storage {
namespace {

constexpr unsigned links_max = 40;  // as in the kernel

// Without links followed.
std::string absolute(const char* path) {
  std::string text = path;
  if (text.empty() || text.front() != '/') {
    char folder[PATH_MAX];
    if (::getcwd(folder, sizeof folder) != nullptr) text = std::string(folder) + '/' + text;
  }
  return std::filesystem::path(text).lexically_normal().string();
}

const Mount* mount_above(const std::vector<Mount>& mounts, const std::string& path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    if (best != nullptr && mount.point.size() < best->point.size()) continue;
    if (lies_under(path, mount.point)) best = &mount;
  }
  return best;
}

// A call that goes to two file systems may wait for either.
Place both(Place one, Place other) {
  constexpr Place odd = 0x9e3779b97f4a7c15;
  return one == other ? one : one * odd + other;
}

bool follows_last_link(const Operation& operation) {
  switch (operation.kind) {
    case Kind::open:
      return (operation.flags & O_NOFOLLOW) == 0;
    case Kind::path_status:
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
  const auto place_of = [&](const char* path) -> Place {
    const Mount* mount = mount_above(*known, absolute(path));
    return mount == nullptr ? 0 : mount->device;
  };
  const Place place = place_of(operation.path);
  return operation.kind == Kind::rename ? both(place, place_of(operation.new_path)) : place;
}

Place Places::find(const Operation& operation, Place place) {
  if (operation.file != nullptr || operation.kind == Kind::rename) return place;
  return follow(absolute(operation.path), place, follows_last_link(operation));
}

Place Places::follow(const std::string& path, Place place, bool follows_last) {
  const Mounts known = mounts();
  std::string whole = path;
  unsigned links = 0;
  const Mount* mount = mount_above(*known, whole);
  std::size_t end = mount == nullptr ? whole.size() : mount->point.size();
  while (end < whole.size() && links < links_max) {
    end = std::min(whole.find('/', end + 1), whole.size());
    if (end >= whole.size() && !follows_last) break;
    char target[PATH_MAX];
    const std::string link = whole.substr(0, end);
    const ssize_t bytes = ::readlink(link.c_str(), target, sizeof target);
    if (bytes <= 0) continue;
    ++links;
    const std::string to(target, static_cast<std::size_t>(bytes));
    std::string next = to.front() == '/' ? to : link.substr(0, link.rfind('/') + 1) + to;
    next += whole.substr(end);
    whole = absolute(next.c_str());
    mount = mount_above(*known, whole);
    if (mount == nullptr || mount->device != place) return mount == nullptr ? place : mount->device;
    end = mount->point.size();
  }
  return place;
}

}  // namespace ferry::storage
