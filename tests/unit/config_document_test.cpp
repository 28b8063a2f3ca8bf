#include <catch2/catch.hpp>

#include "base/utf8.hpp"
#include "config_samples.hpp"

using namespace ff::config;
using namespace ff::config::samples;

TEST_CASE("anchors, aliases and tags are refused, each where it stands") {
  CHECK(only_problem("threads: &x 3\n", 1, "", "anchors"));
  CHECK(only_problem("\n&x threads: 3\n", 2, "", "anchors"));
  CHECK(only_problem("threads: *x\n", 1, "", "the referenced anchor is not defined"));
  CHECK(only_problem("threads: !!int 3\n", 1, "", "tags"));
  CHECK(only_problem("log: !x {level: info}\n", 1, "", "tags"));
  const auto problems = problems_in("threads: &x 3\nlog: *x\ndatabase: {pool_size: *x}\n");
  REQUIRE(problems.size() == 3);
  CHECK(problems[1].line == 2);
  CHECK(problems[1].message.find("aliases") != std::string::npos);
}

TEST_CASE("an alias that contains itself is refused") {
  CHECK_FALSE(problems_in("&x {log: *x}\n").empty());
  CHECK_FALSE(problems_in("log: &x [*x, *x]\n").empty());
}

TEST_CASE("a second document is refused") {
  CHECK(only_problem("threads: 3\n---\nthreads: 4\n", 2, "", "a second document"));
  CHECK(only_problem("threads: 3\n...\nthreads: 4\n", 3, "", "a second document"));
  CHECK(only_problem("threads: 3\n---\n", 2, "", "a second document"));
  CHECK(only_problem(",\n", 1, "", "a second document"));  // an endless row of them to the parser
  CHECK(load_yaml("---\nthreads: 3\n...\n").threads == 3);
  CHECK(load_yaml("%YAML 1.2\n---\nthreads: 3\n").threads == 3);
}

TEST_CASE("a syntax error is reported with its line") {
  CHECK(only_problem("threads: 3\nlog: a: b\n", 2, "", "no valid YAML: illegal map value"));
  CHECK(only_problem("log: {level: info\n", 2, "", "no valid YAML: end of map flow not found"));
  CHECK(only_problem("http: {listen: [::1]:80}\n", 1, "", "no valid YAML"));
  CHECK(only_problem("{}}\n", 1, "", "no valid YAML: illegal flow end"));
}

TEST_CASE("a quote that is never closed is a syntax error") {
  for (const char* yaml :
       {"log: {level: \"info}\n", "filter:\n  namespace: \"a\n", "filter:\n  namespace: 'a\n"}) {
    CAPTURE(yaml);
    const auto problems = problems_in(yaml);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].message.find("no valid YAML") == 0);
  }
}

TEST_CASE("endless nesting is a problem, not a crash") {
  for (const char* piece : {"[", "{a: ", "- ", "? "}) {
    std::string yaml;
    while (yaml.size() < 200'000) yaml += piece;
    CAPTURE(piece);
    const auto problems = problems_in(yaml);
    REQUIRE_FALSE(problems.empty());
    CHECK(problems.back().message == "no valid YAML: nested too deeply");
  }
}

TEST_CASE("text that is not UTF-8 is refused with its line") {
  CHECK(only_problem("# fine\n# \xff\n", 2, "", "not UTF-8"));
  CHECK(only_problem("filter: {namespace: \xc3}\n", 1, "", "not UTF-8"));
  CHECK(only_problem(std::string("\xff\xfet\0h\0", 6), 1, "", "not UTF-8"));
  CHECK(only_problem("a\nb: \x01\n", 2, "", "control character"));
  CHECK(only_problem(std::string("threads: 3\n\0\n", 13), 2, "", "control character"));
  CHECK(load_yaml("\xef\xbb\xbfthreads: 3\n").threads == 3);
  CHECK(load_yaml("filter: {namespace: \xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x98}\n").filter.name_space ==
        "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x98");
  const auto environment = problems_of({{}, {{"FF_RECONCILER_FILTER_NAMESPACE", "\xff"}}, {}});
  REQUIRE(environment.size() == 1);
  CHECK(environment[0].message.find("not UTF-8") == 0);
}

TEST_CASE("overlong forms, surrogates and code points beyond Unicode are not UTF-8") {
  for (const char* bytes : {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                            "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80", "\xe2\x82", "\xf0\x9f\x90"})
    CHECK(ff::invalid_utf8_at(bytes) == 0);
  CHECK_FALSE(ff::invalid_utf8_at("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\x7f"));
}

TEST_CASE("a file over one mebibyte is refused") {
  const std::string comment(1024 * 1024 - 1, '#');
  CHECK(problems_in(comment + "\n").empty());
  CHECK(only_problem(comment + "#\n", 0, "", "larger than 1 MiB"));
}

TEST_CASE("a file that cannot be read is a problem") {
  const auto missing = problems_of({"/not/there.yaml", {}, {}});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].text().find("/not/there.yaml: cannot be read: No such file") == 0);
  const auto directory = problems_of({"/", {}, {}});
  REQUIRE(directory.size() == 1);
  CHECK(directory[0].message.find("cannot be read: Is a directory") == 0);
}

TEST_CASE("an unreadable file does not hide what is wrong elsewhere") {
  CHECK(problems_of({"/not/there.yaml", {{"FF_RECONCILER_LOG_LEVEL", "loud"}}, {}}).size() == 2);
}

TEST_CASE("the file behind url_file has to hold one line") {
  const TemporaryFile empty("\n");
  const TemporaryFile two("host=a\nport=1\n");
  for (const std::string& path : {empty.path(), two.path(), std::string("/not/there")})
    CHECK(only_problem("database:\n  url_file: " + path + "\n", 2, "database.url_file", "the file: "));
}

TEST_CASE("a file of nothing but mistakes ends in bounded time and output") {
  std::string yaml;
  for (int i = 0; yaml.size() < 1'000'000; ++i) yaml += "k" + std::to_string(i) + ":\n";
  const auto problems = problems_in(yaml);
  CHECK(problems.size() == 1001);
  CHECK(problems.back().message == "there are more problems than these");
}
