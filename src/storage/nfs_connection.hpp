// A thread that keeps many requests in flight over one connection to an NFS server.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/nfs_transfer.hpp"

namespace ferry::storage {

// Every piece that is given to it ends: with the server's answer, or with -ETIMEDOUT when that does
// not come in the time that the address states. When the connection breaks, what had no answer is
// sent again over a new one: all these requests may be repeated.
//
// What it reads arrives in memory of libnfs and is copied to the caller's, and what it writes is
// copied from there when it is sent. So it touches a caller's memory only while the piece is its,
// and a piece can end while its request is still on the way.
class NfsConnection {
 public:
  NfsConnection(const NfsLibrary& library, const NfsAddress& address);
  // Nothing may be under way.
  ~NfsConnection();
  NfsConnection(const NfsConnection&) = delete;
  NfsConnection& operator=(const NfsConnection&) = delete;

  // Thread-safe, like look_again(), which has to follow NfsTransfer::cancel().
  void add(NfsPieceOf piece);
  void look_again();

 private:
  struct Flight {
    NfsConnection* connection;
    NfsPieceOf what;
    std::size_t bytes = 0;
    bool abandoned = false;  // its piece has ended already
    std::list<Flight>::iterator self;
  };

  // A commit that nobody waits for, so that the server begins with its medium.
  struct CommitAhead {
    NfsConnection* connection;
    NfsHandle handle;
    std::shared_ptr<NfsWrites> writes;
    std::list<CommitAhead>::iterator self;
  };

  void run();
  void take_added();
  void drop_cancelled();
  void connect();
  void issue();
  bool send(NfsPieceOf what);
  int start_call(Flight& flight);
  void start_commits_ahead();
  void sleep_and_serve();
  void expire();
  void lose_connection();
  std::chrono::milliseconds nap() const;
  static void on_reply(rpc_context* rpc, int status, void* data, void* flight);
  static void on_commit_ahead(rpc_context* rpc, int status, void* data, void* commit);
  void answered(Flight& flight, void* data);
  bool answered_read(const NfsPieceOf& what, const READ3res& reply);
  bool answered_write(const NfsPieceOf& what, const WRITE3res& reply);
  bool answered_commit(const NfsPieceOf& what, const COMMIT3res& reply);
  void fail(const NfsPieceOf& what, int error);

  const NfsLibrary& library_;
  const NfsAddress& address_;
  NfsRpc rpc_;
  std::deque<NfsPieceOf> waiting_;
  std::list<Flight> flights_;
  std::list<CommitAhead> commits_due_;
  std::list<CommitAhead> commits_ahead_;  // under way
  std::size_t bytes_in_flight_ = 0;
  std::vector<NfsPieceOf> unanswered_;  // ended by the connection, not by the server
  std::vector<char> gathered_;
  NfsClock::time_point connect_not_before_{};
  NfsClock::time_point last_answer_{};

  const int wake_;  // an eventfd
  std::mutex mutex_;
  std::vector<NfsPieceOf> added_;  // guarded by it, as is closing_
  bool closing_ = false;
  std::atomic<bool> look_again_{false};
  std::thread thread_;  // last: it uses everything above
};

}  // namespace ferry::storage
