#include "runtime/tuning.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cpus.hpp"
#include "base/machine.hpp"

namespace ferry {
namespace {

constexpr const char* device_name = "cpu";
constexpr std::uint32_t page_bytes_default = 64 * 1024;
// With fewer pages the cache would differ from the one that the profile measured.
constexpr std::uint64_t pages_min = 64;
constexpr const char* measure_hint = "; ferry tune measures one";

// As FileStatus::device counts them.
std::uint64_t to_status_device(dev_t device) {
  return (std::uint64_t{major(device)} << 32) | minor(device);
}

// Every subvolume of btrfs has its own number, which only its files reveal.
std::uint64_t device_of(const Mount& mount) {
  struct stat status {};
  if (mount.type == "btrfs" && ::stat(mount.point.c_str(), &status) == 0) {
    return to_status_device(status.st_dev);
  }
  return to_status_device(mount.device);
}

// Why a profile is not for this machine; empty if it is.
std::string other_machine(const Profile& profile, const Surroundings& here) {
  if (profile.cpu_model != here.cpu_model) {
    return "measured on another machine, with a processor \"" + profile.cpu_model +
           "\"; this one has \"" + here.cpu_model + "\"" + measure_hint;
  }
  if (profile.cpus_usable != here.cpus_usable) {
    return "measured with " + std::to_string(profile.cpus_usable) +
           " usable CPUs; this process has " + std::to_string(here.cpus_usable);
  }
  return "";
}

class Choice {
 public:
  Choice(const RuntimeOptions& options, const std::string& path, const Surroundings& here)
      : here_(here) {
    made_.options = options;
    made_.profile.path = path;
    if (!here.storage.type.empty()) {
      storage_ = storage_name(here.storage);
      made_.profile.storage = describe(*storage_);
    }
  }

  void take(const Profile& profile) {
    made_.profile.why = other_machine(profile, here_);
    if (!made_.profile.why.empty()) return;
    const StorageProfile* main = nullptr;
    for (const StorageProfile& entry : profile.storages) {
      if (entry.device != device_name) continue;
      if (main == nullptr && storage_ && is_same_storage(entry.name, *storage_)) main = &entry;
      add(entry);
    }
    if (main != nullptr) {
      apply(*main);
    } else {
      made_.profile.why = "measured for other storages than " +
                          (storage_ ? describe(*storage_) : made_.options.storage_path) +
                          "; ferry tune measures it";
    }
  }

  void refuse(const std::string& why) {
    made_.profile.why = why;
    made_.notes.push_back("the profile " + made_.profile.path + " is not used: " + why);
  }
  void say(const std::string& why) { made_.profile.why = why; }

  Tuning finish() {
    RuntimeOptions& options = made_.options;
    const bool given = options.crossovers.has_value();
    made_.crossovers_source = given ? "options" : made_.profile.applies ? "profile" : "built-in";
    if (options.page_bytes == 0) options.page_bytes = page_bytes_default;
    for (device::StorageTuning& tuning : made_.tunings.list) {
      if (given) tuning.crossovers = *options.crossovers;
      if (options.readahead_bytes_max) tuning.readahead_bytes_max = *options.readahead_bytes_max;
    }
    return std::move(made_);
  }

 private:
  // For the files that lie on it.
  void add(const StorageProfile& entry) {
    device::StorageTunings& tunings = made_.tunings;
    bool found = false;
    for (const Mount& mount : here_.mounts) {
      // Looks up its block device only if it may be the one.
      if (mount.type != entry.name.file_system) continue;
      if (!is_same_storage(entry.name, storage_name(mount))) continue;
      found = true;
      const std::uint64_t device = device_of(mount);
      if (tunings.find(device) != 0 || tunings.count == device::StorageTunings::count_max) continue;
      device::StorageTuning& tuning = tunings.list[tunings.count++];
      tuning.device = device;
      tuning.crossovers = entry.crossovers;
      if (entry.readahead_bytes) tuning.readahead_bytes_max = *entry.readahead_bytes;
    }
    if (found) made_.profile.storages.push_back(describe(entry.name));
  }

  // What holds for a runtime as a whole.
  void apply(const StorageProfile& entry) {
    RuntimeOptions& options = made_.options;
    made_.profile.applies = true;
    made_.profile.why = "measured " + entry.measured + " on " + describe(entry.name);
    made_.queue_depth = entry.queue_depth.value_or(0);
    made_.main_index = made_.tunings.find(device_of(here_.storage));
    if (options.page_bytes == 0 && entry.page_bytes) {
      if (options.cache_bytes == 0 || options.cache_bytes / *entry.page_bytes >= pages_min) {
        options.page_bytes = *entry.page_bytes;
      } else {
        made_.profile.why += "; its page size is too large for a cache of " +
                             std::to_string(options.cache_bytes) + " bytes";
      }
    }
    const bool fits = options.rings == 0 || options.rings >= entry.server_threads.value_or(0);
    if (options.server_threads == 0 && entry.server_threads && fits)
      options.server_threads = *entry.server_threads;
  }

  const Surroundings& here_;
  std::optional<StorageName> storage_;
  Tuning made_;
};

// 0, or the errno. Only for regular files: a FIFO would block.
int read_file(const std::string& path, std::string& text) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EINVAL;
  errno = 0;
  std::ifstream file(path);
  if (!file) return errno != 0 ? errno : EIO;
  text.resize(static_cast<std::size_t>(status.st_size));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return file.bad() ? EIO : 0;
}

Surroundings look_around(const RuntimeOptions& options) {
  Surroundings here{cpu_model(), usable_cpus(), read_mounts(), {}};
  try {
    here.storage = mount_of(options.storage_path.empty() ? "." : options.storage_path);
  } catch (const std::system_error&) {
    // The path does not exist: no storage is selected.
  }
  return here;
}

}  // namespace

std::string profile_path() {
  // Read once, while the runtime is made; setenv(3) itself forbids changing it meanwhile.
  if (const char* path = std::getenv("FERRY_PROFILE")) return path;
  const char* folder = std::getenv("XDG_CONFIG_HOME");
  if (folder != nullptr && *folder == '/') return std::string(folder) + "/ferry/profile.toml";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.config/ferry/profile.toml";
}

Tuning tune(const RuntimeOptions& options, const std::string& path, const std::string& text,
            const Surroundings& here) {
  Choice choice(options, path, here);
  try {
    choice.take(parse_profile(text));
  } catch (const ProfileError& error) {
    choice.refuse(error.what() + std::string("; mend it, or have ferry tune write a new one"));
  }
  return choice.finish();
}

Tuning tune(const RuntimeOptions& options) {
  const std::string path = options.use_profile ? profile_path() : "";
  const Surroundings nowhere;
  Choice without(options, path, nowhere);
  if (!options.use_profile) {
    without.say("profiles are not wanted (RuntimeOptions::use_profile)");
    return without.finish();
  }
  if (path.empty()) {
    without.say("profiles are not wanted (FERRY_PROFILE is empty, or there is no home folder)");
    return without.finish();
  }
  std::string text;
  const int error = read_file(path, text);
  if (error == 0) return tune(options, path, text, look_around(options));
  if (error == ENOENT || error == ENOTDIR) {
    without.say(std::string("there is none") + measure_hint);
  } else {
    without.refuse(std::string("it cannot be read: ") + std::strerror(error));
  }
  return without.finish();
}

std::optional<StorageProfile> profile_of(const std::string& path) {
  const std::string where = profile_path();
  std::string text;
  if (where.empty() || read_file(where, text) != 0) return std::nullopt;
  try {
    const Profile profile = parse_profile(text);
    if (!other_machine(profile, {cpu_model(), usable_cpus(), {}, {}}).empty()) return std::nullopt;
    const std::filesystem::path file = std::filesystem::absolute(path);
    const StorageName here = storage_name(
        mount_of(std::filesystem::exists(file) ? file.string() : file.parent_path().string()));
    for (const StorageProfile& entry : profile.storages)
      if (entry.device == device_name && is_same_storage(entry.name, here)) return entry;
  } catch (const ProfileError&) {
    // Making a runtime reports it, and so does ferry info.
  } catch (const std::system_error&) {
    // It does not exist: opening the file will report that.
  }
  return std::nullopt;
}

}  // namespace ferry
