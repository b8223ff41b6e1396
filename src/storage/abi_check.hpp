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

// FERRY_FOR_EACH(macro, what, one, other, ...): macro(what, one) macro(what, other) ...
#define FERRY_PARENTHESES ()
#define FERRY_EXPAND(...) FERRY_EXPAND_8(FERRY_EXPAND_8(FERRY_EXPAND_8(__VA_ARGS__)))
#define FERRY_EXPAND_8(...) FERRY_EXPAND_4(FERRY_EXPAND_4(FERRY_EXPAND_4(__VA_ARGS__)))
#define FERRY_EXPAND_4(...) FERRY_EXPAND_2(FERRY_EXPAND_2(FERRY_EXPAND_2(__VA_ARGS__)))
#define FERRY_EXPAND_2(...) __VA_ARGS__
#define FERRY_FOR_EACH(macro, what, ...) \
  __VA_OPT__(FERRY_EXPAND(FERRY_FOR_FIRST(macro, what, __VA_ARGS__)))
#define FERRY_FOR_FIRST(macro, what, one, ...) \
  macro(what, one) __VA_OPT__(FERRY_FOR_REST FERRY_PARENTHESES(macro, what, __VA_ARGS__))
#define FERRY_FOR_REST() FERRY_FOR_FIRST

// The members of `struct_name` point to functions of the library and have their types.
#define FERRY_SAME_FUNCTION(struct_name, name)                                     \
  static_assert(std::is_same_v<abi::Translated<decltype(struct_name::name)>::Type, \
                               std::add_pointer_t<decltype(::name)>>);
#define FERRY_SAME_FUNCTIONS(struct_name, ...) \
  FERRY_FOR_EACH(FERRY_SAME_FUNCTION, struct_name, __VA_ARGS__)

}  // namespace ferry::storage::abi
