// Random calls of several threads on a page cache of a few small pages over a failing storage,
// compared byte for byte with models. Every change of a frame's state must be in a list, which
// specifies that state machine (ideas of fsx and of branch coverage).
#include "device/cache/transitions.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/hooks.hpp"
#include "support/memory_io.hpp"
#include "support/within.hpp"

namespace ferry::device::cache {
namespace {

using test::MemoryFiles;
using test::pattern;
using test::Random;
using test::same_bytes;
using test::scaled;
using test::TestCache;
using Cache = PageCache<MemoryFiles>;

// Pages far smaller than any that a program can have: many fit into a short test.
constexpr std::uint32_t page = 256;
constexpr std::uint32_t files = 2;
constexpr std::uint32_t threads = 4;

// Each file begins with stripes, each owned by one thread and always written whole. The tail behind
// them belongs to one thread, which cuts and extends it.
constexpr std::size_t stripe = 12;  // more of them than a page's list has places do not touch
constexpr std::size_t stripes = 720;
constexpr std::size_t tail_begin = stripes * stripe;  // in the middle of a page
constexpr std::size_t tail_max = 10 * page;

// The state machine of a frame (State in layout.hpp explains the flags): every allowed change, as
// rules. A change of the cache that adds others must add rules.
std::vector<test::TransitionRule> rules() {
  using namespace test::flags;
  return {
      {"a page is pinned", 0, pinned, 0, valid | dirty, 0},
      {"a page is unpinned", pinned, 0, pinned, valid | dirty, 0},
      {"an orphan is pinned in vain", orphan, pinned, 0, 0, valid, true},
      {"an orphan is unpinned", orphan | pinned, 0, pinned, valid, 0},
      {"a taken frame is pinned in vain", taken, pinned, 0, 0, valid | orphan},
      {"a taken frame is unpinned", taken | pinned, 0, pinned, 0, valid | orphan},

      {"a writer comes", pinned, copying, 0, valid | dirty | writing, 0},
      {"a writer goes", pinned | copying, 0, copying, valid | dirty | writing, 0},
      {"a writer finds a filling", pinned | filling, copying, 0, 0, valid | dirty | orphan},
      {"and steps back", pinned | filling | copying, 0, copying, 0, valid | dirty | orphan},
      {"a writer finds an orphan", pinned | orphan, copying, 0, valid, dirty | writing},
      {"a writer leaves an orphan", pinned | orphan | copying, 0, copying, valid, dirty | writing},

      {"a write fails", pinned | copying | valid, 0, valid, dirty, writing},
      {"bytes are written", pinned | copying, dirty, 0, valid | writing, 0},
      {"a page is written", pinned | copying, dirty | valid, 0, 0, writing},
      {"a page becomes whole", pinned | copying | dirty, valid, 0, 0, writing},
      {"ranges stay dirty", pinned | writing, dirty, 0, valid, copying | orphan},
      {"they make a page whole", pinned | writing, dirty | valid, 0, 0, dirty | copying | orphan,
       true},

      {"a page is entered to be filled", taken, pinned | filling, taken, 0, pinned},
      {"a page is entered to be written", taken, pinned, taken, 0, pinned},
      {"a filling begins", pinned, filling, 0, valid | dirty, 0},
      {"a filling makes a page valid", pinned | filling, valid, filling, dirty, copying | orphan},
      {"a filling ends", pinned | filling, 0, filling, valid, dirty | copying | orphan},
      {"a filling cuts all ranges", pinned | filling | dirty, 0, dirty, 0, valid | copying},

      {"a write-back begins", pinned | dirty, writing, 0, valid, copying},
      {"a write-back that finds nothing begins", pinned, writing, 0, 0, valid | copying},
      {"its ranges are taken", pinned | writing | dirty, 0, dirty, valid, copying | orphan},
      {"a write-back ends", pinned | writing, 0, writing, valid | dirty, copying | orphan},

      {"a page is dropped", pinned, orphan, 0, valid, dirty | writing | copying},
      {"a page is dropped during a filling", pinned | filling, orphan, 0, 0,
       valid | dirty | copying},
      {"what was dirty is dropped", pinned | orphan | dirty, 0, dirty, valid, copying},

      {"a page is evicted", 0, taken, 0, valid, 0},
      {"an orphan is taken", orphan, taken, 0, valid, 0},
      {"a taken frame is emptied", taken, 0, valid | orphan, 0, valid | orphan | pinned},
      {"a marked one is let go", taken, orphan, taken, 0, pinned},
  };
}

struct Shape {
  const char* name;
  std::uint32_t frames;
  unsigned errors_one_in;
  unsigned shorts_one_in;
  bool delays;
};

// The thread sanitizer must not see a thread read what another one writes.
#if defined(__SANITIZE_THREAD__)
constexpr bool one_owner = true;
#else
constexpr bool one_owner = false;
#endif

// The possible contents of a stripe. Written data stays, except where unwritable pages are dropped.
// So data written after the last loss is certain; before that, any version since the last certain
// one is possible.
struct Stripe {
  std::vector<std::string> versions;
  std::uint32_t losses = 0;  // how many there had been when the last one was written
  bool failed = false;       // the last write did, so nothing is certain
};

struct Tail {
  std::string data;
  std::uint32_t losses = 0;
};

class Transitions : public testing::Test {
 protected:
  void make(const Shape& shape, Random& random) {
    memory = std::make_unique<TestCache>(page, shape.frames, files, threads);
    storage = std::make_unique<MemoryFiles>(files, random.fork());
    caches.clear();
    for (std::uint32_t group = 0; group < threads; ++group)
      caches.push_back(std::make_unique<Cache>(memory->view(), hooks, *storage, group));
    for (std::uint32_t file = 0; file < files; ++file) {
      memory->view().inode(file).write_handle = static_cast<int>(file) + 1;
      memory->view().inode(file).size_bytes = tail_begin;
      const std::string data = pattern(tail_begin, random.bits());
      storage->set_contents(static_cast<int>(file) + 1, data);
      for (std::size_t i = 0; i < stripes; ++i)
        model[file][i] = Stripe{{data.substr(i * stripe, stripe)}, 0, false};
      tails[file] = Tail{};
    }
    storage->faults.delays = shape.delays;
    shape_name = shape.name;
    faulty = shape.errors_one_in != 0 || shape.shorts_one_in != 0;
    inject(shape);
  }
  void inject(const Shape& shape) {
    storage->faults.reads_one_in = shape.errors_one_in;
    storage->faults.writes_one_in = shape.errors_one_in;
    storage->faults.short_reads_one_in = shape.shorts_one_in;
    storage->faults.short_writes_one_in = shape.shorts_one_in;
  }
  std::uint32_t losses(std::uint32_t file) const { return lost[file].load(); }
  static int handle(std::uint32_t file) { return static_cast<int>(file) + 1; }
  void fail(const std::string& what) {
    if (!failed.exchange(true)) ADD_FAILURE() << what << " (" << shape_name << ")";
  }
  void check(bool right, const char* what) {
    if (!right) fail(what);
  }

  // A thread's work on its stripes.
  class Worker {
   public:
    Worker(Transitions& all, std::uint32_t index, Random random)
        : all_(all), cache_(*all.caches[index]), index_(index), random_(std::move(random)) {}

    void run(std::uint64_t operations) {
      for (std::uint64_t i = 0; i < operations && !all_.failed; ++i) {
        file_ = static_cast<std::uint32_t>(random_.below(files));
        number_ = random_.below(stripes / threads) * threads + index_;
        // Now and then all go to the same place.
        if (random_.one_in(3)) number_ = random_.below(page / stripe / threads) * threads + index_;
        step();
      }
    }

   private:
    void step() {
      const std::uint64_t what = random_.below(100);
      if (what < 2) return flush();
      if (what < 4) return drop();
      if (what < 8) return outside_write();
      if (what < 20 && file_ % threads == index_) return tail();
      if (what < 22) return mark_and_leave();
      if (what < 60) return read();
      write();
    }
    // As a read that finds another page in the frame than it had hoped for.
    void mark_and_leave() {
      const View& view = all_.memory->view();
      const auto frame = static_cast<std::uint32_t>(random_.below(view.layout.geometry.frames));
      const HazardGuard mark(view, index_, frame);
      for (std::uint64_t i = random_.below(4); i > 0; --i)
        std::this_thread::yield();
    }

    Stripe& mine() { return all_.model[file_][number_]; }
    std::string fresh() {
      std::string data = pattern(stripe, random_.bits());
      all_.storage->announce(handle(file_), number_ * stripe, stripe);
      return data;
    }
    // The stripe holds `data` now, or (`done` < 0) something between that and what it held.
    void wrote(std::string data, std::uint32_t losses_before, bool whole) {
      Stripe& own = mine();
      if (!all_.faulty) own.versions.clear();
      own.versions.push_back(std::move(data));
      own.losses = losses_before;
      own.failed = !whole;
    }

    void write() {
      const std::uint32_t losses = all_.losses(file_);
      std::string data = fresh();
      const std::int64_t got = cache_.write(file_, data.data(), data.size(), number_ * stripe);
      all_.check(all_.faulty || got == static_cast<std::int64_t>(stripe), "write");
      wrote(std::move(data), losses, got == static_cast<std::int64_t>(stripe));
    }
    void read() {
      // Other threads' stripes on both sides: pages that are absent come in runs.
      const std::size_t wide = !one_owner && random_.one_in(4) ? random_.below(3 * page) : 0;
      const std::size_t begin = number_ * stripe - std::min(number_ * stripe, wide);
      const std::size_t bytes = std::min(number_ * stripe + stripe + wide, tail_begin) - begin;
      buffer_.assign(bytes, '?');
      const bool hit = random_.one_in(2) &&
                       read_hit(all_.memory->view(), index_, file_, buffer_.data(), bytes, begin);
      if (!hit && cache_.read(file_, handle(file_), buffer_.data(), bytes, begin) !=
                      static_cast<std::int64_t>(bytes)) {
        return all_.check(all_.faulty, "a read is short");
      }
      all_.check_stripe(file_, number_, buffer_.substr(number_ * stripe - begin, stripe), "read");
    }
    void outside_write() {
      const std::uint32_t losses = all_.losses(file_);
      std::string data = fresh();
      cache_.begin_outside(file_);
      if (cache_.flush(file_) == 0) {
        const Piece piece{reinterpret_cast<unsigned char*>(data.data()), data.size()};
        const std::int64_t got = all_.storage->write(handle(file_), &piece, 1,
                                                     static_cast<std::int64_t>(number_ * stripe));
        if (got > 0)
          cache_.update(file_, data.data(), static_cast<std::uint64_t>(got), number_ * stripe);
        wrote(std::move(data), losses, got == static_cast<std::int64_t>(stripe));
      } else {
        all_.check(all_.faulty, "flush");
      }
      cache_.end_outside(file_);
    }
    // After a flush without errors storage has everything written before.
    void flush() {
      const bool right = cache_.flush(file_) == 0;
      all_.check(right || all_.faulty, "flush");
      for (number_ = index_; right && number_ < stripes; number_ += threads) {
        Stripe& own = mine();
        const bool certain = !own.failed && own.losses == all_.losses(file_);
        if (own.versions.size() < 2 && !random_.one_in(20)) continue;
        const std::string there = all_.storage->contents(handle(file_), number_ * stripe, stripe);
        all_.check_stripe(file_, number_, there, "what is in the storage after a flush");
        if (certain) own.versions.erase(own.versions.begin(), own.versions.end() - 1);
      }
    }
    // Like the last close: unwritable data is lost.
    void drop() {
      cache_.begin_outside(file_);
      const bool clean = cache_.flush(file_) == 0;
      all_.check(clean || all_.faulty, "flush");
      if (!clean) ++all_.lost[file_];
      cache_.drop(file_);
      cache_.end_outside(file_);
    }

    // ---- the tail ------------------------------------------------------------------------------

    void tail() {
      Tail& own = all_.tails[file_];
      if (own.losses != all_.losses(file_)) {
        // What of it was lost is not known: from the beginning again.
        cut(own, 0);
        own.losses = all_.losses(file_);
      }
      const std::size_t at = random_.below(tail_max);
      const std::size_t bytes = random_.one_in(3) ? page : random_.below(2 * page) + 1;
      switch (random_.below(4)) {
        case 0:
          return cut(own, random_.one_in(2) ? at / page * page : at);
        case 1:
          return extend(own, at, std::min(bytes, tail_max - at));
        default:
          return look(own, at, bytes);
      }
    }
    void cut(Tail& own, std::size_t size) {
      const std::size_t bytes = tail_begin + size;
      cache_.begin_outside(file_);
      const bool clean = cache_.flush(file_) == 0;
      all_.check(clean || all_.faulty, "flush");
      all_.storage->cut(handle(file_), bytes, clean);
      cache_.resize(file_, bytes);
      if (!clean) all_.storage->cut(handle(file_), bytes, clean);
      cache_.end_outside(file_);
      own.data.resize(size, '\0');
    }
    void extend(Tail& own, std::size_t at, std::size_t bytes) {
      std::string data = pattern(bytes, random_.bits());
      all_.storage->announce(handle(file_), tail_begin + at, bytes);
      const std::int64_t got = cache_.write(file_, data.data(), data.size(), tail_begin + at);
      if (got != static_cast<std::int64_t>(bytes)) {
        all_.check(all_.faulty, "a write to the tail");
        own.losses = ~0U;
        return;
      }
      test::write_to(own.data, data, at);
    }
    void look(Tail& own, std::size_t at, std::size_t bytes) {
      buffer_.assign(bytes, '?');
      const std::int64_t got =
          cache_.read(file_, handle(file_), buffer_.data(), bytes, tail_begin + at);
      const std::string wanted = at < own.data.size() ? own.data.substr(at, bytes) : "";
      const bool whole = got == static_cast<std::int64_t>(wanted.size());
      if (own.losses != all_.losses(file_)) return;
      all_.check(whole || all_.faulty, "a read of the tail is short");
      if (whole && buffer_.compare(0, wanted.size(), wanted) != 0) all_.fail("the tail differs");
    }

    Transitions& all_;
    Cache& cache_;
    const std::uint32_t index_;
    Random random_;
    std::uint32_t file_ = 0;
    std::size_t number_ = 0;
    std::string buffer_;
  };

  void check_stripe(std::uint32_t file, std::size_t number, const std::string& got,
                    const char* what) {
    const Stripe& own = model[file][number];
    const bool certain = !own.failed && own.losses == losses(file);
    if (certain && got != own.versions.back())
      return fail(std::string(what) + ": stripe " + std::to_string(number) +
                  " is not the last one");
    if (certain) return;
    // Pieces of versions; more than one piece where a transfer was short.
    int pieces = 0;
    for (std::size_t at = 0; at < stripe; ++pieces) {
      std::size_t longest = 0;
      for (const std::string& one : own.versions) {
        std::size_t same = 0;
        while (at + same < stripe && one[at + same] == got[at + same])
          ++same;
        longest = std::max(longest, same);
      }
      if (longest == 0 || pieces == 10) {
        return fail(std::string(what) + ": stripe " + std::to_string(number) +
                    " has bytes that nobody wrote");
      }
      at += longest;
    }
  }

  void round(const Shape& shape, std::uint64_t operations, Random& random) {
    make(shape, random);
    test::at_once("threads on a page cache", threads, random, [&](std::uint32_t i, Random& own) {
      Worker(*this, i, std::move(own)).run(operations / threads);
    });
    inject(Shape{});
    for (std::uint32_t file = 0; file < files && !failed; ++file) {
      EXPECT_EQ(caches[0]->flush(file), 0);
      EXPECT_EQ(memory->view().inode(file).dirty_pages, 0U);
      const std::string all = storage->contents(handle(file));
      ASSERT_GE(all.size(), tail_begin);
      for (std::size_t i = 0; i < stripes; ++i)
        check_stripe(file, i, all.substr(i * stripe, stripe), "in the end");
      if (tails[file].losses == losses(file)) {
        // A hole at the end may not be there yet, unless it was cut there.
        std::string tail = all.substr(tail_begin);
        tail.resize(std::max(tail.size(), tails[file].data.size()), '\0');
        EXPECT_TRUE(same_bytes(tail, tails[file].data));
      }
    }
    EXPECT_EQ(storage->strangers, 0U) << "bytes were written that nobody wrote";
    if (testing::Test::HasFailure()) failed = true;
  }

  HostHooks hooks = cpu::host_hooks();
  std::unique_ptr<TestCache> memory;
  std::unique_ptr<MemoryFiles> storage;
  std::vector<std::unique_ptr<Cache>> caches;
  std::atomic<std::uint32_t> lost[files]{};  // how often pages were dropped that were dirty
  Stripe model[files][stripes];
  Tail tails[files];
  const char* shape_name = "";
  bool faulty = false;
  std::atomic<bool> failed{false};
};

TEST_F(Transitions, AreThoseOfTheListAndNoOthers) {
  Random random;
  const Shape shapes[] = {
      {"one", 1, 0, 0, false},
      {"two", 2, 0, 0, false},
      {"three", 3, 0, 0, false},
      {"slow", 5, 0, 0, true},
      {"some", 8, 0, 0, false},
      {"all", 200, 0, 0, false},
      {"one failing", 1, 9, 0, false},
      {"failing", 4, 5, 0, false},
      {"short", 6, 0, 7, false},
      {"all failing", 200, 3, 5, true},
      {"seldom failing", 8, 40, 40, false},
      {"failing slowly", 12, 3, 0, true},
  };
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.name);
    round(shape, scaled(200'000), random);
    if (failed) return;
  }
  // A machine with other work may need longer to show everything.
  std::string missing = test::transitions.missing(rules());
  const bool demanded = !test::sanitized && scaled(8) >= 8;
  for (int i = 0; i < 40 && demanded && !missing.empty() && !failed; ++i) {
    round(random.pick(shapes), 100'000, random);
    missing = test::transitions.missing(rules());
  }
  if (demanded) {
    EXPECT_EQ(missing, "") << "were never seen";
  }
  EXPECT_EQ(test::transitions.illegal(rules()), "");
}

}  // namespace
}  // namespace ferry::device::cache
