#include "base/mounts.hpp"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace ferry {
namespace {

namespace fs = std::filesystem;

// The kernel writes spaces and the like as \040.
std::string unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// "8:1"
dev_t parse_device(const std::string& text) {
  char* end = nullptr;
  const unsigned long first = std::strtoul(text.c_str(), &end, 10);
  const unsigned long second = *end == ':' ? std::strtoul(end + 1, nullptr, 10) : 0;
  return makedev(static_cast<unsigned>(first), static_cast<unsigned>(second));
}

}  // namespace

bool lies_under(const std::string& path, const std::string& point) {
  if (point == "/") return true;
  return path == point || path.rfind(point + "/", 0) == 0;
}

std::string option_of(const Mount& mount, const std::string& name) {
  std::istringstream options(mount.options);
  for (std::string option; std::getline(options, option, ',');) {
    if (option.rfind(name + "=", 0) == 0) return unescape(option.substr(name.size() + 1));
  }
  return "";
}

// The fields: id parent major:minor root point options [field...] - type source super-options.
Mount parse_mount(const std::string& line) {
  std::istringstream words(line);
  Mount mount;
  std::string skip;
  std::string numbers;
  std::string super_options;
  words >> skip >> skip >> numbers >> skip >> mount.point >> mount.options;
  while (words >> skip && skip != "-") {
  }
  words >> mount.type >> mount.source >> super_options;
  mount.device = parse_device(numbers);
  mount.point = unescape(mount.point);
  mount.source = unescape(mount.source);
  std::istringstream more(super_options);
  for (std::string option; std::getline(more, option, ',');) {
    if (("," + mount.options + ",").find("," + option + ",") == std::string::npos) {
      mount.options += "," + option;
    }
  }
  return mount;
}

std::vector<Mount> read_mounts() {
  std::vector<Mount> mounts;
  std::ifstream lines("/proc/self/mountinfo");
  for (std::string line; std::getline(lines, line);)
    mounts.push_back(parse_mount(line));
  return mounts;
}

// The last of the longest mount points above the path: later mounts cover earlier ones.
Mount mount_of(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real) throw std::system_error(errno, std::system_category(), path);
  Mount best;
  for (Mount& mount : read_mounts()) {
    if (lies_under(real.get(), mount.point) && mount.point.size() >= best.point.size()) {
      best = std::move(mount);
    }
  }
  return best;
}

fs::path block_device_folder(dev_t device, const std::string& source) {
  if (major(device) == 0 && source.rfind("/dev/", 0) == 0) {  // btrfs has numbers of its own
    struct stat status {};
    if (::stat(source.c_str(), &status) == 0 && S_ISBLK(status.st_mode)) device = status.st_rdev;
  }
  std::error_code error;
  const fs::path link =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  fs::path folder = fs::canonical(link, error);
  return error ? fs::path() : folder;
}

std::uint64_t block_device_bytes(const fs::path& folder) {
  constexpr std::uint64_t sector_bytes = 512;
  std::uint64_t sectors = 0;
  std::ifstream(folder / "size") >> sectors;
  return sectors * sector_bytes;
}

}  // namespace ferry
