// The words of lustre.lov, little-endian, as the mock stores them and as tests record them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ferry::test {

// Numbers, one after the other.
class LustreWords {
 public:
  template <class Number>
  LustreWords& add(Number number) {
    const auto* first = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), first, first + sizeof number);
    return *this;
  }
  LustreWords& add(const LustreWords& more) {
    bytes_.insert(bytes_.end(), more.bytes_.begin(), more.bytes_.end());
    return *this;
  }
  const std::vector<std::byte>& get() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

inline LustreWords stripes(std::uint32_t magic, std::uint32_t pattern, std::uint32_t bytes,
                           std::uint16_t count, std::uint16_t first) {
  LustreWords made;
  made.add(magic).add(pattern).add(std::uint64_t{0}).add(std::uint64_t{0});
  return made.add(bytes).add(count).add(first);
}

inline LustreWords pool(std::string_view name) {
  LustreWords made;
  for (std::size_t i = 0; i < 16; ++i)
    made.add(i < name.size() ? name[i] : '\0');
  return made;
}

inline LustreWords object(std::uint32_t server, std::uint64_t stripe = 0) {
  LustreWords made;
  return made.add(std::uint64_t{7}).add(stripe).add(std::uint32_t{0}).add(server);
}

struct LustrePiece {
  std::uint64_t begin;
  std::uint64_t end;
  LustreWords stripes;
  std::uint32_t flags = 0x10;  // it has its servers
};

inline LustreWords composite(const std::vector<LustrePiece>& pieces) {
  LustreWords entries;
  LustreWords blobs;
  auto offset = static_cast<std::uint32_t>(32 + pieces.size() * 48);
  std::uint32_t number = 1;
  for (const LustrePiece& piece : pieces) {
    const auto bytes = static_cast<std::uint32_t>(piece.stripes.get().size());
    entries.add(number++).add(piece.flags).add(piece.begin).add(piece.end);
    entries.add(offset).add(bytes).add(std::uint64_t{0}).add(std::uint64_t{0});
    offset += bytes;
    blobs.add(piece.stripes);
  }
  LustreWords all;
  all.add(std::uint32_t{0x0BD60BD0}).add(offset).add(std::uint32_t{1}).add(std::uint16_t{0});
  all.add(static_cast<std::uint16_t>(pieces.size()));
  return all.add(std::uint64_t{0}).add(std::uint64_t{0}).add(entries).add(blobs);
}

}  // namespace ferry::test
