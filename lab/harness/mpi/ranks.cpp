#include "harness/mpi/ranks.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include <sched.h>

#include "base/cpus.hpp"

namespace ferry::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Where a rank runs, as numbers that the same nodes and sets of CPUs share. Crosses the wire as it
// is.
struct RankPlace {
  std::uint64_t node = 0;
  std::uint64_t cpus = 0;
  std::int64_t cpu_count = 1;
};

std::uint64_t hash_of(const void* data, std::size_t bytes) {
  return std::hash<std::string_view>()({static_cast<const char*>(data), bytes});
}

RankPlace own_place() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  RankPlace place;
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) place.cpu_count = CPU_COUNT(&cpus);
  place.node = hash_of(name.data(), static_cast<std::size_t>(length));
  place.cpus = hash_of(&cpus, sizeof cpus);
  return place;
}

}  // namespace

Ranks::Ranks(MPI_Comm communicator) {
  MPI_Comm_rank(communicator, &rank_);
  MPI_Comm_size(communicator, &size_);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(communicator, &communicator_, &request);
  wait(request);
  find_neighbours();
}

Ranks::~Ranks() {
  MPI_Comm_free(&communicator_);
}

// MPI libraries may bind each rank to CPUs of its own, so it is ranks with the same CPUs that share
// them.
void Ranks::find_neighbours() {
  const RankPlace own = own_place();
  std::vector<RankPlace> all(size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, communicator_,
                 &request);
  wait(request);
  const auto sharing = std::count_if(all.begin(), all.end(), [&](const RankPlace& one) {
    return one.node == own.node && one.cpus == own.cpus;
  });
  has_cpu_ = sharing <= own.cpu_count;
  for (const RankPlace& place : all) {
    const auto on_node = std::count_if(
        all.begin(), all.end(), [&](const RankPlace& one) { return one.node == place.node; });
    if (on_node > static_cast<std::ptrdiff_t>(usable_cpus())) is_oversubscribed_ = true;
  }
}

std::unique_ptr<Ranks> Ranks::split(int group) const {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_split(communicator_, group, rank_, &made);
  if (made == MPI_COMM_NULL) return nullptr;
  auto ranks = std::make_unique<Ranks>(made);
  MPI_Comm_free(&made);
  return ranks;
}

void Ranks::wait(MPI_Request& request) const {
  // How long to poll before the first nap, where each rank has a CPU; and how often anyway.
  constexpr std::chrono::milliseconds spin_max{2};
  constexpr int polls_min = 20;
  constexpr std::chrono::microseconds nap_min{20};
  constexpr std::chrono::microseconds nap_max{500};
  auto nap = nap_min;
  const auto begin = Clock::now();
  for (int polls = 1;; ++polls) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    if (polls < polls_min || (has_cpu_ && Clock::now() - begin < spin_max)) continue;
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 5 / 4, nap_max);
  }
}

void Ranks::reduce(Values values, MPI_Op operation) const {
  std::vector<std::uint64_t> all;
  for (const std::uint64_t* value : values)
    all.push_back(*value);
  reduce(std::span(all), operation);
  std::size_t i = 0;
  for (std::uint64_t* value : values)
    *value = all[i++];
}

void Ranks::reduce(std::span<std::uint64_t> values, MPI_Op operation) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_UINT64_T,
                 operation, communicator_, &request);
  wait(request);
}

void Ranks::broadcast(void* data, std::size_t bytes) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, communicator_, &request);
  wait(request);
}

void Ranks::agree(int error, const std::string& what) const {
  // That of the lowest rank is the largest.
  const std::uint64_t own = std::uint64_t{size() - rank()} << 32 | static_cast<unsigned>(error);
  std::uint64_t worst = error == 0 ? 0 : own;
  maximum({&worst});
  if (worst == 0) return;
  const std::uint64_t where = size() - (worst >> 32);
  throw Error(static_cast<int>(worst & 0x7fffffff), what + " (rank " + std::to_string(where) + ")");
}

}  // namespace ferry::bench
