#include "storage/uri.hpp"

#include <array>
#include <charconv>
#include <stdexcept>

#include <unistd.h>

namespace ferry::storage {
namespace {

constexpr std::string_view nfs_prefix = "nfs://";
constexpr std::string_view ceph_prefix = "ceph:/";
constexpr std::string_view pvfs2_prefix = "pvfs2:/";
constexpr unsigned timeout_max_s = 3600;
constexpr unsigned id_max = 0xfffffffe;

// Throws std::invalid_argument for anything but a number from `least` to `most`.
unsigned parse_number(std::string_view text, std::string_view what, unsigned least, unsigned most) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw std::invalid_argument(std::string(what) + "=" + std::string(text) +
                                " is no number from " + std::to_string(least) + " to " +
                                std::to_string(most));
  }
  return value;
}

std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2 || value == 0) {
      throw std::invalid_argument("a % in a URI stands before two hexadecimal digits; write %25");
    }
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

void parse_authority(std::string_view authority, Uri& uri) {
  std::string_view host = authority;
  std::string_view port;
  const std::size_t bracket = authority.rfind(']');  // [::1]:2049
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
    uri.port = parse_number(port, "port", 1, 65535);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty()) throw std::invalid_argument("a server's name must follow the //");
  uri.host = host;
}

void parse_query(std::string_view query, Uri& uri) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      throw std::invalid_argument("after the ? come pairs like name=value, separated by &");
    }
    uri.query[std::string(pair.substr(0, equals))] = decoded(pair.substr(equals + 1));
  }
}

}  // namespace

Scheme scheme_of(std::string_view path) {
  if (path.starts_with(nfs_prefix)) return Scheme::nfs;
  if (path.starts_with(pvfs2_prefix)) return Scheme::pvfs2;
  return path.starts_with(ceph_prefix) ? Scheme::ceph : Scheme::posix;
}

const char* name_of(Scheme scheme) {
  constexpr std::array<const char*, schemes> names{"posix", "nfs", "ceph", "pvfs2"};
  return names.at(static_cast<std::size_t>(scheme));
}

std::string escaped(std::string_view path) {
  std::string text;
  for (const char letter : path) {
    if (letter == '%') {
      text += "%25";
    } else if (letter == '?') {
      text += "%3F";
    } else if (letter == '#') {
      text += "%23";
    } else {
      text += letter;
    }
  }
  return text;
}

std::size_t path_end(std::string_view path) {
  return scheme_of(path) == Scheme::posix ? path.size() : std::min(path.find('?'), path.size());
}

std::string Uri::text(const std::string& name, const std::string& otherwise) const {
  const auto found = query.find(name);
  return found == query.end() ? otherwise : found->second;
}

unsigned Uri::number(const std::string& name, unsigned otherwise, unsigned least,
                     unsigned most) const {
  const auto found = query.find(name);
  return found == query.end() ? otherwise : parse_number(found->second, name, least, most);
}

unsigned Uri::uid() const {
  return number("uid", ::geteuid(), 0, id_max);
}

unsigned Uri::gid() const {
  return number("gid", ::getegid(), 0, id_max);
}

std::chrono::milliseconds Uri::timeout() const {
  return std::chrono::seconds(
      number("timeout", static_cast<unsigned>(timeout_default.count()), 1, timeout_max_s));
}

void Uri::allow_only(std::string_view known) const {
  const std::string padded = " " + std::string(known) + " ";
  for (const auto& [name, value] : query) {
    if (padded.find(" " + name + " ") == std::string::npos) {
      throw std::invalid_argument("no setting \"" + name + "\"; there are: " + std::string(known));
    }
  }
}

Uri parse_uri(std::string_view text) {
  const bool local = text.starts_with(ceph_prefix) || text.starts_with(pvfs2_prefix);
  const std::string_view separator = local ? ":" : "://";
  const std::size_t start = text.find(separator);
  if (start == std::string_view::npos) throw std::invalid_argument("not a URI with ://");
  if (text.find('\0') != text.npos) throw std::invalid_argument("a zero byte in a URI");
  text.remove_prefix(start + separator.size());
  Uri uri;
  const std::size_t question = text.find('?');
  if (question != std::string_view::npos) parse_query(text.substr(question + 1), uri);
  text = text.substr(0, question);
  const std::size_t slash = text.find('/');
  if (!local) parse_authority(text.substr(0, slash), uri);
  if (slash == std::string_view::npos) {
    throw std::invalid_argument("a path must follow the server's name");
  }
  uri.path = decoded(text.substr(slash));
  return uri;
}

}  // namespace ferry::storage
