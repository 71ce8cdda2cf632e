#pragma once

// A backend for tests and the fuzzer: remembers what it was asked and answers from its fields. Its
// long work reports until told to stop. One call at a time, but stop tokens from any thread.

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "admin/admin_backend.h"

namespace salvage::admin {

class FakeBackend final : public AdminBackend {
 public:
  std::vector<std::string> calls;
  std::vector<std::string> words{"one ", "two"};  // what run() answers
  std::atomic<bool> endless = false;              // run() goes on until it is stopped
  std::atomic<bool> ended = false;                // run() has returned
  Result<void> outcome;                           // of everything that can fail
  LoadRequest load_request;

  StatusInfo status() override {
    calls.emplace_back("status");
    StatusInfo info;
    info.role = "coordinator";
    info.name = "attic";
    return info;
  }
  Result<coordinator::ClusterInfo> cluster() override {
    coordinator::ClusterInfo info;
    info.name = "home";
    return answer(info, "cluster");
  }
  Result<std::vector<coordinator::ModelInfo>> models() override {
    return answer(std::vector<coordinator::ModelInfo>(1), "models");
  }
  Result<std::vector<coordinator::DeploymentInfo>> deployments() override {
    return answer(std::vector<coordinator::DeploymentInfo>(1), "deployments");
  }
  Result<std::vector<cluster::Invite>> invites() override {
    return answer(std::vector<cluster::Invite>(1), "invites");
  }
  Result<metrics::ClusterGlance> glance() override {
    metrics::ClusterGlance glance;
    glance.cluster.name = "home";
    return answer(glance, "glance");
  }
  Result<std::vector<metrics::RequestRecord>> requests() override {
    return answer(std::vector<metrics::RequestRecord>(1), "requests");
  }
  Result<std::string> cancel(const std::string& id) override {
    return answer(id + "-whole", "cancel " + id);
  }
  Result<coordinator::OpenInvite> invite(const InviteRequest& request) override {
    coordinator::OpenInvite invite;
    invite.code = "slv1.code";
    invite.invite.uses_left = request.uses;
    return answer(invite, "invite");
  }
  Result<void> revoke_invite(const std::string& id) override { return note("revoke " + id); }
  Result<std::string> rename(const RenameRequest& request) override {
    return answer(request.name, "rename " + request.node);
  }
  Result<void> remove(const std::string& node) override { return note("remove " + node); }
  Result<void> leave(const LeaveRequest& request) override {
    return note(request.forget ? "leave and forget" : "leave");
  }
  Result<LoadOutcome> load(const LoadRequest& request, const Report& report,
                           const StopToken& /*stop*/) override {
    load_request = request;
    report({.what = "hashing", .name = request.path, .fraction = 0.5});
    return answer(LoadOutcome{.model = {}, .name = request.model}, "load");
  }
  Result<void> unload(const std::string& model) override { return note("unload " + model); }
  Result<void> remove_model(const std::string& model) override { return note("rm " + model); }
  Result<VerifyOutcome> verify(const std::string& model, const Report& /*report*/,
                               const StopToken& /*stop*/) override {
    VerifyOutcome verified;
    verified.damaged.push_back({.piece = "layer 7", .file = "x.gguf"});
    return answer(verified, "verify " + model);
  }
  Result<GcOutcome> gc(const GcRequest& request) override {
    return answer(GcOutcome{.bytes_freed = 5, .dry_run = request.dry_run}, "gc");
  }
  Result<coordinator::RunOutcome> run(const coordinator::RunWish& wish,
                                      const std::function<bool(std::string_view)>& show,
                                      const StopToken& stop) override {
    coordinator::RunOutcome run;
    for (const std::string& word : words) {
      if (!show(word)) break;
      run.generation.text += word;
    }
    // As a prompt that takes minutes: nothing is written, so only `stop` can end it.
    while (endless && !stop.stop_requested()) {
    }
    ended = true;
    return answer(run, "run " + wish.prompt);
  }

 private:
  Result<void> note(std::string call) {
    calls.push_back(std::move(call));
    return outcome;
  }
  template <typename Value>
  Result<Value> answer(Value value, std::string call) {
    RETURN_IF_ERROR(note(std::move(call)));
    return value;
  }
};

}  // namespace salvage::admin
