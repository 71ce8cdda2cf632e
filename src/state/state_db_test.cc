// Goal: what was written is there after a restart and after a kill -9 at any moment, whole or not
// at all; one process has the state, numbers are never given twice, failures are named. Method: a
// folder for each test; writers are child processes, killed after a seeded number of acknowledged
// writes, so in the midst of the next one.

#include "state/state_db.h"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"

namespace salvage::state {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StateDbTest : public ::testing::Test {
 protected:
  StateDbTest() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("salvage-state-{}-{}", ::getpid(), test->name());
  }
  ~StateDbTest() override {
    state_.reset();
    std::filesystem::remove_all(folder_);
  }

  void open(const StateOptions& options = {.program_version = "0.2.0"}) {
    state_.reset();
    auto opened = StateDb::open(folder_, options);
    ASSERT_TRUE(opened) << opened.error().message();
    state_ = std::move(*opened);
  }
  mode_t mode_of(const std::filesystem::path& path) const {
    struct stat facts {};
    EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 0777U;
  }

  std::filesystem::path folder_;
  std::unique_ptr<StateDb> state_;
};

const NodeIdentity kIdentity{.key_pem = "secret key",
                             .certificate_pem = "certificate",
                             .authority_pem = "authority",
                             .cluster_id = "cluster",
                             .coordinator = NodeId{"c0"},
                             .coordinator_addresses = {"tls:198.18.0.1:7420", "tls:[::1]:7420"},
                             .name = "书房",
                             .ephemeral = true};

TEST_F(StateDbTest, everything_survives_a_restart) {
  open();
  EXPECT_EQ(*state_->identity(), std::nullopt);
  EXPECT_EQ(*state_->authority(), std::nullopt);
  const Authority authority{"authority key", "authority certificate", "home"};
  const MemberRow member{NodeId{"aa"}, "first", false, false, "{}"};
  const InviteRow invite{"i", "hash", "label", true, 2, 1, -5, std::int64_t{1} << 50};
  const ModelRow model{ModelId{"m"}, "tiny", std::string("\x00\x01\xff", 3)};
  const SourceRow source{ModelId{"m"}, "/models/it's.gguf"};
  const PieceRow piece{PieceDigest{"p"}, ModelId{"m"}, "models/a", std::uint64_t{1} << 40, true};
  const DeploymentRow deployment{ModelId{"m"}, true, "{\"split\":[1]}", "[]"};
  ASSERT_TRUE(state_->put_identity(kIdentity));
  ASSERT_TRUE(state_->put_authority(authority));
  ASSERT_TRUE(state_->put_member(member));
  ASSERT_TRUE(state_->put_invite(invite));
  ASSERT_TRUE(state_->put_model(model));
  ASSERT_TRUE(state_->put_source(source));
  ASSERT_TRUE(state_->put_pieces({piece}));
  ASSERT_TRUE(state_->put_deployment(deployment));
  open();
  EXPECT_EQ(*state_->identity(), kIdentity);
  EXPECT_EQ(*state_->authority(), authority);
  EXPECT_EQ(*state_->members(), std::vector<MemberRow>{member});
  EXPECT_EQ(*state_->invites(), std::vector<InviteRow>{invite});
  EXPECT_EQ(*state_->models(), std::vector<ModelRow>{model});
  EXPECT_EQ(*state_->sources(), std::vector<SourceRow>{source});
  EXPECT_EQ(*state_->pieces(), std::vector<PieceRow>{piece});
  EXPECT_EQ(*state_->deployments(), std::vector<DeploymentRow>{deployment});
}

TEST_F(StateDbTest, a_second_write_replaces_the_first) {
  open();
  ASSERT_TRUE(state_->put_identity(kIdentity));
  NodeIdentity moved = kIdentity;
  moved.coordinator_addresses = {"tls:198.18.0.9:7420"};
  ASSERT_TRUE(state_->put_identity(moved));
  EXPECT_EQ(*state_->identity(), moved);
  ASSERT_TRUE(state_->put_member({NodeId{"aa"}, "first", false, false, "{}"}));
  ASSERT_TRUE(state_->put_member({NodeId{"aa"}, "second", false, true, "{}"}));
  ASSERT_EQ(state_->members()->size(), 1);
  EXPECT_EQ(state_->members()->at(0).name, "second");
}

TEST_F(StateDbTest, leaving_forgets_the_cluster_and_the_key_only_if_asked) {
  open();
  ASSERT_TRUE(state_->put_identity(kIdentity));
  ASSERT_TRUE(state_->forget_cluster(false));
  const NodeIdentity left = **state_->identity();
  EXPECT_EQ(left.key_pem, "secret key");
  EXPECT_EQ(left.cluster_id, "");
  EXPECT_EQ(left.certificate_pem, "");
  EXPECT_EQ(left.coordinator, NodeId{});
  EXPECT_TRUE(left.coordinator_addresses.empty());
  ASSERT_TRUE(state_->forget_cluster(true));
  EXPECT_EQ(*state_->identity(), std::nullopt);
}

TEST_F(StateDbTest, a_removed_member_is_on_one_list_or_the_other) {
  open();
  ASSERT_TRUE(state_->put_member({NodeId{"aa"}, "first", false, false, ""}));
  ASSERT_TRUE(state_->put_member({NodeId{"bb"}, "second", false, false, ""}));
  ASSERT_TRUE(state_->remove_member(NodeId{"aa"}));
  ASSERT_TRUE(state_->remove_member(NodeId{"aa"}));
  ASSERT_TRUE(state_->forget_member(NodeId{"bb"}));
  EXPECT_TRUE(state_->members()->empty());
  EXPECT_EQ(*state_->removed(), std::vector<NodeId>{NodeId{"aa"}});
}

TEST_F(StateDbTest, joining_uses_the_code_and_adds_the_member_together) {
  open();
  const InviteRow used{.id = "i", .secret_hash = "h", .uses_left = 0};
  ASSERT_TRUE(state_->put_joined({NodeId{"aa"}, "first", false, false, ""}, used));
  EXPECT_EQ(state_->members()->size(), 1);
  EXPECT_EQ(*state_->invites(), std::vector<InviteRow>{used});
  ASSERT_TRUE(state_->forget_invite("i"));
  EXPECT_TRUE(state_->invites()->empty());
}

TEST_F(StateDbTest, keys_of_the_api_are_kept_as_digests) {
  open();
  EXPECT_TRUE(state_->api_keys()->empty());
  for (const char* const digest : {"bb", "aa", "bb"}) ASSERT_TRUE(state_->put_api_key(digest));
  EXPECT_EQ(*state_->api_keys(), (std::vector<std::string>{"aa", "bb"}));
}

TEST_F(StateDbTest, a_model_goes_with_all_that_belongs_to_it) {
  open();
  for (const char* const model : {"m", "n"}) {
    ASSERT_TRUE(state_->put_model({ModelId{model}, model, "entry"}));
    ASSERT_TRUE(state_->put_source({ModelId{model}, "/x"}));
    ASSERT_TRUE(state_->put_deployment({ModelId{model}, true, "{}", ""}));
    ASSERT_TRUE(state_->put_pieces(
        {{PieceDigest{std::string("p") + model}, ModelId{model}, "f", 1, true}}));
  }
  ASSERT_TRUE(state_->forget_model(ModelId{"m"}));
  EXPECT_EQ(state_->models()->size(), 1);
  EXPECT_EQ(state_->sources()->size(), 1);
  EXPECT_EQ(state_->deployments()->size(), 1);
  ASSERT_EQ(state_->pieces()->size(), 1);
  EXPECT_EQ(state_->pieces()->at(0).model, ModelId{"n"});
  ASSERT_TRUE(state_->forget_source({ModelId{"n"}, "/x"}));
  ASSERT_TRUE(state_->forget_deployment(ModelId{"n"}));
  EXPECT_TRUE(state_->sources()->empty());
  EXPECT_TRUE(state_->deployments()->empty());
}

TEST_F(StateDbTest, pieces_are_known_by_content_and_by_file) {
  open();
  const auto piece = [](const char* digest, const char* place) {
    return PieceRow{PieceDigest{digest}, ModelId{"m"}, place, 10, true};
  };
  ASSERT_TRUE(state_->put_pieces({piece("p", "a"), piece("p", "b"), piece("q", "a")}));
  EXPECT_EQ(state_->pieces()->size(), 3);
  ASSERT_TRUE(state_->forget_place("a"));
  EXPECT_EQ(*state_->pieces(), std::vector<PieceRow>{piece("p", "b")});
  ASSERT_TRUE(state_->forget_pieces({PieceDigest{"p"}, PieceDigest{"unknown"}}));
  EXPECT_TRUE(state_->pieces()->empty());
}

TEST_F(StateDbTest, numbers_grow_and_are_never_given_twice) {
  open();
  EXPECT_EQ(*state_->next(Counter::kPlanEpoch), 1);
  EXPECT_EQ(*state_->next(Counter::kPlanEpoch), 2);
  EXPECT_EQ(*state_->next(Counter::kViewVersion), 1);
  const std::uint64_t block = *state_->reserve(Counter::kPlanEpoch, 1000);
  EXPECT_GT(block, 2);
  std::uint64_t last = block + 999;
  for (int restart = 0; restart < 5; ++restart) {
    for (int i = 0; i < 150; ++i) {
      const std::uint64_t number = *state_->next(Counter::kPlanEpoch);
      EXPECT_GT(number, last);
      last = number;
    }
    open();
  }
  EXPECT_FALSE(state_->reserve(Counter::kPlanEpoch, 0));
  EXPECT_FALSE(state_->reserve(Counter::kPlanEpoch, UINT64_MAX));
}

TEST_F(StateDbTest, files_are_for_their_owner_only) {
  const mode_t before = ::umask(0);
  open();
  ASSERT_TRUE(state_->put_identity(kIdentity));
  ::umask(before);
  EXPECT_EQ(mode_of(folder_), 0700);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(mode_of(entry.path()), 0600) << entry.path();
  }
  state_.reset();
  std::filesystem::permissions(folder_ / "state.db", std::filesystem::perms(0644));
  open();
  EXPECT_EQ(mode_of(folder_ / "state.db"), 0600);
}

TEST_F(StateDbTest, a_second_process_is_refused_by_name) {
  open({.command = "up", .program_version = "0.2.0"});
  const auto second = StateDb::open(folder_, {.command = "join", .program_version = "0.2.0"});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message(), HasSubstr(fmt::format("another salvage up (pid {}) uses {}",
                                                              ::getpid(), folder_.native())));
  state_.reset();
  open();
}

TEST_F(StateDbTest, a_lock_file_full_of_nonsense_misleads_nobody) {
  open();
  std::ofstream(folder_ / "state.lock") << "-5 \x1b[31mrm -rf\n";
  const auto second = StateDb::open(folder_, {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message(), HasSubstr("another salvage uses"));
  EXPECT_THAT(second.error().message(), Not(HasSubstr("\x1b")));
}

TEST_F(StateDbTest, folders_that_cannot_be_are_refused_by_name) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  for (const std::filesystem::path& bad :
       {folder_ / "file", folder_ / "file" / "below", std::filesystem::path("/proc/salvage")}) {
    const auto opened = StateDb::open(bad, {});
    ASSERT_FALSE(opened) << bad;
    EXPECT_EQ(opened.error().code(), ErrorCode::kPermissionDenied);
    EXPECT_THAT(opened.error().message(), HasSubstr(bad.native()));
  }
}

TEST_F(StateDbTest, a_full_disk_is_named_and_nothing_is_half_written) {
  open({.program_version = "0.2.0", .page_count_max = 60});
  const ModelRow large{ModelId{"m"}, "large", std::string(1 << 20, 'x')};
  const auto refused = state_->put_model(large);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("full"));
  std::vector<PieceRow> many;
  many.reserve(5000);
  for (int i = 0; i < 5000; ++i) {
    many.push_back({PieceDigest{fmt::format("{:064}", i)}, ModelId{"m"}, "models/x", 1, true});
  }
  EXPECT_FALSE(state_->put_pieces(many));
  EXPECT_TRUE(state_->pieces()->empty()) << "all or none";
  EXPECT_TRUE(state_->models()->empty());
  EXPECT_TRUE(state_->put_member({NodeId{"aa"}, "first", false, false, ""}))
      << "what fits is still written";
}

TEST_F(StateDbTest, values_have_a_limit) {
  open();
  const ModelRow huge{ModelId{"m"}, "huge", std::string(kValueBytesMax + 1, 'x')};
  const auto refused = state_->put_model(huge);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
}

// --- kill -9 ---

// Writes until it is killed; one byte into the pipe after each write that was confirmed.
[[noreturn]] void write_for_ever(const std::filesystem::path& folder, int pipe) {
  auto opened = StateDb::open(folder, {.program_version = "0.2.0"});
  if (!opened) ::_exit(1);
  StateDb& state = **opened;
  const std::size_t done = state.members()->size();
  for (std::size_t i = done;; ++i) {
    const auto number = state.next(Counter::kPlanEpoch);
    const std::string name = fmt::format("{:05}", i);
    // Each round: a member with its code, then two pieces of one file, the number in both.
    const InviteRow invite{.id = name, .secret_hash = "h"};
    if (!number || !state.put_joined({NodeId{name}, name, false, false, ""}, invite)) ::_exit(2);
    const PieceRow first{PieceDigest{name + "a"}, ModelId{"m"}, name, *number, true};
    const PieceRow second{PieceDigest{name + "b"}, ModelId{"m"}, name, *number, true};
    if (!state.put_pieces({first, second})) ::_exit(3);
    if (::write(pipe, "x", 1) != 1) ::_exit(4);
  }
}

// Kills the writer after `writes` confirmed rounds.
void write_and_kill(const std::filesystem::path& folder, std::uint64_t writes) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) write_for_ever(folder, ends[1]);
  ::close(ends[1]);
  char byte = 0;
  std::uint64_t confirmed = 0;
  while (confirmed < writes && ::read(ends[0], &byte, 1) == 1) ++confirmed;
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::close(ends[0]);
  EXPECT_EQ(confirmed, writes);
  EXPECT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
}

void expect_sound(const std::filesystem::path& folder) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "state.db").c_str(), &handle), SQLITE_OK);
  std::string said;
  const auto keep = [](void* into, int, char** values, char**) {
    *static_cast<std::string*>(into) = values[0];
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(handle, "PRAGMA integrity_check", keep, &said, nullptr), SQLITE_OK);
  EXPECT_EQ(said, "ok");
  sqlite3_close(handle);
}

TEST_F(StateDbTest, a_kill_at_any_moment_leaves_every_write_whole_or_undone) {
  Random random(20261130);
  std::uint64_t confirmed = 0;
  std::uint64_t last_number = 0;
  for (int round = 0; round < 25; ++round) {
    const std::uint64_t writes = random.below(12);
    write_and_kill(folder_, writes);
    confirmed += writes;
    if (!std::filesystem::exists(folder_ / "state.db")) continue;  // killed before it began
    open();
    const auto members = *state_->members();
    const auto pieces = *state_->pieces();
    EXPECT_GE(members.size(), confirmed);
    EXPECT_EQ(state_->invites()->size(), members.size());
    EXPECT_EQ(pieces.size() % 2, 0);
    EXPECT_GE(pieces.size(), 2 * confirmed);
    for (std::size_t i = 0; i + 1 < pieces.size(); i += 2) {
      EXPECT_EQ(pieces[i].place, pieces[i + 1].place);
      EXPECT_EQ(pieces[i].bytes, pieces[i + 1].bytes);
      EXPECT_GT(pieces[i].bytes, i == 0 ? 0 : pieces[i - 1].bytes) << "a number was given twice";
    }
    const std::uint64_t number = *state_->next(Counter::kPlanEpoch);
    EXPECT_GT(number, std::max(last_number, pieces.empty() ? 0 : pieces.back().bytes));
    last_number = number;
    state_.reset();
    expect_sound(folder_);
  }
}

}  // namespace
}  // namespace salvage::state
