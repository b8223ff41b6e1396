// What the kernel prints: lines of /proc/self/mountinfo, whose names other users choose, and lists
// of CPUs, which people write too.
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/cpus.hpp"
#include "base/mounts.hpp"
#include "fuzz/bytes.hpp"

namespace ferry::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  const Mount mount = parse_mount(text);
  require(mount.point.size() + mount.source.size() + mount.type.size() <= bytes, "a field grew");
  require(mount.options.size() <= 2 * bytes, "options grew");
  static_cast<void>(option_of(mount, "upperdir"));
  static_cast<void>(lies_under(mount.point, mount.source));
  try {
    const CpuSet cpus = parse_cpus(text);
    require(parse_cpus(to_string(cpus)) == cpus, "a list of CPUs is printed as another one");
  } catch (const std::invalid_argument&) {
  }
  return 0;
}

}  // namespace ferry::fuzz
