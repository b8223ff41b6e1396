#include "storage/entry_names.hpp"

#include <string_view>

#include <gtest/gtest.h>

namespace ferry::storage {
namespace {

using namespace std::string_view_literals;

TEST(EntryNames, NameSomethingInTheDirectory) {
  for (const std::string_view name : {"f"sv, "..."sv, ".f"sv, "a b"sv, "\xff"sv, "\\"sv})
    EXPECT_TRUE(is_entry_name(name)) << name;
}

TEST(EntryNames, NeverLeadOutOfIt) {
  for (const std::string_view name :
       {""sv, "."sv, ".."sv, "/"sv, "/f"sv, "f/"sv, "../f"sv, "f/g"sv, "f\0g"sv, "\0"sv})
    EXPECT_FALSE(is_entry_name(name)) << name;
}

}  // namespace
}  // namespace ferry::storage
