// Handles of Ferry's among those of the MPI library, which are pointers, too.
//
// One of Ferry's is the address of memory that is never given back: so no handle of the library can
// be equal to it, also after it was freed, and one that is used after that is found out.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ferry::mpiio {

// Not thread-safe.
template <class State>
class ToolHandles {
 public:
  void* add(State state) {
    if (free_.empty()) {
      auto place = std::make_unique<Place>();
      free_.push_back(place.get());
      places_.emplace(place.get(), std::move(place));
    }
    Place* place = free_.back();
    free_.pop_back();
    place->emplace(std::move(state));
    return place;
  }
  bool has(const void* handle) const { return places_.count(handle) != 0; }
  // Null: it was freed, or is not Ferry's.
  State* find(const void* handle) {
    const auto found = places_.find(handle);
    return found != places_.end() && *found->second ? &**found->second : nullptr;
  }
  void remove(const void* handle) {
    Place* place = places_.at(handle).get();
    place->reset();
    free_.push_back(place);
  }
  template <class Body>
  void for_each(Body&& body) {
    for (const auto& [handle, place] : places_)
      if (*place) body(**place);
  }
  template <class Condition>
  void remove_if(Condition&& condition) {
    for (const auto& [handle, place] : places_)
      if (*place && condition(**place)) remove(handle);
  }

 private:
  using Place = std::optional<State>;

  std::unordered_map<const void*, std::unique_ptr<Place>> places_;
  std::vector<Place*> free_;
};

}  // namespace ferry::mpiio
