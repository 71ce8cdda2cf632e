#pragma once

// The door of a process: accepts connections on one or more listeners, has each introduce itself
// (pipeline/handshake.h), and hands on those that were let in. Whoever connects and says nothing,
// says it slowly or says nonsense costs a thread for `hello_time` and nobody else anything: when
// too many are in the doorway at once, the longest waiting one of the address that sent most is
// sent away, so a flood pushes out itself.
//
// Threads: one per listener, one per connection while it introduces itself. `terms` and `admitted`
// are called on the latter; both may wait. The destructor closes the listeners, sends everybody in
// the doorway away and returns when the last callback has.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log_budget.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "pipeline/handshake.h"
#include "transport/transport.h"

namespace salvage::pipeline {

struct DoorOptions {
  Duration hello_time = std::chrono::seconds(1);
  std::size_t doorway_max = 64;  // connections that introduce themselves at the same time
};

class Door {
 public:
  using TermsFor = std::function<Terms(const wire::Hello&, const transport::Connection&)>;
  using Admitted = std::function<void(std::unique_ptr<transport::Connection>, const wire::Hello&)>;

  Door(std::vector<std::unique_ptr<transport::Listener>> listeners, const DoorOptions& options,
       TermsFor terms, Admitted admitted, const Clock& clock);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // The real endpoints, in the order of the listeners.
  std::vector<transport::Endpoint> endpoints() const;

 private:
  struct Visitor {
    transport::Connection* connection = nullptr;
    std::string address;  // without the port
  };
  using Visitors = std::list<Visitor>;

  void accept_loop(transport::Listener& listener);
  void receive(std::unique_ptr<transport::Connection> connection);
  void introduce(std::unique_ptr<transport::Connection> connection, Visitors::iterator visitor);
  void make_room() REQUIRES(mutex_);

  const DoorOptions options_;
  const TermsFor terms_;
  const Admitted admitted_;
  const Clock& clock_;
  const std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::vector<std::thread> acceptors_;
  Gate gate_;

  Mutex mutex_;
  Visitors visitors_ GUARDED_BY(mutex_);  // oldest first
  bool closing_ GUARDED_BY(mutex_) = false;
  LogBudget refusals_ GUARDED_BY(mutex_);
  Condition closing_wake_;
};

}  // namespace salvage::pipeline
