#include "storage/pvfs2/call.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/entry_names.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {
namespace {

using pvfs2::Attributes;
using pvfs2::Credential;
using pvfs2::Reference;

// Of a server; with less of it one more strip of the usual size does not fit.
constexpr std::int64_t room_min_bytes = 65536;

std::uint32_t type_bits(std::int32_t type) {
  if (type == pvfs2::type_file) return S_IFREG;
  if (type == pvfs2::type_directory) return S_IFDIR;
  return type == pvfs2::type_link ? S_IFLNK : 0;
}

Status to_status(const Attributes& from, const Reference& reference) {
  Status to;
  to.size_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(from.size_bytes, 0));
  to.allocated_bytes = to.size_bytes;
  to.inode = reference.handle;
  // The highest bit keeps it apart from the kernel's numbers.
  to.device = static_cast<std::uint32_t>(reference.file_system) | (std::uint64_t{1} << 63);
  to.accessed_ns = static_cast<std::int64_t>(from.accessed_s) * 1'000'000'000;
  to.modified_ns = static_cast<std::int64_t>(from.modified_s) * 1'000'000'000;
  to.mode = (from.permissions & 07777) | type_bits(from.type);
  to.links = 1;
  to.owner = from.owner;
  to.group = from.group;
  to.block_bytes = static_cast<std::uint32_t>(std::max<std::int64_t>(from.block_bytes, 4096));
  return to;
}

}  // namespace

Pvfs2Address pvfs2_address_of(const Uri& uri) {
  uri.allow_only("gid tab timeout uid");
  Pvfs2Address address;
  address.table = uri.text("tab");
  address.uid = uri.uid();
  address.gid = uri.gid();
  address.timeout = uri.timeout();
  return address;
}

Pvfs2Call::Pvfs2Call(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
                     std::shared_ptr<Pvfs2Shared> shared)
    : RemoteCall(operation, inbox, timeout), shared_(std::move(shared)) {
  if (auto* file = static_cast<Pvfs2File*>(operation.file); file != nullptr) {
    handle_ = kind_ == Kind::close ? std::move(file->handle) : file->handle;
    address_ = handle_->address;
  }
}

std::int64_t Pvfs2Call::execute(std::vector<char>& memory) {
  if (handle_ == nullptr) return execute_path();
  const std::int64_t result = execute_on_file(memory);
  // There is a file for a handle until it is removed.
  return result == -ENOENT ? -ESTALE : result;
}

std::int64_t Pvfs2Call::execute_on_file(std::vector<char>& memory) {
  std::int64_t result = -EINVAL;
  switch (kind_) {
    case Kind::close:
      // A change stuck in the library may not arrive.
      return handle_.use_count() > 1 && changes_->error() != 0 ? -EIO : 0;
    case Kind::read:
      return read(memory);
    case Kind::write:
    case Kind::append:
      result = kind_ == Kind::append || appends_ ? append(memory) : write(memory, offset_);
      if (result > 0 && synchronous_) {
        if (const std::int64_t error = sync(); error < 0) return error;
      }
      return result;
    case Kind::sync:
    case Kind::sync_data:
      return sync();
    case Kind::truncate:
      return truncate();
    case Kind::file_status: {
      Status status;
      const int error = status_of(handle_->reference, status);
      if (error == 0) touch([&](Operation& operation) { operation.status = status; });
      return error;
    }
    default:
      return result;
  }
}

std::int64_t Pvfs2Call::execute_path() {
  address_ = pvfs2_address_of(parse_uri(path_));
  Reference reference;
  switch (kind_) {
    case Kind::open:
      return open();
    case Kind::unlink:
      return remove(false);
    case Kind::rename:
      return rename();
    case Kind::make_directory:
      return make_directory();
    case Kind::remove_directory:
      return remove(true);
    case Kind::list_directory:
      return list_directory();
    case Kind::path_status: {
      Status status;
      int error = find(path_, (flags_ & O_NOFOLLOW) == 0, reference);
      if (error == 0) error = status_of(reference, status);
      if (error == 0) touch([&](Operation& operation) { operation.status = status; });
      return error;
    }
    case Kind::path_layout: {
      Layout layout;
      int error = find(path_, true, reference);
      if (error == 0) error = layout_of(reference, layout);
      if (error == 0) touch([&](Operation& operation) { *operation.layout = layout; });
      return error;
    }
    case Kind::read_link: {
      Status status;
      std::string text;
      int error = find(path_, false, reference);
      if (error == 0) error = status_of(reference, status);
      if (error == 0) error = S_ISLNK(status.mode) ? link_target(reference, text) : -EINVAL;
      if (error == 0) touch([&](Operation& operation) { *operation.text = text; });
      return error;
    }
    case Kind::set_attributes:
    case Kind::make_link:
    case Kind::add_name:
      return -EOPNOTSUPP;
    case Kind::set_layout: {
      const int error = find(path_, true, reference);
      return error != 0 ? error : set_layout(reference);
    }
    default:
      return -EINVAL;
  }
}

// ---- names

int Pvfs2Call::look_up(std::int32_t file_system, std::string name, bool follows,
                       Reference& reference) {
  return ask([&](const Pvfs2Library& library, const Credential* who) {
    pvfs2::LookedUp found;
    const int error = library.lookup(file_system, name.data(), who, &found,
                                     follows ? pvfs2::follow_last_link : 0, nullptr);
    if (error == 0) reference = found.reference;
    return error;
  });
}

int Pvfs2Call::place_of(const std::string& path, Pvfs2Place& place) {
  const Uri uri = parse_uri(path);
  if (uri.path.size() >= PATH_MAX) return -ENAMETOOLONG;
  place = shared_->client.place_of(address_, uri.path);
  file_system_ = place.file_system;
  for (std::size_t at = 0; at < place.path.size();) {
    const std::size_t next = std::min(place.path.find('/', at), place.path.size());
    if (next - at > NAME_MAX) return -ENAMETOOLONG;
    at = next + 1;
  }
  return 0;
}

int Pvfs2Call::find_any(const std::string& path, bool follows, Reference& reference) {
  Pvfs2Place place;
  if (const int error = place_of(path, place); error != 0) return error;
  const int error = look_up(place.file_system, place.path, follows, reference);
  if (error == -EMLINK) return -ELOOP;  // the library's word for links that lead to each other
  const std::size_t slash = place.path.rfind('/');
  if (error != -ENOENT || slash == 0 || slash == std::string::npos) return error;
  // The library does not distinguish a folder without the name from a file with something behind
  // it.
  Status status;
  Reference above;
  const bool below_file =
      look_up(place.file_system, place.path.substr(0, slash), follows, above) == 0 &&
      status_of(above, status) == 0 && !S_ISDIR(status.mode);
  return below_file ? -ENOTDIR : error;
}

int Pvfs2Call::find(const std::string& path, bool follows, Reference& reference) {
  const LastName last_name(parse_uri(path).path);
  const int error = find_any(path, follows || last_name.is_none(), reference);
  if (error != 0 || !last_name.wants_directory()) return error;
  Status status;
  if (const int unknown = status_of(reference, status); unknown != 0) return unknown;
  return S_ISDIR(status.mode) ? 0 : -ENOTDIR;
}

int Pvfs2Call::find_entry(const std::string& path, Entry& entry) {
  const Uri uri = parse_uri(path);
  const LastName last_name(uri.path);
  entry.name = last_name.text;
  if (entry.name.size() > NAME_MAX || uri.path.size() >= PATH_MAX) return -ENAMETOOLONG;
  if (last_name.is_none()) {
    const int error = find(path, true, entry.folder);
    return error != 0 ? error : last_name.refusal(kind_, flags_);
  }
  const std::string query = path.substr(std::min(path.find('?'), path.size()));
  const std::string above = path.substr(0, path.size() - query.size());
  const std::size_t last = above.find_last_not_of('/');
  Status status;
  entry.folder_path = above.substr(0, above.rfind('/', last)) + "/" + query;
  int error = find_any(entry.folder_path, true, entry.folder);
  if (error == 0) error = status_of(entry.folder, status);
  if (error != 0) return error;
  return S_ISDIR(status.mode) ? 0 : -ENOTDIR;
}

int Pvfs2Call::status_of(const Reference& reference, Status& status) {
  return ask([&](const Pvfs2Library& library, const Credential* who) {
    Attributes found;
    constexpr std::uint32_t wanted = pvfs2::mask_owner | pvfs2::mask_group |
                                     pvfs2::mask_permissions | pvfs2::mask_times |
                                     pvfs2::mask_type | pvfs2::mask_size | pvfs2::mask_block_bytes;
    const int error = library.getattr(reference, wanted, who, &found, nullptr);
    if (error != 0) return error;
    status = to_status(found, reference);
    library.release_attributes(&found);
    return 0;
  });
}

// ---- opening

bool Pvfs2Call::may(const Status& status, unsigned wanted) {
  if (address_.uid == 0) return true;
  if (address_.uid == status.owner) return ((status.mode >> 6) & wanted) == wanted;
  bool in_group = false;
  ask([&](const Pvfs2Library&, const Credential* who) {
    in_group = std::find(who->groups, who->groups + who->group_count, status.group) !=
               who->groups + who->group_count;
    return 0;
  });
  return ((status.mode >> (in_group ? 3 : 0)) & wanted) == wanted;
}

Attributes Pvfs2Call::attributes_of_new() const {
  Attributes attributes;
  attributes.owner = address_.uid;
  attributes.group = address_.gid;
  attributes.permissions = mode_ & 07777 & ~umask_of_process();
  attributes.accessed_s = attributes.modified_s = attributes.changed_s =
      static_cast<std::uint64_t>(std::time(nullptr));
  attributes.mask =
      pvfs2::mask_owner | pvfs2::mask_group | pvfs2::mask_permissions | pvfs2::mask_times;
  return attributes;
}

int Pvfs2Call::create(const Entry& entry, Reference& reference) {
  const Layout fitted = has_layout_ ? fitted_to_pvfs2(layout_) : Layout{};
  return ask([&](const Pvfs2Library& library, const Credential* who) {
    Attributes attributes = attributes_of_new();
    if (fitted.stripe_count > 0) {
      attributes.data_files = static_cast<std::int32_t>(fitted.stripe_count);
      attributes.mask |= pvfs2::mask_data_files;
    }
    pvfs2::Distribution* distribution = nullptr;
    int error = 0;
    if (fitted.stripe_bytes > 0) {
      distribution = library.find_distribution("simple_stripe");
      auto strip_bytes = static_cast<std::int64_t>(fitted.stripe_bytes);
      error = distribution == nullptr
                  ? -1
                  : library.set_distribution(distribution, "strip_size", &strip_bytes);
    }
    std::string name = entry.name;
    if (error == 0) {
      error = library.create(name.data(), entry.folder, attributes, who, distribution, &reference,
                             nullptr, nullptr);
    }
    if (distribution != nullptr) library.free_distribution(distribution);
    return error;
  });
}

std::int64_t Pvfs2Call::open() {
  if ((flags_ & O_TMPFILE) == O_TMPFILE || (flags_ & O_PATH) != 0) return -EOPNOTSUPP;
  const bool makes = (flags_ & O_CREAT) != 0;
  const bool only_new = makes && (flags_ & O_EXCL) != 0;
  if (has_layout_ && !only_new) return -EINVAL;
  const LastName last_name(parse_uri(path_).path);
  Reference reference;
  Entry entry;
  if (makes && last_name.wants_directory()) {
    const int error = find_entry(path_, entry);
    return error != 0 ? error : -EISDIR;
  }
  if (!only_new) {
    const int error = find(path_, (flags_ & O_NOFOLLOW) == 0, reference);
    if (error != -ENOENT || !makes) return error != 0 ? error : open_found(reference, false);
  }
  if (const int error = find_entry(path_, entry); error != 0) return error;
  int error = create(entry, reference);
  if (error == -EEXIST && !only_new) error = find(path_, true, reference);
  if (error != 0) return error;
  const std::int64_t result = open_found(reference, true);
  if (result < 0 && only_new) {
    ask([&](const Pvfs2Library& library, const Credential* who) {
      return library.remove(entry.name.data(), entry.folder, who, nullptr);
    });
  }
  return result;
}

std::int64_t Pvfs2Call::open_found(const Reference& reference, bool made) {
  auto file = std::make_unique<Pvfs2File>();
  file->opened_with(flags_);
  Status status;
  if (const int error = status_of(reference, status); error != 0) return error;
  if (const int error = refusal_of_type(status.mode); error != 0) return error;
  file->directory = S_ISDIR(status.mode);
  const bool truncates = (flags_ & O_TRUNC) != 0;
  if (file->directory && (file->writable || truncates || (flags_ & O_CREAT) != 0)) return -EISDIR;
  if (!file->directory && (flags_ & O_DIRECTORY) == O_DIRECTORY) return -ENOTDIR;
  const unsigned wanted = (file->readable ? 4U : 0U) | (file->writable || truncates ? 2U : 0U);
  if (!made && !may(status, wanted)) return -EACCES;
  file->changes = LateChanges::of(status.device, status.inode);
  if (truncates && status.size_bytes > 0) {
    if (const int error = set_size(reference, 0, file->changes); error != 0) return error;
  }
  Layout granted;
  if (has_layout_) {
    int error = layout_of(reference, granted);
    if (error == 0 && made && granted.stripe_count < layout_.stripe_count) {
      error = spread(reference, file->changes, granted);
    }
    if (error != 0) return error;
    if (!layout_.at_most && !grants(granted, layout_)) return -EINVAL;
  }
  file->appending = AppendTurn::of(status.device, status.inode);
  file->timeout = address_.timeout;
  file->handle = std::make_shared<const Pvfs2Handle>(Pvfs2Handle{address_, reference});
  touch([&](Operation& operation) {
    operation.opened = std::move(file);
    if (has_layout_) *operation.layout = granted;
  });
  return 0;
}

int Pvfs2Call::set_size(const Reference& reference, std::int64_t bytes,
                        const std::shared_ptr<LateChanges>& file) {
  return ask_to_change(file, [&](const Pvfs2Library& library, const Credential* who) {
    return library.truncate(reference, bytes, who, nullptr);
  });
}

// Servers that stuff files keep a new one on one server until it grows past its first strip. Only
// then is it spread as requested, so it is extended and truncated.
int Pvfs2Call::spread(const Reference& reference, const std::shared_ptr<LateChanges>& file,
                      Layout& granted) {
  const auto past_first_strip = static_cast<std::int64_t>(granted.stripe_bytes) + 1;
  for (const std::int64_t bytes : {past_first_strip, std::int64_t{0}})
    if (const int error = set_size(reference, bytes, file); error != 0) return error;
  return layout_of(reference, granted);
}

// ---- transfers

int Pvfs2Call::io(const Pvfs2Library& library, const Credential* who, const Piece& piece,
                  std::int32_t way, std::int64_t& done) {
  pvfs2::Request* whole = nullptr;
  int result = library.contiguous(static_cast<std::int32_t>(piece.bytes), *library.bytes, &whole);
  if (result < 0) return result;
  result = library.io(handle_->reference, *library.bytes, piece.offset, piece.memory, whole, who,
                      &done, way, nullptr);
  library.free_request(&whole);
  return result;
}

std::int64_t Pvfs2Call::read_piece(std::vector<char>& memory, std::int64_t bytes,
                                   std::int64_t offset) {
  std::int64_t done = 0;
  const int error = ask([&](const Pvfs2Library& library, const Credential* who) {
    return io(library, who, {memory.data(), bytes, offset}, pvfs2::io_read, done);
  });
  return error < 0 ? error : done;
}

std::int64_t Pvfs2Call::write_piece(char* memory, std::int64_t bytes, std::int64_t offset) {
  std::int64_t done = 0;
  const int error =
      ask_to_change(changes_, [&](const Pvfs2Library& library, const Credential* who) {
        return io(library, who, {memory, bytes, offset}, pvfs2::io_write, done);
      });
  return error < 0 ? error : done;
}

std::int64_t Pvfs2Call::size_now() {
  Status status;
  const int error = status_of(handle_->reference, status);
  return error != 0 ? error : static_cast<std::int64_t>(status.size_bytes);
}

std::int64_t Pvfs2Call::truncate() {
  if (!writable_ || offset_ < 0) return -EINVAL;
  return set_size(handle_->reference, offset_, changes_);
}

std::int64_t Pvfs2Call::sync() {
  if (directory_) return 0;  // the library refuses it: a change of names is over when it is durable
  const int error = ask([&](const Pvfs2Library& library, const Credential* who) {
    return library.flush(handle_->reference, who, nullptr);
  });
  return error == 0 && writable_ ? room_left() : error;
}

// Servers accept data they have no space for, and lose it silently.
int Pvfs2Call::room_left() {
  pvfs2::Room room;
  const int error = ask([&](const Pvfs2Library& library, const Credential* who) {
    return library.statfs(handle_->reference.file_system, who, &room, nullptr);
  });
  if (error != 0) return 0;  // unknown; the flush's result stands
  return room.bytes_available < std::max(room.servers, 1) * room_min_bytes ? -ENOSPC : 0;
}

}  // namespace ferry::storage
