// What a collective::File consists of.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ferry/collective.hpp>

#include "collective/context.hpp"
#include "collective/hints.hpp"
#include "collective/mpiio.hpp"
#include "storage/storage.hpp"

namespace ferry::collective {

class File::Impl {
 public:
  Impl(MPI_Comm communicator, std::string path, int flags, const Options& options,
       std::shared_ptr<storage::Storage> storage);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void set_view(std::int64_t displacement, const TypeMap& view,
                const Representation& representation);
  std::int64_t transfer_all(bool writes, std::int64_t offset, const void* base,
                            const TypeMap& memory, std::int64_t count);
  std::int64_t transfer_next(bool writes, const void* base, std::int64_t bytes);
  std::int64_t transfer_here(bool writes, std::int64_t offset, const void* base,
                             std::int64_t bytes);
  void sync();
  void resize(std::int64_t size_bytes);
  std::int64_t size_bytes();
  void close();
  Statistics statistics();

  const Settings& settings() const { return settings_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::vector<int>& writers() const { return writers_; }

 private:
  // What all ranks know of a transfer once they have agreed on it.
  struct Agreed {
    std::int64_t begin = 0;  // of the file, over all ranks
    std::int64_t end = 0;
    std::int64_t bytes_max = 0;  // of a rank
  };

  void share_settings(const Options& options);
  void open();
  int open_here(int flags);
  int size_here(std::int64_t& size_bytes);
  bool writes_here() const;
  int check(bool writes, std::int64_t offset, std::int64_t bytes) const;
  Agreed agree_on(bool writes, Request& request);
  Method choose(bool writes, const Request& request);
  int move(Method method, bool writes, const Request& request, const Agreed& agreed);
  int move_through_writers(Method method, bool writes, const Request& request,
                           const Agreed& agreed);
  int move_by_mpiio(bool writes, const Request& request, const Agreed& agreed);
  void require_open() const;
  std::string doing(const char* what) const { return std::string(what) + " " + path_; }

  Team team_;
  std::string path_;
  int flags_ = 0;
  unsigned mode_ = 0;
  std::shared_ptr<storage::Storage> storage_;
  Settings settings_;
  std::vector<std::string> warnings_;
  MPI_Info hints_ = MPI_INFO_NULL;
  std::vector<int> writers_;
  View view_;
  std::int64_t position_ = 0;
  Phases phases_;
  Counts counts_;
  std::optional<StorageFile> file_;        // on writers, and where there were independent transfers
  std::optional<NodeMemory> node_memory_;  // from the first transfer by method aggregate on
  MpiIo mpiio_;
  bool mpiio_has_view_ = false;
  bool closed_ = false;
  Method method_ = Method::automatic;  // of the last collective transfer
  std::string reason_;
};

}  // namespace ferry::collective
