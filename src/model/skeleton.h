#pragma once

// A model without its weights: metadata and tensor list as the header of an ordinary GGUF file,
// small enough to be sent to every machine of a cluster. Opened together with the pieces that are
// at hand it reads like the model itself, so that everything that works on a Gguf (manifest, split
// rules, shard maker) works on a model of which this machine has only a part.
//
// Failure: `corrupt` for bytes that are no skeleton (they come from peers; nothing in them reaches
// a CHECK), `not_found`, naming the piece, for tensor data whose piece isn't here.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/gguf.h"

namespace salvage::model {

// Three times the largest known metadata (a vocabulary of 262,144 with its merges: 20 MB).
inline constexpr std::uint64_t kSkeletonBytesMax = std::uint64_t{64} << 20;

// The same bytes for one file and for the same model in parts. `unsupported` over the limit.
Result<std::string> make_skeleton(const Gguf& model);

// Contents by the index of their piece in list_pieces(); null = not here. Empty = none at all.
using PieceContents = std::vector<std::unique_ptr<ByteSource>>;

// `name` is for messages. A content that isn't as long as its piece is `corrupt`.
Result<Gguf> open_skeleton(const std::string& bytes, PieceContents contents = {},
                           const std::string& name = "model");

}  // namespace salvage::model
