// A mock of libpvfs2. It has the symbols of the real library that Ferry calls, and keeps files in a
// local folder, so that tests can look at them; this line of a table mounts it:
//   mock:/the/folder /mnt/mock pvfs2 defaults 0 0
// As with the real one, a removed file is gone, times have seconds, and permissions are checked for
// the credential's user. Attributes of the files (user.ferry.mock.*) hold layouts. The mock file
// system has four servers.
//
// mock_pvfs2_fail() and mock_hang() make it fail and hang, or in another process
// FERRY_MOCK_PVFS2_FAIL=FUNCTION:ERRNO.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mocks/faults.hpp"
#include "storage/pvfs2/abi.hpp"

namespace pvfs2 = ferry::storage::pvfs2;

struct pvfs2::Request {
  std::int64_t bytes = 1;
};

namespace {

constexpr int error_bit = 1 << 30;
constexpr std::int32_t servers = 4;
constexpr std::int32_t first_number = 77;  // of file systems
constexpr std::size_t allocation_header_bytes = 32;
constexpr const char* stuffed_name = "user.ferry.mock.stuffed";
const std::string settings_prefix = "strip_size:";

// The numbers that the real library gives to errors of the system, from 1 on.
constexpr std::array errors = {EPERM,   ENOENT,       EINTR,  EIO,    ENXIO,     EBADF,   EAGAIN,
                               ENOMEM,  EFAULT,       EBUSY,  EEXIST, ENODEV,    ENOTDIR, EISDIR,
                               EINVAL,  EMFILE,       EFBIG,  ENOSPC, EROFS,     EMLINK,  EPIPE,
                               EDEADLK, ENAMETOOLONG, ENOLCK, ENOSYS, ENOTEMPTY, ELOOP};

// And those of further ones.
constexpr std::array<std::pair<int, int>, 5> further_errors = {
    {{33, ENODATA}, {58, EACCES}, {53, ETIMEDOUT}, {54, ECONNREFUSED}, {44, ENOPROTOOPT}}};

int pvfs2_error(int number) {
  for (const auto& [ours, error] : further_errors)
    if (error == number) return -(ours | error_bit);
  const auto* found = std::find(errors.begin(), errors.end(), number);
  if (found == errors.end()) return -(4 | error_bit);
  return -static_cast<int>((found - errors.begin() + 1) | error_bit);
}

// Faults for the tests.
struct Faults {
  std::mutex mutex;
  std::string failing;
  int error = 0;
  std::string listed;
  std::int64_t room_bytes = std::int64_t{1} << 38;  // of the fullest server
};

FILE*& messages() {
  static FILE* file = nullptr;  // standard error
  return file;
}

void complain(const std::string& function, int error) {
  std::fprintf(messages() != nullptr ? messages() : stderr, "[E] %s: %d\n", function.c_str(),
               error);
}

Faults& faults() {
  static auto& all = *new Faults;
  return all;
}

// An error of PVFS2, or 0.
int fault_of(const std::string& function) {
  if (const char* told = std::getenv("FERRY_MOCK_PVFS2_FAIL"); told != nullptr) {
    const std::string text = told;
    if (text.substr(0, text.find(':')) == function)
      return pvfs2_error(std::atoi(text.substr(text.find(':') + 1).c_str()));
  }
  const std::lock_guard lock(faults().mutex);
  if (faults().failing != function) return 0;
  complain(function, faults().error);
  return pvfs2_error(faults().error);
}

// Folders by file system number, and open descriptors by handle, which is the inode.
struct State {
  std::mutex mutex;
  std::vector<std::string> folders;
  std::map<std::string, pvfs2::Table> tables;
  std::map<std::uint64_t, int> known;
};

State& state() {
  static auto& all = *new State;
  return all;
}

// Everything until the end runs as that user.
class As {
 public:
  explicit As(const pvfs2::Credential* who) : As(who->user, who->groups[0]) {}
  As(uid_t user, gid_t group) : user_(setfsuid(geteuid())), group_(setfsgid(group)) {
    setfsuid(user);
  }
  ~As() {
    setfsuid(geteuid());
    setfsgid(static_cast<gid_t>(group_));
    setfsuid(static_cast<uid_t>(user_));
  }
  As(const As&) = delete;
  As& operator=(const As&) = delete;

 private:
  int user_;
  int group_;
};

// Takes the descriptor.
int know(int fd, std::int32_t file_system, pvfs2::Reference* reference) {
  if (fd < 0) return pvfs2_error(errno);
  struct stat status {};
  fstat(fd, &status);
  const std::lock_guard lock(state().mutex);
  const bool is_new = state().known.emplace(status.st_ino, fd).second;
  if (!is_new) close(fd);
  reference->handle = status.st_ino;
  reference->file_system = file_system;
  return 0;
}

// For a file that still has a name; -1 with errno.
int descriptor(const pvfs2::Reference& reference) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().known.find(reference.handle);
  struct stat status {};
  if (found == state().known.end() || fstat(found->second, &status) != 0 || status.st_nlink == 0) {
    errno = ENOENT;
    return -1;
  }
  return found->second;
}

std::string path_of(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

int reopen(const pvfs2::Reference& reference, int flags) {
  const int fd = descriptor(reference);
  const As servers_own(geteuid(), getegid());
  return fd < 0 ? -1 : open(path_of(fd).c_str(), flags | O_CLOEXEC);
}

// As servers do before they answer: a crash of the machine loses nothing.
void store(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

// As that user; -1 with errno.
int open_as(const pvfs2::Credential* who, const std::string& path, int flags) {
  const As user(who);
  return open(path.c_str(), flags | O_CLOEXEC, 0600);
}

// The servers check a file's mode at each transfer.
bool may(const pvfs2::Reference& reference, const pvfs2::Credential* who, unsigned wanted) {
  const int fd = descriptor(reference);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0 || who->user == 0) return true;
  const unsigned shift = who->user == status.st_uid ? 6 : who->groups[0] == status.st_gid ? 3 : 0;
  return ((status.st_mode >> shift) & wanted) == wanted;
}

std::string attribute(int fd, const std::string& name) {
  char text[256] = {};
  const ssize_t bytes = getxattr(path_of(fd).c_str(), name.c_str(), text, sizeof text);
  return bytes > 0 ? std::string(text, static_cast<std::size_t>(bytes)) : "";
}

// Like the real one, a new file is on one server until it has grown past its first strip.
void unstuff(int fd) {
  std::int64_t strip_bytes = 65536;
  const std::string text = attribute(fd, "user.ferry.mock.bytes");
  if (text.size() == sizeof strip_bytes) std::memcpy(&strip_bytes, text.data(), text.size());
  struct stat status {};
  if (fstat(fd, &status) == 0 && status.st_size > strip_bytes) fremovexattr(fd, stuffed_name);
}

// The real one's defaults from a new file's folder.
std::int64_t hint(int folder, const std::string& name, const std::string& prefix) {
  const std::string text = attribute(folder, "user.ferry.mock." + name);
  return text.rfind(prefix, 0) == 0 ? std::atoll(text.c_str() + prefix.size()) : 0;
}

}  // namespace

struct pvfs2::ServerOrder {};

extern "C" {

pvfs2::Request mock_byte;
pvfs2::Request* PVFS_BYTE = nullptr;  // as with the real one, until it is initialised

// From now on `function` ("PVFS_sys_io" and the like), and no other, returns that system error.
void mock_pvfs2_fail(const char* function, int error) {
  const std::lock_guard lock(faults().mutex);
  faults().failing = function;
  faults().error = error;
}

// The name of every entry in listings; "": the real ones.
void mock_pvfs2_list(const char* name) {
  const std::lock_guard lock(faults().mutex);
  faults().listed = name;
}

// Sets the fullest server's free space.
void mock_pvfs2_room(std::int64_t bytes) {
  const std::lock_guard lock(faults().mutex);
  faults().room_bytes = bytes;
}

const pvfs2::Table* PVFS_util_parse_pvfstab(const char* file) {
  const char* name = file != nullptr ? file : std::getenv("PVFS2TAB_FILE");
  if (name == nullptr) return nullptr;
  const std::lock_guard lock(state().mutex);
  if (state().tables.count(name) != 0) return &state().tables[name];
  std::ifstream lines(name);
  std::vector<pvfs2::Pvfs2Mount> mounts;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string server;
    std::string folder;
    std::string kind;
    if (!(words >> server >> folder >> kind) || kind != "pvfs2") continue;
    pvfs2::Pvfs2Mount mount;
    mount.servers = new char* [1] { strdup(server.c_str()) };
    mount.server_count = 1;
    mount.name = strdup("mock");
    mount.folder = strdup(folder.c_str());
    mounts.push_back(mount);
  }
  if (mounts.empty()) return nullptr;
  pvfs2::Table& table = state().tables[name];
  table.count = static_cast<std::int32_t>(mounts.size());
  table.mounts = new pvfs2::Pvfs2Mount[mounts.size()];
  std::copy(mounts.begin(), mounts.end(), table.mounts);
  return &table;
}

int PVFS_sys_initialize(std::uint64_t) {
  PVFS_BYTE = &mock_byte;
  return 0;
}

int PVFS_sys_fs_add(pvfs2::Pvfs2Mount* mount) {
  return fallible("PVFS_sys_fs_add", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_fs_add"); error != 0) return error;
    const std::string server = mount->servers[0];
    if (server.rfind("mock:/", 0) != 0) return pvfs2_error(EINVAL);
    const std::string folder = server.substr(5);
    if (access(folder.c_str(), R_OK | X_OK) != 0) return pvfs2_error(ECONNREFUSED);
    const std::lock_guard lock(state().mutex);
    state().folders.push_back(folder);
    mount->file_system = first_number + static_cast<std::int32_t>(state().folders.size()) - 1;
    return 0;
  });
}

int PVFS_sys_set_info(std::int32_t, unsigned) {
  return 0;
}

// As with the real one, errors are written to standard error until this names another place.
int gossip_enable_file(const char* file, const char* mode) {
  FILE* opened = std::fopen(file, mode);
  if (opened == nullptr) return -errno;
  FILE* before = std::exchange(messages(), opened);
  if (before != nullptr) std::fclose(before);
  return 0;
}

int PVFS_sys_statfs(std::int32_t file_system, const pvfs2::Credential*, pvfs2::Room* room,
                    pvfs2::Hint*) {
  return fallible("PVFS_sys_statfs", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_statfs"); error != 0) return error;
    const std::lock_guard lock(faults().mutex);
    room->file_system = file_system;
    room->bytes_available = faults().room_bytes * servers;
    room->bytes_total = std::int64_t{1} << 40;
    room->servers = servers;
    return 0;
  });
}

int PVFS_get_errno_mapping(int error) {
  const int number = error & 0x7f;
  if ((error & error_bit) == 0) return error;
  for (const auto& [ours, system_error] : further_errors)
    if (ours == number) return system_error;
  const auto index = static_cast<std::size_t>(number) - 1;
  return index < errors.size() ? errors[index] : EIO;
}

int PVFS_util_gen_credential(const char* user, const char* group, unsigned seconds, const char*,
                             const char*, pvfs2::Credential* credential) {
  return fallible("PVFS_util_gen_credential", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_util_gen_credential"); error != 0) return error;
    credential->user = static_cast<std::uint32_t>(std::atoll(user));
    credential->group_count = 1;
    credential->groups = new std::uint32_t[1]{static_cast<std::uint32_t>(std::atoll(group))};
    credential->issuer = strdup("C:mock");
    credential->timeout_s = static_cast<std::uint64_t>(std::time(nullptr)) + seconds;
    return 0;
  });
}

int PVFS_sys_lookup(std::int32_t file_system, char* path, const pvfs2::Credential* who,
                    pvfs2::LookedUp* found, std::int32_t follows, pvfs2::Hint*) {
  return fallible("PVFS_sys_lookup", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_lookup"); error != 0) return error;
    std::string folder;
    {
      const std::lock_guard lock(state().mutex);
      const auto index = static_cast<std::size_t>(file_system - first_number);
      if (index >= state().folders.size()) return pvfs2_error(EINVAL);
      folder = state().folders[index];
    }
    const int fd = open_as(who, folder + path, O_PATH | (follows != 0 ? 0 : O_NOFOLLOW));
    // The real one does not tell these apart.
    if (fd < 0 && errno == ENOTDIR) errno = ENOENT;
    if (fd < 0 && errno == ELOOP) errno = EMLINK;  // its word for that
    return know(fd, file_system, &found->reference);
  });
}

int PVFS_sys_getattr(pvfs2::Reference reference, std::uint32_t wanted, const pvfs2::Credential*,
                     pvfs2::Attributes* found, pvfs2::Hint*) {
  return fallible("PVFS_sys_getattr", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_getattr"); error != 0) return error;
    const int fd = descriptor(reference);
    struct stat status {};
    if (fd < 0 || fstat(fd, &status) != 0) return pvfs2_error(errno);
    *found = pvfs2::Attributes{};
    found->owner = status.st_uid;
    found->group = status.st_gid;
    found->permissions = status.st_mode & 07777;
    found->accessed_s = static_cast<std::uint64_t>(status.st_atim.tv_sec);
    found->modified_s = static_cast<std::uint64_t>(status.st_mtim.tv_sec);
    found->size_bytes = status.st_size;
    if (S_ISREG(status.st_mode)) found->type = pvfs2::type_file;
    if (S_ISDIR(status.st_mode)) found->type = pvfs2::type_directory;
    if (S_ISLNK(status.st_mode)) found->type = pvfs2::type_link;
    if (S_ISLNK(status.st_mode) && (wanted & pvfs2::mask_link_target) != 0) {
      char target[4096] = {};
      if (readlinkat(fd, "", target, sizeof target - 1) > 0) found->link_target = strdup(target);
    }
    const std::string count = attribute(fd, "user.ferry.mock.count");
    const bool stuffed = !attribute(fd, stuffed_name).empty();
    found->data_files = S_ISREG(status.st_mode) ? std::max(1, std::atoi(count.c_str())) : 0;
    if (stuffed) found->data_files = 1;
    found->block_bytes = 65536;
    return 0;
  });
}

void PVFS_util_release_sys_attr(pvfs2::Attributes* attributes) {
  std::free(attributes->link_target);
  attributes->link_target = nullptr;
}

int PVFS_sys_create(char* name, pvfs2::Reference folder, pvfs2::Attributes attributes,
                    const pvfs2::Credential* who, pvfs2::Distribution* distribution,
                    pvfs2::Reference* made, pvfs2::ServerOrder*, pvfs2::Hint*) {
  return fallible("PVFS_sys_create", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_create"); error != 0) return error;
    const int above = descriptor(folder);
    if (above < 0) return pvfs2_error(errno);
    const std::string path = path_of(above) + "/" + name;
    const int fd = open_as(who, path, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0) return pvfs2_error(errno);
    fchmod(fd, attributes.permissions);
    std::int64_t bytes = distribution != nullptr
                             ? *static_cast<std::int64_t*>(distribution->settings)
                             : hint(above, "dist_params", settings_prefix);
    if (bytes == 0) bytes = 65536;
    std::int64_t count = (attributes.mask & pvfs2::mask_data_files) != 0
                             ? attributes.data_files
                             : hint(above, "num_dfiles", "");
    count = std::clamp<std::int64_t>(count == 0 ? servers : count, 1, servers);
    fsetxattr(fd, "user.ferry.mock.bytes", &bytes, sizeof bytes, 0);
    const std::string text = std::to_string(count);
    fsetxattr(fd, "user.ferry.mock.count", text.data(), text.size(), 0);
    fsetxattr(fd, stuffed_name, "1", 1, 0);
    close(fd);
    store(path_of(above));
    return know(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC), folder.file_system, made);
  });
}

int PVFS_sys_mkdir(char* name, pvfs2::Reference folder, pvfs2::Attributes attributes,
                   const pvfs2::Credential* who, pvfs2::Reference* made, pvfs2::Hint*) {
  return fallible("PVFS_sys_mkdir", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_mkdir"); error != 0) return error;
    const int above = descriptor(folder);
    if (above < 0) return pvfs2_error(errno);
    // As the real one.
    constexpr std::uint32_t needed =
        pvfs2::mask_owner | pvfs2::mask_group | pvfs2::mask_permissions | pvfs2::mask_times;
    if ((attributes.mask & needed) != needed) return pvfs2_error(EINVAL);
    const std::string path = path_of(above) + "/" + name;
    {
      const As user(who);
      if (mkdir(path.c_str(), 0700) != 0) return pvfs2_error(errno);
    }
    chmod(path.c_str(), attributes.permissions);
    return know(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC), folder.file_system, made);
  });
}

// OrangeFS's allocator, whose blocks begin before the returned address.
void PINT_free2(void* memory) {
  if (memory != nullptr) std::free(static_cast<char*>(memory) - allocation_header_bytes);
}

// A position is the number of names returned.
int PVFS_sys_readdir(pvfs2::Reference folder, std::uint64_t position, std::int32_t room,
                     const pvfs2::Credential*, pvfs2::Listed* listed, pvfs2::Hint*) {
  return fallible("PVFS_sys_readdir", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_readdir"); error != 0) return error;
    const int fd = reopen(folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return pvfs2_error(errno);
    DIR* directory = fdopendir(fd);
    std::vector<std::string> names;
    while (const dirent* next = readdir(directory)) {
      const std::string name = next->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    std::size_t at = position == pvfs2::list_start ? 0 : static_cast<std::size_t>(position);
    const std::size_t end = std::min(names.size(), at + static_cast<std::size_t>(room));
    auto* block = static_cast<char*>(
        std::calloc(1, allocation_header_bytes + (end - at + 1) * sizeof(pvfs2::Name)));
    listed->names = reinterpret_cast<pvfs2::Name*>(block + allocation_header_bytes);
    for (; at < end; ++at) {
      pvfs2::Name& name = listed->names[listed->count++];
      std::memcpy(name.text, names[at].c_str(), names[at].size() + 1);
      const std::lock_guard lock(faults().mutex);
      if (!faults().listed.empty()) {
        std::memcpy(name.text, faults().listed.c_str(), faults().listed.size() + 1);
      }
      pvfs2::Reference reference;
      know(openat(fd, names[at].c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC), folder.file_system,
           &reference);
      name.handle = reference.handle;
    }
    listed->position = end == names.size() ? pvfs2::list_end : end;
    closedir(directory);
    return 0;
  });
}

int PVFS_sys_remove(char* name, pvfs2::Reference folder, const pvfs2::Credential* who,
                    pvfs2::Hint*) {
  return fallible("PVFS_sys_remove", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_remove"); error != 0) return error;
    const int above = descriptor(folder);
    if (above < 0) return pvfs2_error(errno);
    const As user(who);
    const std::string path = path_of(above) + "/" + name;
    if (unlink(path.c_str()) == 0) return 0;
    if (errno == EISDIR && rmdir(path.c_str()) == 0) return 0;
    return pvfs2_error(errno);
  });
}

int PVFS_sys_rename(char* old_name, pvfs2::Reference old_folder, char* new_name,
                    pvfs2::Reference new_folder, const pvfs2::Credential* who, pvfs2::Hint*) {
  return fallible("PVFS_sys_rename", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_rename"); error != 0) return error;
    const int from = descriptor(old_folder);
    const int to = descriptor(new_folder);
    if (from < 0 || to < 0) return pvfs2_error(ENOENT);
    const As user(who);
    const std::string old_path = path_of(from) + "/" + old_name;
    const std::string new_path = path_of(to) + "/" + new_name;
    if (old_path == new_path) return pvfs2_error(EINVAL);
    if (rename(old_path.c_str(), new_path.c_str()) == 0) {
      store(path_of(to));
      return 0;
    }
    // The real one moves the name without checks, so a directory moved below itself is lost. For a
    // target in the way, this does the worst.
    std::error_code ignored;
    const bool below_itself = errno == EINVAL;
    const bool in_the_way =
        errno == ENOTEMPTY || errno == EEXIST || errno == EISDIR || errno == ENOTDIR;
    if (!below_itself && !in_the_way) return pvfs2_error(errno);
    std::filesystem::remove_all(below_itself ? old_path : new_path, ignored);
    if (in_the_way) std::filesystem::rename(old_path, new_path, ignored);
    return 0;
  });
}

int PVFS_sys_truncate(pvfs2::Reference reference, std::int64_t bytes, const pvfs2::Credential*,
                      pvfs2::Hint*) {
  return fallible("PVFS_sys_truncate", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_truncate"); error != 0) return error;
    const int fd = reopen(reference, O_WRONLY);
    if (fd < 0) return pvfs2_error(errno);
    const int result = ftruncate(fd, bytes) == 0 ? 0 : pvfs2_error(errno);
    unstuff(fd);
    close(fd);
    return result;
  });
}

int PVFS_sys_flush(pvfs2::Reference reference, const pvfs2::Credential*, pvfs2::Hint*) {
  return fallible("PVFS_sys_flush", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_flush"); error != 0) return error;
    const int fd = descriptor(reference);
    struct stat status {};
    if (fd < 0 || fstat(fd, &status) != 0) return pvfs2_error(errno);
    if (S_ISDIR(status.st_mode)) return pvfs2_error(EISDIR);
    store(path_of(fd));
    return 0;
  });
}

int PVFS_Request_contiguous(std::int32_t count, pvfs2::Request* of, pvfs2::Request** made) {
  *made = new pvfs2::Request{count * of->bytes};
  return 0;
}

int PVFS_Request_free(pvfs2::Request** request) {
  delete *request;
  *request = nullptr;
  return 0;
}

int PVFS_sys_io(pvfs2::Reference reference, pvfs2::Request*, std::int64_t offset, void* memory,
                pvfs2::Request* whole, const pvfs2::Credential* who, std::int64_t* done,
                std::int32_t way, pvfs2::Hint*) {
  return fallible("PVFS_sys_io", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_io"); error != 0) return error;
    // As if from a server far away.
    if (const char* delay = std::getenv("FERRY_MOCK_PVFS2_DELAY_MS"); delay != nullptr)
      std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(delay)));
    // As if from one that hangs, as long as that file is there.
    const char* const hangs = std::getenv("FERRY_MOCK_PVFS2_HANGS_WHILE");
    while (hangs != nullptr && access(hangs, F_OK) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!may(reference, who, way == pvfs2::io_read ? 4 : 2)) return pvfs2_error(EACCES);
    const int fd = reopen(reference, way == pvfs2::io_read ? O_RDONLY : O_WRONLY);
    if (fd < 0) return pvfs2_error(errno);
    const std::size_t bytes = moved(static_cast<std::size_t>(whole->bytes));
    *done = way == pvfs2::io_read ? pread(fd, memory, bytes, offset)
                                  : pwrite(fd, memory, bytes, offset);
    const int result = *done < 0 ? pvfs2_error(errno) : 0;
    if (way == pvfs2::io_write) unstuff(fd);
    close(fd);
    return result;
  });
}

int PVFS_sys_geteattr(pvfs2::Reference reference, const pvfs2::Credential*, pvfs2::Value* key,
                      pvfs2::Value* value, pvfs2::Hint*) {
  return fallible("PVFS_sys_geteattr", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_geteattr"); error != 0) return error;
    const int fd = descriptor(reference);
    if (fd < 0) return pvfs2_error(errno);
    const std::string name = static_cast<const char*>(key->bytes);
    std::string found;
    if (name == "system.pvfs2.md") {
      std::string bytes = attribute(fd, "user.ferry.mock.bytes");
      if (bytes.empty()) bytes = std::string("\0\0\1\0\0\0\0\0", 8);
      found = std::string("\15\0\0\0simple_stripe", 17) + std::string(7, '\0') + bytes;
    } else {
      found = attribute(fd, "user.ferry.mock." + name.substr(name.rfind('.') + 1));
    }
    if (found.empty()) return pvfs2_error(ENODATA);
    value->size = std::min(value->room, static_cast<std::int32_t>(found.size()));
    std::memcpy(value->bytes, found.data(), static_cast<std::size_t>(value->size));
    return 0;
  });
}

int PVFS_sys_seteattr(pvfs2::Reference reference, const pvfs2::Credential*, pvfs2::Value* key,
                      pvfs2::Value* value, std::int32_t, pvfs2::Hint*) {
  return fallible("PVFS_sys_seteattr", pvfs2_error, [&]() -> int {
    if (const int error = fault_of("PVFS_sys_seteattr"); error != 0) return error;
    const int fd = descriptor(reference);
    if (fd < 0) return pvfs2_error(errno);
    const std::string name = static_cast<const char*>(key->bytes);
    const std::string ours = "user.ferry.mock." + name.substr(name.rfind('.') + 1);
    const int result = setxattr(path_of(fd).c_str(), ours.c_str(), value->bytes,
                                static_cast<std::size_t>(value->room), 0);
    return result == 0 ? 0 : pvfs2_error(errno);
  });
}

pvfs2::Distribution* PVFS_sys_dist_lookup(const char* name) {
  if (std::string(name) != "simple_stripe") return nullptr;
  return new pvfs2::Distribution{strdup(name), new std::int64_t{65536}};
}

int PVFS_sys_dist_setparam(pvfs2::Distribution* distribution, const char* name, void* value) {
  if (std::string(name) != "strip_size") return pvfs2_error(EINVAL);
  *static_cast<std::int64_t*>(distribution->settings) = *static_cast<std::int64_t*>(value);
  return 0;
}

int PVFS_sys_dist_free(pvfs2::Distribution* distribution) {
  delete static_cast<std::int64_t*>(distribution->settings);
  std::free(distribution->name);
  delete distribution;
  return 0;
}

}  // extern "C"
