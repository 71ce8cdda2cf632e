#pragma once

// Groupings: a row's bits must depend neither on the rows that it is computed with nor on what the
// cache went through before. One random llama in each common quantisation, whole and in two and
// three stages: one by one, in chunks, beside four other sequences, after a trim, replayed. With
// `exact` all bits must be the same; with default settings what changes is printed.

#include <filesystem>
#include <functional>
#include <string>

namespace salvage::conformance {

struct QuantTotals {
  std::size_t type_count = 0;
  std::size_t exact = 0;
  bool good() const { return exact == type_count; }
};

// `model` is an F32 llama whose rows are multiples of 256. One child process a quantisation.
QuantTotals check_quantisations(const std::filesystem::path& model,
                                const std::filesystem::path& work_folder, unsigned jobs,
                                const std::function<void(const std::string&)>& print);

}  // namespace salvage::conformance
