// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/horovod_rendezvous/key_value_http.h"

#include <gmock/gmock.h>
#include <random>

namespace lockstep::supervisor {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string put(const std::string& path, const std::string& body) {
  return "PUT " + path +
         " HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::string ask(KeyValues& values, const std::string& text) {
  RequestReader reader;
  const int status = reader.take(text).value_or(0);
  return status == 200 ? values.answer(reader) : to_response(status);
}

TEST(RequestReaders, TakeARequestInPiecesOfAnySize) {
  const std::string text = put("/global/0", "an\r\n\r\naddress");
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    SCOPED_TRACE(piece);
    RequestReader reader;
    std::optional<int> status;
    for (size_t at = 0; at < text.size(); at += piece) {
      ASSERT_FALSE(status);
      status = reader.take(std::string_view(text).substr(at, piece));
    }
    EXPECT_EQ(status, 200);
    EXPECT_EQ(reader.method(), "PUT");
    EXPECT_EQ(reader.path(), "/global/0");
    EXPECT_EQ(reader.body(), "an\r\n\r\naddress");
  }
}

TEST(RequestReaders, TakeWhatHorovodsWorkersSend) {
  for (const char* text : {"GET /local_node-a/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
                           "DELETE /cross_0/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
                           "GET /global/rank_3 HTTP/1.0\r\n\r\n",
                           "PUT /global/0 HTTP/1.1\r\ncontent-length:\t2 \r\n\r\nabc"}) {
    EXPECT_EQ(RequestReader().take(text), 200) << text;
  }
}

TEST(RequestReaders, RefuseEverythingElse) {
  const struct {
    std::string text;
    int status;
  } cases[] = {
      {"\r\n\r\n", 400},
      {"\x16\x03\x01\x02 hello\r\n\r\n", 400},
      {"GET /a/b\r\n\r\n", 400},
      {"GET /a/b HTTP/2\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET /scope HTTP/1.1\r\n\r\n", 400},
      {"GET /scope/ HTTP/1.1\r\n\r\n", 400},
      {"GET //key HTTP/1.1\r\n\r\n", 400},
      {"GET /a/b/c HTTP/1.1\r\n\r\n", 400},
      {"GET a/b HTTP/1.1\r\n\r\n", 400},
      {"GET /a/b HTTP/1.1\r\nno field\r\n\r\n", 400},
      {"POST /a/b HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405},
      {"PUT /a/b HTTP/1.1\r\n\r\n", 411},
      {"PUT /a/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: 1x\r\n\r\n", 400},
      {"PUT /a/b HTTP/1.1\r\nContent-Length:\r\n\r\n", 400},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", 413},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413},
      {std::string(8 * 1024 + 1, 'a'), 431},
      {"GET /a/b HTTP/1.1\r\nX: " + std::string(8 * 1024, 'a') + "\r\n\r\n", 431},
      {"GET /a/b HTTP/1.1\r\nX: " + std::string(1 << 20, 'a'), 431},
  };
  for (const auto& [text, status] : cases) {
    EXPECT_EQ(RequestReader().take(text), status) << text.substr(0, 80);
  }
}

TEST(RequestReaders, BearAnyBytes) {
  std::mt19937 chance(1);
  const std::string model = put("/global/0", "address");
  for (int round = 0; round < 20000; ++round) {
    std::string text = model.substr(0, chance() % (model.size() + 1));
    for (unsigned change = chance() % 4; change > 0 && !text.empty(); --change) {
      text[chance() % text.size()] = static_cast<char>(chance());
    }
    RequestReader reader;
    std::optional<int> status;
    while (!text.empty() && !status) {
      const size_t piece = 1 + chance() % text.size();
      status = reader.take(std::string_view(text).substr(0, piece));
      text.erase(0, piece);
    }
    EXPECT_LE(reader.body().size(), model.size());
  }
}

TEST(KeyValuesOverHttp, ArePutAskedForAndDeleted) {
  KeyValues values;
  const std::string get = "GET /global/0 HTTP/1.1\r\n\r\n";

  EXPECT_EQ(ask(values, get),
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(ask(values, put("/global/0", std::string("a\0b", 3))),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(ask(values, get), EndsWith(std::string("\r\n\r\na\0b", 7)));
  EXPECT_THAT(ask(values, "GET /local/0 HTTP/1.1\r\n\r\n"), HasSubstr(" 404 "));
  EXPECT_THAT(ask(values, "DELETE /global/0 HTTP/1.1\r\n\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(ask(values, "DELETE /global/0 HTTP/1.1\r\n\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(ask(values, get), HasSubstr(" 404 "));
}

TEST(KeyValuesOverHttp, DoNotGrowWithoutEnd) {
  KeyValues values;
  const std::string large(1 << 20, 'x');
  int kept = 0;
  while (kept < 100 && ask(values, put("/scope/" + std::to_string(kept), large)).find(" 200 ") !=
                           std::string::npos) {
    ++kept;
  }

  EXPECT_EQ(kept, 63);
  EXPECT_THAT(ask(values, put("/scope/more", large)),
              StartsWith("HTTP/1.1 507 Insufficient Storage\r\n"));
  EXPECT_THAT(ask(values, put("/scope/0", large)), HasSubstr(" 200 "));
  EXPECT_THAT(ask(values, "DELETE /scope/0 HTTP/1.1\r\n\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(ask(values, put("/scope/more", large)), HasSubstr(" 200 "));
}

}  // namespace
}  // namespace lockstep::supervisor
