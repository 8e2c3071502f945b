// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/http_server.h"

#include <gmock/gmock.h>
#include <httplib.h>

#include "lockstep/error.h"
#include "support/fake_runs.h"

namespace lockstep::monitor {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class Server : public ::testing::Test {
 protected:
  Server()
      : site_({{.directory = runs_.add("train-a", testing::FakeRuns::state("train-a")),
                .name = "train-a"}}),
        server_(site_, access_, {}),
        client_("127.0.0.1", server_.port()) {}

  std::string with_token(const std::string& path) const {
    return path + "?token=" + access_.token();
  }

  testing::FakeRuns runs_;
  Access access_;
  Site site_;
  HttpServer server_;
  httplib::Client client_;
};

TEST_F(Server, ShowsNothingWithoutItsToken) {
  for (const std::string path : {"/", "/?token=wrong", "/api/runs", "/app.js", "/metrics"}) {
    const auto answer = client_.Get(path);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 403);
    EXPECT_THAT(answer->body, MatchesRegex("access denied: [^\n]*\n"));
    EXPECT_FALSE(answer->has_header("Set-Cookie"));
  }
}

TEST_F(Server, LetsABrowserInByTheTokenAndThenByItsCookie) {
  const auto page = client_.Get(with_token("/"));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  const std::string cookie = page->get_header_value("Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("; HttpOnly; SameSite=Strict"));

  const auto runs = client_.Get("/api/runs", {{"Cookie", cookie.substr(0, cookie.find(';'))}});
  ASSERT_TRUE(runs);
  EXPECT_EQ(runs->status, 200);
  EXPECT_THAT(runs->body, HasSubstr("train-a"));
}

TEST_F(Server, LetsAScraperInByItsHeader) {
  const auto metrics = client_.Get("/metrics", {{"Authorization", "Bearer " + access_.token()}});

  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
}

TEST_F(Server, ForbidsThePageToAskAnybodyElse) {
  const auto page = client_.Get(with_token("/"));

  ASSERT_TRUE(page);
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(page->get_header_value("Referrer-Policy"), "no-referrer");
}

TEST_F(Server, ServesNoFiles) {
  for (const std::string path : {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/plan.json"}) {
    const auto answer = client_.Get(with_token(path));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 404) << path;
  }
}

TEST_F(Server, ChangesNothing) {
  const auto answer = client_.Post(with_token("/api/runs"), "{}", "application/json");

  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 405);
}

TEST_F(Server, SendsNews) {
  std::string news;
  client_.Get(with_token("/api/events"), [&news](const char* bytes, size_t count) {
    news.append(bytes, count);
    return false;  // one line is enough
  });

  EXPECT_THAT(news, MatchesRegex("data: [0-9]+\n\n"));
}

TEST_F(Server, DoesNotShareItsPort) {
  EXPECT_THROW(HttpServer(site_, access_, {.address = "127.0.0.1", .port = server_.port()}), Error);
}

}  // namespace
}  // namespace lockstep::monitor
