// Reads a plan's JSON; errors name the place.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace ferry::bench {

// Says what is wrong with a plan, and where.
struct PlanError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// One JSON object that is being read: knows where it is, for messages, and which keys were used.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw PlanError(where_ + ": must be an object");
  }

  bool has(const char* key) {
    used_.insert(key);
    return object_.contains(key) && !object_[key].is_null();
  }

  std::string text(const char* key) {
    if (!object_[key].is_string()) fail(key, "must be a string");
    return object_[key].get<std::string>();
  }

  template <class T>
  void number(const char* key, T& value, std::uint64_t least, std::uint64_t most) {
    if (!has(key)) return;
    const nlohmann::json& found = object_[key];
    if (!found.is_number_unsigned()) fail(key, "must be a whole number, not negative");
    const auto number = found.get<std::uint64_t>();
    if (number < least || number > most) {
      fail(key, "must be from " + std::to_string(least) + " to " + std::to_string(most));
    }
    value = static_cast<T>(number);
  }

  template <class T>
  void number(const char* key, std::optional<T>& value, std::uint64_t least, std::uint64_t most) {
    if (has(key)) number(key, value.emplace(), least, most);
  }

  // Whether the value is this word.
  bool is(const char* key, const char* word) { return has(key) && object_[key] == word; }

  void flag(const char* key, bool& value) {
    if (!has(key)) return;
    if (!object_[key].is_boolean()) fail(key, "must be true or false");
    value = object_[key].get<bool>();
  }

  // Index of the value among `names`; `fallback` where it is absent.
  template <std::size_t N>
  std::size_t choice(const char* key, const std::array<const char*, N>& names,
                     std::size_t fallback) {
    if (!has(key)) return fallback;
    const std::string value = text(key);
    std::string list;
    for (std::size_t i = 0; i < N; ++i) {
      if (value == names[i]) return i;
      list += (i == 0 ? "" : ", ") + std::string(names[i]);
    }
    fail(key, "'" + value + "' is none of " + list);
  }

  void require(const char* key) {
    if (!has(key)) fail(key, "is missing");
  }

  void refuse_unknown() const {
    for (const auto& item : object_.items()) {
      if (used_.count(item.key()) == 0) fail(item.key(), "is not known");
    }
  }

  void refuse_if(bool wrong, const char* key, const std::string& what) const {
    if (wrong) fail(key, what);
  }

  [[noreturn]] void fail(std::string_view key, const std::string& what) const {
    throw PlanError(where_ + "." + std::string(key) + ": " + what);
  }

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace ferry::bench
