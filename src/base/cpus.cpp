#include "base/cpus.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry {
namespace {

constexpr int cpus_max = 4096;

// The CPU quota of the process's cgroup: version 2, then version 1. 0: none.
double cgroup_quota() {
  std::ifstream self("/proc/self/cgroup");
  std::vector<std::string> places = {"/sys/fs/cgroup/cpu.max"};
  for (std::string line; std::getline(self, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    // Of the groups around it as well.
    for (std::string place = line.substr(3); !place.empty() && place != "/";
         place.resize(place.rfind('/')))
      places.push_back("/sys/fs/cgroup" + place + "/cpu.max");
  }
  double smallest = 0;
  for (const std::string& place : places) {
    std::ifstream file(place);
    double quota = 0;
    double period = 0;
    if (file >> quota >> period && period > 0) {
      smallest = smallest == 0 ? quota / period : std::min(smallest, quota / period);
    }
  }
  double quota_us = -1;
  double period_us = 0;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota_us;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period_us;
  if (quota_us > 0 && period_us > 0) {
    smallest = smallest == 0 ? quota_us / period_us : std::min(smallest, quota_us / period_us);
  }
  return smallest;
}

// Needs no memory: a thread that only begins has nobody to tell that there is none.
bool bind_this_thread(std::span<const int> cpus) {
  std::array<cpu_set_t, cpus_max / CPU_SETSIZE> mask;
  CPU_ZERO_S(sizeof mask, mask.data());
  for (const int cpu : cpus)
    CPU_SET_S(static_cast<std::size_t>(cpu), sizeof mask, mask.data());
  return pthread_setaffinity_np(pthread_self(), sizeof mask, mask.data()) == 0;
}

int parse_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value >= cpus_max) {
    throw std::invalid_argument("'" + std::string(text) + "' is no CPU number");
  }
  return value;
}

}  // namespace

CpuSet allowed_cpus() {
  cpu_set_t* mask = CPU_ALLOC(cpus_max);
  const std::size_t bytes = CPU_ALLOC_SIZE(cpus_max);
  CpuSet cpus;
  if (sched_getaffinity(0, bytes, mask) == 0) {
    for (std::size_t cpu = 0; cpu < cpus_max; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask)) cpus.push_back(static_cast<int>(cpu));
    }
  }
  CPU_FREE(mask);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

unsigned usable_cpus() {
  const auto allowed = static_cast<unsigned>(allowed_cpus().size());
  const double quota = cgroup_quota();
  // A fraction of a CPU cannot carry a spinning thread.
  return quota > 0 && quota < allowed ? std::max(1U, static_cast<unsigned>(quota)) : allowed;
}

int numa_node(int cpu) {
  const std::string directory = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (name.rfind("node", 0) == 0) return parse_number(std::string_view(name).substr(4));
  }
  return 0;
}

CpuSet parse_cpus(std::string_view text) {
  CpuSet cpus;
  bool more = !text.empty();
  while (more) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const int first = parse_number(part.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1));
    if (last < first) throw std::invalid_argument("'" + std::string(part) + "' is no CPU range");
    for (int cpu = first; cpu <= last; ++cpu)
      cpus.push_back(cpu);
    more = comma != std::string_view::npos;
    if (more) text = text.substr(comma + 1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string to_string(const CpuSet& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1)
      ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (last > i) text += '-' + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

bool run_this_thread_on(const CpuSet& cpus) {
  return cpus.empty() || bind_this_thread(cpus);
}

bool run_this_thread_on_cpu(int cpu) {
  return bind_this_thread({&cpu, 1});
}

void name_this_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

pid_t number_of_this_thread() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

}  // namespace ferry
