#include <catch2/catch.hpp>

#include "base/utf8.hpp"
#include "config_samples.hpp"

using namespace ff::config;
using namespace ff::config::samples;

TEST_CASE("anchors, aliases and tags are refused, each where it stands") {
  CHECK(only_problem("threads: &x 3\n", 1, "", "anchors"));
  CHECK(only_problem("\n&x threads: 3\n", 2, "", "anchors"));
  CHECK(only_problem("threads: *x\n", 1, "",
                     "no valid YAML: column 10: a value that begins with * has to be in quotes"));
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

TEST_CASE("a syntax error is told with line, column and what to write instead") {
  const auto says = [](const std::string& yaml, int line, int column, const std::string& words) {
    CAPTURE(yaml);
    CHECK(only_problem(yaml, line, "", "no valid YAML: column " + std::to_string(column) + ": " + words));
  };
  says("database:\n\tpool_size: 9\n", 2, 1, "a tab in the indentation (write spaces instead)");
  says("database:\n  url: x\n\tpool_size: 9\n", 3, 1, "a tab in the indentation");
  says("log:\r\n  \tlevel: info\r\n", 2, 3, "a tab in the indentation");
  says("threads 4\nhelpers: 2\n", 1, 1, "a colon and a space are missing behind the key");
  says("helpers: 2\n\n# three\nthreads 4\nlog: {level: info}\n", 4, 1, "a colon and a space are missing");
  says("database\n  pool_size: 9\n", 1, 1, "a colon and a space are missing");
  says("threads:4\nhelpers: 2\n", 1, 1, "a space is missing behind the colon");
  says("threads = 4\nhelpers: 2\n", 1, 1, "= instead of a colon and a space");
  says("threads: 4\n helpers: 2\n", 2, 2, "indented deeper than line 1, whose key has a value already");
  says("database:\n  pool_size: 9\n url: x\n", 3, 2, "the indentation fits no line above");
  says("log:\n  level: info\n  - format: json\n", 3, 3, "an element of a list among keys");
  says("threads: 3\nlog: a: b\n", 2, 7, "a second colon with a blank behind it");
  says("database:\n  url: postgresql://u:se: cret@h/db\n", 2, 25, "a second colon");
  says("log: {level: info\n", 1, 6, "the { that opens here is never closed");
  says("partitions: [1, 2\nthreads: 4\n", 1, 13, "the [ that opens here is never closed");
  says("{}}\n", 1, 3, "this bracket closes nothing");
  for (const std::string sign : {"@", "`", "%"})
    says("database:\n  url: " + sign + "host\n", 2, 8,
         "a value that begins with " + sign + " has to be in quotes");
  says("partitions: *\n", 1, 14, "a value that begins with * has to be in quotes");
  says("database:\n  url: \"host=C:\\dir\"\n", 2, 18, "in double quotes a \\ begins an escape");
  says("database:\n  url: \"host=db\" port=3\n", 2, 18, "nothing may follow the closing quote");
  says("database:\n  url: | host=db\n", 2, 10, "behind | or > nothing else may stand in its line");
  CHECK(only_problem("http: {listen: [::1]:80}\n", 1, "", "no valid YAML"));
}

TEST_CASE("a quote that is never closed is told where it opens") {
  CHECK(only_problem("log: {level: \"info}\n", 1, "",
                     "no valid YAML: column 14: the double quote that opens here"));
  CHECK(only_problem("filter:\n  namespace: \"a\nthreads: 4\n", 2, "",
                     "no valid YAML: column 14: the double quote"));
  CHECK(only_problem("filter:\n  namespace: 'it''s\n# don't\n\n", 2, "",
                     "no valid YAML: column 14: the single quote"));
  CHECK(only_problem("database:\n  url: \"host=db\n  password: \"x\"\n", 2, "",
                     "no valid YAML: column 8: the double quote that opens here is closed only in line 3"));
}

TEST_CASE("what a parser would pass over in silence is refused") {
  CHECK(only_problem("threads: 3\n%helpers: 4\n", 2, "", "a line that begins with %"));
  CHECK(only_problem("log:\n\xc2\xa0 level: info\n", 2, "", "a no-break space in the indentation"));
}

TEST_CASE("a key without a colon and a space behind it is told what to write") {
  CHECK(only_problem("threads:4\n", 1, "", "no key with a colon and a space behind it"));
  CHECK(only_problem("helpers: 2\nthreads:4\n", 2, "",
                     "no key with a colon and a space behind it (write threads: value)"));
  CHECK(only_problem("log:\n  level info\n  format: json\n", 2, "",
                     "no valid YAML: column 3: a colon and a space"));
  CHECK(only_problem("database:\npool_size: 9\n", 2, "pool_size",
                     "unknown key, it belongs below database, indented"));
}

TEST_CASE("no piece of a file that is no YAML is repeated") {
  for (const char* yaml :
       {"database:\n  password: ge: heim\n", "database:\n  password: \"geheim\n", "geheim\nlog: {}\n",
        "database:\n  password: @geheim\n", "database: {password: geheim\n", "a: *geheim\n"})
    for (const Problem& problem : problems_in(yaml)) {
      CAPTURE(problem.text());
      CHECK(problem.text().find("heim") == std::string::npos);
    }
}

TEST_CASE("what is wrong with a file is said in a line, whatever stands there") {
  CHECK(only_problem("!!", 1, "", "a name is missing here"));
  for (const char* yaml : {"!!", "&\n", "a: !<\n", "a: &\n  b", "? !!\n", "[!!\n]"})
    for (const Problem& problem : problems_in(yaml)) {
      CAPTURE(problem.text());
      CHECK(problem.text().find('\n') == std::string::npos);
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
