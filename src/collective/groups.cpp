#include "collective/groups.hpp"

#include <memory>

namespace ferry::collective {
namespace {

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

MPI_Comm group_communicator(MPI_Comm communicator, int groups, int group) {
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
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_split(communicator, group, rank, &kept.communicator);
  kept.groups = groups;
  return kept.communicator;
}

}  // namespace ferry::collective
