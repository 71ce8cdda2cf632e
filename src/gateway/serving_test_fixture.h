#pragma once

// For tests: the API on a fake pipeline without sockets. A request is answered on a thread of its
// own, what it was told can be waited for. Every wait ends by itself.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "gateway/api_handler.h"
#include "gateway/serving_backend.h"
#include "metrics/glance_fixture.h"

namespace salvage::gateway {

inline constexpr auto kHandlerWait = std::chrono::seconds(20);

// One model of a pipeline that the test has made; or none.
class OneModelBackend final : public ServingBackend {
 public:
  std::shared_ptr<coordinator::ClusterPipeline> pipeline;
  api::ModelState state = api::ModelState::kLoaded;
  bool any = true;

  std::vector<api::ModelEntry> models() override {
    if (!any) return {};
    api::ModelEntry entry;
    entry.id = "tiny";
    entry.state = state;
    entry.quantisation = "q4_K";
    return {entry};
  }
  Result<ReadyModel> ready(const std::string& model) override {
    if (state != api::ModelState::kLoaded) {
      return fail(ErrorCode::kUnavailable, model + " is not ready");
    }
    return ReadyModel{model, pipeline, {"attic", "cellar"}};
  }
  metrics::ClusterGlance glance() override { return metrics::glance_of_two(); }
};

// What a client was told.
class HeardBody final : public http::HttpBody {
 public:
  bool write(std::string_view bytes) override {
    MutexLock lock(mutex_);
    if (gone_) return false;
    text_ += bytes;
    changed_.notify_all();
    return true;
  }
  void go() {  // the client
    MutexLock lock(mutex_);
    gone_ = true;
  }
  std::string text() const {
    MutexLock lock(mutex_);
    return text_;
  }
  // What was heard once `part` is there; all of it if it never comes, which is a failure.
  std::string wait_for(std::string_view part) {
    const TimePoint until = deadline_after(SteadyClock().now(), kHandlerWait);
    MutexLock lock(mutex_);
    while (text_.find(part) == std::string::npos && changed_.wait_until(mutex_, until)) {
    }
    EXPECT_NE(text_.find(part), std::string::npos) << part << " never came: " << text_;
    return text_;
  }

 private:
  mutable Mutex mutex_;
  Condition changed_;
  std::string text_ GUARDED_BY(mutex_);
  bool gone_ GUARDED_BY(mutex_) = false;
};

inline http::HttpRequest request_of(std::string method, std::string target, std::string body = {}) {
  http::HttpRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.body = std::move(body);
  request.peer = "tcp:127.0.0.1:4711";
  return request;
}

// A request that is answered beside the test.
class Asking {
 public:
  Asking(ApiHandler& handler, http::HttpRequest request)
      : thread_([this, &handler, request = std::move(request)] {
          http::HttpReply reply = handler.answer(request, gone_.get_token());
          if (reply.stream) {
            reply.stream(body_, gone_.get_token());
          } else {
            body_.write(reply.body);
          }
          status_ = reply.status;
        }) {}
  ~Asking() {
    leave();
    join();
  }
  HeardBody& body() { return body_; }
  void leave() {
    body_.go();
    gone_.request_stop();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  int status() const { return status_; }  // once it was joined

 private:
  HeardBody body_;
  StopSource gone_;
  int status_ = 0;
  std::thread thread_;
};

}  // namespace salvage::gateway
