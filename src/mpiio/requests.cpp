#include "mpiio/requests.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "mpiio/errors.hpp"

namespace ferry::mpiio {
namespace {

int fill_in_done(void* bytes, MPI_Status* status) {
  fill_in(status, static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(bytes)));
  return MPI_SUCCESS;
}

int nothing_to_free(void* /*state*/) {
  return MPI_SUCCESS;
}

int nothing_to_cancel(void* /*state*/, int /*complete*/) {
  return MPI_SUCCESS;
}

struct PendingRequest {
  MPI_File handle = MPI_FILE_NULL;
  collective::Transfer transfer;
  std::function<std::int64_t(std::int64_t)> finish;
  MPI_Request request = MPI_REQUEST_NULL;
  bool is_complete = false;  // for the library, which is told by the program's thread
  // Libraries ask several times how it ended.
  std::mutex mutex;
  bool is_told = false;
  std::int64_t moved = 0;
  int code = MPI_SUCCESS;
  std::atomic<int> looks{0};

  void tell() {
    const std::lock_guard guard(mutex);
    if (std::exchange(is_told, true)) return;
    collective::Transfer ended = std::exchange(transfer, {});
    try {
      moved = finish(ended.wait());
    } catch (...) {
      code = code_of_exception();
      call_handler(handle, code);
    }
    finish = {};  // and the datatypes that it has
  }
};

// Whether any thread may tell the library that a request is done.
bool may_use_threads() {
  int provided = 0;
  PMPI_Query_thread(&provided);
  return provided == MPI_THREAD_MULTIPLE;
}

// Where several threads are allowed, the one that carries it out does this.
int complete(PendingRequest& pending) {
  if (may_use_threads() || std::exchange(pending.is_complete, true)) return MPI_SUCCESS;
  return PMPI_Grequest_complete(pending.request);
}

// Requests that the library has freed, with the data of their transfers, which may still be under
// way. MPICH 4.0 frees under a lock of its own that some of its functions take, too, among them
// those that free a datatype; Open MPI at times on the thread that carries out transfers, which
// must not have the last one of a file, whose end waits for it.
class FreedRequests {
 public:
  static FreedRequests& get() {
    static FreedRequests& freed = *new FreedRequests;
    return freed;
  }
  void add(std::unique_ptr<PendingRequest> pending) {
    const std::lock_guard guard(mutex_);
    all_.push_back(std::move(pending));
  }
  // To be called outside the library's functions, by a thread that may call it.
  void destroy_ended() {
    std::vector<std::unique_ptr<PendingRequest>> some;
    {
      const std::lock_guard guard(mutex_);
      some.swap(all_);
    }
    std::erase_if(some, [](const auto& pending) {
      return pending->transfer.test() && complete(*pending) == MPI_SUCCESS;
    });
    const std::lock_guard guard(mutex_);
    std::move(some.begin(), some.end(), std::back_inserter(all_));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<PendingRequest>> all_;
};

int fill_in_pending(void* state, MPI_Status* status) {
  auto& pending = *static_cast<PendingRequest*>(state);
  pending.tell();
  fill_in(status, pending.moved);
  return pending.code;
}

// Of a program with one thread; see look_at_pending(). Only its calls of MPI use them.
std::set<PendingRequest*>& pending_requests() {
  static std::set<PendingRequest*>& all = *new std::set<PendingRequest*>;
  return all;
}

int free_pending(void* state) {
  std::unique_ptr<PendingRequest> pending(static_cast<PendingRequest*>(state));
  if (!may_use_threads()) pending_requests().erase(pending.get());
  FreedRequests::get().add(std::move(pending));
  return MPI_SUCCESS;
}

#ifdef MPICH_VERSION

constexpr int looks_without_nap = 200;
constexpr std::chrono::microseconds nap{50};

// MPICH asks this again and again, and in MPI_Wait does nothing else. Without it MPI_Wait would
// poll, under a lock that the thread which carries out the transfer needs, and on CPUs that other
// ranks need.
int look(void* state, MPI_Status* /*status*/) {
  auto& pending = *static_cast<PendingRequest*>(state);
  if (pending.transfer.test()) return complete(pending);
  int there = 0;  // other messages of this rank go on
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE);
  if (pending.looks++ > looks_without_nap) std::this_thread::sleep_for(nap);
  return MPI_SUCCESS;
}

int look_at_all(int count, void** states, double /*timeout*/, MPI_Status* status) {
  for (int i = 0; i < count; ++i)
    look(states[i], status);
  return MPI_SUCCESS;
}

// One thread: waiting carries them out, or sleeps until they are.
int carry_out_all(int count, void** states, double /*timeout*/, MPI_Status* /*status*/) {
  for (int i = 0; i < count; ++i) {
    auto& pending = *static_cast<PendingRequest*>(states[i]);
    try {
      pending.transfer.wait();
    } catch (const std::exception&) {  // tell() throws it again
    }
    complete(pending);
  }
  return MPI_SUCCESS;
}

void start_pending(PendingRequest* pending, MPI_Request* request) {
  PMPIX_Grequest_start(fill_in_pending, free_pending, nothing_to_cancel, look,
                       may_use_threads() ? look_at_all : carry_out_all, pending, request);
}

constexpr bool library_asks = true;

#else

void start_pending(PendingRequest* pending, MPI_Request* request) {
  PMPI_Grequest_start(fill_in_pending, free_pending, nothing_to_cancel, pending, request);
}

constexpr bool library_asks = false;

#endif

}  // namespace

void fill_in(MPI_Status* status, std::int64_t bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  PMPI_Status_set_elements_x(status, MPI_BYTE, bytes);
  PMPI_Status_set_cancelled(status, 0);
}

void make_done(MPI_Request* request, std::int64_t bytes) {
  PMPI_Grequest_start(fill_in_done, nothing_to_free, nothing_to_cancel,
                      reinterpret_cast<void*>(static_cast<std::intptr_t>(bytes)), request);
  PMPI_Grequest_complete(*request);
}

bool can_be_pending() {
  return library_asks || may_use_threads();
}

void make_pending(MPI_Request* request, MPI_File handle, collective::Transfer transfer,
                  std::function<std::int64_t(std::int64_t)> finish) {
  destroy_freed();
  // The request has it until free_pending().
  auto* pending = std::make_unique<PendingRequest>().release();
  pending->handle = handle;
  pending->transfer = std::move(transfer);
  pending->finish = std::move(finish);
  start_pending(pending, request);
  pending->request = *request;
  if (may_use_threads()) {
    pending->transfer.when_done([made = *request] { PMPI_Grequest_complete(made); });
  } else {
    pending_requests().insert(pending);
  }
}

void destroy_freed() {
  FreedRequests::get().destroy_ended();
}

void look_at_pending() {
  if (may_use_threads()) return;
  const std::vector<PendingRequest*> all(pending_requests().begin(), pending_requests().end());
  for (PendingRequest* pending : all)
    if (pending->transfer.test()) complete(*pending);
}

}  // namespace ferry::mpiio

extern "C" __attribute__((visibility("default"))) void ferry_mpiio_look() {
  ferry::mpiio::look_at_pending();
}
