// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/hosts.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

using Names = std::vector<std::string>;
using Hosts = std::vector<Host>;

TEST(ExpandHostlist, KeepsTheOrderAndTheWidthSlurmWrites) {
  const std::vector<std::pair<const char*, Names>> lists = {
      {"gpu-03", {"gpu-03"}},
      {"n[1-3,7]", {"n1", "n2", "n3", "n7"}},
      {"n[1,3]", {"n1", "n3"}},
      {"gpu-[08-10,12],login", {"gpu-08", "gpu-09", "gpu-10", "gpu-12", "login"}},
      {"n[099-101]", {"n099", "n100", "n101"}},
      {"n[9-11]", {"n9", "n10", "n11"}},
      {"r[1-2]n[01-02]", {"r1n01", "r1n02", "r2n01", "r2n02"}},
      {"r[1-2]n[1-2].site", {"r1n1.site", "r1n2.site", "r2n1.site", "r2n2.site"}},
      {"[1-2]", {"1", "2"}},
      {"b,a,n[2,1]", {"b", "a", "n2", "n1"}},
      {"10.0.0.[1-2]", {"10.0.0.1", "10.0.0.2"}},
      {"a_b.c-d", {"a_b.c-d"}},
  };
  for (const auto& [text, names] : lists) {
    EXPECT_EQ(expand_hostlist(text), names) << text;
  }
}

TEST(ExpandHostlist, QuotesTheTextItCannotRead) {
  for (const char* text :
       {"",       "gpu-[1-", "gpu-1]",  "gpu-[3-1]", "gpu-[]",    "gpu-[1-]", "gpu-[-1]",
        "a,,b",   "a,",      ",a",      "n[1-2-3]",  "n[1,,2]",   "n[a-b]",   "n[[1-2]]",
        "n]1-2[", "n[1-2",   "n 1",     "n1 ,n2",    "-oProxy=x", "n[+1]",    "n$(x)",
        "n;ls",   "n\n",     "user@n1", "n[1 -2]",   "n1:4",      "n[1]x[",   "n[0x1]"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(
        [&] { expand_hostlist(text); },
        ThrowsMessage<Error>(StartsWith("invalid host list '" + std::string(text) + "'\n")));
  }
}

TEST(ExpandHostlist, SaysWhatIsWrongAndWhatWouldBeRight) {
  EXPECT_THAT([] { expand_hostlist("login,gpu-[12-08]"); },
              ThrowsMessage<Error>(StrEq("invalid host list 'login,gpu-[12-08]'\n"
                                         "  found:    '12-08'\n"
                                         "  expected: an ascending range\n"
                                         "  try:      08-12")));
}

TEST(ExpandHostlist, RefusesMoreNamesThanAnyClusterHas) {
  EXPECT_THAT(expand_hostlist("n[1-100000]"), SizeIs(100000));
  const std::string long_name(300, 'x');
  std::string deep = "n[1-100000]";
  for (int i = 0; i < 300; ++i) {
    deep += "[1]";
  }
  for (const std::string& text : {std::string("n[1-100001]"),
                                  std::string("n[0-999999999]"),
                                  std::string("n[0-999999999999999999]"),
                                  std::string("a[1-1000]b[1-1000]"),
                                  std::string("a[1-60000],b[1-60000]"),
                                  std::string("n[1-9999999999999999999999]"),
                                  long_name,
                                  deep}) {
    EXPECT_THROW(expand_hostlist(text), Error) << text;
  }
  EXPECT_THAT([] { expand_hostlist("n[0-999999999]"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("found:    '0-999999999'"),
                                         HasSubstr("expected: at most 100000 names"))));
}

TEST(ExpandHostlist, QuotesOnlyTheBeginningOfALongText) {
  const std::string text = std::string(1000, 'a') + " ";

  EXPECT_THAT([&] { expand_hostlist(text); },
              ThrowsMessage<Error>(HasSubstr(std::string(160, 'a') + "...'\n")));
}

TEST(ExpandCounts, RepeatsWhatSlurmWritesOnce) {
  EXPECT_THAT(expand_counts("1"), ElementsAre(1));
  EXPECT_THAT(expand_counts("2(x2)"), ElementsAre(2, 2));
  EXPECT_THAT(expand_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_counts("64,128(x2),0"), ElementsAre(64, 128, 128, 0));
}

TEST(ExpandCounts, QuotesTheTextItCannotRead) {
  for (const char* text : {"",
                           "x",
                           "2(x0)",
                           "2(x-1)",
                           "2(x)",
                           "2(x2",
                           "2(3)",
                           "2(x2)3",
                           "(x2)",
                           "1,,2",
                           "-1",
                           "2 ",
                           "2(x1000000)",
                           "1(x60000),1(x60000)",
                           "99999999999999999999"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { expand_counts(text); },
                ThrowsMessage<Error>(StartsWith("invalid counts '" + std::string(text) + "'\n")));
  }
}

Host host(const std::string& name, std::optional<int> slots = {}, std::vector<int> gpus = {}) {
  return {name, slots, std::move(gpus)};
}

TEST(ParseHosts, TakesHorovodrunsListAndSlurmsBrackets) {
  const std::vector<std::pair<const char*, Hosts>> lists = {
      {"h1", {host("h1")}},
      {"h1:4,h2:2", {host("h1", 4), host("h2", 2)}},
      {"localhost:4", {host("localhost", 4)}},
      {"h1,h2:2", {host("h1"), host("h2", 2)}},
      {"n[1-2]:4,login", {host("n1", 4), host("n2", 4), host("login")}},
      {"10.0.0.1:2", {host("10.0.0.1", 2)}},
      {"[fe80::1]:2", {host("fe80::1", 2)}},
      {"[fd00::1],[fd00::2]:1", {host("fd00::1"), host("fd00::2", 1)}},
      {"[fe80::1%eth0]:2", {host("fe80::1%eth0", 2)}},
      {"[1-2]:3", {host("1", 3), host("2", 3)}},
  };
  for (const auto& [text, hosts] : lists) {
    EXPECT_EQ(parse_hosts(text), hosts) << text;
  }
}

TEST(ParseHosts, QuotesTheTextItCannotRead) {
  for (const char* text :
       {"",          "h1:",        "h1:0",       "h1:-1",     "h1:x",       "h1:2:3",
        ":2",        "h1,,h2",     "h1:2,",      "h1 :2",     "h1,h1",      "h1:2,h1:4",
        "n[1-3],n2", "fe80::1",    "[fe80::1]2", "[fe80::g]", "[fe80::1%]", "[::1",
        "-x:2",      "h1:9999999", "[::1%;ls]",  "h1: 2",     "h1:+2"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(
        [&] { parse_hosts(text); },
        ThrowsMessage<Error>(StartsWith("invalid host list '" + std::string(text) + "'\n")));
  }
}

TEST(ParseHosts, SaysWhatIsWrongAndWhatWouldBeRight) {
  EXPECT_THAT([] { parse_hosts("h1:4,h2:0"); },
              ThrowsMessage<Error>(
                  StrEq("invalid host list 'h1:4,h2:0'\n"
                        "  found:    'h2:0'\n"
                        "  expected: slots from 1 to 1048576\n"
                        "  try:      h1:4,h2:2 or n[1-3]:4; an IPv6 address as [fd00::1]:4")));
  EXPECT_THAT([] { parse_hosts("h1:4,h1:2"); },
              ThrowsMessage<Error>(StrEq("invalid host list 'h1:4,h1:2'\n"
                                         "  found:    'h1'\n"
                                         "  expected: each host once\n"
                                         "  try:      h1:2, for two workers on that host")));
  EXPECT_THAT([] { parse_hosts("fe80::1"); },
              ThrowsMessage<Error>(HasSubstr("or an IPv6 address in brackets")));
}

TEST(ParseHostfile, TakesEveryDialect) {
  const Hosts hosts = parse_hostfile(
      "# the machines\n"
      "h1 slots=4\n"
      "\n"
      "  h2:2   # the small one\n"
      "h3\r\n"
      "\tn[1-2]\tslots=8\n"
      "[fd00::1] slots=2\n"
      "[fd00::2]:3",
      "hosts.txt");

  EXPECT_THAT(hosts,
              ElementsAre(host("h1", 4),
                          host("h2", 2),
                          host("h3"),
                          host("n1", 8),
                          host("n2", 8),
                          host("fd00::1", 2),
                          host("fd00::2", 3)));
}

TEST(ParseHostfile, NamesFileAndLineOfWhatItCannotRead) {
  for (const char* line : {"h2 slots=0",
                           "h2 slots=-1",
                           "h2 slots=",
                           "h2 slots=x",
                           "h2 slots= 4",
                           "h2 slots = 4",
                           "h2 slots=4 slots=4",
                           "h2:4 slots=4",
                           "h2:0",
                           "h2 4",
                           "h2 max_slots=4",
                           "h2 h3",
                           "h2,h3",
                           "h1",
                           "h1 slots=2",
                           "h2 slots=4,",
                           "fe80::1 slots=4",
                           "slots=4"}) {
    SCOPED_TRACE(line);
    EXPECT_THAT(
        [&] { parse_hostfile("h1 slots=4\n\n" + std::string(line) + " # x\n", "a/hosts"); },
        ThrowsMessage<Error>(StartsWith("invalid line a/hosts:3 '" + std::string(line) + "'\n")));
  }
  EXPECT_THAT(
      [] { parse_hostfile("h1 max_slots=4\n", "hosts.txt"); },
      ThrowsMessage<Error>(StrEq("invalid line hosts.txt:1 'h1 max_slots=4'\n"
                                 "  found:    'max_slots=4'\n"
                                 "  expected: a host and at most one number of slots\n"
                                 "  try:      lines such as 'h1 slots=4', 'h1:4' or 'h1'")));
}

TEST(ParseHostfile, RefusesAFileWithoutHosts) {
  for (const char* text : {"", "\n\n", "# nobody\n", "   \t\n"}) {
    EXPECT_THAT([&] { parse_hostfile(text, "hosts.txt"); },
                ThrowsMessage<Error>(StrEq("hosts.txt contains no host\n"
                                           "  try: lines such as 'h1 slots=4', 'h1:4' or 'h1'")));
  }
}

TEST(SelectHosts, KeepsAllByDefault) {
  const Hosts hosts = {host("h0", 4), host("h1")};

  EXPECT_EQ(select_hosts(hosts, {}, {}), hosts);
  EXPECT_EQ(select_hosts(hosts, "", ""), hosts);
}

TEST(SelectHosts, KeepsOnlyWhatIsIncluded) {
  const Hosts hosts = {host("h0", 4), host("h1", 4), host("h2"), host("h3", 2, {4, 5})};
  const std::vector<std::pair<const char*, Hosts>> table = {
      {"h0", {host("h0", 4)}},
      {"h0@h1:0,2", {host("h0", 4), host("h1", 2, {0, 2})}},
      {"h1:2,0", {host("h1", 2, {0, 2})}},
      {"h1:2,2", {host("h1", 1, {2})}},
      {"h1@h0", {host("h0", 4), host("h1", 4)}},
      {"h2:1,7", {host("h2", 2, {1, 7})}},
      {"h2", {host("h2")}},
      {"h3:5", {host("h3", 1, {5})}},
      {"h[0-1]:3", {host("h0", 1, {3}), host("h1", 1, {3})}},
  };
  for (const auto& [text, kept] : table) {
    EXPECT_EQ(select_hosts(hosts, text, {}), kept) << text;
  }
}

TEST(SelectHosts, DropsWhatIsExcluded) {
  const Hosts hosts = {host("h0", 4), host("h1", 2), host("h2"), host("h3", 2, {4, 5})};
  const std::vector<std::pair<const char*, Hosts>> table = {
      {"h0", {host("h1", 2), host("h2"), host("h3", 2, {4, 5})}},
      {"h0:1@h2@h3", {host("h0", 3, {0, 2, 3}), host("h1", 2)}},
      {"h1:0,1@h2@h3:4", {host("h0", 4), host("h3", 1, {5})}},
  };
  for (const auto& [text, left] : table) {
    EXPECT_EQ(select_hosts(hosts, {}, text), left) << text;
  }
}

TEST(SelectHosts, TakesAddressesInBrackets) {
  const Hosts hosts = {host("fd00::1", 2), host("fd00::2", 2)};

  EXPECT_THAT(select_hosts(hosts, "[fd00::2]:1", {}), ElementsAre(host("fd00::2", 1, {1})));
}

TEST(SelectHosts, NamesWhatIsNotThere) {
  const Hosts hosts = {host("h0", 2), host("h1", 2)};

  EXPECT_THAT([&] { select_hosts(hosts, "h0@h7:0", {}); },
              ThrowsMessage<Error>(StrEq("unknown host 'h7'\n"
                                         "  requested: --include 'h0@h7:0'\n"
                                         "  hosts:     h0, h1\n"
                                         "  try:       use --include with names from that list")));
  EXPECT_THAT([&] { select_hosts(hosts, {}, "h1:0,5"); },
              ThrowsMessage<Error>(StrEq("unknown device 5 on host 'h1'\n"
                                         "  requested: --exclude 'h1:0,5'\n"
                                         "  devices:   0,1  (host list)\n"
                                         "  try:       --exclude h1:0")));
}

TEST(SelectHosts, ShowsAFewOfManyHosts) {
  Hosts hosts;
  for (const std::string& name : expand_hostlist("n[1-20]")) {
    hosts.push_back(host(name, 1));
  }

  EXPECT_THAT(
      [&] { select_hosts(hosts, "x", {}); },
      ThrowsMessage<Error>(HasSubstr("hosts:     n1, n2, n3, n4, n5, n6, n7, n8, ... (20 total)")));
}

TEST(SelectHosts, RefusesWhatCannotBeMeant) {
  const Hosts hosts = {host("h0", 2), host("h1")};

  EXPECT_THAT(
      [&] { select_hosts(hosts, "h0", "h1"); },
      ThrowsMessage<Error>(StrEq("cannot use --include and --exclude together\n"
                                 "  requested: --include 'h0'\n"
                                 "  requested: --exclude 'h1'\n"
                                 "  try:       use --include only, with all devices to use")));
  EXPECT_THAT([&] { select_hosts(hosts, {}, "h0@h1"); },
              ThrowsMessage<Error>(StrEq("no host remains\n"
                                         "  hosts:     h0, h1\n"
                                         "  requested: --exclude 'h0@h1'\n"
                                         "  try:       keep at least one device of one host")));
  EXPECT_THAT(
      [&] { select_hosts(hosts, {}, "h1:0"); },
      ThrowsMessage<Error>(StrEq("cannot exclude devices of 'h1': their number is not known\n"
                                 "  requested: --exclude 'h1:0'\n"
                                 "  try:       add its slots to the host list: h1:4")));
  for (const char* text : {"@", "h0@", "h0:", "h0:x", "h0:-1", "h0:0,", "h0:0:1", "h0@h0:1"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(
        [&] { select_hosts(hosts, text, {}); },
        ThrowsMessage<Error>(StartsWith("invalid --include '" + std::string(text) + "'\n")));
  }
}

}  // namespace
}  // namespace lockstep::cluster
