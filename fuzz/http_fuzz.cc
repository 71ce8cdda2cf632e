// Any bytes as what a client of the API sends on one connection: the service, the handler and a
// pipeline of fake stages behind them, as they run. Whatever comes is answered with whole HTTP
// whose bodies are JSON or events that a browser reads, or the connection ends.
//
// The first byte says how many bytes the client sends at a time.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/byte_stream.h"
#include "base/mutex.h"
#include "base/utf8.h"
#include "gateway/api_handler.h"
#include "http/http_service.h"
#include "sim/fake_serving.h"
#include "sse_reader.h"

using namespace salvage;

namespace {

void check(bool good) {
  if (!good) std::abort();
}

// One client: says its bytes, hears all, and lets the fuzzer know when it has been served.
struct Client {
  std::string says;
  std::size_t at_a_time = 1;
  std::size_t said = 0;
  std::string heard;
  Mutex mutex;
  Condition changed;
  bool served GUARDED_BY(mutex) = false;
};

class ClientStream final : public ByteStream {
 public:
  explicit ClientStream(Client& client) : client_(client) {}
  ~ClientStream() override {
    MutexLock lock(client_.mutex);
    client_.served = true;
    client_.changed.notify_all();
  }
  Result<std::size_t> read(std::span<char> into, TimePoint /*deadline*/) override {
    const std::size_t left = client_.says.size() - client_.said;
    const std::size_t count = std::min({left, into.size(), client_.at_a_time});
    std::copy_n(client_.says.begin() + static_cast<std::ptrdiff_t>(client_.said), count,
                into.begin());
    client_.said += count;
    return count;
  }
  Result<void> write(std::span<const char> bytes, TimePoint /*deadline*/) override {
    client_.heard.append(bytes.data(), bytes.size());
    return {};
  }
  void shutdown() override {}
  bool gone() const override { return false; }
  const std::string& peer() const override { return peer_; }

 private:
  Client& client_;
  const std::string peer_ = "fuzzer";
};

class ClientListener final : public StreamListener {
 public:
  Result<std::unique_ptr<ByteStream>> accept(TimePoint /*deadline*/) override {
    MutexLock lock(mutex_);
    while (waiting_.empty()) changed_.wait(mutex_);
    auto stream = std::move(waiting_.front());
    waiting_.pop_front();
    return std::move(stream);
  }
  void shutdown() override {}
  std::uint16_t port() const override { return 1; }
  void connect(Client& client) {
    MutexLock lock(mutex_);
    waiting_.push_back(std::make_unique<ClientStream>(client));
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::deque<std::unique_ptr<ByteStream>> waiting_ GUARDED_BY(mutex_);
};

// Made once and never ended: the process does that.
ClientListener& server() {
  static ClientListener* const listener = [] {
    auto* serving = new sim::FakeServing({.stage_count = 1, .context = 32});
    gateway::ApiOptions options;
    options.wall_ms = [] { return std::int64_t{1000}; };
    auto* ledger = new metrics::RequestLedger;
    auto* handler =
        new gateway::ApiHandler(std::move(options), *serving, *ledger, serving->clock());
    http::HttpServiceOptions http;
    auto mine = std::make_unique<ClientListener>();
    ClientListener* const raw = mine.get();
    http.listener = std::move(mine);
    http.clock = &serving->clock();
    (void)http::HttpService::start(std::move(http), *handler).release();
    return raw;
  }();
  return *listener;
}

std::optional<std::string> header(std::string_view head, std::string_view name) {
  const std::string wanted = "\r\n" + std::string(name) + ": ";
  const std::size_t at = head.find(wanted);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = at + wanted.size();
  return std::string(head.substr(begin, head.find("\r\n", begin) - begin));
}

// Takes a chunked body off the front.
std::string take_chunks(std::string_view& bytes) {
  std::string body;
  for (;;) {
    const std::size_t end = bytes.find("\r\n");
    check(end != std::string_view::npos);
    const std::size_t size = std::stoul(std::string(bytes.substr(0, end)), nullptr, 16);
    check(bytes.size() >= end + 2 + size + 2 && bytes.substr(end + 2 + size, 2) == "\r\n");
    body += bytes.substr(end + 2, size);
    bytes.remove_prefix(end + 2 + size + 2);
    if (size == 0) return body;
  }
}

void check_body(const std::string& type, const std::string& body) {
  check(valid_utf8(body));
  if (type.starts_with("application/json")) return check(nlohmann::json::accept(body));
  if (!type.starts_with("text/event-stream")) return;
  const fuzz::SseText text = fuzz::read_sse(body);
  check(text.whole);
  for (const fuzz::SseEvent& event : text.events) {
    check(event.data == "[DONE]" || nlohmann::json::accept(event.data));
  }
}

// Answers to HEAD have a length and no body, so what follows one isn't looked at.
void check_answers(std::string_view bytes, bool any_head) {
  while (!bytes.empty()) {
    check(bytes.starts_with("HTTP/1.1 "));
    const std::size_t end = bytes.find("\r\n\r\n");
    check(end != std::string_view::npos);
    const std::string_view head = bytes.substr(0, end + 2);
    bytes.remove_prefix(end + 4);
    if (head.starts_with("HTTP/1.1 100 ")) continue;
    if (any_head) return;
    std::string body;
    if (header(head, "Transfer-Encoding")) {
      body = take_chunks(bytes);
    } else {
      const auto length = header(head, "Content-Length");
      check(length.has_value());
      const std::size_t size = std::stoul(*length);
      check(bytes.size() >= size);
      body = bytes.substr(0, size);
      bytes.remove_prefix(size);
    }
    check_body(header(head, "Content-Type").value_or(""), body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  Client client;
  client.at_a_time = data[0] < 128 ? data[0] + 1U : 4096U;
  client.says.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  server().connect(client);
  MutexLock lock(client.mutex);
  while (!client.served) client.changed.wait(client.mutex);
  check_answers(client.heard, client.says.find("HEAD") != std::string::npos);
  return 0;
}
