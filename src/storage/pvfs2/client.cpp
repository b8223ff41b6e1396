#include "storage/pvfs2/client.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/mounts.hpp"

namespace ferry::storage {
namespace {

constexpr int other_error_bit = 1 << 29;  // PVFS_NON_ERRNO_ERROR_BIT
constexpr auto credential_life = std::chrono::minutes(30);
constexpr unsigned credential_life_s = 3600;

// The library's own errors besides the system's, by their numbers in pvfs2-types.h.
int errno_of_other(int number) {
  switch (number) {
    case 1:  // PVFS_ECANCEL
      return ECANCELED;
    case 4:  // PVFS_EHOSTNTFD
    case 5:  // PVFS_EADDRNTFD
    case 6:  // PVFS_ENORECVR
      return EHOSTUNREACH;
    case 7:  // PVFS_ETRYAGAIN
      return EAGAIN;
    case 9:  // PVFS_ESECURITY
      return EACCES;
    default:
      return EIO;
  }
}

struct Known {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Pvfs2Client>> clients;
};

// Without . and .. and slashes at the end.
std::string normal(const std::string& path) {
  std::string text = std::filesystem::path(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/')
    text.pop_back();
  return text;
}

std::string table_name(const std::string& given) {
  if (!given.empty()) return given;
  const char* named = std::getenv("PVFS2TAB_FILE");
  return named != nullptr ? named : "/etc/fstab or /etc/pvfs2tab";
}

}  // namespace

OwnerProcess& Pvfs2Client::owner() {
  static constinit OwnerProcess process;
  return process;
}

Pvfs2Client& Pvfs2Client::of(const std::string& library) {
  auto& known = of_this_process<Known>();
  const std::lock_guard lock(known.mutex);
  std::unique_ptr<Pvfs2Client>& client = known.clients[library];
  if (client == nullptr) client = std::make_unique<Pvfs2Client>(library);
  return *client;
}

int Pvfs2Client::errno_result(int result) const {
  if (result >= 0) return result;
  const int error = -result;
  if ((error & other_error_bit) != 0) return -errno_of_other(error & 0x7f);
  const int known = library_->errno_of(error);
  return known > 0 && known < 4096 ? -known : -EIO;
}

const Pvfs2Library& Pvfs2Client::ready() {
  if (library_ != nullptr) return *library_;
  auto library = std::make_unique<const Pvfs2Library>(library_name_);
  owner().claim();
  if (library->initialize(0) < 0) {
    throw Unavailable(EIO, library_name_ +
                               " cannot be initialised; see that its configuration "
                               "(PVFS2TAB_FILE, keys) is right");
  }
  library->be_quiet();
  // Other clients' changes are visible immediately.
  library->set_info(pvfs2::attribute_cache_timeout, 0);
  library->set_info(pvfs2::name_cache_timeout, 0);
  library_ = std::move(library);
  return *library_;
}

const pvfs2::Table& Pvfs2Client::table(const std::string& name) {
  const pvfs2::Table*& found = tables_[name];
  if (found == nullptr) found = ready().parse_table(name.empty() ? nullptr : name.c_str());
  if (found == nullptr || found->count == 0) {
    found = nullptr;
    throw Unavailable(ENOENT, "no PVFS2 file system is listed in " + table_name(name) +
                                  "; name the file by tab= or PVFS2TAB_FILE, with lines like "
                                  "tcp://server:3334/orangefs /mnt/orangefs pvfs2 defaults 0 0");
  }
  return *found;
}

void Pvfs2Client::connect(pvfs2::Pvfs2Mount& mount) {
  if (mount.file_system != 0) return;
  int error = errno_result(library_->fs_add(&mount));
  library_->be_quiet();  // reading them may have re-enabled its messages
  if (error == 0 || error == -EEXIST) return;
  // The library's word for servers that do not say how they are configured.
  if (error == -ENOPROTOOPT) error = -EHOSTDOWN;
  const std::string server = mount.server_count > 0 ? mount.servers[0] : "?";
  throw Unavailable(-error, "the PVFS2 server " + server + " cannot be used (" +
                                std::strerror(-error) + "); see that it runs and serves " +
                                mount.name);
}

Pvfs2Place Pvfs2Client::place_of(const Pvfs2Address& address, const std::string& path) {
  const std::lock_guard lock(mutex_);
  ready();
  const pvfs2::Table& mounts = table(address.table);
  const std::string whole = normal(path);
  pvfs2::Pvfs2Mount* best = nullptr;
  std::string best_folder;
  for (std::int32_t i = 0; i < mounts.count; ++i) {
    const std::string folder = normal(mounts.mounts[i].folder);
    if (!lies_under(whole, folder) || (best != nullptr && folder.size() < best_folder.size()))
      continue;
    best = &mounts.mounts[i];
    best_folder = folder;
  }
  if (best == nullptr) {
    throw Unavailable(ENOENT, whole + " is under no folder that is listed in " +
                                  table_name(address.table) + "; the first one is " +
                                  mounts.mounts[0].folder);
  }
  connect(*best);
  Pvfs2Place place;
  place.file_system = best->file_system;
  place.path = whole.substr(best_folder == "/" ? 0 : best_folder.size());
  if (place.path.empty()) place.path = "/";
  place.source = std::string(best->name) + " of " +
                 (best->server_count > 0 ? best->servers[0] : "?") + ", listed as " + best_folder;
  return place;
}

const pvfs2::Credential* Pvfs2Client::credential(const Pvfs2Address& address) {
  const auto now = std::chrono::steady_clock::now();
  Owned& owned = credentials_[{address.uid, address.gid}];
  if (now >= owned.until) {
    // The library has no public function to free one, so an old one stays: some hundred bytes each
    // half hour.
    const std::string user = std::to_string(address.uid);
    const std::string group = std::to_string(address.gid);
    const int error = errno_result(library_->generate_credential(
        user.c_str(), group.c_str(), credential_life_s, nullptr, nullptr, &owned.credential));
    if (error < 0) {
      throw Unavailable(-error, "no PVFS2 credential for user " + user + " (" +
                                    std::strerror(-error) +
                                    "); see the key that PVFS2KEY_FILE names");
    }
    owned.until = now + credential_life;
  }
  return &owned.credential;
}

}  // namespace ferry::storage
