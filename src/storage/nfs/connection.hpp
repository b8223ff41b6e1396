// A thread with many requests in flight over one connection to an NFS server. A connection with a
// write that was reported as failed is kept aside until the server answers.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <poll.h>

#include "storage/nfs/transfer.hpp"

namespace ferry::storage {

// Every piece ends: with the server's answer, or with -ETIMEDOUT if that does not arrive in the
// time of the address. If the connection breaks, unanswered requests are sent again over a new one:
// all of them are repeatable.
//
// Data read arrives in libnfs's memory and is copied to the caller's; data to write is copied from
// there when sent. So it touches a caller's memory only while it has the piece, which can end with
// its request in flight. The server may execute such a write at any time; until it has answered, or
// its end of the connection is gone, the file is not changed otherwise (LateChanges).
class NfsConnection {
 public:
  NfsConnection(const NfsLibrary& library, const NfsAddress& address);
  // Nothing may be in flight.
  ~NfsConnection();
  NfsConnection(const NfsConnection&) = delete;
  NfsConnection& operator=(const NfsConnection&) = delete;

  // Thread-safe, like look_again(), which must follow NfsTransfer::cancel().
  void add(NfsPieceOf piece);
  void look_again();
  // Waits for the answer to a call that has failed on `rpc` and may change a file. Thread-safe.
  void add_late(std::unique_ptr<NfsRpc> rpc, std::unique_ptr<LateChange> change);

 private:
  // A connection with its requests in flight.
  struct Line {
    std::unique_ptr<NfsRpc> rpc;
    std::size_t flights = 0;
    std::size_t bytes = 0;
    std::unique_ptr<LateChange> late;  // of the call that `rpc` waits for
  };
  // A request, from add() on. It goes from list to list, so the thread needs no memory for it.
  struct Flight {
    NfsConnection* connection = nullptr;
    NfsPieceOf what;
    Line* line = nullptr;  // that it is sent on
    std::size_t bytes = 0;
    bool abandoned = false;          // its piece has ended already, or is sent again
    std::optional<LateChange> late;  // of a write that has ended
    std::list<Flight>::iterator self;
  };
  using Flights = std::list<Flight>;

  // A commit without a waiting call, so that the server starts writing to its medium.
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
  bool send(Flight& flight);
  bool make_room(std::size_t lines);
  int start_call(Flight& flight);
  void start_commits_ahead();
  void sleep_and_serve();
  void watch(Line& line);
  void serve(Line& line, int events);
  void expire();
  void give_up(Flight& flight, int error);
  void retire_connection();
  void lose_connection(Line& line);
  std::unique_ptr<Line> new_line() const;
  Flights new_flight(NfsPieceOf what);
  std::chrono::milliseconds nap() const;
  static void on_reply(rpc_context* rpc, int status, void* data, void* flight);
  static void on_commit_ahead(rpc_context* rpc, int status, void* data, void* commit);
  void answered(Flight& flight, void* data);
  static void answered_late(const Flight& flight, const void* data);
  bool answered_read(const NfsPieceOf& what, const READ3res& reply);
  bool answered_write(const NfsPieceOf& what, const WRITE3res& reply);
  bool answered_commit(const NfsPieceOf& what, const COMMIT3res& reply);
  static void fail(const NfsPieceOf& what, int error);

  const NfsLibrary& library_;
  const NfsAddress& address_;
  std::unique_ptr<Line> line_;
  std::vector<std::unique_ptr<Line>> retired_;  // nothing more is sent on these
  Flights waiting_;
  Flights flights_;
  std::list<CommitAhead> commits_due_;
  std::list<CommitAhead> commits_ahead_;  // in flight
  Flights unanswered_;                    // ended by the connection, not by the server
  std::vector<char> gathered_;
  std::vector<pollfd> sources_;  // of the poll() in progress; the first is wake_
  std::vector<Line*> watched_;   // by the same index
  bool lacks_room_ = false;      // for the lines of added_late_
  NfsClock::time_point connect_not_before_{};
  NfsClock::time_point last_answer_{};

  const int wake_;  // an eventfd
  std::mutex mutex_;
  Flights added_;  // guarded by it, as are the next two
  std::vector<std::unique_ptr<Line>> added_late_;
  bool closing_ = false;
  std::atomic<bool> look_again_{false};
  std::thread thread_;  // last: it uses everything above
};

}  // namespace ferry::storage
