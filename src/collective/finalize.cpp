// MPI_Finalize while transfers are under way.
#include <mutex>
#include <vector>

#include <mpi.h>

#include "base/forks.hpp"
#include "collective/orders.hpp"

namespace ferry::collective {
namespace {

// Of the files that are open, in the order of their openings: ranks that have several of them in
// common opened those in the same order, so that none waits for another here.
struct OpenOrders {
  std::mutex mutex;
  std::vector<std::weak_ptr<Orders>> all;
};

// MPI calls it first of all in MPI_Finalize, where ranks can still exchange messages.
int complete_all(MPI_Comm /*communicator*/, int /*key*/, void* /*value*/, void* /*state*/) {
  auto& open = of_this_process<OpenOrders>();
  const std::lock_guard lock(open.mutex);
  for (const auto& one : open.all)
    if (const std::shared_ptr<Orders> orders = one.lock()) orders->finish_all();
  return MPI_SUCCESS;
}

bool ask_mpi() {
  int is_initialized = 0;  // a program of sessions has no such communicator
  MPI_Initialized(&is_initialized);
  int key = MPI_KEYVAL_INVALID;
  return is_initialized != 0 &&
         MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, complete_all, &key, nullptr) ==
             MPI_SUCCESS &&
         MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr) == MPI_SUCCESS;
}

}  // namespace

void complete_before_finalize(const std::shared_ptr<Orders>& orders) {
  static const bool is_asked = ask_mpi();
  static_cast<void>(is_asked);
  auto& open = of_this_process<OpenOrders>();
  const std::lock_guard lock(open.mutex);
  std::erase_if(open.all, [](const auto& one) { return one.expired(); });
  open.all.push_back(orders);
}

}  // namespace ferry::collective
