// Paths and URIs of every storage, as programs and files hand them over.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "fuzz/bytes.hpp"
#include "storage/ceph/call.hpp"
#include "storage/entry_names.hpp"
#include "storage/nfs/paths.hpp"
#include "storage/pvfs2/call.hpp"
#include "storage/uri.hpp"

namespace ferry::fuzz {
namespace {

using namespace storage;

void read_uri(const std::string& text) {
  const Uri uri = parse_uri(text);
  require(!uri.path.empty() && uri.path.find('\0') == uri.path.npos, "a URI's path");
  require(uri.port <= 65535, "a port");
  const auto timeout = uri.timeout();
  require(timeout.count() >= 1000 && timeout.count() <= 3'600'000, "a time limit");
  static_cast<void>(uri.uid() + uri.gid());
  const Scheme scheme = scheme_of(text);
  if (scheme == Scheme::ceph) static_cast<void>(ceph_address_of(uri));
  if (scheme == Scheme::pvfs2) static_cast<void>(pvfs2_address_of(uri));
  uri.allow_only("uid gid timeout conf user fs port nfsport mountport connections");
}

// A name put into a URI comes back out of it.
void escape(const std::string& path) {
  if (path.find('\0') != path.npos) return;
  const std::string uri = "nfs://host/" + escaped(path) + "?uid=1";
  require(parse_uri(uri).path == "/" + path, "an escaped path is another one");
  require(path_end(uri) == uri.size() - 6, "the end of a URI's path");
}

void take_last_name(const std::string& path) {
  const LastName last(path);
  require(last.text.find('/') == last.text.npos, "a name has a slash");
  if (!last.is_none() && path.find('\0') == path.npos)
    require(is_entry_name(last.text), "the last name of a path is none");
  require(without_slash(path).size() <= path.size(), "a path grew");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  require(path_end(text) <= text.size(), "the end of a path lies behind it");
  require(name_of(scheme_of(text)) != nullptr, "a scheme without a name");
  escape(text);
  take_last_name(text);
  try {
    read_uri(text);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}

}  // namespace ferry::fuzz
