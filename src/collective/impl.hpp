// The state of a collective::File.
#pragma once

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <ferry/collective.hpp>

#include "base/caught_error.hpp"
#include "collective/context.hpp"
#include "collective/file_order.hpp"
#include "collective/gpu_staging.hpp"
#include "collective/hints.hpp"
#include "collective/independent.hpp"
#include "collective/kept_plans.hpp"
#include "collective/mpiio.hpp"
#include "collective/orders.hpp"
#include "storage/storage.hpp"

namespace ferry::collective {

// The ranks of a file are, or were, in different calls.
class Mismatch : public Error {
 public:
  explicit Mismatch(const std::string& what) : Error(EPROTO, what) {}
};

// Who chose the stripes of a file.
enum class StripesOrigin : std::uint8_t { found, asked, automatic };

class File::Impl {
 public:
  Impl(MPI_Comm communicator, std::string path, int flags, const Options& options,
       std::shared_ptr<storage::Storage> storage);
  // Ends the job where this rank has no memory for one.
  static std::unique_ptr<Impl> make(MPI_Comm communicator, const std::string& path, int flags,
                                    const Options& options,
                                    std::shared_ptr<storage::Storage> storage);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Runs `body`, collective in this rank's group, on all groups, after what was started. Throws on
  // every rank what it throws on any.
  template <class Body>
  auto meet(Call call, Body&& body) {
    require_idle();
    const Counting counting(*this, call);
    return on_all(call, body);
  }
  // These only within it.
  void set_view_of_group(std::int64_t displacement, const TypeMap& view,
                         const Representation& representation);
  void sync_group();
  void resize_group(std::int64_t size_bytes);
  std::int64_t size_of_group();

  std::int64_t transfer_all(Direction direction, std::int64_t offset, const void* base,
                            const TypeMap& memory, std::int64_t count);
  std::int64_t transfer_next(Direction direction, const void* base, std::int64_t bytes);
  std::shared_ptr<Order> start_all(Direction direction, std::int64_t offset, const void* base,
                                   const TypeMap& memory, std::int64_t count);
  std::shared_ptr<Order> start_next(Direction direction, const void* base, std::int64_t bytes);
  std::int64_t transfer_here(Direction direction, std::int64_t offset, const void* base,
                             std::int64_t bytes);
  void close();
  Statistics statistics();
  void refuse(Call call, const std::string& why, int error);
  std::shared_ptr<Order> irefuse(Call call, const std::string& why, int error);

  const Settings& settings() const { return settings_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::vector<int>& writers() const { return writers_; }
  const Stripes& stripes() const { return stripes_; }
  const std::string& path() const { return path_; }
  // Memory without gaps, made when a file is opened.
  static const TypeMap& all_bytes();
  const std::shared_ptr<Orders>& orders() const { return orders_; }

 private:
  // Whether a transfer is carried out in one go, so that its time says what it costs.
  enum class Timing : std::uint8_t { whole, parts };
  // What all ranks know of a transfer after agreeing.
  struct Agreed {
    std::int64_t begin = 0;  // of the file, over all ranks
    std::int64_t end = 0;
    std::int64_t bytes_max = 0;   // per rank
    std::int64_t file_bytes = 0;  // for a read
    bool staged = false;          // some rank uses GPU memory
    bool dense = false;           // each rank's part of the file is contiguous
    bool moved = false;           // each rank went first, or has no data
    bool in_parts = false;        // by some rank
    std::optional<Repetition> repetition;
    TransferShape shape;  // where choose() had to know it
  };

  // Rank 0's facts about the opened file. Sent as is.
  struct Granted {
    std::int64_t block_bytes = 0;
    std::int64_t stripe_bytes = 0;
    int stripe_count = 0;
    StripesOrigin origin = StripesOrigin::found;
    bool page_cache = false;  // this node's, and using it waits for nothing
  };

  // What every collective call agrees on first, besides errors: the maximum of each.
  using Values = std::array<std::int64_t, Team::meeting_values - 1>;

  // At its end, tells Options::count what this rank counted in a call.
  class Counting {
   public:
    Counting(Impl& impl, Call call, bool is_collective = true) : impl_(impl) {
      impl_.counted_.call = call;
      impl_.counted_.is_collective = is_collective;
    }
    ~Counting() { impl_.tell_counts(); }
    Counting(const Counting&) = delete;
    Counting& operator=(const Counting&) = delete;

   private:
    Impl& impl_;
  };

  void divide(MPI_Comm communicator);
  bool calls_no_mpi() const;
  void share_settings(const Options& options);
  void open();
  int open_first(Granted& granted);
  void agree_on_opening(int error);
  void take(const Granted& granted);
  int prepare_here();
  int prepare_writer();
  int open_here(int flags, storage::Layout* layout = nullptr);
  int size_here(std::int64_t& size_bytes);
  std::int64_t size_of_file();
  int late_change() const;
  bool writes_here() const;
  FileView view_of(std::int64_t displacement, const TypeMap& map, std::int64_t swapped_bytes) const;
  bool may_be_view(const FileView& view) const;
  int check(Direction direction, const RankRequest& request) const;
  // What `asked` is to be carried out by; null: as it is, also if there is an error.
  std::unique_ptr<FileOrder> in_file_order(Direction direction, const RankRequest& asked,
                                           int& error);
  bool may_go_first(Direction direction, const RankRequest& request) const;
  void limit(RankRequest& request, std::int64_t file_bytes) const;
  int move_first(Direction direction, RankRequest& request);
  // `goes_first`: whether this rank has moved its data.
  Agreed agree_on(Direction direction, RankRequest& request, int error, bool staged, Timing timing,
                  bool& goes_first);
  KeptPlans& kept(Direction direction) { return kept_[static_cast<std::size_t>(direction)]; }
  MethodTrials& trials(Direction direction) { return trials_[static_cast<std::size_t>(direction)]; }
  static Values wanted(const RankRequest& request, int error, std::int64_t file_bytes);
  static Agreed agreed_of(Direction direction, const Values& values);
  Agreed agree_on_piece(Direction direction, const RankRequest& request, int error,
                        std::int64_t file_bytes);
  bool uses_cache() const;
  // Whether the page cache has all of a range.
  bool is_in_cache(std::int64_t begin, std::int64_t end) const;
  Method choose(Direction direction, const RankRequest& request, Agreed& agreed);
  Method learned(Direction direction, const Agreed& agreed, Method by_rule);
  int move(Method method, Direction direction, const RankRequest& request, const Agreed& agreed);
  int move_alone(Direction direction, const RankRequest& request);
  int move_through_writers(Method method, Direction direction, const RankRequest& request,
                           const Agreed& agreed);
  std::unique_ptr<ExchangePlan> plan_exchange(Method method, const RankRequest& request,
                                              const Agreed& agreed, MethodContext& context);
  int move_by_mpiio(Direction direction, const RankRequest& request, const Agreed& agreed);
  std::unique_ptr<StagedMemory> stage(Direction direction, const RankRequest& request, int& error);
  int move_staged(Direction direction, const RankRequest& request, const Agreed& agreed,
                  std::unique_ptr<StagedMemory> memory);
  int move_staged_alone(Direction direction, const RankRequest& request, StagedMemory& memory);
  std::int64_t carry_out(Direction direction, std::int64_t offset, const void* base,
                         const TypeMap& memory, std::int64_t count, Timing timing);
  void close_here();
  // Closes what this rank has, and returns an errno. A client of servers, which goes on after it
  // (kept_storage.hpp), would keep data and the file's size for itself: it hands them over first.
  int let_go();
  // Of a transfer without an error, on this rank.
  void count_transfer(Method method, std::int64_t bytes);
  void tell_counts();
  // Begins a collective call in this rank's group. Returns what it agrees on. Throws on all its
  // ranks if one has an error (`why`: details beyond its errno) or is in another call.
  Values begin(Call call, const char* what, Values values = {}, int error = 0,
               const std::string& why = "");
  // After a mismatch: throws it again, without communication.
  void require_in_step() const;
  [[noreturn]] void fall_out_of_step(const std::string& calls);
  // Ends a call of several groups. Throws on every rank of all groups if one has an error, with the
  // text of the lowest such rank, or if calls differ.
  void agree_of_all(Call call, int error, bool in_step, const std::string& text);
  void require_open() const;
  // The same, and completes what was started.
  void require_idle();
  static const char* verb_of(Direction direction) {
    return direction == Direction::write ? "writing" : "reading";
  }
  static Call call_of(Direction direction) {
    return direction == Direction::write ? Call::write_all : Call::read_all;
  }
  std::string doing(const char* what) const { return std::string(what) + " " + path_; }

  template <class Body>
  auto on_all(Call call, Body&& body);
  // The same in this rank's group. Without memory the call fails on all ranks if they have not
  // begun it; later, where `body` does not make it an error, the job ends.
  template <class Body>
  auto in_group(Call call, Body&& body);
  // Starts what make_work() returns, or on all ranks an error, if this one has no memory.
  template <class MakeWork>
  std::shared_ptr<Order> start(Call call, const MakeWork& make_work);
  // All counted ranks, for statements about all files.
  const Team& everyone() const { return group_ ? all_ : *team_; }

  Team all_;
  int file_index_ = 0;
  int files_ = 0;                // rank 0's Options::files
  std::unique_ptr<Team> group_;  // the ranks of this rank's file, if there are several files
  const Team* team_;             // likewise, if there is one
  std::string path_;
  int flags_ = 0;
  unsigned mode_ = 0;
  bool writes_first_ = false;
  std::shared_ptr<storage::Storage> storage_;
  Settings settings_;
  std::vector<std::string> warnings_;
  MPI_Info hints_ = MPI_INFO_NULL;
  std::vector<int> writers_;
  Stripes stripes_;
  bool page_cache_ = false;  // all ranks use one, which waits for nothing
  FileView view_;
  bool writes_out_ = false;  // see WriteOut
  bool all_dense_ = true;    // the views of all ranks
  std::int64_t position_ = 0;
  Phases phases_;
  Counts counts_;
  std::function<void(const CallCounts&)> count_;
  CallCounts counted_;  // of the call that is being carried out
  Phases told_phases_;  // by count_, and so the next
  Counts told_counts_;
  std::optional<StorageFile> file_;        // on writers, and after independent transfers
  std::optional<NodeMemory> node_memory_;  // from the first transfer by method aggregate on
  std::array<KeptPlans, 2> kept_;          // by direction
  std::array<MethodTrials, 2> trials_;     // by direction
  std::array<std::int64_t, 2> took_ns_{};  // of the last transfer here, to be told to the others
  std::int64_t kept_unit_bytes_ = 1;       // plans are repeated at multiples of this
  std::unique_ptr<RangeLock> lock_;        // from the first sieved write on
  GpuStaging gpu_staging_;
  MpiIo mpiio_;
  bool mpiio_has_view_ = false;
  bool closed_ = false;
  Method method_ = Method::automatic;  // of the last collective transfer
  static constexpr std::size_t reason_bytes_max = 128;
  std::string reason_;      // has room for that many
  std::int64_t calls_ = 0;  // started collective ones
  bool has_begun_ = false;  // the ranks have met in the present one
  std::string mismatch_;    // why the ranks cannot agree any more
  // While an order runs, its thread uses all of the above except position_ and closed_.
  std::shared_ptr<Orders> orders_;
};

// A rank that cannot even allocate its state has an error like any other.
inline int errno_of(const std::system_error& error) {
  return error.code().value() != 0 ? error.code().value() : EIO;
}

// The errno that `work` returns or throws, for a rank that takes part until the end.
template <class Work>
int outcome_of(Work&& work) {
  try {
    return work();
  } catch (...) {
    return caught_error();
  }
}

template <class Body>
auto File::Impl::in_group(Call call, Body&& body) {
  has_begun_ = false;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    if (!has_begun_) begin(call, name_of(call), {}, ENOMEM);
    team_->end_job(name_of(call), path_);
  }
}

template <class MakeWork>
std::shared_ptr<Order> File::Impl::start(Call call, const MakeWork& make_work) {
  require_open();
  Orders::Prepared prepared;
  try {
    prepared = orders_->prepare();
    prepared.front()->work = make_work();
  } catch (const std::bad_alloc&) {
    prepared = orders_->spare();
    if (prepared.empty()) team_->end_job(name_of(call), path_);
    prepared.front()->work = [this, call]() -> std::int64_t {
      on_all(call, [&] { begin(call, name_of(call), {}, ENOMEM); });
      return 0;
    };
  }
  return orders_->start(std::move(prepared));
}

template <class Body>
auto File::Impl::on_all(Call call, Body&& body) {
  if (!group_) return in_group(call, body);
  require_in_step();
  using Result = decltype(body());
  std::conditional_t<std::is_void_v<Result>, int, Result> result{};
  int error = 0;
  std::string text;
  try {
    if constexpr (std::is_void_v<Result>) {
      in_group(call, body);
    } else {
      result = in_group(call, body);
    }
  } catch (const Error& thrown) {
    error = thrown.code().value();
    static_cast<void>(outcome_of([&] { return text = thrown.reason(), 0; }));  // or no text
  } catch (const std::bad_alloc&) {                                            // its text
    error = ENOMEM;
  }
  agree_of_all(call, error, mismatch_.empty(), text);
  if constexpr (!std::is_void_v<Result>) return result;
}

}  // namespace ferry::collective
