// Goal: the line that a stranger's shell runs does what it says and carries what makes it safe; its
// parts can't become anything but text; only one path is a download. Method: texts in, texts out,
// and the line run by a real shell with a curl of our own making.

#include "download/download_line.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process.h"
#include "base/sha256.h"

namespace salvage::download {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kInvite = "0123456789abcdef";
constexpr const char* kToken = "00112233445566778899aabbccddeeff";

DownloadOffer offer() {
  return {.server = NodeId{std::string(64, 'a')},
          .places = {"192.168.1.20:7419", "[fd00::2]:7419"},
          .path = {.invite_id = kInvite, .token = kToken},
          .archive_sha256 = std::string(62, '0') + "42",
          .join_code = "slv1.ab12-cd34"};
}

TEST(DownloadPath, what_was_written_is_read) {
  const std::string text = to_string(offer().path);
  EXPECT_EQ(text, "/salvage/0123456789abcdef/00112233445566778899aabbccddeeff/salvage.tar.gz");
  const auto path = parse_download_path(text);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->invite_id, kInvite);
  EXPECT_EQ(path->token, kToken);
}

TEST(DownloadPath, everything_else_is_none) {
  const std::string right = to_string(offer().path);
  for (const std::string& wrong :
       {std::string(), std::string("/"), right + "/", right + "x", "/" + right,
        right.substr(0, right.size() - 1), std::string("/salvage/../etc/passwd"),
        std::string("/salvage/../456789abcdef/00112233445566778899aabbccddeeff/salvage.tar.gz"),
        std::string("/salvage/0123456789ABCDEF/00112233445566778899aabbccddeeff/salvage.tar.gz"),
        std::string("/salvage/0123456789abcdef-00112233445566778899aabbccddeeff/salvage.tar.gz"),
        std::string("/salvage/0123456789abcdef/00112233445566778899aabbccddee/f/salvage.tar.gz"),
        std::string(1'000'000, 'a')}) {
    EXPECT_FALSE(parse_download_path(wrong)) << wrong.substr(0, 100);
  }
}

TEST(DownloadPath, each_single_character_counts) {
  const std::string right = to_string(offer().path);
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::string wrong = right;
    wrong[i] = '%';
    EXPECT_FALSE(parse_download_path(wrong)) << wrong;
  }
}

TEST(PublicKeyPin, is_the_base64_of_the_node_id) {
  EXPECT_EQ(*public_key_pin(NodeId{std::string(64, '0')}),
            "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
  EXPECT_EQ(*public_key_pin(NodeId{std::string(64, 'f')}),
            "sha256//" + std::string(42, '/') + "8=");
  // echo -n salvage | openssl dgst -sha256 -binary | base64
  Sha256 digest;
  digest.update("salvage");
  EXPECT_EQ(*public_key_pin(NodeId{digest.hex()}),
            "sha256//Ikgpz7OPa15ixW+KrjNCj7+/cAP+qkqEm2n/hUNb7IM=");
  EXPECT_FALSE(public_key_pin(NodeId{"abc"}));
}

TEST(DownloadLine, carries_key_hash_addresses_and_code) {
  const auto line = download_line(offer());
  ASSERT_TRUE(line);
  EXPECT_THAT(*line, AllOf(HasSubstr("192.168.1.20:7419 [fd00::2]:7419"),
                           HasSubstr("--pinnedpubkey sha256//qqqqq"),
                           HasSubstr(offer().archive_sha256 + "  salvage.tar.gz"),
                           HasSubstr("join slv1.ab12-cd34"), HasSubstr(to_string(offer().path))));
  EXPECT_THAT(*line, Not(HasSubstr("\n")));
}

TEST(DownloadLine, parts_that_a_shell_could_take_for_more_than_text_are_refused) {
  for (const char* bad : {"1.2.3.4:1;reboot", "$(reboot)", "a b", "`x`", "'", "\"", "a\nb", ""}) {
    DownloadOffer place = offer();
    place.places[1] = bad;
    EXPECT_FALSE(download_line(place)) << bad;
    DownloadOffer code = offer();
    code.join_code = bad;
    EXPECT_FALSE(download_line(code)) << bad;
    DownloadOffer hash = offer();
    hash.archive_sha256 = bad;
    EXPECT_FALSE(download_line(hash)) << bad;
    DownloadOffer token = offer();
    token.path.token = bad;
    EXPECT_FALSE(download_line(token)) << bad;
  }
  DownloadOffer nowhere = offer();
  nowhere.places.clear();
  EXPECT_FALSE(download_line(nowhere));
}

// --- run by a shell ---

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A machine whose curl writes its arguments down, fails so often, and then gives what lies in
// `served`.
class Shell : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = RunFolder::create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    std::filesystem::create_directories(home());
    program("curl",
            "echo \"$*\" >>\"$HOME/asked\"\n"
            "[ $(wc -l <\"$HOME/asked\") -gt $(cat \"$HOME/failures\") ] || exit 7\n"
            "cat \"$HOME/served\" >salvage.tar.gz\n");
    write("failures", "0\n");
    // The archive: a folder whose program writes down how it was called.
    std::filesystem::create_directories(home() / "pack/salvage/bin");
    write("pack/salvage/bin/salvage", "#!/bin/sh\necho \"$0 $*\" >\"$HOME/ran\"\n");
    std::filesystem::permissions(home() / "pack/salvage/bin/salvage",
                                 std::filesystem::perms::owner_all);
    ASSERT_EQ(run("tar -C pack -czf served salvage"), 0);
    Sha256 digest;
    digest.update(contents(home() / "served"));
    sha256_ = digest.hex();
  }
  // With a blank, as some have it.
  std::filesystem::path home() const { return std::filesystem::path(folder_->path()) / "my home"; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(home() / name) << text;
  }
  void program(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(home() / "tools");
    write("tools/" + name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(home() / "tools" / name, std::filesystem::perms::owner_all);
  }
  int run(const std::string& command) const {
    write("script", command + "\n");
    const std::string call =
        fmt::format("cd '{0}' && env HOME='{0}' PATH='{0}/tools:/usr/bin:/bin' sh script >out 2>&1",
                    home().string());
    return std::system(call.c_str());  // NOLINT(concurrency-mt-unsafe,cert-env33-c)
  }
  int run_line() const {
    DownloadOffer ours = offer();
    ours.archive_sha256 = sha256_;
    return run(*download_line(ours));
  }
  std::size_t tries() const {
    const std::string asked = contents(home() / "asked");
    return static_cast<std::size_t>(std::count(asked.begin(), asked.end(), '\n'));
  }
  std::filesystem::path unpacked() const {
    return home() / ".local/lib" / ("salvage-" + sha256_.substr(0, 12));
  }

  std::optional<RunFolder> folder_;
  std::string sha256_;
};

TEST_F(Shell, the_line_fetches_checks_unpacks_and_joins) {
  ASSERT_EQ(run_line(), 0) << contents(home() / "out");
  EXPECT_EQ(contents(home() / "ran"), "bin/salvage join slv1.ab12-cd34\n");
  EXPECT_THAT(contents(home() / "asked"),
              HasSubstr("https://192.168.1.20:7419" + to_string(offer().path)));
  EXPECT_EQ(std::filesystem::read_symlink(home() / ".local/bin/salvage"),
            unpacked() / "bin/salvage");
  // A second time as well, over what is there.
  EXPECT_EQ(run_line(), 0) << contents(home() / "out");
}

TEST_F(Shell, an_address_that_fails_is_followed_by_the_next_and_there_are_two_rounds) {
  write("failures", "3\n");
  ASSERT_EQ(run_line(), 0) << contents(home() / "out");
  EXPECT_EQ(tries(), 4);
  EXPECT_THAT(contents(home() / "asked"), HasSubstr("https://[fd00::2]:7419/salvage/"));
  EXPECT_FALSE(contents(home() / "ran").empty());
}

TEST_F(Shell, nothing_runs_if_nothing_could_be_fetched) {
  write("failures", "100\n");
  EXPECT_NE(run_line(), 0);
  EXPECT_EQ(tries(), 4);
  EXPECT_FALSE(std::filesystem::exists(home() / "ran"));
}

TEST_F(Shell, nothing_is_unpacked_if_the_archive_is_another_one) {
  write("pack/salvage/bin/salvage", "#!/bin/sh\necho owned >\"$HOME/ran\"\n");
  ASSERT_EQ(run("tar -C pack -czf served salvage"), 0);
  EXPECT_NE(run_line(), 0);
  EXPECT_THAT(contents(home() / "out"), HasSubstr("salvage.tar.gz: FAILED"));
  EXPECT_FALSE(std::filesystem::exists(home() / "ran"));
  EXPECT_FALSE(std::filesystem::exists(unpacked() / "bin"));
}

TEST_F(Shell, a_damaged_archive_of_an_earlier_try_is_no_hindrance) {
  std::filesystem::create_directories(unpacked());
  std::ofstream(unpacked() / "salvage.tar.gz") << "half of something";
  EXPECT_EQ(run_line(), 0) << contents(home() / "out");
}

}  // namespace
}  // namespace salvage::download
