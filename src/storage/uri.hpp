// Paths and URIs: the storage that a path names, and the parts of a URI.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "storage/storage.hpp"

namespace ferry::storage {

// Only by the beginning of the path: "nfs://", "ceph:/", "pvfs2:/" or else posix. Put "./" before a
// relative path of a mounted file that begins like that.
Scheme scheme_of(std::string_view path);
const char* name_of(Scheme scheme);

// The end of the file's name: before the query of a URI, at the end of another path.
std::size_t path_end(std::string_view path);

// Of each call to a server, unless its URI has another one.
inline constexpr std::chrono::seconds timeout_default{30};

// scheme://host:port/path?name=value&name=value, or without a host ceph:/path?name=value
// (pvfs2:/path)
struct Uri {
  std::string host;
  unsigned port = 0;  // 0: none given
  std::string path;   // from the first slash on; %41 encodes A
  std::map<std::string, std::string> query;

  // The value of `name` in the query, or `otherwise`.
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  // The same as a number. Throws std::invalid_argument for one that is no number from `least` to
  // `most`.
  unsigned number(const std::string& name, unsigned otherwise, unsigned least, unsigned most) const;
  // The settings that all servers have: who asks, by default this process's user, and the limit of
  // each call. The same errors.
  unsigned uid() const;
  unsigned gid() const;
  std::chrono::milliseconds timeout() const;
  // Throws std::invalid_argument when the query has a name that is not among `known`, which are
  // separated by blanks.
  void allow_only(std::string_view known) const;
};

// A path as it stands in a URI: without what would end it or begin another part.
std::string escaped(std::string_view path);

// Throws std::invalid_argument with a line that says what is wrong.
Uri parse_uri(std::string_view text);

}  // namespace ferry::storage
