#include "collective/team.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <thread>

#include <sched.h>
#include <unistd.h>

#include "base/futex.hpp"
#include "collective/orders.hpp"

namespace ferry::collective {
namespace {

using Clock = std::chrono::steady_clock;

// How long to poll before the first nap if each rank may have a CPU; and the minimum of polls.
constexpr std::chrono::milliseconds spin_max{2};
constexpr int polls_min = 20;

// A rank's location. Sent as is.
struct Place {
  std::uint64_t node = 0;
  std::uint64_t cpus = 0;  // identifies the set of CPUs
  std::int64_t cpu_count = 1;

  bool has_same_cpus(const Place& other) const { return node == other.node && cpus == other.cpus; }
};

std::uint64_t hash_of(const void* data, std::size_t bytes) {
  return std::hash<std::string_view>()({static_cast<const char*>(data), bytes});
}

// How many ranks of a machine count as a node: lets one machine test what happens between nodes.
// All by default.
int ranks_per_node() {
  const char* const text = std::getenv("FERRY_RANKS_PER_NODE");
  const int ranks = text != nullptr ? std::atoi(text) : 0;
  return ranks > 0 ? ranks : std::numeric_limits<int>::max();
}

Place place_of(int rank) {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  Place place;
  place.node = hash_of(name.data(), static_cast<std::size_t>(length)) +
               static_cast<std::uint64_t>(rank / ranks_per_node());
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) place.cpu_count = CPU_COUNT(&cpus);
  place.cpus = hash_of(&cpus, sizeof cpus);
  return place;
}

// The first rank of a group; see group_of().
int first_of_group(int group, int groups, int ranks) {
  return static_cast<int>((std::int64_t{group} * ranks + groups - 1) / groups);
}

// Tells this one apart from other communicators that threads of the program make meanwhile.
constexpr int group_tag = 0x4665;

struct Kept {
  int groups = 0;
  MPI_Comm communicator = MPI_COMM_NULL;
};

// MPI calls it when the communicator with the attribute is freed. During MPI_Finalize it frees
// nothing: libraries do not say whether that is allowed, and the process ends anyway.
int forget(MPI_Comm of, int /*key*/, void* value, void* /*extra*/) {
  const std::unique_ptr<Kept> kept(static_cast<Kept*>(value));
  if (of != MPI_COMM_WORLD && of != MPI_COMM_SELF) MPI_Comm_free(&kept->communicator);
  return MPI_SUCCESS;
}

int make_key() {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, nullptr);
  return key;
}

}  // namespace

Team::Team(MPI_Comm communicator, int first_rank) : first_rank_(first_rank) {
  MPI_Comm_rank(communicator, &rank_);
  MPI_Comm_size(communicator, &size_);
  has_cpu_ = size_ <= sysconf(_SC_NPROCESSORS_ONLN);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(communicator, &communicator_, &request);
  wait(request);
  // A rank whose messages fail cannot continue alone.
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_ARE_FATAL);
  find_neighbours();
}

// Nodes are identified by name, because MPI_Comm_split_type cannot wait in our way. Whether ranks
// of one name share memory turns out when they try.
//
// MPI libraries may bind ranks to CPUs. Ranks with the same CPUs share them; sets that overlap
// partly, which no library makes, count as separate.
void Team::find_neighbours() {
  const Place own = place_of(rank_);
  std::vector<Place> all(static_cast<std::size_t>(size_));
  gather(&own, sizeof own, all.data());
  std::map<std::uint64_t, int> nodes;
  for (const Place& one : all)
    node_of_.push_back(nodes.try_emplace(one.node, static_cast<int>(nodes.size())).first->second);
  const auto sharing = std::count_if(all.begin(), all.end(),
                                     [&](const Place& one) { return one.has_same_cpus(own); });
  has_cpu_ = sharing <= own.cpu_count;
  has_two_cpus_ = 2 * sharing <= own.cpu_count;
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
  const auto begin = Clock::now();
  for (int polls = 1;; ++polls) {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) return;
    const bool is_tired = polls >= polls_min && (!has_cpu_ || Clock::now() - begin >= spin_max);
    if (Orders::pause(is_tired) || !is_tired) continue;
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 5 / 4, nap_max);
  }
}

void Team::wait_for(std::uint32_t& word, std::uint32_t value,
                    std::chrono::microseconds spin) const {
  // Then progress messages.
  constexpr std::uint64_t nap_ns = 1'000'000;
  const auto begin = Clock::now();
  for (bool again = false;; again = true) {
    const std::uint32_t seen = std::atomic_ref(word).load();
    if (seen == value) return;
    const bool is_tired = again && (!has_cpu_ || Clock::now() - begin >= spin);
    if (is_tired) {
      int there = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &there, MPI_STATUS_IGNORE);
    }
    if (Orders::pause(is_tired) || !is_tired) continue;
    futex_wait_shared(&word, seen, nap_ns);
  }
}

void Team::reduce(void* values, std::size_t count, MPI_Datatype type, MPI_Op operation) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values, static_cast<int>(count), type, operation, communicator_,
                 &request);
  wait(request);
}

// Null: by messages. The same on all ranks, as they make the same agreements.
NodeAgreement* Team::node_agreement(std::size_t count) const {
  if (count > NodeAgreement::values_max) return nullptr;
  if (agreements_ < shared_from && ++agreements_ == shared_from) {
    node_agreement_ = NodeAgreement::make(*this);
  }
  return node_agreement_.get();
}

void Team::maximum(std::span<std::int64_t> values) const {
  if (size_ == 1) return;
  const auto larger = [](std::int64_t one, std::int64_t other) { return std::max(one, other); };
  if (NodeAgreement* const node = node_agreement(values.size())) return node->agree(values, larger);
  reduce(values.data(), values.size(), MPI_INT64_T, MPI_MAX);
}

void Team::maximum(std::span<double> values) const {
  if (size_ == 1) return;
  const auto larger = [](double one, double other) { return std::max(one, other); };
  if (NodeAgreement* const node = node_agreement(values.size())) return node->agree(values, larger);
  reduce(values.data(), values.size(), MPI_DOUBLE, MPI_MAX);
}

void Team::sum(std::span<double> values) const {
  if (size_ == 1) return;
  if (NodeAgreement* const node = node_agreement(values.size()))
    return node->agree(values, std::plus<double>());
  reduce(values.data(), values.size(), MPI_DOUBLE, MPI_SUM);
}

void Team::broadcast(void* data, int bytes, int root) const {
  if (size_ == 1) return;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(data, bytes, MPI_BYTE, root, communicator_, &request);
  wait(request);
}

void Team::gather(const void* own, int bytes, void* all) const {
  if (size_ == 1) {
    std::memcpy(all, own, static_cast<std::size_t>(bytes));
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, communicator_, &request);
  wait(request);
}

void Team::throw_if(std::int64_t fault, const char* what, std::string_view path) const {
  if (fault == 0) return;
  std::string text = what;
  if (!path.empty()) text.append(" ").append(path);
  throw Error(error_of(fault), text + " (" + rank_name(rank_of(fault)) + ")");
}

bool Team::meet(Call call, std::int64_t number, MeetingValues& values) const {
  const std::int64_t id = number << 8 | static_cast<std::int64_t>(call);
  std::array<std::int64_t, 2 + meeting_values> all{id, -id};
  std::copy(values.begin(), values.end(), all.begin() + 2);
  maximum(all);
  std::copy(all.begin() + 2, all.end(), values.begin());
  return all[0] == -all[1];
}

std::string Team::calls_of_ranks(Call call) const {
  std::vector<Call> calls(static_cast<std::size_t>(size_));
  gather(&call, sizeof call, calls.data());
  const auto other =
      std::find_if(calls.begin(), calls.end(), [&](Call one) { return one != calls[0]; });
  // The same call, but at another count.
  if (other == calls.end())
    return std::string("a call of ") + collective::name_of(call) + " is missing";
  const auto rank = static_cast<int>(other - calls.begin());
  return rank_name(0) + " called " + collective::name_of(calls[0]) + ", " + rank_name(rank) +
         " called " + collective::name_of(*other);
}

std::string Team::text_of(int root, const std::string& own) const {
  constexpr std::size_t bytes_max = 1024;
  std::array<char, bytes_max> text{};
  if (rank_ == root) {
    std::size_t bytes = std::min(own.size(), bytes_max - 1);
    // Not inside a UTF-8 character.
    while (bytes > 0 && bytes < own.size() && (own[bytes] & 0xc0) == 0x80)
      --bytes;
    own.copy(text.data(), bytes);
  }
  broadcast(text.data(), bytes_max, root);
  return text.data();
}

void Team::agree(int error, const char* what, std::string_view path) const {
  std::int64_t worst = fault(error);
  maximum(std::span(&worst, 1));
  throw_if(worst, what, path);
}

std::int64_t Team::maximum_sent(std::int64_t value) const {
  reduce(&value, 1, MPI_INT64_T, MPI_MAX);
  return value;
}

void Team::end_job(const char* what, std::string_view path) const {
  std::fprintf(stderr, "ferry: rank %d has no memory for %s%s%.*s\n", first_rank_ + rank_, what,
               path.empty() ? "" : " ", static_cast<int>(path.size()), path.data());
  MPI_Abort(communicator_, EXIT_FAILURE);
  std::abort();
}

int group_of(int rank, int groups, int ranks) {
  return static_cast<int>(std::int64_t{rank} * groups / ranks);
}

MPI_Comm group_communicator(MPI_Comm communicator, int groups) {
  static const int key = make_key();
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(communicator, key, static_cast<void*>(&value), &found);
  if (found == 0) {
    value = new Kept;
    MPI_Comm_set_attr(communicator, key, value);
  }
  Kept& kept = *static_cast<Kept*>(value);
  if (kept.groups == groups) return kept.communicator;
  if (kept.communicator != MPI_COMM_NULL) MPI_Comm_free(&kept.communicator);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &ranks);
  const int group = group_of(rank, groups, ranks);
  // MPI_Comm_split would have all ranks poll for each other, and not only those of a group: 16
  // ranks on two CPUs took 240 ms for it, and 4 to 90 for this.
  int range[1][3] = {
      {first_of_group(group, groups, ranks), first_of_group(group + 1, groups, ranks) - 1, 1}};
  MPI_Group everyone = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Comm_group(communicator, &everyone);
  MPI_Group_range_incl(everyone, 1, static_cast<int(*)[3]>(range), &members);
  MPI_Comm_create_group(communicator, members, group_tag, &kept.communicator);
  MPI_Group_free(&members);
  MPI_Group_free(&everyone);
  kept.groups = groups;
  return kept.communicator;
}

}  // namespace ferry::collective
