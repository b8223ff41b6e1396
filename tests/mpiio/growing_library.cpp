// Ferry's stand-ins for MPI_T over an MPI library that gets more variables and categories while a
// program runs. Says what went wrong, if anything did.
//
//   mpiio_growing_library libferry_mpiio_calls.so
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>

#include "mpiio/calls.hpp"

namespace {

using ferry::mpiio::CallIndex;

// The library: of each kind so many, called "their0", "their1" and so on. Its categories hold the
// variables and the categories of their own number, and the last.
int theirs = 3;
bool is_initialized = true;

int get_num(int* number) {
  if (!is_initialized) return MPI_T_ERR_NOT_INITIALIZED;
  *number = theirs;
  return MPI_SUCCESS;
}

int name_of(int index, char* name, const int* bytes) {
  if (index < 0 || index >= theirs) return MPI_T_ERR_INVALID_INDEX;
  std::snprintf(name, static_cast<std::size_t>(*bytes), "their%d", index);
  return MPI_SUCCESS;
}

int pvar_get_info(int index, char* name, int* bytes, int*, int*, MPI_Datatype*, MPI_T_enum*, char*,
                  int*, int*, int*, int*, int*) {
  return name_of(index, name, bytes);
}

int cvar_get_info(int index, char* name, int* bytes, int*, MPI_Datatype*, MPI_T_enum*, char*, int*,
                  int*, int*) {
  return name_of(index, name, bytes);
}

int category_get_info(int index, char* name, int* bytes, char*, int*, int*, int*, int*) {
  return name_of(index, name, bytes);
}

int index_of(const char* name, int* index) {
  if (std::sscanf(name, "their%d", index) != 1) return MPI_T_ERR_INVALID_NAME;
  return *index < theirs ? MPI_SUCCESS : MPI_T_ERR_INVALID_NAME;
}

int pvar_get_index(const char* name, int, int* index) {
  return index_of(name, index);
}

int members(int category, int length, int* indices) {
  if (category < 0 || category >= theirs) return MPI_T_ERR_INVALID_INDEX;
  const std::array<int, 2> all{category, theirs - 1};
  std::copy_n(all.begin(), std::clamp(length, 0, 2), indices);
  return MPI_SUCCESS;
}

// Ferry's, after it was given these.
std::vector<void*> functions(ferry::mpiio::call_count);

template <class Function>
void give(CallIndex index, Function* function) {
  functions[static_cast<std::size_t>(index)] = reinterpret_cast<void*>(function);
}

template <class Function>
Function* get(CallIndex index, Function* /*of_this_type*/) {
  return reinterpret_cast<Function*>(functions[static_cast<std::size_t>(index)]);
}

int failures = 0;
void check(bool is_right, const std::string& what) {
  if (is_right) return;
  ++failures;
  std::printf("wrong: %s\n", what.c_str());
}

// The names by their indices; checks that each has the other.
template <class GetName, class GetIndex>
std::vector<std::string> names(int number, GetName&& get_name, GetIndex&& get_index) {
  std::vector<std::string> all;
  for (int i = 0; i < number; ++i) {
    std::array<char, 100> name{};
    int bytes = name.size();
    check(get_name(i, name.data(), &bytes) == MPI_SUCCESS, "the name of " + std::to_string(i));
    all.emplace_back(name.data());
    if (!all.back().starts_with("their")) continue;
    int index = -1;
    check(get_index(name.data(), &index) == MPI_SUCCESS && index == i, all.back());
  }
  check(std::set(all.begin(), all.end()).size() == all.size(), "a name that is there twice");
  return all;
}

struct Seen {
  std::vector<std::string> pvars, cvars, categories;
};

int number_of(CallIndex index) {
  int number = -1;
  check(get(index, get_num)(&number) == MPI_SUCCESS, "a number");
  return number;
}

Seen look() {
  Seen seen;
  seen.pvars = names(
      number_of(CallIndex::tool_pvar_get_num),
      [](int index, char* name, int* bytes) {
        return get(CallIndex::tool_pvar_get_info, pvar_get_info)(
            index, name, bytes, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
            nullptr, nullptr, nullptr);
      },
      [](const char* name, int* index) {
        return get(CallIndex::tool_pvar_get_index, pvar_get_index)(name, 0, index);
      });
  seen.cvars = names(
      number_of(CallIndex::tool_cvar_get_num),
      [](int index, char* name, int* bytes) {
        return get(CallIndex::tool_cvar_get_info, cvar_get_info)(
            index, name, bytes, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
      },
      [](const char* name, int* index) {
        return get(CallIndex::tool_cvar_get_index, index_of)(name, index);
      });
  seen.categories = names(
      number_of(CallIndex::tool_category_get_num),
      [](int index, char* name, int* bytes) {
        return get(CallIndex::tool_category_get_info, category_get_info)(
            index, name, bytes, nullptr, nullptr, nullptr, nullptr, nullptr);
      },
      [](const char* name, int* index) {
        return get(CallIndex::tool_category_get_index, index_of)(name, index);
      });
  return seen;
}

void check_members(const Seen& seen) {
  for (std::size_t i = 0; i < seen.categories.size(); ++i) {
    if (!seen.categories[i].starts_with("their")) continue;
    const std::string last = "their" + std::to_string(theirs - 1);
    const auto check_these = [&](CallIndex index, const std::vector<std::string>& all) {
      std::array<int, 4> found{-7, -7, -7, -7};
      get(index, members)(static_cast<int>(i), 3, found.data());
      check(all.at(static_cast<std::size_t>(found[0])) == seen.categories[i], "a first member");
      check(all.at(static_cast<std::size_t>(found[1])) == last, "a second member");
      check(found[2] == -7 && found[3] == -7, "what is behind the members");
    };
    check_these(CallIndex::tool_category_get_pvars, seen.pvars);
    check_these(CallIndex::tool_category_get_cvars, seen.cvars);
    check_these(CallIndex::tool_category_get_categories, seen.categories);
  }
}

bool begins_with(const std::vector<std::string>& all, const std::vector<std::string>& first) {
  return all.size() >= first.size() && std::equal(first.begin(), first.end(), all.begin());
}

}  // namespace

int main(int argc, char** argv) {
  void* calls = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  void* take = calls != nullptr ? dlsym(calls, "ferry_mpiio_take") : nullptr;
  if (take == nullptr) {
    std::printf("%s\n", argc > 1 ? dlerror() : "no library");
    return 2;
  }
  for (const CallIndex index : {CallIndex::tool_pvar_get_num, CallIndex::tool_cvar_get_num,
                                CallIndex::tool_category_get_num})
    give(index, get_num);
  give(CallIndex::tool_pvar_get_info, pvar_get_info);
  give(CallIndex::tool_cvar_get_info, cvar_get_info);
  give(CallIndex::tool_category_get_info, category_get_info);
  give(CallIndex::tool_pvar_get_index, pvar_get_index);
  give(CallIndex::tool_cvar_get_index, index_of);
  give(CallIndex::tool_category_get_index, index_of);
  for (const CallIndex index :
       {CallIndex::tool_category_get_pvars, CallIndex::tool_category_get_cvars,
        CallIndex::tool_category_get_categories})
    give(index, members);
  reinterpret_cast<ferry::mpiio::Take*>(take)(functions.data());

  is_initialized = false;  // then Ferry's indices have no place yet
  int number = 0;
  check(get(CallIndex::tool_pvar_get_num, get_num)(&number) == MPI_T_ERR_NOT_INITIALIZED,
        "before MPI_T is initialised");
  is_initialized = true;
  const Seen before = look();
  check_members(before);
  check(before.pvars.size() > 3 && before.cvars.size() > 3, "no variables of Ferry's");
  check(before.categories == std::vector<std::string>{"their0", "their1", "their2", "ferry"},
        "the categories");
  theirs = 7;
  const Seen after = look();
  check_members(after);
  for (const auto& [now, then] :
       {std::pair(&after.pvars, &before.pvars), std::pair(&after.cvars, &before.cvars),
        std::pair(&after.categories, &before.categories)}) {
    check(begins_with(*now, *then), "an index that has changed");
    check(now->size() == then->size() + 4 && now->back() == "their6", "what has come");
  }
  char name[10];
  int bytes = sizeof name;
  const int code = get(CallIndex::tool_pvar_get_info, pvar_get_info)(
      static_cast<int>(after.pvars.size()), name, &bytes, nullptr, nullptr, nullptr, nullptr,
      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  check(code == MPI_T_ERR_INVALID_INDEX, "an index behind the last");
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
