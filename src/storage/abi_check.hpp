// Compares what Ferry declares of a client library with the library's own headers, where those are
// installed. All of it happens at compile time.
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

#define FERRY_SAME_MEMBER(member, their_member)                            \
  static_assert(offsetof(Ours, member) == offsetof(Theirs, their_member)); \
  static_assert(sizeof(Ours::member) == sizeof(Theirs::their_member))

// A type with the library's types in place of ours. Specialised for each of ours.
template <class Type>
struct Translated {
  using type = Type;
};
template <class Type>
struct Translated<Type*> {
  using type = typename Translated<Type>::type*;
};
template <class Type>
struct Translated<const Type> {
  using type = const typename Translated<Type>::type;
};
template <class Result, class... Arguments>
struct Translated<Result(Arguments...)> {
  using type = typename Translated<Result>::type(typename Translated<Arguments>::type...);
};

// The member of `struct_name` that points to a function of the library has that function's type.
#define FERRY_SAME_FUNCTION(struct_name, name)                                     \
  static_assert(std::is_same_v<abi::Translated<decltype(struct_name::name)>::type, \
                               std::add_pointer_t<decltype(::name)>>)

}  // namespace ferry::storage::abi
