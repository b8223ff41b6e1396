// A hostile device: what it may write into its arena, before and while the server works on it. The
// real loop runs on this thread, so that an input always does the same.
//
// The server must end, use only memory that requests may name and files that are open, and leave
// the words that it never writes as they are.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ferry/device/control.hpp>

#include "fuzz/bytes.hpp"
#include "server/loop.hpp"

namespace ferry::fuzz {
namespace {

using device::ArenaView;
using device::Request;
using server::Loop;

constexpr std::uint64_t heap_bytes = 64 << 10;
constexpr std::uint32_t groups = 3;
constexpr std::uint32_t generation_max = (1U << 28) - 1;  // with 8 files
constexpr unsigned waits_after_end_max = 10'000;

// An allocation of its own, so that the address sanitizer sees what leaves it.
class HostileArena {
 public:
  HostileArena() {
    device::Geometry geometry{.loops = 1,
                              .rings = 2,
                              .slots_per_ring = 16,
                              .groups = groups,
                              .cells_per_group = 4,
                              .shared_cells = 2,
                              .files = 8,
                              .staging_bytes = 4096};
    geometry.arena_bytes = device::lay_out(geometry).heap + heap_bytes;
    bytes_ = geometry.arena_bytes;
    memory_.reset(static_cast<unsigned char*>(std::aligned_alloc(4096, bytes_)));
    std::memset(memory_.get(), 0, bytes_);
    view.base = memory_.get();
    view.local = memory_.get();
    view.layout = device::lay_out(geometry);
    expected_.assign(memory_.get(), memory_.get() + bytes_);
  }

  // A store of the device.
  void store(std::uint64_t offset, const void* from, std::uint64_t bytes) {
    if (offset >= bytes_) return;
    bytes = std::min(bytes, bytes_ - offset);
    std::memcpy(memory_.get() + offset, from, bytes);
    std::memcpy(expected_.data() + offset, from, bytes);
  }

  // What only the device stores is as the device left it.
  void check() const {
    const device::Control& layout = view.layout;
    const auto same = [&](std::uint64_t begin, std::uint64_t end) {
      return std::memcmp(memory_.get() + begin, expected_.data() + begin, end - begin) == 0;
    };
    require(same(0, layout.loop_states), "the server changed the control block");
    require(same(layout.slots, layout.cells), "the server changed the slots of a ring");
    require(same(layout.local, layout.heap), "the server changed the device's own part");
  }

  std::uint64_t bytes() const { return bytes_; }

  ArenaView view;

 private:
  struct Free {
    void operator()(unsigned char* memory) const { std::free(memory); }
  };
  std::unique_ptr<unsigned char, Free> memory_;
  std::vector<unsigned char> expected_;
  std::uint64_t bytes_ = 0;
};

// What the device does, one act at a time.
class HostileDevice {
 public:
  HostileDevice(HostileArena& arena, InputBytes& input) : arena_(arena), input_(input) {
    const device::Control& layout = arena_.view.layout;
    edges_ = {layout.loop_states,
              layout.doorbells,
              layout.heads,
              layout.slots,
              layout.cells,
              layout.scratch,
              layout.extents,
              layout.staging,
              layout.local,
              layout.tickets,
              layout.groups,
              layout.heap,
              arena_.bytes(),
              std::uint64_t{0},
              ~std::uint64_t{0},
              std::uint64_t{1} << 63,
              device::transfer_bytes_max};
  }

  bool has_ended() const { return input_.empty(); }

  void act() {
    switch (input_.take<std::uint8_t>() % 8) {
      case 0:
      case 1:
      case 2:
      case 3:
        publish();
        return;
      case 4:
        scribble();
        return;
      case 5: {
        const auto value = input_.take<std::uint64_t>();
        arena_.store(input_.number(edges_), &value, sizeof value);
        return;
      }
      case 6:
        list_extents();
        return;
      default:
        name_path();
    }
  }

  // Answers to opens are in cells, where a device finds handles.
  void sees(const server::FileTable& files) { files_ = &files; }

 private:
  void publish() {
    Request request{};
    const auto choice = input_.take<std::uint8_t>();
    request.opcode = static_cast<device::Opcode>(choice % 20);
    request.flags = input_.take<std::uint8_t>();
    request.cell = static_cast<std::uint32_t>(input_.number(cells_));
    request.sequence = choice >= 240 ? 0 : ++sequence_;
    request.file = file();
    request.buffer = input_.number(edges_);
    request.length = input_.number(edges_);
    request.offset = static_cast<std::int64_t>(input_.number(edges_));
    request.argument = input_.take<std::uint16_t>();
    request.kept = input_.number(edges_);
    const std::uint32_t ring = choice / 20 % 2;
    const device::RequestRing slots = arena_.view.ring(ring);
    const std::uint64_t ticket = tickets_[ring]++;
    request.commit = choice >= 230 ? input_.take<std::uint32_t>() : slots.lap(ticket);
    arena_.store(arena_.view.offset_of(&slots.slot(ticket)), &request, sizeof request);
  }

  std::int32_t file() {
    const auto choice = input_.take<std::uint8_t>();
    for (const std::int32_t handle : files_->open_handles())
      if (handles_.empty() || handles_.back() != handle) handles_.push_back(handle);
    if (choice < 240 && !handles_.empty()) {  // the last ones, of which some are closed
      const std::size_t back = choice % std::min<std::size_t>(handles_.size(), 12);
      return handles_[handles_.size() - 1 - back];
    }
    return input_.take<std::int32_t>();
  }

  void scribble() {
    const std::uint64_t offset = input_.number(edges_);
    const auto repeats = 1U + input_.take<std::uint8_t>();
    const auto value = input_.take<std::uint64_t>();
    for (unsigned i = 0; i < repeats; ++i)
      arena_.store(offset + i * sizeof value, &value, sizeof value);
  }

  void list_extents() {
    const std::uint64_t offset = arena_.view.layout.heap + input_.take<std::uint8_t>() % 4 * 16;
    for (unsigned i = 0; i < 4; ++i) {
      const device::BufferExtent extent{input_.number(edges_), input_.number(edges_)};
      arena_.store(offset + i * sizeof extent, &extent, sizeof extent);
    }
  }

  void name_path() {
    const auto bytes = input_.take<std::uint8_t>();
    const std::string path = input_.text(bytes % 32);
    arena_.store(arena_.view.layout.heap + bytes / 32 * 8, path.c_str(), path.size() + 1);
  }

  HostileArena& arena_;
  InputBytes& input_;
  std::vector<std::uint64_t> edges_;
  const std::vector<std::uint64_t> cells_{0, groups * 4, groups * 4 + 2, 0xffffffff};
  const server::FileTable* files_ = nullptr;
  std::vector<std::int32_t> handles_;
  std::uint64_t tickets_[2]{};
  std::uint32_t sequence_ = 0;
};

// Holds every second operation for a while, and looks at all that it gets.
class SuspiciousStorage final : public storage::Storage {
 public:
  SuspiciousStorage(const ArenaView& arena, HostileDevice& device)
      : arena_(arena), device_(device) {}
  ~SuspiciousStorage() override {
    require(files_.empty(), "files are open after the end of their server");
  }

  void serve(Loop& loop) { loop_ = &loop; }
  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& /*options*/) override {
    return std::make_unique<SuspiciousQueue>(*this);
  }
  storage::Description describe() const override { return {"fuzz", "fuzz", {}}; }

 private:
  struct OpenFile final : storage::File {
    explicit OpenFile(std::set<storage::File*>& all) : files(all) { files.insert(this); }
    ~OpenFile() override { files.erase(this); }
    std::set<storage::File*>& files;
  };

  class SuspiciousQueue final : public storage::Queue {
   public:
    explicit SuspiciousQueue(SuspiciousStorage& storage) : storage_(storage) {}
    void submit(storage::Operation& operation) override {
      require(std::find(held_.begin(), held_.end(), &operation) == held_.end(),
              "an operation was submitted twice");
      storage_.check(operation);
      const auto uses_it = [&](const storage::Operation* held) {
        return held->file == operation.file;
      };
      require(operation.kind != storage::Kind::close ||
                  std::none_of(held_.begin(), held_.end(), uses_it),
              "a file is closed while it is used");
      if (is_by_path(operation.kind)) paths_[&operation] = operation.path;
      held_.push_back(&operation);
    }
    void flush() override {
      for (std::size_t count = (held_.size() + 1) / 2; count > 0; --count) {
        if (is_by_path(held_.front()->kind))
          require(paths_.at(held_.front()) == held_.front()->path, "a checked path has changed");
        storage_.finish(*held_.front());
        finished_.push_back(held_.front());
        held_.pop_front();
      }
    }
    storage::Operation* reap() override {
      if (finished_.empty()) return nullptr;
      storage::Operation* operation = finished_.front();
      finished_.pop_front();
      return operation;
    }
    void wait(std::uint32_t /*seen*/, std::chrono::nanoseconds /*timeout*/) override {
      storage_.idle();
    }
    void cancel(storage::Operation& operation) override {
      const auto found = std::find(held_.begin(), held_.end(), &operation);
      if (found == held_.end()) return;
      held_.erase(found);
      operation.result = -ECANCELED;
      if (operation.kind == storage::Kind::close) storage_.finish(operation);
      finished_.push_back(&operation);
    }
    storage::QueueStatistics statistics() const override { return {}; }

   private:
    SuspiciousStorage& storage_;
    std::deque<storage::Operation*> held_;
    std::deque<storage::Operation*> finished_;
    std::map<const storage::Operation*, std::string> paths_;  // as they were checked
  };

  static bool is_by_path(storage::Kind kind) {
    using storage::Kind;
    return kind == Kind::open || kind == Kind::unlink || kind == Kind::path_status;
  }

  // The device goes on while the server has nothing to do.
  void idle() {
    if (!device_.has_ended()) {
      device_.act();
      return;
    }
    require(++waits_after_end_ < waits_after_end_max, "the server does not end");
    loop_->stop(Loop::Clock::now());
  }

  void check(const storage::Operation& operation) const {
    using storage::Kind;
    const Kind kind = operation.kind;
    if (is_by_path(kind)) {
      require(strnlen(operation.path, device::path_bytes_max) < device::path_bytes_max,
              "a path has no end");
    } else {
      require(files_.count(operation.file) == 1, "the storage got a file that is not open");
    }
    if (kind != Kind::read && kind != Kind::write && kind != Kind::append) return;
    const auto& job = static_cast<const server::Job&>(operation);
    std::uint64_t total = 0;
    for (const iovec& piece : operation.vectors) {
      total += piece.iov_len;
      if (piece.iov_base == job.kept.data()) continue;  // the server's own
      const auto offset = static_cast<std::uint64_t>(
          static_cast<const unsigned char*>(piece.iov_base) - arena_.base);
      require(arena_.allows(offset, piece.iov_len), "a transfer leaves what requests may name");
    }
    require(total <= device::transfer_bytes_max, "a transfer is too long");
    require(operation.offset >= 0 || kind == Kind::append, "a transfer begins before its file");
  }

  void finish(storage::Operation& operation) {
    using storage::Kind;
    operation.result = 0;
    switch (operation.kind) {
      case Kind::open:
        if (operation.path[0] == '!') {
          operation.result = -ENOENT;
        } else {
          operation.opened = std::make_unique<OpenFile>(files_);
        }
        break;
      case Kind::close:
        require(files_.count(operation.file) == 1, "a file is closed twice");
        delete operation.file;
        break;
      case Kind::read:
      case Kind::write:
      case Kind::append:
        for (const iovec& piece : operation.vectors) {
          auto* bytes = static_cast<unsigned char*>(piece.iov_base);
          if (operation.kind == Kind::read) std::memset(bytes, 'R', piece.iov_len);
          for (std::size_t i = 0; i < piece.iov_len; i += 512)
            sum_ += bytes[i];
          operation.result += static_cast<std::int64_t>(piece.iov_len);
        }
        break;
      default:
        break;
    }
  }

  const ArenaView arena_;
  HostileDevice& device_;
  Loop* loop_ = nullptr;
  std::set<storage::File*> files_;
  unsigned waits_after_end_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  InputBytes input(data, bytes);
  const auto options_byte = input.take<std::uint8_t>();
  HostileArena arena;
  HostileDevice device(arena, input);
  SuspiciousStorage storage(arena.view, device);
  {
    server::FileTable files(arena.view.layout.geometry.files, generation_max - options_byte % 4);
    server::LoopOptions options;
    options.spin = std::chrono::nanoseconds(0);
    options.in_flight_max = 1U + options_byte % 4U * 3U;
    device.sees(files);
    options.inject = [&](server::LoopPoint) {
      // The device is a processor of its own: it stores between any two steps of the server.
      if (options_byte >= 128 && !device.has_ended()) device.act();
    };
    Loop loop(arena.view, storage, files, options);
    storage.serve(loop);
    loop.run();
    require(loop.ended(), "the loop did not end");
    // Nobody uses a file any more, so each can be closed.
    for (const std::int32_t handle : files.open_handles()) {
      require(files.begin_close(handle) && files.unused(handle), "a file is in use for ever");
      delete files.finish_close(handle);
    }
  }
  arena.check();
  return 0;
}

}  // namespace ferry::fuzz
