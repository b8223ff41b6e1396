// A small NFS server in this process, with libnfs's decoding: it keeps files in memory, loses
// uncommitted data when it restarts, can leave requests unread, and lists any names it is given.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

// libnfs.h defines what the others need.
// clang-format off
extern "C" {
#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
}
// clang-format on

#include "storage/library.hpp"
#include "storage/router.hpp"
#include "support/files.hpp"

namespace ferry::test {

// Allocations of this thread meanwhile are no leaks for the address sanitizer.
struct NoLeakCheck {
#if defined(__SANITIZE_ADDRESS__)
  __lsan::ScopedDisabler disabler;
#else
  NoLeakCheck() {}
#endif
};

// A socket that accepts connections to a free port of this machine. By itself, it is a server that
// answers nothing, and is gone with the object.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, where, bytes) != 0 || ::listen(socket_, 1000) != 0 ||
        ::getsockname(socket_, where, &bytes) != 0)
      throw std::system_error(errno, std::system_category(), "a server's socket");
    port_ = ntohs(address.sin_port);
  }

  int socket() const { return socket_; }
  unsigned port() const { return port_; }
  // `settings` after those that name the server: "&timeout=1".
  std::string uri(const std::string& name, const std::string& settings = "") const {
    const std::string port = std::to_string(port_);
    return "nfs://127.0.0.1/export" + (name.empty() ? "" : "/" + name) + "?nfsport=" + port +
           "&mountport=" + port + settings;
  }

 private:
  const Descriptor socket_;
  unsigned port_ = 0;
};

class FakeNfsServer : public Listener {
 public:
  // `begin()`: on the server's thread, first.
  explicit FakeNfsServer(const std::function<void()>& begin = {})
      : thread_([this, begin] {
          if (begin) begin();
          run();
        }) {}
  ~FakeNfsServer() {
    ending_ = true;
    ::eventfd_write(wake_, 1);
    thread_.join();
  }
  FakeNfsServer(const FakeNfsServer&) = delete;
  FakeNfsServer& operator=(const FakeNfsServer&) = delete;

  // Makes or replaces a file.
  void put(const std::string& name, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    File& file = files_[names_.try_emplace(name, root + 1 + files_.size()).first->second];
    file.bytes = file.durable = bytes;
    ++file.changes;
  }
  bool has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return names_.contains(name);
  }
  void remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.erase(name);
  }
  std::string contents(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return files_.at(names_.at(name)).bytes;
  }
  // The names that the directory lists.
  void list(std::vector<std::string> names) {
    const std::lock_guard lock(mutex_);
    listed_ = std::move(names);
  }
  // Restarts: uncommitted data is lost. Connections stay.
  void restart() {
    const std::lock_guard lock(mutex_);
    ++verifier_;
    for (auto& [number, file] : files_)
      file.bytes = file.durable;
  }
  // Stops reading from existing connections until release(). Serves new ones.
  void hold() {
    const std::lock_guard lock(mutex_);
    for (Client& client : clients_)
      client.held = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    for (Client& client : clients_)
      client.held = false;
    ::eventfd_write(wake_, 1);
  }
  // Answers only the next commit with this error.
  void fail_next_commit(nfsstat3 error) {
    const std::lock_guard lock(mutex_);
    commit_error_ = error;
  }
  // Changes replies before they are sent: gets the name of a reply's encoder, and the reply. On the
  // server's thread.
  void spoil(std::function<void(std::string_view encoder, void* reply)> how) {
    const std::lock_guard lock(mutex_);
    spoil_ = std::move(how);
  }
  // Replies for which this says so are not sent. As above.
  void lose(std::function<bool(std::string_view encoder)> which) {
    const std::lock_guard lock(mutex_);
    lose_ = std::move(which);
  }
  // Answered ones.
  unsigned commits() const { return commits_.load(); }
  // All connections ever made.
  unsigned connections() const { return connections_.load(); }

 private:
  struct Library : storage::Library {
    Library() : storage::Library(storage::RouterOptions{}.nfs_libraries, "") {}
    decltype(::rpc_init_server_context)* init = symbol("rpc_init_server_context");
    decltype(::rpc_destroy_context)* destroy = symbol("rpc_destroy_context");
    decltype(::rpc_register_service)* register_service = symbol("rpc_register_service");
    decltype(::rpc_send_reply)* send_reply = symbol("rpc_send_reply");
    decltype(::rpc_which_events)* which_events = symbol("rpc_which_events");
    decltype(::rpc_service)* service = symbol("rpc_service");
    zdrproc_t procedure(const char* name) const { return symbol(name); }
  };
  struct File {
    std::string bytes;
    std::string durable;
    std::uint32_t changes = 0;
  };
  struct Client {
    int socket = -1;
    rpc_context* rpc = nullptr;
    bool held = false;
  };
  using Number = std::uint64_t;  // of a file, and its handle
  static constexpr Number root = 1;
  static constexpr std::uint64_t file_bytes_max = 64 << 20;  // it is memory

  // ---- the calls, which identify their server by their thread

  template <class Arguments>
  static const Arguments& arguments_of(const rpc_msg* call) {
    return *static_cast<const Arguments*>(call->body.cbody.args);
  }
  template <class Reply>
  static int answer(rpc_context* rpc, rpc_msg* call, Reply& reply, const char* encoder) {
    if (current->spoil_ != nullptr) current->spoil_(encoder, &reply);
    if (current->lose_ != nullptr && current->lose_(encoder)) return 0;
    return current->library_.send_reply(rpc, call, &reply, current->library_.procedure(encoder),
                                        1 << 20);
  }
  static Number number_of(const nfs_fh3& handle) {
    Number number = 0;
    const std::size_t bytes = std::min<std::size_t>(handle.data.data_len, sizeof number);
    if (bytes > 0) std::memcpy(&number, handle.data.data_val, bytes);
    return number;
  }
  static nfs_fh3 handle_of(Number& number) {
    nfs_fh3 handle{};
    handle.data.data_len = sizeof number;
    handle.data.data_val = reinterpret_cast<char*>(&number);
    return handle;
  }
  fattr3 attributes_of(Number number) const {
    fattr3 attributes{};
    attributes.type = number == root ? NF3DIR : NF3REG;
    attributes.mode = number == root ? 0755 : 0644;
    attributes.nlink = 1;
    attributes.fsid = 7;
    attributes.fileid = number;
    if (const auto file = files_.find(number); file != files_.end()) {
      attributes.size = attributes.used = file->second.bytes.size();
      attributes.ctime.seconds = 1000 + file->second.changes;
    }
    return attributes;
  }

  static int on_null(rpc_context* rpc, rpc_msg* call) {
    return current->library_.send_reply(rpc, call, nullptr,
                                        current->library_.procedure("libnfs_zdr_void"), 0);
  }
  static int on_export(rpc_context* rpc, rpc_msg* call) {
    char name[] = "/export";
    exportnode node{name, nullptr, nullptr};
    exports list = &node;
    return answer(rpc, call, list, "zdr_exports");
  }
  static int on_mount(rpc_context* rpc, rpc_msg* call) {
    Number number = root;
    int flavor = 1;
    mountres3 reply{};
    reply.mountres3_u.mountinfo.fhandle.fhandle3_len = sizeof number;
    reply.mountres3_u.mountinfo.fhandle.fhandle3_val = reinterpret_cast<char*>(&number);
    reply.mountres3_u.mountinfo.auth_flavors.auth_flavors_len = 1;
    reply.mountres3_u.mountinfo.auth_flavors.auth_flavors_val = &flavor;
    return answer(rpc, call, reply, "zdr_mountres3");
  }
  static int on_fsinfo(rpc_context* rpc, rpc_msg* call) {
    FSINFO3res reply{};
    reply.FSINFO3res_u.resok.rtmax = reply.FSINFO3res_u.resok.wtmax = 64 << 10;
    return answer(rpc, call, reply, "zdr_FSINFO3res");
  }
  static int on_getattr(rpc_context* rpc, rpc_msg* call) {
    GETATTR3res reply{};
    reply.GETATTR3res_u.resok.obj_attributes =
        current->attributes_of(number_of(arguments_of<GETATTR3args>(call).object));
    return answer(rpc, call, reply, "zdr_GETATTR3res");
  }
  static int on_setattr(rpc_context* rpc, rpc_msg* call) {
    const auto& arguments = arguments_of<SETATTR3args>(call);
    File& file = current->files_[number_of(arguments.object)];
    if (arguments.new_attributes.size.set_it != 0) {
      file.bytes.resize(arguments.new_attributes.size.set_size3_u.size);
      file.durable = file.bytes;
      ++file.changes;
    }
    SETATTR3res reply{};
    return answer(rpc, call, reply, "zdr_SETATTR3res");
  }
  static int on_lookup(rpc_context* rpc, rpc_msg* call) {
    const auto& names = current->names_;
    const auto found = names.find(arguments_of<LOOKUP3args>(call).what.name);
    LOOKUP3res reply{};
    Number number = found == names.end() ? 0 : found->second;
    if (found == names.end()) {
      reply.status = NFS3ERR_NOENT;
    } else {
      reply.LOOKUP3res_u.resok.object = handle_of(number);
    }
    return answer(rpc, call, reply, "zdr_LOOKUP3res");
  }
  static int on_access(rpc_context* rpc, rpc_msg* call) {
    ACCESS3res reply{};
    reply.ACCESS3res_u.resok.access = arguments_of<ACCESS3args>(call).access;
    return answer(rpc, call, reply, "zdr_ACCESS3res");
  }
  static int on_create(rpc_context* rpc, rpc_msg* call) {
    const std::string name = arguments_of<CREATE3args>(call).where.name;
    Number number =
        current->names_.try_emplace(name, root + 1 + current->files_.size()).first->second;
    current->files_.try_emplace(number);
    CREATE3res reply{};
    reply.CREATE3res_u.resok.obj.handle_follows = 1;
    reply.CREATE3res_u.resok.obj.post_op_fh3_u.handle = handle_of(number);
    return answer(rpc, call, reply, "zdr_CREATE3res");
  }
  // The file stays for those that have its handle.
  static int on_remove(rpc_context* rpc, rpc_msg* call) {
    REMOVE3res reply{};
    if (current->names_.erase(arguments_of<REMOVE3args>(call).object.name) == 0)
      reply.status = NFS3ERR_NOENT;
    return answer(rpc, call, reply, "zdr_REMOVE3res");
  }
  static int on_read(rpc_context* rpc, rpc_msg* call) {
    const auto& arguments = arguments_of<READ3args>(call);
    std::string& bytes = current->files_[number_of(arguments.file)].bytes;
    const std::uint64_t at = std::min<std::uint64_t>(arguments.offset, bytes.size());
    const std::uint64_t count = std::min<std::uint64_t>(arguments.count, bytes.size() - at);
    READ3res reply{};
    READ3resok& read = reply.READ3res_u.resok;
    read.count = static_cast<count3>(count);
    read.eof = at + count == bytes.size() ? 1 : 0;
    read.data.data_len = read.count;
    read.data.data_val = bytes.data() + at;
    return answer(rpc, call, reply, "zdr_READ3res");
  }
  static int on_write(rpc_context* rpc, rpc_msg* call) {
    const auto& arguments = arguments_of<WRITE3args>(call);
    File& file = current->files_[number_of(arguments.file)];
    const std::uint64_t end = arguments.offset + arguments.data.data_len;
    if (arguments.offset > file_bytes_max) {
      WRITE3res refused{};
      refused.status = NFS3ERR_FBIG;
      return answer(rpc, call, refused, "zdr_WRITE3res");
    }
    if (file.bytes.size() < end) file.bytes.resize(end);
    std::memcpy(file.bytes.data() + arguments.offset, arguments.data.data_val,
                arguments.data.data_len);
    if (arguments.stable != UNSTABLE) file.durable = file.bytes;
    ++file.changes;
    WRITE3res reply{};
    reply.WRITE3res_u.resok.count = arguments.data.data_len;
    reply.WRITE3res_u.resok.committed = arguments.stable;
    std::memcpy(reply.WRITE3res_u.resok.verf, &current->verifier_, NFS3_WRITEVERFSIZE);
    return answer(rpc, call, reply, "zdr_WRITE3res");
  }
  static int on_commit(rpc_context* rpc, rpc_msg* call) {
    File& file = current->files_[number_of(arguments_of<COMMIT3args>(call).file)];
    COMMIT3res reply{};
    ++current->commits_;
    reply.status = std::exchange(current->commit_error_, NFS3_OK);
    if (reply.status == NFS3_OK) {
      file.durable = file.bytes;
      std::memcpy(reply.COMMIT3res_u.resok.verf, &current->verifier_, NFS3_WRITEVERFSIZE);
    }
    return answer(rpc, call, reply, "zdr_COMMIT3res");
  }
  static int on_list(rpc_context* rpc, rpc_msg* call) {
    std::vector<entryplus3> entries(current->listed_.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i].fileid = entries[i].cookie = i + 2;
      entries[i].name = current->listed_[i].data();
      entries[i].name_attributes.attributes_follow = 1;
      entries[i].name_attributes.post_op_attr_u.attributes = current->attributes_of(i + 2);
      entries[i].nextentry = i + 1 < entries.size() ? &entries[i + 1] : nullptr;
    }
    READDIRPLUS3res reply{};
    reply.READDIRPLUS3res_u.resok.reply.entries = entries.empty() ? nullptr : entries.data();
    reply.READDIRPLUS3res_u.resok.reply.eof = 1;
    return answer(rpc, call, reply, "zdr_READDIRPLUS3res");
  }

  // ---- connections

  // libnfs decodes into uncleared memory, and takes its contents for addresses.
  template <class Arguments>
  static std::uint32_t decode(ZDR* from, void* arguments, ...) {
    std::memset(arguments, 0, sizeof(Arguments));
    return decoder<Arguments>(from, arguments);
  }
  // libnfs 5 passes one argument more than libnfs 4.
  template <auto call, class... More>
  static int called(rpc_context* rpc, rpc_msg* message, More...) {
    return call(rpc, message);
  }
  template <class Arguments, auto call>
  service_proc procedure(int number, const char* name) {
    decoder<Arguments> = library_.procedure(name);
    service_proc made{};
    made.proc = number;
    made.func = called<call>;
    made.decode_fn = decode<Arguments>;
    made.decode_buf_size = static_cast<int>(sizeof(Arguments));
    return made;
  }

  void accept_one() {
    const int socket =
        ::accept4(Listener::socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    ++connections_;
    const NoLeakCheck tables_of_services;  // which libnfs does not free
    rpc_context* rpc = library_.init(socket);
    library_.register_service(rpc, MOUNT_PROGRAM, MOUNT_V3, mount_calls_.data(),
                              static_cast<int>(mount_calls_.size()));
    library_.register_service(rpc, NFS_PROGRAM, NFS_V3, nfs_calls_.data(),
                              static_cast<int>(nfs_calls_.size()));
    clients_.push_back({socket, rpc, false});
  }

  void run() {
    current = this;
    while (!ending_) {
      std::vector<pollfd> sources{{socket(), POLLIN, 0}, {wake_, POLLIN, 0}};
      {
        const std::lock_guard lock(mutex_);
        for (const Client& client : clients_) {
          const int events = client.held ? 0 : library_.which_events(client.rpc);
          // Skips negative descriptors: a held one would report a hang-up.
          sources.push_back({client.held ? -1 : client.socket, static_cast<short>(events), 0});
        }
      }
      ::poll(sources.data(), sources.size(), -1);
      eventfd_t count = 0;
      if (sources[1].revents != 0) ::eventfd_read(wake_, &count);
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 2; i < sources.size(); ++i) {
        Client& client = clients_[i - 2];
        if (sources[i].revents == 0 || client.held) continue;
        if (library_.service(client.rpc, sources[i].revents) == 0) continue;
        end(client);
        client.rpc = nullptr;
      }
      std::erase_if(clients_, [](const Client& client) { return client.rpc == nullptr; });
      if (sources[0].revents != 0) accept_one();
    }
    for (const Client& client : clients_)
      end(client);
  }

  // libnfs calls a function of each reply that it has not sent when a context ends, and replies
  // have none. Such a context stays.
  void end(const Client& client) {
    if ((library_.which_events(client.rpc) & POLLOUT) == 0) {
      library_.destroy(client.rpc);  // closes the socket
      return;
    }
    static auto& unsent = *new std::vector<rpc_context*>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    unsent.push_back(client.rpc);
    ::close(client.socket);
  }

  template <class Arguments>
  inline static zdrproc_t decoder = nullptr;
  inline static thread_local FakeNfsServer* current = nullptr;

  const Library library_;
  std::array<service_proc, 3> mount_calls_{
      {procedure<char, on_null>(MOUNT3_NULL, "libnfs_zdr_void"),
       procedure<char*, on_mount>(MOUNT3_MNT, "zdr_dirpath"),
       procedure<char, on_export>(MOUNT3_EXPORT, "libnfs_zdr_void")}};
  std::array<service_proc, 12> nfs_calls_{
      {procedure<char, on_null>(NFS3_NULL, "libnfs_zdr_void"),
       procedure<GETATTR3args, on_getattr>(NFS3_GETATTR, "zdr_GETATTR3args"),
       procedure<SETATTR3args, on_setattr>(NFS3_SETATTR, "zdr_SETATTR3args"),
       procedure<LOOKUP3args, on_lookup>(NFS3_LOOKUP, "zdr_LOOKUP3args"),
       procedure<ACCESS3args, on_access>(NFS3_ACCESS, "zdr_ACCESS3args"),
       procedure<READ3args, on_read>(NFS3_READ, "zdr_READ3args"),
       procedure<WRITE3args, on_write>(NFS3_WRITE, "zdr_WRITE3args"),
       procedure<CREATE3args, on_create>(NFS3_CREATE, "zdr_CREATE3args"),
       procedure<REMOVE3args, on_remove>(NFS3_REMOVE, "zdr_REMOVE3args"),
       procedure<READDIRPLUS3args, on_list>(NFS3_READDIRPLUS, "zdr_READDIRPLUS3args"),
       procedure<FSINFO3args, on_fsinfo>(NFS3_FSINFO, "zdr_FSINFO3args"),
       procedure<COMMIT3args, on_commit>(NFS3_COMMIT, "zdr_COMMIT3args")}};
  const Descriptor wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> ending_{false};
  std::atomic<unsigned> commits_{0};
  std::atomic<unsigned> connections_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Client> clients_;
  std::map<std::string, Number> names_;
  std::map<Number, File> files_;
  std::vector<std::string> listed_;
  std::uint64_t verifier_ = 1;
  nfsstat3 commit_error_ = NFS3_OK;  // for the next one
  std::function<void(std::string_view encoder, void* reply)> spoil_;
  std::function<bool(std::string_view encoder)> lose_;
  std::thread thread_;
};

}  // namespace ferry::test
