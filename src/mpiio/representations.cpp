#include "mpiio/representations.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <ferry/error.hpp>

#include "collective/datatype.hpp"
#include "mpiio/type_maps.hpp"

namespace ferry::mpiio {
namespace {

// So many bytes of the file in a call of a program's function, or one number if that has more.
constexpr std::int64_t converted_bytes_max = 1 << 20;

// In the type map of a predefined datatype.
MPI_Count entries_of(MPI_Datatype named) {
  const auto pairs = {MPI_SHORT_INT,  MPI_LONG_INT,        MPI_FLOAT_INT,
                      MPI_DOUBLE_INT, MPI_LONG_DOUBLE_INT, MPI_2INT,
                      MPI_2INTEGER,   MPI_2REAL,           MPI_2DOUBLE_PRECISION};
  return std::ranges::find(pairs, named) == pairs.end() ? 1 : 2;
}

class RegisteredRepresentation : public DataRepresentation {
 public:
  RegisteredRepresentation(std::string name, ConversionFunctions functions)
      : name_(std::move(name)), functions_(std::move(functions)) {}

  bool may_fail() const override { return true; }

  std::int64_t bytes_in_file(MPI_Datatype named) const override {
    MPI_Aint bytes = -1;
    const int code = functions_.extent(named, &bytes);
    if (code != MPI_SUCCESS) fail("extent", code);
    if (bytes < 0) throw Error(EILSEQ, name_ + " has a datatype of negative size");
    return bytes;
  }

  void to_file(const void* memory, std::int64_t count, MPI_Datatype type,
               std::byte* file) const override {
    void* const from = const_cast<void*>(memory);
    convert(functions_.write, from, count, type, file, count * size_in_file(type),
            [](std::byte* place, std::byte* of_file, std::size_t bytes) {
              std::memcpy(of_file, place, bytes);
            });
  }

  std::int64_t from_file(void* memory, std::int64_t count, MPI_Datatype type, const std::byte* file,
                         std::int64_t bytes) const override {
    return convert(functions_.read, memory, count, type, const_cast<std::byte*>(file), bytes,
                   [](std::byte* place, const std::byte* of_file, std::size_t length) {
                     std::memcpy(place, of_file, length);
                   });
  }

 private:
  [[noreturn]] void fail(const char* function, int code) const {
    throw Error(EILSEQ, std::string("the ") + function + " function of " + name_ + " returned " +
                            std::to_string(code));
  }

  // As many as `bytes` of the file have. Returns their bytes in memory.
  template <class Copy>
  std::int64_t convert(const ConversionFunctions::Convert& function, void* memory,
                       std::int64_t count, MPI_Datatype type, std::byte* file, std::int64_t bytes,
                       const Copy& copy) const {
    struct Part {
      collective::Items items;
      std::int64_t file_bytes = 0;  // of one, and so the others
      std::int64_t memory_bytes = 0;
      std::int64_t step = 0;
      MPI_Count entries = 0;
    };
    std::vector<Part> parts;
    for (const collective::Items& items : collective::items_of(type)) {
      parts.push_back({items, bytes_in_file(items.type), size_of(items.type), period_of(items.type),
                       entries_of(items.type)});
      if (!function && parts.back().file_bytes != parts.back().memory_bytes)
        throw Error(EILSEQ, name_ + " has no function for data that changes its size");
    }
    const std::int64_t period = period_of(type);
    std::int64_t moved = 0;
    MPI_Offset position = 0;
    MPI_Count asked = 0;  // entries that the next call converts, and their bytes
    std::int64_t asked_bytes = 0;
    const auto call = [&] {
      if (asked == 0) return;
      const int code = function(memory, type, asked, file, position);
      if (code != MPI_SUCCESS) fail("conversion", code);
      file += asked_bytes;
      position += asked;
      asked = 0;
      asked_bytes = 0;
    };
    auto* place = static_cast<std::byte*>(memory);
    for (std::int64_t i = 0; i < count; ++i, place += period) {
      for (const Part& part : parts) {
        for (std::int64_t item = 0; item < part.items.count; ++item) {
          if (part.file_bytes > bytes) {
            call();
            return moved;
          }
          bytes -= part.file_bytes;
          moved += part.memory_bytes;
          if (!function) {
            copy_item(copy, place + part.items.offset + item * part.step, file, part.items.type,
                      part.memory_bytes);
            file += part.file_bytes;
            continue;
          }
          const bool fits = asked_bytes + part.file_bytes <= converted_bytes_max &&
                            asked <= functions_.count_max - part.entries;
          if (!fits) call();
          asked += part.entries;
          asked_bytes += part.file_bytes;
        }
      }
    }
    call();
    return moved;
  }

  // Pairs may have a gap in memory.
  template <class Copy, class File>
  static void copy_item(const Copy& copy, std::byte* place, File* file, MPI_Datatype type,
                        std::int64_t bytes) {
    if (entries_of(type) == 1) return copy(place, file, static_cast<std::size_t>(bytes));
    constexpr std::size_t index_bytes = sizeof(int);
    const std::size_t value_bytes = static_cast<std::size_t>(bytes) - index_bytes;
    const std::size_t of_index = (value_bytes + index_bytes - 1) / index_bytes * index_bytes;
    copy(place, file, value_bytes);
    copy(place + of_index, file + value_bytes, index_bytes);
  }

  const std::string name_;
  const ConversionFunctions functions_;
};

struct Registered {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const DataRepresentation>> by_name;
};

Registered& registered() {
  static Registered& all = *new Registered;
  return all;
}

}  // namespace

std::int64_t DataRepresentation::size_in_file(MPI_Datatype type) const {
  std::int64_t bytes = 0;
  for (const collective::Items& items : collective::items_of(type))
    bytes += items.count * bytes_in_file(items.type);
  return bytes;
}

collective::TypeMap DataRepresentation::map_in_file(MPI_Datatype type) const {
  return collective::typemap_in_file(type,
                                     [this](MPI_Datatype named) { return bytes_in_file(named); });
}

bool register_representation(const std::string& name, ConversionFunctions functions) {
  if (name == "native" || name == "internal" || name == "external32") return false;
  auto made = std::make_shared<const RegisteredRepresentation>(name, std::move(functions));
  const std::lock_guard guard(registered().mutex);
  return registered().by_name.emplace(name, std::move(made)).second;
}

std::shared_ptr<const DataRepresentation> representation_named(const char* name) {
  if (std::strcmp(name, "external32") == 0) return external32();
  const std::lock_guard guard(registered().mutex);
  const auto found = registered().by_name.find(name);
  return found != registered().by_name.end() ? found->second : nullptr;
}

}  // namespace ferry::mpiio
