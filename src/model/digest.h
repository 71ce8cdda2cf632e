#pragma once

// Names a model by its content. The digest is SHA-256, in hex, over the metadata (without split.*
// and salvage.*), every tensor's name, type and shape, and samples of every tensor's data: its
// first, middle and last 4 KiB. It reads a few megabytes even of the largest model, is the same for
// one file and for the same model in parts, and differs for another quantisation or fine-tune. It
// finds mix-ups, not forgeries: two files may differ in bytes that no sample covers.

#include <string>

#include "base/result.h"
#include "model/gguf.h"

namespace salvage::model {

Result<std::string> model_digest(const Gguf& model);

}  // namespace salvage::model
