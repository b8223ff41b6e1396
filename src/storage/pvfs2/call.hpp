// One operation on PVFS2: blocking calls of its system interface.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/pvfs2/client.hpp"
#include "storage/remote_call.hpp"

namespace ferry::storage {

struct Uri;

// Throws std::invalid_argument.
Pvfs2Address pvfs2_address_of(const Uri& uri);

// Shared by the calls. Thread-safe.
struct Pvfs2Shared {
  explicit Pvfs2Shared(const std::string& library) : client(Pvfs2Client::of(library)) {}

  Pvfs2Client& client;
};

// The servers know of no open files; calls that the library keeps hold on to this.
struct Pvfs2Handle {
  Pvfs2Address address;
  pvfs2::Reference reference;
};

struct Pvfs2File final : RemoteFile {
  Pvfs2File() : RemoteFile(Scheme::pvfs2) {}
  std::shared_ptr<const Pvfs2Handle> handle;
};

class Pvfs2Call final : public RemoteCall {
 public:
  Pvfs2Call(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
            std::shared_ptr<Pvfs2Shared> shared);

 private:
  // A name in a folder.
  struct Entry {
    pvfs2::Reference folder;
    std::string folder_path;  // a URI
    std::string name;
  };

  // For a transfer: the bytes of one call of the library.
  struct Piece {
    char* memory;
    std::int64_t bytes;
    std::int64_t offset;
  };

  std::int64_t execute(std::vector<char>& memory) override;
  void let_go() override { handle_.reset(); }
  std::int64_t execute_on_file(std::vector<char>& memory);
  std::int64_t execute_path();
  std::int64_t open();
  std::int64_t open_found(const pvfs2::Reference& reference, bool made);
  std::int64_t truncate();
  std::int64_t rename();
  int may_replace(const pvfs2::Reference& from, const Status& from_status);
  int is_empty(const pvfs2::Reference& folder);
  int lies_below(const pvfs2::Reference& above, const Entry& entry);
  int link_target(const pvfs2::Reference& link, std::string& target);
  std::int64_t make_directory();
  std::int64_t remove(bool directory);
  std::int64_t list_directory();
  std::int64_t sync();
  int room_left();
  int io(const Pvfs2Library& library, const pvfs2::Credential* who, const Piece& piece,
         std::int32_t way, std::int64_t& done);
  std::int64_t read_piece(std::vector<char>& memory, std::int64_t bytes,
                          std::int64_t offset) override;
  std::int64_t write_piece(char* memory, std::int64_t bytes, std::int64_t offset) override;
  std::int64_t size_now() override;

  // One call of the library, for which this one must not be over.
  template <class Use>
  int ask(Use use) {
    return shared_->client.call(
        address_, [this] { return may_begin(); }, use);
  }
  // One that changes a file.
  template <class Use>
  int ask_to_change(const std::shared_ptr<LateChanges>& file, Use use) {
    return ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
      return change(file, [&] { return use(library, who); });
    });
  }

  // All return 0 or a negative errno.
  int look_up(std::int32_t file_system, std::string name, bool follows,
              pvfs2::Reference& reference);
  int place_of(const std::string& path, Pvfs2Place& place);
  int find_any(const std::string& path, bool follows, pvfs2::Reference& reference);
  // Must be a directory if the path says so.
  int find(const std::string& path, bool follows, pvfs2::Reference& reference);
  int find_entry(const std::string& path, Entry& entry);
  int status_of(const pvfs2::Reference& reference, Status& status);
  // Its owner, permissions and times.
  pvfs2::Attributes attributes_of_new() const;
  int create(const Entry& entry, pvfs2::Reference& reference);
  int layout_of(const pvfs2::Reference& reference, Layout& layout);
  int set_size(const pvfs2::Reference& reference, std::int64_t bytes,
               const std::shared_ptr<LateChanges>& file);
  int spread(const pvfs2::Reference& reference, const std::shared_ptr<LateChanges>& file,
             Layout& granted);
  int layout_of_folder(const pvfs2::Reference& reference, Layout& layout);
  int set_layout(const pvfs2::Reference& reference);
  int get_value(const pvfs2::Reference& reference, const char* name, std::string& value);
  int set_value(const pvfs2::Reference& reference, const char* name, const std::string& text);
  bool may(const Status& status, unsigned wanted);

  const std::shared_ptr<Pvfs2Shared> shared_;
  Pvfs2Address address_;
  std::int32_t file_system_ = 0;
  std::shared_ptr<const Pvfs2Handle> handle_;
};

}  // namespace ferry::storage
