#include "storage/late_changes.hpp"

namespace ferry::storage {

int LateChanges::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void LateChanges::begin(int error) {
  const std::lock_guard lock(mutex_);
  if (out_++ == 0) error_ = error;
}

void LateChanges::end() {
  const std::lock_guard lock(mutex_);
  if (--out_ == 0) error_ = 0;
}

}  // namespace ferry::storage
