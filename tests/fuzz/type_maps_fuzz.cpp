// Type maps: file views from the numbers of a program, and the runs that they travel as.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include <ferry/error.hpp>
#include <ferry/typemap.hpp>

#include "collective/extents.hpp"
#include "collective/runs.hpp"
#include "fuzz/bytes.hpp"

namespace ferry::fuzz {
namespace {

using namespace collective;

constexpr std::uint64_t edges[] = {0, 4096, std::uint64_t{1} << 31, std::uint64_t{1} << 62,
                                   std::uint64_t{1} << 63};
// What a program may ask for without running out of memory by its own request.
constexpr std::int64_t count_max = 1000;

std::int64_t number(InputBytes& input) {
  return static_cast<std::int64_t>(input.number(edges));
}

TypeMap any_map(InputBytes& input) {
  switch (input.take<std::uint8_t>() % 4) {
    case 0:
      return TypeMap::contiguous(number(input));
    case 1:
      return TypeMap::strided(std::min(number(input), count_max), number(input), number(input));
    case 2: {
      std::vector<std::int64_t> sizes;
      std::vector<std::int64_t> subsizes;
      std::vector<std::int64_t> starts;
      for (unsigned left = input.take<std::uint8_t>() % 4; left > 0; --left) {
        sizes.push_back(number(input));
        subsizes.push_back(std::min<std::int64_t>(number(input), 10));
        starts.push_back(number(input));
      }
      return TypeMap::subarray(sizes, subsizes, starts, number(input));
    }
    default: {
      std::vector<Extent> extents;
      for (unsigned left = input.take<std::uint8_t>() % 16; left > 0; --left)
        extents.push_back({number(input), number(input)});
      return TypeMap::list(extents, number(input));
    }
  }
}

// Of a view whose first bytes lie below 2^62: positions there have a stream and the reverse.
void use(const TypeMap& map) {
  if (!map.is_file_view() || map.data_bytes() == 0) return;
  constexpr std::int64_t far = std::int64_t{1} << 40;
  if (map.period_bytes() > far || map.extents().back().offset > far) return;
  for (const std::int64_t stream : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4097}}) {
    const std::int64_t position = map.position_of(stream);
    require(map.stream_at(position) == stream, "a position is that of another byte");
  }
  constexpr std::int64_t bytes = 100;
  const std::vector<Run> runs = runs_of(map, 7, 3, bytes);
  require(bytes_of(runs) == bytes, "runs of another length");
  std::vector<Run> merged = runs;
  merge(merged, 0);
  require(bytes_of(merged) == bytes, "merged runs of another length");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  InputBytes input(data, bytes);
  try {
    use(any_map(input));
  } catch (const Error& error) {
    require(error.code().value() == EINVAL, "an errno that is not documented");
  }
  return 0;
}

}  // namespace ferry::fuzz
