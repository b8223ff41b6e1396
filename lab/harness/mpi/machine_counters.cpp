#include "harness/mpi/machine_counters.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace ferry::bench {

SystemCounters SystemCounters::operator-(const SystemCounters& earlier) const {
  return {context_switches - earlier.context_switches, user_cpu_ns - earlier.user_cpu_ns,
          system_cpu_ns - earlier.system_cpu_ns, network_bytes - earlier.network_bytes,
          network_packets - earlier.network_packets};
}

SystemCounters system_counters() {
  SystemCounters counters;
  const std::uint64_t tick_ns = 1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "cpu") {
      std::uint64_t user = 0;
      std::uint64_t nice = 0;
      std::uint64_t system = 0;
      words >> user >> nice >> system;
      counters.user_cpu_ns = (user + nice) * tick_ns;
      counters.system_cpu_ns = system * tick_ns;
    } else if (key == "ctxt") {
      words >> counters.context_switches;
    }
  }
  std::ifstream network("/proc/net/dev");
  for (std::string line; std::getline(network, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    // Eight numbers of what was received, then bytes and packets that were sent.
    std::istringstream words(line.substr(colon + 1));
    std::uint64_t skip = 0;
    std::uint64_t bytes = 0;
    std::uint64_t packets = 0;
    for (int i = 0; i < 8; ++i)
      words >> skip;
    words >> bytes >> packets;
    counters.network_bytes += bytes;
    counters.network_packets += packets;
  }
  return counters;
}

}  // namespace ferry::bench
