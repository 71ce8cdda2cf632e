#include "transport/tls/record_cutter.h"

#include <algorithm>

namespace salvage::transport {

void RecordCutter::begin(const std::array<Bytes, 3>& parts) {
  parts_ = parts;
  left_ = parts_;
  drop_empty_parts();
}

void RecordCutter::drop_empty_parts() {
  while (!left_.empty() && left_.front().empty()) left_ = left_.subspan(1);
  while (!left_.empty() && left_.back().empty()) left_ = left_.first(left_.size() - 1);
}

RecordCutter::Bytes RecordCutter::next() {
  const bool alone = left_.size() == 1;
  if (alone || left_.front().size() >= kRecordBytes) {
    const Bytes record = left_.front().first(std::min(left_.front().size(), kRecordBytes));
    left_.front() = left_.front().subspan(record.size());
    drop_empty_parts();
    return record;
  }
  gathered_.clear();
  gathered_.reserve(kRecordBytes);
  while (!left_.empty() && gathered_.size() < kRecordBytes) {
    Bytes& part = left_.front();
    const Bytes taken = part.first(std::min(part.size(), kRecordBytes - gathered_.size()));
    gathered_.insert(gathered_.end(), taken.begin(), taken.end());
    part = part.subspan(taken.size());
    drop_empty_parts();
  }
  return gathered_;
}

}  // namespace salvage::transport
