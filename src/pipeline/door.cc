#include "pipeline/door.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/log.h"

namespace salvage::pipeline {
namespace {

constexpr Logger kLog("door");
// After an error that is not about one peer (no descriptors left, no memory): the door stays.
constexpr auto kErrorPause = std::chrono::milliseconds(100);

// "tls:10.0.0.7:40112" and "tls:[fe80::1]:40112" without their ports; other texts as they are.
std::string address_of(const std::string& peer) {
  const std::size_t colon = peer.rfind(':');
  const bool port = colon != std::string::npos &&
                    std::all_of(peer.begin() + static_cast<std::ptrdiff_t>(colon) + 1, peer.end(),
                                [](char c) { return c >= '0' && c <= '9'; });
  return port ? peer.substr(0, colon) : peer;
}

}  // namespace

Door::Door(std::vector<std::unique_ptr<transport::Listener>> listeners, const DoorOptions& options,
           TermsFor terms, Admitted admitted, const Clock& clock)
    : options_(options),
      terms_(std::move(terms)),
      admitted_(std::move(admitted)),
      clock_(clock),
      listeners_(std::move(listeners)) {
  for (const auto& listener : listeners_) {
    acceptors_.emplace_back([this, &listener] { accept_loop(*listener); });
  }
}

Door::~Door() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
    for (const Visitor& visitor : visitors_) visitor.connection->shutdown();
  }
  closing_wake_.notify_all();
  for (const auto& listener : listeners_) listener->shutdown();
  for (std::thread& acceptor : acceptors_) acceptor.join();
  gate_.close();
}

std::vector<transport::Endpoint> Door::endpoints() const {
  std::vector<transport::Endpoint> endpoints;
  for (const auto& listener : listeners_) endpoints.push_back(listener->endpoint());
  return endpoints;
}

void Door::accept_loop(transport::Listener& listener) {
  for (;;) {
    auto connection = listener.accept();
    if (connection) {
      receive(std::move(*connection));
      continue;
    }
    const TimePoint pause_end = deadline_after(clock_.now(), kErrorPause);
    MutexLock lock(mutex_);
    if (!closing_) kLog.warn("accept_failed", {{"why", connection.error().message()}});
    while (!closing_ && closing_wake_.wait_until(mutex_, pause_end)) {
    }
    if (closing_) return;
  }
}

void Door::receive(std::unique_ptr<transport::Connection> connection) {
  auto pass = gate_.enter();
  if (!pass) return;
  Visitors::iterator visitor;
  {
    MutexLock lock(mutex_);
    if (closing_) return;
    make_room();
    visitor = visitors_.insert(visitors_.end(), {connection.get(), address_of(connection->peer())});
  }
  // Detached, but inside the gate: the destructor waits for it.
  std::thread([this, visitor, peer = std::move(connection), inside = std::move(*pass)]() mutable {
    introduce(std::move(peer), visitor);
  }).detach();
}

void Door::make_room() {
  if (visitors_.size() < options_.doorway_max) return;
  std::map<std::string, std::size_t> counts;
  for (const Visitor& visitor : visitors_) ++counts[visitor.address];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  for (Visitor& visitor : visitors_) {
    if (visitor.address != most->first) continue;
    visitor.connection->shutdown();  // its thread ends and takes it off the list
    visitor.address.clear();         // not sent away twice
    return;
  }
}

void Door::introduce(std::unique_ptr<transport::Connection> connection,
                     Visitors::iterator visitor) {
  const auto hello = welcome(
      *connection, [&](const wire::Hello& peer) { return terms_(peer, *connection); },
      deadline_after(clock_.now(), options_.hello_time));
  std::optional<std::uint64_t> left_out;
  {
    MutexLock lock(mutex_);
    visitors_.erase(visitor);
    if (closing_) return;
    if (!hello) left_out = refusals_.take(clock_.now());
  }
  if (hello) {
    admitted_(std::move(connection), *hello);
    return;
  }
  if (!left_out) return;
  kLog.warn(
      "peer_refused",
      {{"peer", connection->peer()}, {"why", hello.error().message()}, {"left_out", *left_out}});
}

}  // namespace salvage::pipeline
