#include "mpiio/type_maps.hpp"

#include <mutex>
#include <utility>

#include <ferry/collective.hpp>

#include "collective/datatype.hpp"

namespace ferry::mpiio {
namespace {

using Kept = std::shared_ptr<const collective::TypeMap>;

int forget(MPI_Datatype /*type*/, int /*keyval*/, void* kept, void* /*state*/) {
  delete static_cast<Kept*>(kept);
  return MPI_SUCCESS;
}

int make_keyval() {
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &keyval, nullptr);
  return keyval;
}

}  // namespace

Kept map_of(MPI_Datatype type) {
  // Named types are never freed, and a thread uses the same one again and again.
  static thread_local std::pair<MPI_Datatype, Kept> last{MPI_DATATYPE_NULL, nullptr};
  if (type == last.first && last.second != nullptr) return last.second;
  if (collective::is_named(type)) {
    last = {type, std::make_shared<const collective::TypeMap>(collective::typemap_of(type))};
    return last.second;
  }
  static std::mutex& mutex = *new std::mutex;  // setting an attribute frees the one before
  const std::lock_guard guard(mutex);
  static const int keyval = make_keyval();
  Kept* kept = nullptr;
  int found = 0;
  PMPI_Type_get_attr(type, keyval, static_cast<void*>(&kept), &found);
  if (found != 0) return *kept;
  auto made = std::make_unique<Kept>(
      std::make_shared<const collective::TypeMap>(collective::typemap_of(type)));
  Kept map = *made;
  // The attribute owns it from here on.
  if (PMPI_Type_set_attr(type, keyval, made.get()) == MPI_SUCCESS)
    static_cast<void>(made.release());
  return map;
}

std::int64_t size_of(MPI_Datatype type) {
  MPI_Count bytes = 0;
  PMPI_Type_size_x(type, &bytes);
  return bytes;
}

std::int64_t period_of(MPI_Datatype type) {
  MPI_Count lower = 0;
  MPI_Count period = 0;
  PMPI_Type_get_extent_x(type, &lower, &period);
  return period;
}

MPI_Datatype copy_of(MPI_Datatype type) {
  if (collective::is_named(type)) return type;
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  PMPI_Type_dup(type, &copy);
  return copy;
}

KeptType::~KeptType() {
  if (!collective::is_named(type_)) PMPI_Type_free(&type_);
}

}  // namespace ferry::mpiio
