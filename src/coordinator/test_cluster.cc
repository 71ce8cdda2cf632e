#include "coordinator/test_cluster.h"

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "base/check.h"
#include "model/tiny_model.h"
#include "transport/memory_transport.h"

namespace salvage::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

template <typename Value>
Value valid(Result<Value> result) {
  EXPECT_TRUE(result) << result.error().message();
  CHECK(result.has_value());
  return std::move(*result);
}

fs::path make_folder() {
  std::string name = (fs::temp_directory_path() / "salvage-XXXXXX").string();
  CHECK(::mkdtemp(name.data()) != nullptr);
  return name;
}

// A link of the memory transport whose other end has proved who it is, as one over TLS has.
class ProvedConnection final : public transport::Connection {
 public:
  ProvedConnection(std::unique_ptr<transport::Connection> link, transport::PeerIdentity peer)
      : link_(std::move(link)), peer_(std::move(peer)) {}
  const transport::PeerIdentity* identity() const override { return &peer_; }
  Result<void> send_frame(const transport::OutgoingFrame& frame, TimePoint deadline) override {
    return link_->send_frame(frame, deadline);
  }
  Result<void> receive_frame(transport::IncomingFrame& frame, TimePoint deadline) override {
    return link_->receive_frame(frame, deadline);
  }
  Result<void> receive_data(std::span<std::byte> data, TimePoint deadline) override {
    return link_->receive_data(data, deadline);
  }
  Result<void> skip_data(TimePoint deadline) override { return link_->skip_data(deadline); }
  void shutdown() override { link_->shutdown(); }
  std::string peer() const override { return link_->peer(); }
  transport::ConnectionBytes bytes() const override { return link_->bytes(); }

 private:
  const std::unique_ptr<transport::Connection> link_;
  const transport::PeerIdentity peer_;
};

}  // namespace

// --- the cluster ---------------------------------------------------------------------------------

TestCluster::TestCluster(std::uint32_t layer_count)
    : folder_(make_folder()),
      transport_(transport::make_memory_transport()),
      state_(valid(state::StateDb::open(folder_, {.program_version = "test"}))),
      store_(valid(store::PieceStore::open(folder_))),
      authority_(valid(identity::make_authority())),
      own_key_(valid(identity::make_node_key())) {
  const fs::path file = folder_ / "tiny.gguf";
  std::ofstream(file, std::ios::binary) << model::tiny_model("llama", layer_count).bytes();
  model_ = valid(store_->import_model(file, "", {}));
  start();
}

TestCluster::~TestCluster() {
  coordinator_.reset();
  store_.reset();
  state_.reset();
  fs::remove_all(folder_);
}

void TestCluster::start() {
  CoordinatorOptions options;
  options.version = "test";
  options.llama_pin = kTestPin;
  options.self = own_key_.id;
  options.name = "attic";
  options.authority = authority_;
  options.cluster_name = "home";
  options.wall_clock_ms = [this] { return wall_clock_ms; };
  options.make_text = [](const fs::path&) -> Result<engine::TextTools> {
    return engine::TextTools{};
  };
  options.event = [this](const ClusterEvent& event) { (void)events_.push(event); };
  options.shut_out = [this](const NodeId& node) {
    MutexLock lock(mutex_);
    shut_out_.push_back(node);
  };
  coordinator_ =
      valid(Coordinator::start(std::move(options), {*state_, *store_, *transport_, clock_}));
}

void TestCluster::restart() {
  coordinator_.reset();
  start();
}

ClusterEvent TestCluster::event(const std::string& code) {
  while (auto event = events_.pop(soon())) {
    if (event->code == code) return *event;
  }
  ADD_FAILURE() << "there was no event " << code;
  return {};
}

DeploymentInfo TestCluster::wait_for(cluster::DeploymentState state) {
  for (;;) {
    DeploymentInfo info = deployment();
    if (info.status.state == state) return info;
    if (!events_.pop(soon())) {
      ADD_FAILURE() << "it is " << cluster::deployment_state_name(info.status.state) << ": "
                    << info.status.reason;
      return info;
    }
  }
}

std::vector<NodeId> TestCluster::shut_out() {
  MutexLock lock(mutex_);
  return shut_out_;
}

TestCluster::Link TestCluster::connect(transport::PeerIdentity peer) {
  const auto endpoint = valid(transport::parse_endpoint(fmt::format("unix:/link-{}", ++links_)));
  const auto listener = valid(transport_->listen(endpoint));
  Link link;
  link.near = valid(transport_->connect(endpoint, soon()));
  link.far = std::make_unique<ProvedConnection>(valid(listener->accept(soon())), std::move(peer));
  return link;
}

// --- a machine -----------------------------------------------------------------------------------

TestNode::TestNode(TestCluster& cluster, identity::NodeKey key, std::string name)
    : cluster_(cluster),
      key_(std::move(key)),
      name_(std::move(name)),
      name_address_(fmt::format("10.0.0.{}", 1 + std::hash<std::string>{}(name_) % 250)) {}

TestNode::TestNode(TestCluster& cluster, const std::string& name)
    : TestNode(cluster, valid(identity::make_node_key()), name) {}

transport::PeerIdentity TestNode::identity(bool member) const {
  return {.node = key_.id,
          .member = member,
          .coordinator = key_.id == cluster_.own_key().id,
          .public_key = key_.public_key_pem};
}

wire::JoinReply TestNode::join(const std::string& text) {
  const identity::JoinCode code = valid(identity::parse_join_code(text));
  TestCluster::Link link = cluster_.connect(identity(false));
  std::thread admitting([&] {
    wire::Hello hello;
    hello.role = wire::LinkRole::kJoin;
    cluster_.coordinator().admit(std::move(link.far), hello);
  });
  pipeline::ControlLink control(*link.near);
  EXPECT_TRUE(control.send(
      wire::JoinRequest{.invite = code.invite_id, .secret = code.secret, .name = name_}, soon()));
  const auto reply = control.expect<wire::JoinReply>(soon());
  admitting.join();
  EXPECT_TRUE(reply) << reply.error().message();
  return reply ? *reply : wire::JoinReply{};
}

void TestNode::link(const std::string& instance) {
  unlink();
  wire::Hello hello;
  hello.role = wire::LinkRole::kNode;
  hello.llama_pin = kTestPin;
  TestCluster::Link link = cluster_.connect(identity(true));
  connection_ = std::move(link.near);
  control_ = std::make_unique<pipeline::ControlLink>(*connection_);
  admitting_ = std::thread([this, hello, far = std::move(link.far)]() mutable {
    cluster_.coordinator().admit(std::move(far), hello);
  });
  reading_ = std::thread([this] { read_loop(); });
  send(wire::NodeFacts{
      .name = name_,
      .version = "test",
      .instance = instance,
      .cores = 2,
      .memory_total_bytes = 8 * kGib,
      .memory_available_bytes = 8 * kGib,
      .disk_free_bytes = kGib,
      .addresses = {{.endpoint = address(), .interface = "eth0", .link = "wired"}}});
}

TestNode& TestNode::join_and_link() {
  if (key_.id != cluster_.own_key().id) {
    const wire::JoinReply reply = join(valid(cluster_.coordinator().invite({})).code);
    EXPECT_TRUE(reply.accepted) << reply.error;
  }
  link();
  expect_view(name_, "online");
  return *this;
}

void TestNode::unlink() {
  if (connection_ == nullptr) return;
  connection_->shutdown();
  admitting_.join();
  reading_.join();
  control_.reset();
  connection_.reset();
  while (frames_.try_pop()) {
  }
  (void)ended_.try_pop();
}

void TestNode::expect_closed() {
  EXPECT_TRUE(ended_.pop(soon())) << name_ << " is linked still";
}

// Until the link ends.
void TestNode::read_loop() {
  for (;;) {
    const auto frame = control_->receive();
    if (!frame) break;
    if ((*frame)->header.type == wire::FrameType::kPing) {
      const auto ping = wire::decode_control<wire::Ping>((*frame)->body);
      if (ping) (void)control_->send(wire::Pong{.nonce = ping->nonce}, soon());
      continue;
    }
    (void)frames_.push({(*frame)->header.type, (*frame)->body});
  }
  (void)ended_.push(true, soon());
}

wire::MemberReply TestNode::ask(const std::string& kind, const std::string& value) {
  send(wire::MemberRequest{.kind = kind, .value = value});
  return expect<wire::MemberReply>();
}

void TestNode::expect_view(const std::string& node_name, const std::string& state) {
  while (auto frame = frames_.pop(soon())) {
    if (frame->type != wire::FrameType::kClusterView) continue;
    const auto view = wire::decode_control<wire::ClusterView>(frame->body);
    if (!view) continue;
    for (const wire::MemberRecord& member : view->members) {
      if (member.name == node_name && member.state == state) return;
    }
  }
  ADD_FAILURE() << name_ << " never sees that " << node_name << " is " << state;
}

void TestNode::tell_inventory(const ModelId& model, const std::vector<PieceDigest>& pieces) {
  wire::Inventory inventory{.model = model.value, .pieces = {}};
  for (const PieceDigest& piece : pieces) inventory.pieces.push_back(piece.value);
  send(inventory);
}

}  // namespace salvage::coordinator
