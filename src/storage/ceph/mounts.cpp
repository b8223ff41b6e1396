#include "storage/ceph/mounts.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

#include "storage/in_time.hpp"

namespace ferry::storage {
namespace {

std::atomic<unsigned> clients_at_work{0};

void end_at_once(int status, void* /*unused*/) {
  if (clients_at_work == 0) return;
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
  ::_exit(status);
}

// Undoes ceph_create() after a later failure. That may take half a minute if the servers do not
// answer, without delaying any call; but for this one where no thread can be started.
class Created {
 public:
  Created(std::shared_ptr<const CephLibrary> library, ceph::Client* client,
          std::shared_ptr<const ClientAtWork> at_work)
      : library_(std::move(library)), client_(client), at_work_(std::move(at_work)) {}
  ~Created() {
    if (client_ == nullptr) return;
    try {
      std::thread([library = library_, client = client_, at_work = at_work_] {
        library->ceph_release(client);
      }).detach();
    } catch (const std::exception&) {  // std::system_error, std::bad_alloc
      library_->ceph_release(client_);
    }
  }
  Created(const Created&) = delete;
  Created& operator=(const Created&) = delete;
  ceph::Client* release(std::shared_ptr<const ClientAtWork>& at_work) {
    at_work = std::move(at_work_);
    return std::exchange(client_, nullptr);
  }

 private:
  std::shared_ptr<const CephLibrary> library_;
  ceph::Client* client_;
  std::shared_ptr<const ClientAtWork> at_work_;
};

}  // namespace

ClientAtWork::ClientAtWork() {
  ++clients_at_work;
  more_objects();
}

ClientAtWork::~ClientAtWork() {
  --clients_at_work;
}

// Handlers run in reverse order, so this runs before the destructors of all objects made until now.
void ClientAtWork::more_objects() {
  ::on_exit(end_at_once, nullptr);
}

std::string CephAddress::cluster() const {
  return "the Ceph cluster of " +
         (configuration.empty() ? std::string("/etc/ceph/ceph.conf or CEPH_CONF") : configuration);
}

// The places are those of libcephfs.
std::string CephAddress::without_configuration(int error) const {
  const std::string why = std::string(" (") + std::strerror(error) + ")";
  if (!configuration.empty()) {
    return cluster() + " cannot be used: this file cannot be read" + why +
           "; name its configuration by conf=";
  }
  if (const char* named = std::getenv("CEPH_CONF"); named != nullptr && *named != '\0') {
    return cluster() + " cannot be used: CEPH_CONF names " + named + ", which cannot be read" +
           why + "; name its configuration by CEPH_CONF or by ?conf= after the path";
  }
  return "no Ceph cluster is configured: neither /etc/ceph/ceph.conf nor ~/.ceph/ceph.conf nor "
         "ceph.conf in the current folder can be read" +
         why + "; name its configuration by CEPH_CONF or by ?conf= after the path";
}

void CephLeaving::unmount(const std::shared_ptr<CephLeaving>& leaving) noexcept {
  for (;;) {
    CephMount* client = nullptr;
    {
      const std::lock_guard lock(leaving->mutex);
      client = leaving->unused;
      if (client == nullptr) return;
      leaving->unused = client->next_unused_;
    }
    const bool started = start(leaving, [leaving, client] {
      delete client;
      const std::lock_guard lock(leaving->mutex);
      --leaving->clients;
    });
    if (started) continue;
    const std::lock_guard lock(leaving->mutex);
    client->next_unused_ = std::exchange(leaving->unused, client);
    return;
  }
}

CephMount::~CephMount() {
  if (mounted_ == nullptr) return;
  close_all_dropped();
  library_->ceph_unmount(mounted_);
  library_->ceph_release(mounted_);
}

ceph::Client* CephMount::get() {
  const std::lock_guard lock(mutex_);
  if (mounted_ == nullptr) mounted_ = mount();
  return mounted_;
}

void CephMount::close_later(const std::shared_ptr<CephMount>& mount,
                            std::list<int>& file) noexcept {
  {
    const std::lock_guard lock(mount->dropped_mutex_);
    mount->dropped_.splice(mount->dropped_.end(), file);
  }
  close_dropped(mount);
}

void CephMount::close_dropped(const std::shared_ptr<CephMount>& mount) noexcept {
  const std::lock_guard lock(mount->dropped_mutex_);
  if (mount->closing_ || mount->dropped_.empty()) return;
  mount->closing_ =
      CephLeaving::start(mount->leaving_, [client = std::shared_ptr(mount)]() mutable {
        client->close_all_dropped();
        client.reset();
      });
}

void CephMount::close_all_dropped() {
  std::unique_lock lock(dropped_mutex_);
  while (!dropped_.empty()) {
    std::list<int> next;
    next.splice(next.end(), dropped_, dropped_.begin());
    lock.unlock();
    library_->ceph_close(get(), next.front());
    lock.lock();
  }
  closing_ = false;
}

void CephMount::check(int error, const std::string& what) const {
  if (error >= 0) return;
  throw Unavailable(-error, what + " (" + std::strerror(-error) + ")");
}

ceph::Client* CephMount::mount() {
  const std::string cluster = address_.cluster();
  auto at_work = std::make_shared<const ClientAtWork>();
  ceph::Client* client = nullptr;
  check(library_->ceph_create(&client, address_.user.empty() ? nullptr : address_.user.c_str()),
        "libcephfs cannot be used");
  Created created(library_, client, std::move(at_work));
  const bool is_named = !address_.configuration.empty();
  const int unread =
      library_->ceph_conf_read_file(client, is_named ? address_.configuration.c_str() : nullptr);
  // Not with its ENOENT, which says that a file is missing which is there.
  if (unread < 0) throw Unavailable(EINVAL, address_.without_configuration(-unread));
  check(library_->ceph_conf_parse_env(client, nullptr), "CEPH_ARGS cannot be understood");
  const auto timeout_s = std::chrono::duration_cast<std::chrono::seconds>(address_.timeout).count();
  const std::string seconds = std::to_string(timeout_s);
  // Calls wait for requests before them, which should reach their own bound first.
  const std::string twice = std::to_string(2 * timeout_s);
  // After how long the library asks the monitors where the server of a request is now, and how
  // often it looks for such requests; by default 10 s and 5 s. A request that ends before is not
  // asked for, and the next ones go for ever to where a server was that was restarted.
  const auto half_s = std::max<std::int64_t>(timeout_s / 2, 1);
  for (const auto& [option, value] :
       {std::pair<const char*, std::string>{"client_mount_uid", std::to_string(address_.uid)},
        {"client_mount_gid", std::to_string(address_.gid)},
        {"client_mount_timeout", seconds},
        // No readahead: libcephfs 16.2 begins it after a read without looking whether it may still
        // cache the file, and keeps what it has read. When it may cache again, reads find that,
        // however often other clients, or this one, have written those bytes meanwhile.
        {"client_readahead_min", "0"},
        {"rados_mon_op_timeout", seconds},
        {"rados_osd_op_timeout", twice},
        {"objecter_timeout", std::to_string(std::min<std::int64_t>(half_s, 10))},
        {"objecter_tick_interval", std::to_string(std::min<std::int64_t>(half_s, 5))}}) {
    check(library_->ceph_conf_set(client, option, value.c_str()), option);
  }
  if (!address_.file_system.empty()) {
    check(library_->ceph_select_filesystem(client, address_.file_system.c_str()),
          "the file system " + address_.file_system + " cannot be chosen");
  }
  check(library_->ceph_mount(client, "/"),
        cluster +
            " cannot be used; see that its monitors and an MDS run and can be reached, and "
            "that the user may mount it");
  library_->ceph_umask(client, 0);  // opens apply their own
  ClientAtWork::more_objects();
  return created.release(at_work_);
}

int CephMount::layout_of(int number, Layout& layout) {
  CephNumbers found;
  const int error = library_->ceph_get_file_layout(
      get(), number, &found.stripe_bytes, &found.stripe_count, &found.object_bytes, &found.pool);
  return error < 0 ? error : to_layout(found, layout);
}

int CephMount::layout_of(const std::string& path, Layout& layout) {
  CephNumbers found;
  // A directory that has none has that of the one above it.
  for (std::string at = path;; at = at.substr(0, std::max<std::size_t>(1, at.rfind('/')))) {
    const int error =
        library_->ceph_get_path_layout(get(), at.c_str(), &found.stripe_bytes, &found.stripe_count,
                                       &found.object_bytes, &found.pool);
    if (error < 0) return error;
    if (found.stripe_bytes > 0) return to_layout(found, layout);
    if (at == "/") return -ENODATA;
    while (at.size() > 1 && at.back() == '/')
      at.pop_back();
  }
}

int CephMount::to_layout(const CephNumbers& found, Layout& layout) {
  std::array<char, 256> name{};
  const int bytes =
      library_->ceph_get_pool_name(get(), found.pool, name.data(), static_cast<int>(name.size()));
  if (bytes < 0) return bytes;
  layout = Layout{};
  layout.stripe_bytes = static_cast<std::uint64_t>(found.stripe_bytes);
  layout.stripe_count = static_cast<std::uint32_t>(found.stripe_count);
  layout.pool = name.data();
  layout.extras[object_bytes_name] = static_cast<std::uint64_t>(found.object_bytes);
  return 0;
}

int CephMount::set_layout(const std::string& path, const Layout& layout) {
  const std::string value = ceph_layout_text(fitted_to_ceph(layout));
  return library_->ceph_setxattr(get(), path.c_str(), "ceph.dir.layout", value.data(), value.size(),
                                 0);
}

std::vector<std::string> CephMount::facts() {
  ceph::Client* client = get();
  std::array<char, 256> monitors{};
  library_->ceph_conf_get(client, "mon_host", monitors.data(), monitors.size());
  const std::string name = address_.file_system.empty() ? "the default one" : address_.file_system;
  const std::string user = address_.user.empty() ? "admin" : address_.user;
  return {"CephFS (" + name + ") as client." + user + ", monitors " + monitors.data()};
}

std::vector<std::string> facts_in_time(const std::shared_ptr<CephMount>& mount) {
  const auto facts = in_time(mount->address().timeout, [mount] { return mount->facts(); });
  if (!facts) {
    throw Unavailable(ETIMEDOUT,
                      mount->address().cluster() +
                          " cannot be used: it does not answer; see that its servers run");
  }
  return *facts;
}

OwnerProcess& CephMounts::owner() {
  static constinit OwnerProcess process;
  return process;
}

CephMounts::~CephMounts() {
  if (!made_here_) {  // the clients are the parent's, and speak on its sockets
    static_cast<void>(new (std::nothrow) decltype(mounts_)(std::move(mounts_)));
    return;
  }
  std::chrono::milliseconds timeout{0};
  for (const auto& [address, mount] : mounts_)
    timeout = std::max(timeout, address.timeout);
  mounts_.clear();
  CephLeaving::unmount(leaving_);
  // Not for those that a file or a late call still has: it may never let go.
  std::unique_lock lock(leaving_->mutex);
  leaving_->changed.wait_for(lock, timeout, [this] { return leaving_->threads == 0; });
}

std::shared_ptr<CephMount> CephMounts::of(const CephAddress& address) {
  CephLeaving::unmount(leaving_);       // what waits for a thread
  std::shared_ptr<CephMount> replaced;  // let go of after the lock
  const std::lock_guard lock(mutex_);
  if (library_ == nullptr) library_ = std::make_shared<const CephLibrary>(library_name_);
  owner().claim();
  std::shared_ptr<CephMount>& mount = mounts_[address];
  if (mount == nullptr || (mount->lost() && may_replace())) {
    replaced = std::exchange(mount, make(address));
  }
  return mount;
}

bool CephMounts::may_replace() const {
  const std::lock_guard lock(leaving_->mutex);
  return leaving_->clients < mounts_.size() + lost_clients_max;
}

std::shared_ptr<CephMount> CephMounts::make(const CephAddress& address) const {
  auto mount = std::make_unique<CephMount>(library_, address, leaving_);
  {
    const std::lock_guard lock(leaving_->mutex);
    ++leaving_->clients;
  }
  return {mount.release(), [leaving = leaving_](CephMount* unused) { end(leaving, unused); }};
}

void CephMounts::end(const std::shared_ptr<CephLeaving>& leaving, CephMount* unused) {
  if (owner().is_ancestor()) return;  // the parent's
  {
    const std::lock_guard lock(leaving->mutex);
    unused->next_unused_ = std::exchange(leaving->unused, unused);
  }
  CephLeaving::unmount(leaving);
}

}  // namespace ferry::storage
