#include "runtime/cpu_plan.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace ferry {
namespace {

// Of threads and rings: far more than any machine has use for, and few enough to be counted. A
// process seldom may have more threads than twice as many as those of the device.
constexpr unsigned device_threads_max = 1U << 14;
constexpr unsigned server_threads_max = 4096;
constexpr unsigned rings_max = 1U << 16;

void check_count(unsigned count, unsigned most, const char* option) {
  if (count > most) throw Error(EINVAL, std::string(option) + ": at most " + std::to_string(most));
}

CpuSet checked(const std::string& text, const CpuSet& allowed, const char* option) {
  CpuSet cpus;
  try {
    cpus = parse_cpus(text);
  } catch (const std::invalid_argument& error) {
    throw Error(EINVAL, std::string(option) + ": " + error.what());
  }
  for (const int cpu : cpus) {
    if (!std::binary_search(allowed.begin(), allowed.end(), cpu)) {
      throw Error(EINVAL, std::string(option) + ": this process may not use CPU " +
                              std::to_string(cpu) + " (it may use " + to_string(allowed) + ")");
    }
  }
  return cpus;
}

CpuSet without(const CpuSet& cpus, const CpuSet& taken) {
  CpuSet left;
  std::set_difference(cpus.begin(), cpus.end(), taken.begin(), taken.end(),
                      std::back_inserter(left));
  return left.empty() ? cpus : left;
}

// Takes the services' CPUs from the device's partition, which keeps at least one. If there are too
// few, the services share them all.
void set_services_aside(CpuPlan& plan, const RuntimeOptions& options) {
  // They serve calls of the page cache; without one there are none.
  plan.service_threads = options.cache_bytes > 0 ? options.service_threads : 0;
  const std::size_t cpus = plan.device_cpus.size();
  if (plan.service_threads == 0) return;
  if (plan.service_threads < cpus) {
    const auto first = plan.device_cpus.end() - plan.service_threads;
    plan.service_cpus = CpuSet(first, plan.device_cpus.end());
    plan.device_cpus.erase(first, plan.device_cpus.end());
    return;
  }
  if (!options.device_cpus.empty()) {
    throw Error(EINVAL, "service_threads: device_cpus has " + std::to_string(cpus) +
                            ", of which the device keeps at least one, so " +
                            std::to_string(plan.service_threads) + " cannot be set aside");
  }
  plan.service_cpus = plan.device_cpus;
}

}  // namespace

CpuPlan plan_cpus(const RuntimeOptions& options, const CpuSet& allowed, unsigned usable) {
  check_count(options.device_threads, device_threads_max, "device_threads");
  check_count(options.server_threads, server_threads_max, "server_threads");
  check_count(options.service_threads, server_threads_max, "service_threads");
  check_count(options.rings, rings_max, "rings");
  CpuPlan plan;
  plan.device_cpus = checked(options.device_cpus, allowed, "device_cpus");
  plan.server_cpus = checked(options.server_cpus, allowed, "server_cpus");
  const auto cpus = static_cast<unsigned>(allowed.size());
  const unsigned device_wish =
      options.device_threads != 0 ? options.device_threads : std::max(1U, cpus - 1);
  // One per eight that run at the same time.
  plan.server_threads = options.server_threads != 0 ? options.server_threads
                                                    : std::max(1U, std::min(device_wish, cpus) / 8);

  if (plan.server_cpus.empty()) {
    const CpuSet candidates =
        plan.device_cpus.empty() ? allowed : without(allowed, plan.device_cpus);
    // Leave the device at least one CPU, if there are several.
    const auto count = static_cast<unsigned>(candidates.size());
    const unsigned spare = plan.device_cpus.empty() ? std::max(1U, count - 1) : count;
    const unsigned take = std::min(plan.server_threads, spare);
    plan.server_cpus = CpuSet(candidates.end() - take, candidates.end());
  }
  if (plan.device_cpus.empty()) plan.device_cpus = without(allowed, plan.server_cpus);
  set_services_aside(plan, options);
  plan.device_threads = options.device_threads != 0
                            ? options.device_threads
                            : static_cast<unsigned>(plan.device_cpus.size());

  CpuSet shared;
  std::set_intersection(plan.device_cpus.begin(), plan.device_cpus.end(), plan.server_cpus.begin(),
                        plan.server_cpus.end(), std::back_inserter(shared));
  const auto device_cpus = static_cast<unsigned>(plan.device_cpus.size());
  const auto server_cpus = static_cast<unsigned>(plan.server_cpus.size());
  const bool services_share = plan.service_threads > 0 && plan.service_cpus == plan.device_cpus;
  const unsigned busy = std::min(plan.device_threads, device_cpus) +
                        std::min(plan.server_threads, server_cpus) + plan.service_threads;
  const bool fits = shared.empty() && !services_share && busy <= usable;
  plan.device_may_spin = fits && plan.device_threads <= device_cpus;
  plan.server_may_spin = fits && plan.server_threads <= server_cpus;
  return plan;
}

}  // namespace ferry
