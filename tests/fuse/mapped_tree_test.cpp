// Requests of the kernel made by hand, on a storage that fails where it is told to: what a real
// kernel asks for only as another user, or when a server fails at the right moment.
#include "fuse/mapped_tree.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "support/depth.hpp"
#include "support/failing_storage.hpp"
#include "support/files.hpp"

namespace {

using ferry::storage::Kind;
using ferry::storage::NewAttributes;
using ferry::storage::Operation;
using ferry::test::Random;

struct Answered {
  int error = 0;  // negative
  std::string bytes;
  template <class Structure>
  Structure as(std::size_t offset = 0) const {
    Structure structure{};
    EXPECT_GE(bytes.size(), offset + sizeof structure);
    std::memcpy(&structure, bytes.data() + offset, sizeof structure);
    return structure;
  }
};

struct Opened {
  std::uint64_t node = 0;
  std::uint64_t number = 0;
};

class RequestsByHand : public testing::Test {
 protected:
  // A storage on which a removed file ends, as on NFS.
  RequestsByHand() {
    storage_.capabilities.open_after_unlink = false;
    tree_.emplace(storage_, "/r", std::nullopt);
    storage_.instead = [this](Operation& operation) { return carry_out(operation); };
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_), 0);
  }
  ~RequestsByHand() override {
    tree_.reset();
    storage_.instead = nullptr;
    close(ends_[0]);
    close(ends_[1]);
  }
  RequestsByHand(const RequestsByHand&) = delete;
  RequestsByHand& operator=(const RequestsByHand&) = delete;

  template <class Arguments>
  Answered ask(fuse_opcode opcode, std::uint64_t node, const Arguments& arguments,
               const std::string& names = "", std::uint32_t user = 0) {
    fuse_in_header header{};
    header.opcode = opcode;
    header.nodeid = node;
    header.uid = user;
    header.gid = user + 1;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.append(reinterpret_cast<const char*>(&arguments), sizeof arguments);
    bytes += names;
    ferry::fuse::KernelAnswer answer;
    tree_->answer(worker_, ferry::fuse::KernelRequest(bytes), answer);
    answer.send(ends_[0], 7);
    std::array<char, 10'000> room{};
    const ssize_t got = recv(ends_[1], room.data(), room.size(), 0);
    fuse_out_header out{};
    EXPECT_GE(got, static_cast<ssize_t>(sizeof out));
    std::memcpy(&out, room.data(), sizeof out);
    return {out.error, std::string(room.data() + sizeof out, room.data() + got)};
  }

  Opened create(const std::string& name, std::uint32_t user = 0) {
    fuse_create_in arguments{};
    arguments.flags = O_RDWR;
    arguments.mode = 0644;
    const Answered made = ask(FUSE_CREATE, FUSE_ROOT_ID, arguments, name + '\0', user);
    EXPECT_EQ(made.error, 0) << name;
    return {made.as<fuse_entry_out>().nodeid, made.as<fuse_open_out>(sizeof(fuse_entry_out)).fh};
  }
  int write(const Opened& opened, const std::string& data, std::uint64_t offset = 0,
            std::uint32_t flags = 0) {
    fuse_write_in arguments{};
    arguments.fh = opened.number;
    arguments.offset = offset;
    arguments.size = static_cast<std::uint32_t>(data.size());
    arguments.write_flags = flags;
    return ask(FUSE_WRITE, opened.node, arguments, data).error;
  }
  int rename(const std::string& from, const std::string& to) {
    fuse_rename_in arguments{};
    arguments.newdir = FUSE_ROOT_ID;
    return ask(FUSE_RENAME, FUSE_ROOT_ID, arguments, from + '\0' + to + '\0').error;
  }
  int flush(const Opened& opened) {
    fuse_flush_in arguments{};
    arguments.fh = opened.number;
    return ask(FUSE_FLUSH, opened.node, arguments).error;
  }
  int sync(const Opened& opened) {
    fuse_fsync_in arguments{};
    arguments.fh = opened.number;
    return ask(FUSE_FSYNC, opened.node, arguments).error;
  }
  int release(const Opened& opened) {
    fuse_release_in arguments{};
    arguments.fh = opened.number;
    return ask(FUSE_RELEASE, opened.node, arguments).error;
  }

  // What the test wants to be otherwise than in the storage.
  virtual bool carry_out(Operation& operation) {
    if (operation.kind == Kind::rename && refused_ == operation.new_path) {
      operation.result = -EACCES;
      ++renames_refused_;
      refused_.clear();  // the way back is another rename
      return true;
    }
    if (operation.kind == Kind::set_attributes) {
      changed_ = *operation.attributes;
      changed_path_ = operation.path;
      return true;
    }
    if (operation.kind == Kind::path_status && !folder_mode_) return false;
    if (operation.kind == Kind::path_status && std::string(operation.path) == "/r") {
      operation.status.mode = S_IFDIR | *folder_mode_;
      return true;
    }
    return false;
  }

  ferry::test::FailingStorage storage_{Random()};
  std::string refused_;
  int renames_refused_ = 0;
  std::optional<NewAttributes> changed_;
  std::string changed_path_;
  std::optional<std::uint32_t> folder_mode_;
  std::optional<ferry::fuse::MappedTree> tree_;
  ferry::fuse::TreeWorker worker_{storage_};
  int ends_[2]{};
};

TEST_F(RequestsByHand, ARenameThatFailsLeavesItsTarget) {
  create("from");
  const Opened target = create("to");
  ASSERT_EQ(write(target, "of the target"), 0);
  ASSERT_EQ(sync(target), 0);
  refused_ = "/r/to";
  EXPECT_EQ(rename("from", "to"), -EACCES);
  EXPECT_EQ(renames_refused_, 1);
  // It has its name again, and keeps it when it is closed.
  EXPECT_EQ(storage_.contents("/r/to"), "of the target");
  ASSERT_EQ(write(target, "OF"), 0);
  ASSERT_EQ(sync(target), 0);
  EXPECT_EQ(release(target), 0);
  EXPECT_EQ(storage_.contents("/r/to"), "OF the target");
}

TEST_F(RequestsByHand, ARenameOverAnOpenFileLeavesItUsable) {
  const Opened source = create("from");
  const Opened target = create("to");
  ASSERT_EQ(write(source, "source"), 0);
  ASSERT_EQ(write(target, "target"), 0);
  ASSERT_EQ(rename("from", "to"), 0);
  ASSERT_EQ(write(target, "TARGET"), 0);
  EXPECT_EQ(sync(target), 0);
  EXPECT_EQ(release(target), 0);
  EXPECT_EQ(sync(source), 0);
  EXPECT_EQ(storage_.contents("/r/to"), "source");
  EXPECT_EQ(release(source), 0);
}

TEST_F(RequestsByHand, AnErrorIsToldAtEachCloseUntilItIsSynced) {
  const Opened opened = create("file");
  // Together they are gathered: the error comes after the last write has been answered.
  ASSERT_EQ(write(opened, std::string(100, 'a'), 0), 0);
  storage_.faults.writes = 1;
  ASSERT_EQ(write(opened, std::string(100, 'b'), 100), 0);
  // A child closes its copy, then the parent: both are told.
  EXPECT_EQ(flush(opened), -EIO);
  storage_.faults.stop();
  EXPECT_EQ(flush(opened), -EIO);
  EXPECT_EQ(sync(opened), -EIO);
  EXPECT_EQ(sync(opened), 0);
  EXPECT_EQ(flush(opened), 0);
  EXPECT_EQ(release(opened), 0);
}

TEST_F(RequestsByHand, AWriteByAnotherEndsSpecialRights) {
  const Opened opened = create("file");
  for (const auto& [mode, left] :
       std::vector<std::pair<std::uint32_t, std::optional<std::uint32_t>>>{
           {04755, 0755}, {02755, 0755}, {06711, 0711}, {02644, {}}, {0755, {}}}) {
    storage_.instead = [&, mode = mode](Operation& operation) {
      if (operation.kind != Kind::path_status && operation.kind != Kind::file_status)
        return carry_out(operation);
      operation.status.inode = 1;
      operation.status.mode = S_IFREG | mode;
      return true;
    };
    changed_.reset();
    EXPECT_EQ(write(opened, "x", 0, FUSE_WRITE_KILL_SUIDGID), 0);
    ASSERT_EQ(changed_.has_value(), left.has_value()) << mode;
    if (!left) continue;
    EXPECT_EQ(changed_->mode, left);
    EXPECT_EQ(changed_path_, "/r/file");
    EXPECT_FALSE(changed_->owner || changed_->group);
    changed_.reset();
    EXPECT_EQ(write(opened, "x"), 0);
    EXPECT_FALSE(changed_);  // the owner's
  }
}

TEST_F(RequestsByHand, WhatIsMadeBelongsToWhoMadeIt) {
  if (geteuid() != 0) GTEST_SKIP() << "absent: root, who makes files for others";
  create("own");
  EXPECT_FALSE(changed_);
  create("theirs", 1000);
  ASSERT_TRUE(changed_);
  EXPECT_EQ(changed_->owner, 1000U);
  EXPECT_EQ(changed_->group, 1001U);
  EXPECT_FALSE(changed_->mode);
  EXPECT_EQ(changed_path_, "/r/theirs");
  // In a folder whose group its files get.
  folder_mode_ = S_ISGID | 0777;
  EXPECT_EQ(ask(FUSE_GETATTR, FUSE_ROOT_ID, fuse_getattr_in{}).error, 0);
  create("of-the-group", 1000);
  EXPECT_EQ(changed_->owner, 1000U);
  EXPECT_FALSE(changed_->group);
}

}  // namespace
