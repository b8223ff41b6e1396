// A program of MPI-IO that knows nothing of Ferry: what one rank has written is what others read,
// as far as MPI 4.0 promises it (14.6), by calls chosen at random. The ranks draw the same numbers,
// so each knows what the file must hold.
//
//   mpiexec -n 3 mpiio_consistent FILE SEED STEPS [threads]
//
// Prints "right", or what a rank saw and the step.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "mpiio/ranks.hpp"

namespace {

using Bytes = std::vector<unsigned char>;

constexpr std::int64_t bytes_max = 300'000;
// What a view shows that has every other block.
constexpr std::int64_t block_bytes = 500;
constexpr std::int64_t shown_bytes = bytes_max / 2;

std::mt19937_64 draws;
std::string wrong;  // the first thing that is
int step = 0;
bool atomic = false;
Bytes model(bytes_max, 0);  // what the file holds

std::int64_t draw(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(draws);
}

void expect(bool right, const std::string& what) {
  if (right || !wrong.empty()) return;
  wrong = "step " + std::to_string(step) + (atomic ? ", atomic" : "") + ": " + what;
}

void done(int code, const char* what) {
  expect(code == MPI_SUCCESS, std::string(what) + " fails");
}

struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int rank = 0;
  int bytes() const { return static_cast<int>(end - begin); }
};

// Bytes that no other call writes.
Bytes new_bytes(int bytes, int of) {
  std::mt19937_64 own(static_cast<std::uint64_t>(step) * 1000 + static_cast<std::uint64_t>(of));
  Bytes data(static_cast<std::size_t>(bytes));
  std::generate(data.begin(), data.end(), [&] { return static_cast<unsigned char>(own()); });
  return data;
}

void put(Bytes& into, std::int64_t at, const Bytes& data) {
  std::copy(data.begin(), data.end(), into.begin() + at);
}

bool holds(const Bytes& all, std::int64_t at, const Bytes& data) {
  return std::equal(data.begin(), data.end(), all.begin() + at);
}

Extent any_range() {
  const std::int64_t begin = draw(0, bytes_max - 2);
  return {begin, std::min(bytes_max, begin + draw(1, 1 << draw(1, 17)))};
}

class File {
 public:
  explicit File(const char* path) : path_(path) {
    open();
    done(MPI_File_set_size(file_, bytes_max), "set_size");
  }
  ~File() { done(MPI_File_close(&file_), "close"); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  MPI_File handle() const { return file_; }

  // From here on the others see what a rank wrote.
  void publish() {
    if (atomic) {
      MPI_Barrier(MPI_COMM_WORLD);
    } else if (draw(0, 7) == 0) {
      done(MPI_File_close(&file_), "close");
      open();
    } else {
      done(MPI_File_sync(file_), "sync");
      MPI_Barrier(MPI_COMM_WORLD);
      done(MPI_File_sync(file_), "sync");
    }
  }
  void set_atomicity(bool to) {
    atomic = to;
    done(MPI_File_set_atomicity(file_, to ? 1 : 0), "set_atomicity");
  }

  void show_every_other_block() {
    MPI_Datatype block = MPI_DATATYPE_NULL;
    MPI_Datatype view = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(block_bytes), MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, static_cast<MPI_Aint>(2 * block_bytes), &view);
    MPI_Type_commit(&view);
    done(MPI_File_set_view(file_, 0, MPI_BYTE, view, "native", MPI_INFO_NULL), "set_view");
    MPI_Type_free(&view);
    MPI_Type_free(&block);
  }
  void show_all() {
    done(MPI_File_set_view(file_, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "set_view");
  }

  // Disjoint pieces of any rank, each by a call.
  void write(const std::vector<Extent>& pieces) {
    std::vector<std::pair<Extent, Bytes>> own;
    std::vector<int> counts(static_cast<std::size_t>(ranks), 0);
    for (const Extent& piece : pieces) {
      Bytes data = new_bytes(piece.bytes(), static_cast<int>(piece.begin));
      put(model, piece.begin, data);
      ++counts[static_cast<std::size_t>(piece.rank)];
      if (piece.rank == rank) own.emplace_back(piece, std::move(data));
    }
    const auto kind = draw(0, 4);
    if (kind == 4) {
      write_by_a_view(own);
      return;
    }
    // Collective calls by all ranks, also those that have nothing more.
    const auto most = static_cast<std::size_t>(*std::max_element(counts.begin(), counts.end()));
    own.resize(kind == 0 ? own.size() : most);
    std::vector<MPI_Request> requests(own.size(), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto& [piece, data] = own[i];
      const void* from = data.data();
      const int bytes = piece.bytes();
      MPI_Status status;
      if (kind == 0)
        done(MPI_File_write_at(file_, piece.begin, from, bytes, MPI_BYTE, &status), "write_at");
      if (kind == 1)
        done(MPI_File_write_at_all(file_, piece.begin, from, bytes, MPI_BYTE, &status), "_at_all");
      if (kind == 2)
        done(MPI_File_iwrite_at_all(file_, piece.begin, from, bytes, MPI_BYTE, &requests[i]),
             "iwrite_at_all");
      if (kind == 3) {
        done(MPI_File_write_at_all_begin(file_, piece.begin, from, bytes, MPI_BYTE), "_begin");
        done(MPI_File_write_at_all_end(file_, from, &status), "write_at_all_end");
      }
    }
    done(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
         "waiting");
  }

  Bytes read(const Extent& range, int kind) {
    Bytes data(static_cast<std::size_t>(range.bytes()), 0);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    std::memset(&status, 0, sizeof status);
    void* const in = data.data();
    const int bytes = range.bytes();
    if (kind == 0)
      done(MPI_File_read_at(file_, range.begin, in, bytes, MPI_BYTE, &status), "read_at");
    if (kind == 1)
      done(MPI_File_read_at_all(file_, range.begin, in, bytes, MPI_BYTE, &status), "read_at_all");
    if (kind == 2) {
      done(MPI_File_iread_at_all(file_, range.begin, in, bytes, MPI_BYTE, &request), "iread");
      done(MPI_Wait(&request, &status), "waiting");
    }
    int moved = 0;
    MPI_Get_count(&status, MPI_BYTE, &moved);
    expect(moved == bytes, "a short read");
    return data;
  }

 private:
  void open() {
    done(MPI_File_open(MPI_COMM_WORLD, path_, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                       &file_),
         "open");
  }
  void write_by_a_view(const std::vector<std::pair<Extent, Bytes>>& own) {
    Bytes all;
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    for (const auto& [piece, data] : own) {
      lengths.push_back(piece.bytes());
      places.push_back(static_cast<MPI_Aint>(piece.begin));
      all.insert(all.end(), data.begin(), data.end());
    }
    MPI_Datatype view = MPI_BYTE;
    if (!own.empty()) {
      MPI_Type_create_hindexed(static_cast<int>(own.size()), lengths.data(), places.data(),
                               MPI_BYTE, &view);
      MPI_Type_commit(&view);
    }
    done(MPI_File_set_view(file_, 0, MPI_BYTE, view, "native", MPI_INFO_NULL), "set_view");
    if (!own.empty()) MPI_Type_free(&view);
    done(MPI_File_write_all(file_, all.data(), static_cast<int>(all.size()), MPI_BYTE,
                            MPI_STATUS_IGNORE),
         "write_all");
    show_all();
  }

  const char* path_;
  MPI_File file_ = MPI_FILE_NULL;
};

// Each rank reads something else.
void check_reads(File& file) {
  for (int reads = 0; reads < 3; ++reads) {
    const int kind = static_cast<int>(draw(0, 2));
    for (int reader = 0; reader < ranks; ++reader) {
      const Extent range = any_range();
      if (reader == rank)
        expect(holds(model, range.begin, file.read(range, kind)),
               "other bytes by read " + std::to_string(kind));
    }
  }
}

void write_pieces(File& file) {
  std::vector<Extent> pieces;
  for (std::int64_t at = draw(0, 2000); at < bytes_max;) {
    const std::int64_t end = std::min(bytes_max, at + draw(1, 1 << draw(4, 16)));
    if (draw(0, 3) > 0) pieces.push_back({at, end, static_cast<int>(draw(0, ranks - 1))});
    at = end;
  }
  file.write(pieces);
  file.publish();
  check_reads(file);
}

template <class Visit>
void for_each_shown(const Visit& visit) {
  for (std::int64_t at = 0; at < shown_bytes; ++at)
    visit(static_cast<std::size_t>(at),
          static_cast<std::size_t>(at / block_bytes * 2 * block_bytes + at % block_bytes));
}

// In atomic mode: writes of overlapping ranges at the same time are as if they came one after
// another, and so is a read beside them. All go through one view, so each is many small requests.
void conflict(File& file) {
  Bytes shown(shown_bytes);
  for_each_shown([&](std::size_t at, std::size_t place) { shown[at] = model[place]; });
  file.show_every_other_block();
  std::vector<Extent> ranges;
  std::vector<Bytes> data;
  const std::int64_t middle = draw(50'000, shown_bytes - 50'000);
  for (int i = 0; i < ranks; ++i) {
    ranges.push_back({middle - draw(1, 50'000), middle + draw(1, 50'000), i});
    data.push_back(new_bytes(ranges.back().bytes(), i));
  }
  const bool all = draw(0, 1) == 0;
  const bool last_reads = !all && draw(0, 1) == 0;
  const int writers = last_reads ? ranks - 1 : ranks;
  // What the file holds after some of the writes, in any order.
  std::vector<Bytes> after_some{shown};
  std::vector<Bytes> after_all;
  std::vector<int> order(static_cast<std::size_t>(writers));
  std::iota(order.begin(), order.end(), 0);
  do {
    Bytes now = shown;
    for (const int i : order) {
      put(now, ranges[static_cast<std::size_t>(i)].begin, data[static_cast<std::size_t>(i)]);
      after_some.push_back(now);
    }
    after_all.push_back(now);
  } while (std::next_permutation(order.begin(), order.end()));
  const auto is_one_of = [](const std::vector<Bytes>& states, const Extent& range,
                            const Bytes& seen) {
    return std::any_of(states.begin(), states.end(),
                       [&](const Bytes& state) { return holds(state, range.begin, seen); });
  };
  const auto own = static_cast<std::size_t>(rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank >= writers) {
    expect(is_one_of(after_some, ranges[own], file.read(ranges[own], 0)), "a torn read");
  } else if (all) {
    done(MPI_File_write_at_all(file.handle(), ranges[own].begin, data[own].data(),
                               ranges[own].bytes(), MPI_BYTE, MPI_STATUS_IGNORE),
         "write_at_all");
  } else {
    done(MPI_File_write_at(file.handle(), ranges[own].begin, data[own].data(), ranges[own].bytes(),
                           MPI_BYTE, MPI_STATUS_IGNORE),
         "write_at");
  }
  file.publish();
  const Extent whole{0, shown_bytes, rank};
  Bytes seen = file.read(whole, static_cast<int>(draw(0, 1)));
  expect(is_one_of(after_all, whole, seen), "torn writes");
  for_each_shown([&](std::size_t at, std::size_t place) { model[place] = seen[at]; });
  shown = seen;
  MPI_Bcast(seen.data(), static_cast<int>(shown_bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  expect(seen == shown, "ranks see different writes");
  file.show_all();
}

// Records of different sizes at the shared file pointer.
void share_the_pointer(File& file) {
  constexpr int records_max = 3;
  const std::int64_t begin = draw(0, 100'000);
  const bool in_order = draw(0, 1) == 0;
  std::vector<Bytes> records;  // the first byte says which
  std::vector<int> owners;
  for (int i = 0; i < ranks; ++i) {
    for (auto left = in_order ? 1 : draw(1, records_max); left > 0; --left) {
      Bytes record = new_bytes(static_cast<int>(draw(1, 9000)), static_cast<int>(records.size()));
      record[0] = static_cast<unsigned char>(records.size());
      records.push_back(std::move(record));
      owners.push_back(i);
    }
  }
  done(MPI_File_seek_shared(file.handle(), begin, MPI_SEEK_SET), "seek_shared");
  std::int64_t end = begin;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Bytes& record = records[i];
    const int bytes = static_cast<int>(record.size());
    end += bytes;
    if (owners[i] != rank) continue;
    if (in_order) {
      done(MPI_File_write_ordered(file.handle(), record.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE),
           "write_ordered");
    } else {
      done(MPI_File_write_shared(file.handle(), record.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE),
           "write_shared");
    }
  }
  file.publish();
  const Bytes seen = file.read({begin, end, rank}, static_cast<int>(draw(0, 1)));
  put(model, begin, seen);
  std::vector<bool> found(records.size(), false);
  std::size_t next = 0;
  for (std::size_t at = 0; at < seen.size();) {
    const std::size_t which = seen[at];
    const bool is_new = which < records.size() && !found[which] && (!in_order || which == next++);
    const bool right = is_new && records[which].size() <= seen.size() - at &&
                       holds(seen, static_cast<std::int64_t>(at), records[which]);
    expect(right, in_order ? "records of write_ordered" : "records of write_shared");
    if (!right) return;
    found[which] = true;
    at += records[which].size();
  }
}

// Each rank reads another part, and together they read all.
void read_at_the_shared_pointer(File& file) {
  const std::int64_t begin = draw(0, 100'000);
  const int bytes = static_cast<int>(draw(8, 9000));
  done(MPI_File_seek_shared(file.handle(), begin, MPI_SEEK_SET), "seek_shared");
  Bytes data(static_cast<std::size_t>(bytes), 0);
  done(MPI_File_read_shared(file.handle(), data.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE),
       "read_shared");
  Bytes all(data.size() * static_cast<std::size_t>(ranks));
  MPI_Allgather(data.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
  std::vector<Bytes> got;
  std::vector<Bytes> wanted;
  for (int i = 0; i < ranks; ++i) {
    const auto here = all.begin() + std::ptrdiff_t{i} * bytes;
    const auto there = model.begin() + begin + std::ptrdiff_t{i} * bytes;
    got.emplace_back(here, here + bytes);
    wanted.emplace_back(there, there + bytes);
  }
  std::sort(got.begin(), got.end());
  std::sort(wanted.begin(), wanted.end());
  expect(got == wanted, "other parts by read_shared");
  MPI_Offset position = 0;
  done(MPI_File_get_position_shared(file.handle(), &position), "get_position_shared");
  expect(position == begin + std::int64_t{bytes} * ranks, "another shared position");
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool threads = argc > 4 && std::strcmp(argv[4], "threads") == 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  draws.seed(std::strtoull(argv[2], nullptr, 10));
  const int steps = std::atoi(argv[3]);
  {
    File file(argv[1]);
    for (step = 0; step < steps; ++step) {
      if (step % 4 == 0) file.set_atomicity(draw(0, 1) == 1);
      MPI_Barrier(MPI_COMM_WORLD);  // behind all reads of the step before
      const auto kind = draw(0, 5);
      if (kind < 3) write_pieces(file);
      if (kind == 3 && atomic) conflict(file);
      if (kind == 4) share_the_pointer(file);
      if (kind == 5) read_at_the_shared_pointer(file);
    }
  }
  print("seen", wrong.empty() ? "right" : wrong);
  MPI_Finalize();
  return wrong.empty() ? 0 : 1;
}
