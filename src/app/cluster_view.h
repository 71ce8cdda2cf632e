#pragma once

// What a node knows of its cluster: the last view that the coordinator sent. It decides who is let
// in at this machine's door. Before the first view has come that is the coordinator alone.
// Thread rule: any thread; never waits.

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "coordinator/cluster_info.h"
#include "wire/cluster.h"

namespace salvage::app {

class ViewKeeper {
 public:
  explicit ViewKeeper(NodeId coordinator) : coordinator_(std::move(coordinator)) {}

  bool admits(const NodeId& node) const EXCLUDES(mutex_);
  // Takes a newer view; an older one changes nothing. Gives the nodes that were let in before and
  // are not now.
  std::vector<NodeId> update(wire::ClusterView view) EXCLUDES(mutex_);

  wire::ClusterView view() const EXCLUDES(mutex_);
  // Where others reach the coordinator, as it says; empty before the first view.
  std::vector<std::string> coordinator_addresses() const EXCLUDES(mutex_);
  // The name by which the cluster knows a node; empty if it doesn't.
  std::string name_of(const NodeId& node) const EXCLUDES(mutex_);

  coordinator::ClusterInfo info(const std::string& cluster_id) const EXCLUDES(mutex_);

 private:
  bool lets_in(const NodeId& node) const REQUIRES(mutex_);
  const NodeId coordinator_;
  mutable Mutex mutex_;
  wire::ClusterView view_ GUARDED_BY(mutex_);
};

}  // namespace salvage::app
