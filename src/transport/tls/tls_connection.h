#pragma once

// A Connection over TLS. Thread rules and failures are those of transport.h and secure_transport.h.
//
// An SSL object is for one thread at a time, and a link has two. So the socket never blocks, a
// mutex is held around each call of OpenSSL, which takes microseconds for one record, and both
// threads wait for the socket outside of it. The handshake is run by whichever thread comes first;
// the other waits for it.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "transport/tcp/stream_connection.h"
#include "transport/tls/peer_check.h"
#include "transport/tls/record_cutter.h"
#include "transport/tls/ssl_step.h"
#include "transport/tls/tls_shared.h"

namespace salvage::transport {

// Which end of which kind of link.
struct TlsRole {
  bool server = false;
  bool joiners_welcome = false;       // server
  std::string authority_fingerprint;  // client at its first contact, else empty
  NodeId wanted;                      // empty: any member
};

class TlsConnection final : public StreamConnection {
 public:
  TlsConnection(Descriptor descriptor, std::string peer, std::shared_ptr<TlsShared> shared,
                TlsRole role);
  ~TlsConnection() override;

  // Returns at once when it is done already. `deadline_exceeded` can be tried again.
  Result<void> handshake(TimePoint deadline);

  const PeerIdentity* identity() const override;
  // Of a first contact that succeeded.
  const std::string& authority_pem() const { return check_->authority_pem(); }

  Result<void> send_frame(const OutgoingFrame& frame, TimePoint deadline) override;
  void shutdown() override;
  std::optional<std::uint64_t> busy_us() const override { return transport::busy_us(link_->fd()); }
  void acknowledge() override { transport::acknowledge(link_->fd()); }
  void set_pace(std::uint64_t bytes_per_second) override {
    transport::set_pace(link_->fd(), bytes_per_second);
  }

 private:
  Transfer read_all(std::span<std::byte> into, TimePoint deadline) override;
  std::optional<std::string> why_ended() const override;

  Result<void> ready(TimePoint deadline);
  bool claim_handshake(TimePoint deadline, Result<void>& outcome) EXCLUDES(mutex_);
  Result<void> run_handshake(TimePoint deadline) EXCLUDES(mutex_);
  Result<void> begin() EXCLUDES(mutex_);
  Result<void> admit();

  Transfer write_all(const std::array<RecordCutter::Bytes, 3>& parts, TimePoint deadline);
  Result<void> write_record(RecordCutter::Bytes record, bool more_follows, TimePoint deadline);
  SslStep write_once(RecordCutter::Bytes record, bool more_follows) EXCLUDES(mutex_);
  SslStep read_once(std::span<std::byte> into, std::size_t& got) EXCLUDES(mutex_);
  void rekey_if_due() REQUIRES(mutex_);
  void look_for_alert(SslStep& step) REQUIRES(mutex_);
  void remember(SslStep& step) REQUIRES(mutex_);

  const std::shared_ptr<TlsShared> shared_;  // with the transport, its listeners, its connections
  const std::shared_ptr<LiveLink> link_;     // with the registry of live peers, for moments
  const TlsRole role_;

  // Set by the thread that runs the handshake, before ready_; afterwards only read.
  std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<PeerCheck> check_;
  TimePoint handshake_deadline_ = kNoDeadline;
  std::uint64_t live_entry_ = 0;
  std::atomic<bool> ready_ = false;

  Mutex mutex_;
  Condition handshake_moved_;
  bool handshaking_ GUARDED_BY(mutex_) = false;
  SocketBioState socket_ GUARDED_BY(mutex_);  // outlives ssl_
  SslHandle ssl_ GUARDED_BY(mutex_);
  std::optional<Error> broken_ GUARDED_BY(mutex_);  // what ended the link, for both threads
  std::uint64_t sent_since_rekey_ GUARDED_BY(mutex_) = 0;

  RecordCutter cutter_;  // sender thread only
};

}  // namespace salvage::transport
