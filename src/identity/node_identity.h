#pragma once

// Who a machine is: an Ed25519 key that it makes once and keeps, and the node id, the SHA-256 of
// the public key. Membership is a certificate of that key by the cluster's authority
// (identity/authority.h). Values are plain structs of PEM text, for whoever stores them; a private
// key must never reach a log, an error or a peer, and no message made here quotes one.
// Pure functions, any thread. `corrupt` = the text is no such key or certificate, or doesn't fit
// the others; `unauthenticated` = a signature is somebody else's.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace salvage::identity {

// One PEM text. An Ed25519 key has about 120 bytes, our certificates about 700.
inline constexpr std::size_t kPemBytesMax = 4096;

struct NodeKey {
  std::string key_pem;  // private
  std::string public_key_pem;
  NodeId id;
};

// All that a machine needs to prove who it is. Before it has joined, certificate and authority are
// empty.
struct NodeIdentity {
  std::string key_pem;  // private
  std::string certificate_pem;
  std::string authority_pem;  // the authority's certificate
  NodeId id;
};

Result<NodeKey> make_node_key();
Result<NodeKey> read_node_key(std::string_view key_pem);
Result<NodeId> node_id_of(std::string_view public_key_pem);

// A certificate of the key by itself: what a machine presents that wants to join. It proves the
// possession of the key and nothing else.
Result<std::string> make_joining_certificate(std::string_view key_pem);

// Key, id, and unless empty certificate and authority belong together; to be asked when they were
// read from a disk.
Result<void> check_identity(const NodeIdentity& identity);

// What is signed outside of TLS, the beacon for one. `purpose` is a fixed word that goes into the
// signature, so that no message is ever taken for one of another kind.
struct Message {
  std::string_view purpose;
  std::string_view bytes;
};
// 64 bytes.
Result<std::string> sign_message(std::string_view key_pem, const Message& message);
Result<void> check_signature(std::string_view public_key_pem, const Message& message,
                             std::string_view signature);

}  // namespace salvage::identity
