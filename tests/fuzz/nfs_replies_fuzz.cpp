// A hostile NFS server: lengths, attributes, cookies, names and errors in its replies. libnfs
// decodes them; what Ferry makes of them harms nobody.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>

#include "fuzz/bytes.hpp"
#include "storage/entry_names.hpp"
#include "storage/router.hpp"
#include "support/fake_nfs_server.hpp"
#include "support/storage_driver.hpp"

namespace ferry::fuzz {
namespace {

using storage::Kind;
using storage::Status;

constexpr std::uint64_t edges[] = {
    0, 4096, 65536, std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 63};
constexpr unsigned replies_spoilt_max = 12;
constexpr std::int64_t errno_max = 4095;

// The server's side. It ends a listing after some replies, because only time ends an endless one.
class Spoiler {
 public:
  void use(const std::uint8_t* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    input_ = InputBytes(data, bytes);
    spoilt_ = 0;
  }

  void spoil(std::string_view encoder, void* reply) {
    const std::lock_guard lock(mutex_);
    if (spoilt_ >= replies_spoilt_max || input_.empty()) return;
    if (input_.take<std::uint8_t>() % 4 == 0) return;
    ++spoilt_;
    if (encoder == "zdr_READ3res") read(*static_cast<READ3res*>(reply));
    if (encoder == "zdr_WRITE3res") write(*static_cast<WRITE3res*>(reply));
    if (encoder == "zdr_GETATTR3res")
      status(*static_cast<GETATTR3res*>(reply),
             [&](GETATTR3res& one) { attributes(one.GETATTR3res_u.resok.obj_attributes); });
    if (encoder == "zdr_LOOKUP3res") look_up(*static_cast<LOOKUP3res*>(reply));
    if (encoder == "zdr_FSINFO3res")
      status(*static_cast<FSINFO3res*>(reply), [&](FSINFO3res& one) {
        one.FSINFO3res_u.resok.rtmax = number();
        one.FSINFO3res_u.resok.wtmax = number();
      });
    if (encoder == "zdr_COMMIT3res")
      status(*static_cast<COMMIT3res*>(reply), [&](COMMIT3res& one) {
        one.COMMIT3res_u.resok.verf[0] = static_cast<char>(number());
      });
    if (encoder == "zdr_READDIRPLUS3res") list(*static_cast<READDIRPLUS3res*>(reply));
    if (encoder == "zdr_mountres3") mount(*static_cast<mountres3*>(reply));
  }

 private:
  std::uint32_t number() { return static_cast<std::uint32_t>(input_.number(edges)); }

  // An error instead, or what `otherwise` changes of the reply. Not "ask later": that waits.
  template <class Reply, class Otherwise>
  void status(Reply& reply, Otherwise otherwise) {
    const auto choice = input_.take<std::uint8_t>();
    if (choice >= 64) {
      if (reply.status == NFS3_OK) otherwise(reply);
      return;
    }
    const std::uint32_t error = choice < 32 ? choice : choice < 48 ? 10000U + choice : number();
    reply.status = static_cast<nfsstat3>(error == EAGAIN || error == NFS3ERR_JUKEBOX ? EIO : error);
  }

  void attributes(fattr3& one) {
    switch (input_.take<std::uint8_t>() % 4) {
      case 0:
        one.type = static_cast<ftype3>(input_.take<std::uint8_t>() % 9);
        return;
      case 1:
        one.size = input_.number(edges);
        return;
      case 2:
        one.fileid = input_.number(edges);
        one.used = input_.number(edges);
        return;
      default:
        one.mtime.seconds = one.ctime.nseconds = number();
        one.mode = number();
    }
  }

  void read(READ3res& reply) {
    status(reply, [&](READ3res& one) {
      READ3resok& data = one.READ3res_u.resok;
      data.data.data_val = long_data_.data();
      data.data.data_len = static_cast<u_int>(std::min<std::size_t>(number(), long_data_.size()));
      data.count = number();
      data.eof = input_.take<std::uint8_t>() % 2;
    });
  }

  void write(WRITE3res& reply) {
    status(reply, [&](WRITE3res& one) {
      WRITE3resok& written = one.WRITE3res_u.resok;
      written.count = number();
      written.committed = static_cast<stable_how>(input_.take<std::uint8_t>() % 4);
      written.verf[0] = static_cast<char>(number());
    });
  }

  void look_up(LOOKUP3res& reply) {
    status(reply, [&](LOOKUP3res& one) {
      LOOKUP3resok& found = one.LOOKUP3res_u.resok;
      const auto choice = input_.take<std::uint8_t>();
      if (choice < 128) {
        found.obj_attributes.attributes_follow = 1;
        auto& told = found.obj_attributes.post_op_attr_u.attributes;
        told = fattr3{};
        told.type = NF3REG;
        attributes(told);
      } else {
        found.object.data.data_val = long_data_.data();
        found.object.data.data_len = choice % 65U;
      }
    });
  }

  void list(READDIRPLUS3res& reply) {
    status(reply, [&](READDIRPLUS3res& one) {
      auto& entries = one.READDIRPLUS3res_u.resok.reply;
      entries.eof = input_.take<std::uint8_t>() % 2;
      for (entryplus3* entry = entries.entries; entry != nullptr; entry = entry->nextentry) {
        const auto choice = input_.take<std::uint8_t>();
        if (choice % 2 != 0) {
          name_ = input_.text(choice % 16);
          entry->name = name_.data();
        }
        if (choice % 3 == 0) entry->name_attributes.attributes_follow = 0;
        if (choice % 5 == 0) attributes(entry->name_attributes.post_op_attr_u.attributes);
        if (choice % 7 == 0) entry->cookie = input_.number(edges);
      }
    });
  }

  void mount(mountres3& reply) {
    if (input_.take<std::uint8_t>() < 64) {
      reply.fhs_status = static_cast<mountstat3>(number());
    } else {
      reply.mountres3_u.mountinfo.fhandle.fhandle3_len = input_.take<std::uint8_t>() % 65U;
      reply.mountres3_u.mountinfo.fhandle.fhandle3_val = long_data_.data();
    }
  }

  std::mutex mutex_;
  InputBytes input_{nullptr, 0};
  unsigned spoilt_ = 0;
  std::string name_;
  std::array<char, 20'000> long_data_{};
};

void check(std::int64_t result, std::size_t asked) {
  require(result >= -errno_max, "a result that is no errno");
  require(result <= static_cast<std::int64_t>(asked), "more bytes than were asked for");
}

void use_files(test::StorageDriver& driver, const std::string& uri, const std::string& folder) {
  storage::File* file = nullptr;
  std::vector<char> memory(5000);
  check(driver.open(uri, O_RDWR | O_CREAT, file), 0);
  if (file != nullptr) {
    check(driver.pwrite(file, memory.data(), memory.size(), 3), memory.size());
    check(driver.pread(file, memory.data(), memory.size(), 0), memory.size());
    std::uint64_t end = 0;
    const std::int64_t appended = driver.append(file, memory.data(), 100, end);
    check(appended, 100);
    if (appended >= 0) require(end <= INT64_MAX, "a position behind the last one");
    Status status;
    const std::int64_t error = driver.file_status(file, status);
    check(error, 0);
    if (error == 0) require(status.size_bytes <= INT64_MAX, "a size that no file has");
    check(driver.simple(Kind::sync, file), 0);
    check(driver.close(file), 0);
  }
  std::vector<storage::DirectoryEntry> entries;
  check(driver.list(folder, entries), 0);
  for (const storage::DirectoryEntry& entry : entries) {
    require(storage::is_entry_name(entry.name), "a name that leads out of its folder");
    require(entry.status.size_bytes <= INT64_MAX, "a size that no file has");
  }
}

}  // namespace

// The server's part of libnfs does not free what it decodes.
extern "C" int __lsan_is_turned_off() {
  return 1;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static auto& spoiler = *new Spoiler;
  static auto& server = *new test::FakeNfsServer;
  // A new storage, which mounts anew, for some of the inputs.
  static std::unique_ptr<storage::Storage> storage;
  static unsigned uses = 0;
  if (uses++ % 16 == 0) {
    server.list({"a", "b", "a longer name", "c"});
    server.spoil([](std::string_view encoder, void* reply) { spoiler.spoil(encoder, reply); });
    storage = storage::make_router();
  }
  test::StorageDriver driver(*storage);
  spoiler.use(data, bytes);
  const std::string settings = "&timeout=1&connections=1";
  use_files(driver, server.uri("f", settings), server.uri("", settings));
  return 0;
}

}  // namespace ferry::fuzz
