// Whether a declaration of Ferry's matches one of NVIDIA's headers, at compile time.
#pragma once

#include <type_traits>

namespace ferry::cuda {

// `Alike::types<Ours, Theirs>()` says of two types whether they are passed alike.
template <class Alike, class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class Alike, class OurResult, class... Ours, class TheirResult, class... Theirs>
struct SameFunction<Alike, OurResult(Ours...), TheirResult(Theirs...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return Alike::template types<OurResult, TheirResult>() &&
             (Alike::template types<Ours, Theirs>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = compare();
};

}  // namespace ferry::cuda
