#include "transport/tls/tls_connection.h"

#include <algorithm>
#include <utility>

#include <openssl/err.h>
#include <poll.h>

namespace salvage::transport {
namespace {

TimePoint now() {
  return SteadyClock().now();
}

}  // namespace

TlsConnection::TlsConnection(Descriptor descriptor, std::string peer,
                             std::shared_ptr<TlsShared> shared, TlsRole role)
    : StreamConnection(std::move(peer)),
      shared_(std::move(shared)),
      link_(std::make_shared<LiveLink>(std::move(descriptor))),
      role_(std::move(role)) {
  socket_.fd = link_->fd();
}

TlsConnection::~TlsConnection() {
  if (live_entry_ != 0) shared_->live().remove(check_->identity().node, live_entry_);
}

const PeerIdentity* TlsConnection::identity() const {
  return ready_.load(std::memory_order_acquire) ? &check_->identity() : nullptr;
}

void TlsConnection::shutdown() {
  link_->end(LiveLink::End::kShutDown);
}

std::optional<std::string> TlsConnection::why_ended() const {
  switch (link_->ended()) {
    case LiveLink::End::kNone:
      return std::nullopt;
    case LiveLink::End::kShutDown:
      return "the link was shut down";
    case LiveLink::End::kRemoved:
      return "the link was ended because its other side is no longer a member of this cluster";
  }
  return std::nullopt;
}

// --- The handshake ---

Result<void> TlsConnection::handshake(TimePoint deadline) {
  auto outcome = ready(deadline);
  if (outcome) return {};
  return fail(explain(std::move(outcome).error()));
}

Result<void> TlsConnection::ready(TimePoint deadline) {
  if (ready_.load(std::memory_order_acquire)) return {};
  Result<void> outcome;
  if (!claim_handshake(deadline, outcome)) return outcome;
  outcome = run_handshake(deadline);
  MutexLock lock(mutex_);
  handshaking_ = false;
  if (outcome) {
    ready_.store(true, std::memory_order_release);
  } else if (outcome.error().code() != ErrorCode::kDeadlineExceeded) {
    broken_ = outcome.error();
  }
  handshake_moved_.notify_all();
  return outcome;
}

// True if the caller has to run it; otherwise `outcome` is what another thread made of it.
bool TlsConnection::claim_handshake(TimePoint deadline, Result<void>& outcome) {
  MutexLock lock(mutex_);
  while (handshaking_) {
    if (!handshake_moved_.wait_until(mutex_, deadline) && handshaking_) {
      outcome = fail(ErrorCode::kDeadlineExceeded, "the TLS handshake is not over in time");
      return false;
    }
  }
  if (broken_) {
    outcome = fail(*broken_);
    return false;
  }
  if (ready_) return false;
  handshaking_ = true;
  return true;
}

Result<void> TlsConnection::begin() {
  const bool first_contact = !role_.authority_fingerprint.empty();
  if (first_contact) {
    context_ = shared_->joining_context();
  } else {
    ASSIGN_OR_RETURN(context_, shared_->member_context());
  }
  check_ = std::make_unique<PeerCheck>(
      PeerRules{.authority = context_->authority_key(),
                .authority_fingerprint = role_.authority_fingerprint,
                .joiners_welcome = role_.joiners_welcome,
                .wanted = role_.wanted,
                // A machine that has not joined yet has no list of members to ask.
                .admits = first_contact ? nullptr : shared_->options().admits});
  handshake_deadline_ = now() + shared_->options().handshake_time_max;
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(BioHandle bio, make_socket_bio(socket_));
  ASSIGN_OR_RETURN(ssl_, context_->start(role_.server, std::move(bio), *check_));
  return {};
}

Result<void> TlsConnection::run_handshake(TimePoint deadline) {
  if (check_ == nullptr) RETURN_IF_ERROR(begin());
  for (;;) {
    SslStep step;
    {
      MutexLock lock(mutex_);
      ERR_clear_error();
      step = next_step(*ssl_, SSL_do_handshake(ssl_.get()), socket_);
    }
    if (step.done) return admit();
    if (check_->refusal()) return fail(*check_->refusal());
    if (step.error) return fail(std::move(*step.error).within("TLS handshake"));
    auto waited =
        wait_for(link_->fd(), -1, step.wait_events, std::min(deadline, handshake_deadline_));
    if (waited) continue;
    if (now() >= handshake_deadline_) {
      return fail(ErrorCode::kUnavailable, "the peer did not finish its TLS handshake in time");
    }
    return fail(std::move(waited).error().within("TLS handshake"));
  }
}

Result<void> TlsConnection::admit() {
  live_entry_ = shared_->live().add(check_->identity().node, link_);
  // A removal between the first question and the listing has not seen this link.
  if (!check_->still_admitted()) link_->end(LiveLink::End::kRemoved);
  if (const auto why = why_ended()) return fail(ErrorCode::kUnavailable, *why);
  return {};
}

// --- Sending ---

Result<void> TlsConnection::send_frame(const OutgoingFrame& frame, TimePoint deadline) {
  ASSIGN_OR_RETURN(const auto header, make_header(frame, wire_version()));
  Transfer transfer = write_all({std::span(header), frame.body, frame.data}, deadline);
  count_sent(transfer.bytes_done);
  if (transfer.result) return {};
  return fail(explain(std::move(transfer)));
}

Transfer TlsConnection::write_all(const std::array<RecordCutter::Bytes, 3>& parts,
                                  TimePoint deadline) {
  Transfer transfer;
  transfer.result = ready(deadline);
  // A record that was begun has to be finished; so room for it is awaited before.
  if (transfer.result && deadline != kNoDeadline) {
    transfer.result = wait_for(link_->fd(), -1, POLLOUT, deadline);
  }
  if (!transfer.result) return transfer;
  cutter_.begin(parts);
  while (transfer.result && !cutter_.empty()) {
    const auto record = cutter_.next();
    transfer.result = write_record(record, !cutter_.empty(), deadline);
    if (transfer.result) transfer.bytes_done += record.size();
  }
  return transfer;
}

Result<void> TlsConnection::write_record(RecordCutter::Bytes record, bool more_follows,
                                         TimePoint deadline) {
  for (;;) {
    SslStep step = write_once(record, more_follows);
    if (step.done) return {};
    if (step.error) return fail(std::move(*step.error));
    auto waited = wait_for(link_->fd(), -1, step.wait_events, deadline);
    if (waited) continue;
    // Part of the record may have left.
    MutexLock lock(mutex_);
    broken_ = Error(ErrorCode::kUnavailable, "the peer stalled in the middle of a frame");
    return fail(*broken_);
  }
}

SslStep TlsConnection::write_once(RecordCutter::Bytes record, bool more_follows) {
  SslStep step;
  MutexLock lock(mutex_);
  if (broken_) {
    step.error = *broken_;
    return step;
  }
  rekey_if_due();
  socket_.more_follows = more_follows;
  ERR_clear_error();
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), record.data(), record.size(), &written);
  step = next_step(*ssl_, result, socket_);
  socket_.more_follows = false;
  sent_since_rekey_ += written;
  if (step.error) look_for_alert(step);
  remember(step);
  return step;
}

// Where it can't be sent at once OpenSSL sends it before the next record.
void TlsConnection::rekey_if_due() {
  if (sent_since_rekey_ < shared_->options().rekey_bytes) return;
  // It fails in the middle of a record only; then after the next one.
  if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return;
  sent_since_rekey_ = 0;
  SSL_do_handshake(ssl_.get());
}

// A peer that refuses us says why and closes; then writing is often what fails first, and the
// reason lies unread in the socket.
void TlsConnection::look_for_alert(SslStep& step) {
  char byte = 0;
  std::size_t got = 0;
  ERR_clear_error();
  const int result = SSL_peek_ex(ssl_.get(), &byte, sizeof(byte), &got);
  if (result == 1) return;
  SslStep found = next_step(*ssl_, result, socket_);
  if (found.error && found.error->code() != ErrorCode::kUnavailable) {
    step.error = std::move(found.error);
  }
}

// Both threads tell the same cause, the one that was seen first.
void TlsConnection::remember(SslStep& step) {
  if (!step.error) return;
  if (!broken_) broken_ = *step.error;
  step.error = *broken_;
}

// --- Receiving ---

Transfer TlsConnection::read_all(std::span<std::byte> into, TimePoint deadline) {
  Transfer transfer;
  transfer.result = ready(deadline);
  while (transfer.result && !into.empty()) {
    std::size_t got = 0;
    SslStep step = read_once(into, got);
    transfer.bytes_done += got;
    into = into.subspan(got);
    if (step.error) {
      transfer.result = fail(std::move(*step.error));
    } else if (!step.done) {
      transfer.result = wait_for(link_->fd(), -1, step.wait_events, deadline);
    }
  }
  return transfer;
}

// At most one record, which bounds how long the sender waits for the mutex.
SslStep TlsConnection::read_once(std::span<std::byte> into, std::size_t& got) {
  MutexLock lock(mutex_);
  ERR_clear_error();
  const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
  SslStep step = next_step(*ssl_, result, socket_);
  remember(step);
  return step;
}

}  // namespace salvage::transport
