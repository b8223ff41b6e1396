#include "collective/team.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <string_view>
#include <thread>

#include <sched.h>

#include "base/futex.hpp"

namespace ferry::collective {
namespace {

// Polls before the first nap: where each rank of the node may have a CPU, and where not.
constexpr int polls_alone = 20'000;
constexpr int polls_shared = 20;

int cpus_usable() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// How many ranks of a machine are taken for a node: what happens between nodes can be tried on one
// machine. All of them, unless the environment says otherwise.
int ranks_per_node() {
  const char* const text = std::getenv("FERRY_RANKS_PER_NODE");
  const int ranks = text != nullptr ? std::atoi(text) : 0;
  return ranks > 0 ? ranks : std::numeric_limits<int>::max();
}

}  // namespace

Team::Team(MPI_Comm communicator) {
  MPI_Comm_rank(communicator, &rank_);
  MPI_Comm_size(communicator, &size_);
  polls_ = polls_shared;  // until it is known who shares the node
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(communicator, &communicator_, &request);
  wait(request);
  // There is no way on for one rank alone whose messages fail.
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_ARE_FATAL);
  find_nodes();
  const auto same = node_of_[static_cast<std::size_t>(rank_)];
  if (std::count(node_of_.begin(), node_of_.end(), same) <= cpus_usable()) polls_ = polls_alone;
}

// By the names of the nodes, because MPI_Comm_split_type cannot be waited for in our way. Whether
// ranks of one name do share memory is found out when they try.
void Team::find_nodes() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  const std::uint64_t own = std::hash<std::string_view>()({name.data(), std::size_t(length)}) +
                            static_cast<std::uint64_t>(rank_ / ranks_per_node());
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&own, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, communicator_, &request);
  wait(request);
  std::map<std::uint64_t, int> nodes;
  for (const std::uint64_t one : all)
    node_of_.push_back(nodes.try_emplace(one, static_cast<int>(nodes.size())).first->second);
}

Team::~Team() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&communicator_);
}

void Team::wait_all(std::span<MPI_Request> requests) const {
  constexpr std::chrono::microseconds nap_min{20};
  constexpr std::chrono::microseconds nap_max{500};
  auto nap = nap_min;
  for (int polls = 0;; ++polls) {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) return;
    if (polls < polls_) continue;
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 5 / 4, nap_max);
  }
}

void Team::wait_for(std::uint32_t& word, std::uint32_t value,
                    std::chrono::microseconds spin) const {
  // Then messages are looked after.
  constexpr std::uint64_t nap_ns = 1'000'000;
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const std::uint32_t seen = std::atomic_ref(word).load();
    if (seen == value) return;
    if (polls_ == polls_alone && std::chrono::steady_clock::now() - begin < spin) continue;
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &there, MPI_STATUS_IGNORE);
    futex_wait_shared(&word, seen, nap_ns);
  }
}

void Team::maximum(std::span<std::int64_t> values) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT64_T, MPI_MAX,
                 communicator_, &request);
  wait(request);
}

void Team::maximum(std::span<double> values) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX,
                 communicator_, &request);
  wait(request);
}

void Team::sum(std::span<double> values) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM,
                 communicator_, &request);
  wait(request);
}

void Team::broadcast(void* data, int bytes) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(data, bytes, MPI_BYTE, 0, communicator_, &request);
  wait(request);
}

void Team::gather(const void* own, int bytes, void* all) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, communicator_, &request);
  wait(request);
}

void Team::throw_if(std::int64_t fault, const std::string& what) const {
  if (fault == 0) return;
  const auto rank = size_ - (fault >> 32);
  throw Error(static_cast<int>(fault & 0x7fffffff), what + " (rank " + std::to_string(rank) + ")");
}

void Team::agree(int error, const std::string& what) const {
  std::int64_t worst = fault(error);
  maximum(std::span(&worst, 1));
  throw_if(worst, what);
}

}  // namespace ferry::collective
