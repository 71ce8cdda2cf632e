#pragma once

// GET /metrics: the ledger's sums and the cluster's counters as Prometheus reads them. What
// llama.cpp's server counts too has its name there; all else begins with salvage_. Labels are
// endpoints, statuses, models, machines and stages, so their number is bounded by the cluster, not
// by clients. Names are documented (docs/operating/api.md) and stay. Pure, any thread.

#include <string>

#include "metrics/glance_json.h"
#include "metrics/request_ledger.h"

namespace salvage::metrics {

std::string metrics_text(const LedgerTotals& totals, const ClusterGlance& glance);

}  // namespace salvage::metrics
