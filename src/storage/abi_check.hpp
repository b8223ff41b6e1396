// Compares Ferry's declarations of a client library with its headers at compile time, if installed.
#pragma once

#include <cstddef>
#include <type_traits>

namespace ferry::storage::abi {

template <class Ours, class Theirs>
struct OfOneSize {
  static_assert(sizeof(Ours) == sizeof(Theirs));
};

// The base of a struct that compares the members of two types.
template <class Left, class Right>
struct Pair : OfOneSize<Left, Right> {
  using Ours = Left;
  using Theirs = Right;
};

// NOLINTBEGIN(bugprone-sizeof-expression): members may be pointers
#define FERRY_SAME_MEMBER(member, their_member)                            \
  static_assert(offsetof(Ours, member) == offsetof(Theirs, their_member)); \
  static_assert(sizeof(Ours::member) == sizeof(Theirs::their_member))
// NOLINTEND(bugprone-sizeof-expression)

// A type with the library's types in place of ours. Specialised for each of ours.
template <class Ours>
struct Translated {
  using Type = Ours;
};
template <class Ours>
struct Translated<Ours*> {
  using Type = typename Translated<Ours>::Type*;
};
template <class Ours>
struct Translated<const Ours> {
  using Type = const typename Translated<Ours>::Type;
};
template <class Result, class... Arguments>
struct Translated<Result(Arguments...)> {
  using Type = typename Translated<Result>::Type(typename Translated<Arguments>::Type...);
};

// The member of `struct_name` that points to a function of the library has that function's type.
#define FERRY_SAME_FUNCTION(struct_name, name)                                     \
  static_assert(std::is_same_v<abi::Translated<decltype(struct_name::name)>::Type, \
                               std::add_pointer_t<decltype(::name)>>)

}  // namespace ferry::storage::abi
