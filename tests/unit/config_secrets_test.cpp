#include <catch2/catch.hpp>

#include "config/options.hpp"
#include "config/print.hpp"
#include "config/secrets.hpp"
#include "config_samples.hpp"

using namespace ff::config;
using namespace ff::config::samples;

TEST_CASE("a fingerprint tells settings apart, but for secrets and for which partitions a replica has") {
  const auto of = [](const std::string& text) { return fingerprint(load_yaml(text), decls()); };
  const auto one = of("partitions: 0-127\ndatabase: {url: 'postgresql://u:hunter2@h/d'}\n");
  CHECK(of("partitions: 128-255\ndatabase: {url: 'postgresql://u:swordfish@h/d'}\n") == one);
  CHECK(of("database: {url: 'postgresql://u:hunter2@other/d'}\n") != one);
  CHECK(of("threads: 3\ndatabase: {url: 'postgresql://u:hunter2@h/d'}\n") != one);
  CHECK(one >> 48 == 0);
}

TEST_CASE("a connection string without a secret is shown as it is") {
  for (const char* conninfo :
       {"", "flowfabric", "postgresql://db/flowfabric",
        "postgresql://u@db1:5432,db2:5432/f?target_session_attrs=any", "postgresql://[::1]:5432/f",
        "host=a,b port=5432 user=u dbname=f", "host = a  passfile=/p", "options='-c a=b'",
        "postgresql:///f?host=/run/pg&passfile=/x"})
    CHECK(hide_secrets(conninfo) == conninfo);
}

TEST_CASE("a password is hidden in every form of a connection string") {
  const auto hidden = [](const std::string& conninfo) { return hide_secrets(conninfo); };
  CHECK(hidden("postgresql://u:hunter2@h/d") == "postgresql://u:***@h/d");
  CHECK(hidden("postgres://u:hunter2@h1:1,h2:2/d?a=b") == "postgres://u:***@h1:1,h2:2/d?a=b");
  CHECK(hidden("postgresql://:hunter2@h/d") == "postgresql://:***@h/d");
  CHECK(hidden("postgresql://h/d?password=hunter2") == "postgresql://h/d?password=***");
  CHECK(hidden("postgresql://h/d?user=u&password=hunter2&x=y") == "postgresql://h/d?user=u&password=***&x=y");
  CHECK(hidden("postgresql://h/d?sslpassword=hunter2") == "postgresql://h/d?sslpassword=***");
  CHECK(hidden("postgresql://h/d?p%61ssword=hunter2") == "postgresql://h/d?p%61ssword=***");
  for (const std::string key : {"scram_client_key", "scram_server_key", "oauth_client_secret"}) {
    CHECK(hidden("postgresql://h/d?" + key + "=hunter2") == "postgresql://h/d?" + key + "=***");
    CHECK(hidden("host=h " + key + "=hunter2 user=u") == "host=h " + key + "=*** user=u");
  }
  CHECK(hidden("host=h password=hunter2 user=u") == "host=h password=*** user=u");
  CHECK(hidden("password = 'hunter2 it\\'s'  user=u") == "password = ***  user=u");
  CHECK(hidden("password=hunter2\\ too user=u") == "password=*** user=u");
  CHECK(hidden("PASSWORD=hunter2") == "PASSWORD=***");
  CHECK(hidden("sslpassword='hunter2' sslkey=/k") == "sslpassword=*** sslkey=/k");
  CHECK(hidden("sslpassword='hunter2'sslkey=/k") == "sslpassword=*** sslkey=/k");
  CHECK(hidden("dbname=postgresql://u:hunter2@h/d") == "dbname=postgresql://u:***@h/d");
  CHECK(hidden("postgresql://h1:5432,[fe80::1]:5433/d?a=b") == "postgresql://h1:5432,[fe80::1]:5433/d?a=b");
}

TEST_CASE("a password in the query is hidden whatever has an @ there") {
  CHECK(hide_secrets("postgresql://h:5432/d?user=me@tenant&password=hunter2") == "postgresql://h:***");
  CHECK(hide_secrets("postgresql://h/d?user=me@tenant&password=hunter2") ==
        "postgresql://h/d?user=me@tenant&password=***");
  for (const char* conninfo :
       {"postgresql://u@h:5432/d?password=a@hunter2", "postgresql://u:first@h/d?password=a@hunter2",
        "postgresql://h/d?password=a:b@hunter2", "postgresql://h:5432/d?password=a@b=hunter2",
        "postgresql://h:5432/d?password=a@b&hunter2", "postgresql://u:a?b@h/d?password=hunter2",
        "postgresql://u?a=b@h/d?password=hunter2", "postgresql://u?a=b@h/d?pasword=hunter2://h/d?x"}) {
    CAPTURE(conninfo);
    CHECK(hide_secrets(conninfo).find("hunter2") == std::string::npos);
  }
}

TEST_CASE("a password is hidden in a connection string that libpq would refuse, too") {
  for (const char* conninfo : {"postgresql://u:hunter2/@h/d",
                               "postgresql://u:a@hunter2@h/d",
                               "postgresql://u:a?hunter2@h/d",
                               "postgresql://u:a#hunter2 b@h",
                               "u:hunter2@h/d",
                               "mysql://u:hunter2@h",
                               "host=h user=u pasword=hunter2",
                               "pw=hunter2",
                               "pgpw = hunter2",
                               "host=h pas_word=hunter2",
                               "server=h;uid=u;pwd=hunter2",
                               "password='hunter2",
                               "password hunter2",
                               "password=a hunter2 user=u",
                               "password='a'hunter2",
                               "host='a password=hunter2",
                               " postgresql://u:hunter2@h/d",
                               "postgresql://h/d?password=a&hunter2",
                               "postgresql://h/d?password=a@hunter2",
                               "password=\nhunter2",
                               "host=h postgresql://u:hunter2@h?a=b",
                               "postgresql://u:a=hunter2@h/d",
                               "u:a=hunter2@h",
                               "postgresql://h/d?password=hunter2:x@y",
                               "postgresql://h/d?password=a:b@c&sslpassword=hunter2",
                               "postgresql://u?v:hunter2@h/d",
                               "postgresql://u:hunter2/d",
                               "postgresql://u:12hunter2,h:5432/d",
                               "postgresql://u:a?hunter2=b",
                               "postgresql://u:a/b?hunter2",
                               "postgresql://h/d?password?a=hunter2",
                               "postgresql://u@h/d?sslmode=require&password?a=hunter2",
                               "postgresql://u?a=b@h/d?password&hunter2"}) {
    CAPTURE(conninfo);
    CHECK(hide_secrets(conninfo).find("hunter2") == std::string::npos);
  }
}

TEST_CASE("no problem repeats a secret") {
  const std::vector<std::string> files{
      "database: {password: [hunter2]}\n",
      "database: {password: \"hunter2\\n\"}\n",
      "database: {url: \"postgresql://u:hunter2@h\\n\"}\n",
      "database: postgresql://u:hunter2@h\n",
      "database: {pasword: hunter2}\n",
      "database: {\"postgresql://u:hunter2@h/d\"}\n",
      "\"postgresql://u:hunter2@h\": 1\n\"postgresql://u:hunter2@h\": 1\n",
      "postgresql://u:hunter2@h\n",
      "database: {url_file: \"postgresql://u:hunter2@h/d\"}\n",
      "http: {listen: \"postgresql://u:hunter2@h/d\"}\n",
      "threads: \"postgresql://u:hunter2@h/d\"\n",
      "database: {password: *hunter2}\n",
      "database: {password: !hunter2 x}\n",
      "database: {password: &hunter2 x}\n",
      "database: {password: hunter2, password: hunter2}\n",
      "database: {password: hunter2, password_file: /x}\n",
      "database:\n  password: a: hunter2\n",
      "database:\n  password: \"\\hunter2\"\n",
      "database:\n  password: \"hunter2\n",
  };
  for (const std::string& yaml : files) {
    CAPTURE(yaml);
    const auto problems = problems_in(yaml);
    CHECK_FALSE(problems.empty());
    CHECK(std::string(Invalid(problems).what()).find("hunter2") == std::string::npos);
  }
  const auto others = problems_of({{},
                                   {{"FF_RECONCILER_DATABASE_PASWORD", "hunter2"},
                                    {"FF_RECONCILER_DATABASE_PASSWORD", "hunter2\n"},
                                    {"FF_DATABASE_URL", "password=hunter2\n"}},
                                   {{"--database-url", "database.url", "password=\"hunter2\"\n"}}});
  CHECK(others.size() == 4);
  CHECK(std::string(Invalid(others).what()).find("hunter2") == std::string::npos);
}

TEST_CASE("the effective configuration shows no secret") {
  const std::string text =
      print(load_yaml("database: {url: 'postgresql://u:hunter2@h/d', password: hunter2}\n"), decls());
  CHECK(text.find("hunter2") == std::string::npos);
  CHECK(text.find("url: postgresql://u:***@h/d\n") != std::string::npos);
  CHECK(text.find("# password: (hidden)\n") != std::string::npos);
  const TemporaryFile url("host=h password=hunter2\n");
  const std::string by_file = print(load_yaml("database: {url_file: " + url.path() + "}\n"), decls());
  CHECK(by_file.find("hunter2") == std::string::npos);
  CHECK(by_file.find("url_file: " + url.path() + '\n') != std::string::npos);
}

namespace {

/// Whether every option has the same value in both.
bool same(const Config& a, const Config& b) {
  for (const Option& option : options(decls())) {
    if (option.get(a) != option.get(b)) {
      UNSCOPED_INFO(option.path);
      return false;
    }
  }
  for (std::size_t i = 0; i < a.reconcilers.size(); ++i) {
    if (a.reconcilers[i].filter != b.reconcilers[i].filter) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the effective configuration reads back to itself") {
  for (const char* yaml :
       {"", "filter: {namespace: a}\nreconcilers: {lease_expiry: {filter: {}}}\n",
        "filter: {namespace: a}\nreconcilers: {lease_expiry: {filter: {instance_tag: {key: 'b: c', value: "
        "'#d'}}}}\n",
        "reconcilers: {lease_expiry: {max_reclaims: unlimited, include_waiting: true, interval: 61s}}\n",
        "partitions: {shard: 1, of: 3}\nlog: {level: error, format: json}\nmetrics: {per_partition: true}\n",
        "filter: {namespace: 'null', instance_tag: {key: '~', value: \"a\\\\\\\"b 'c' \"}}\n",
        "filter: {namespace: '- a', instance_tag: {key: 'a:', value: '{x}'}}\n", "http: {listen: '[::]:0'}\n",
        "database: {url: \"host=/run/pg user='a b'\", password_file: '/a b/c', pool_size: 99}\nthreads: "
        "98\n"}) {
    CAPTURE(yaml);
    const Config config = load_yaml(yaml);
    const std::string text = print(config, decls());
    CAPTURE(text);
    const Config again = load_yaml(text);
    CHECK(same(config, again));
    CHECK(print(again, decls()) == text);
  }
}

TEST_CASE("the default file names every option and is the default") {
  const std::string text = print_default(decls());
  CHECK(same(load_yaml(text), defaults(decls())));
  for (const Option& option : options(decls())) {
    const std::string key = option.path.substr(option.path.rfind('.') + 1);
    CAPTURE(option.path);
    CHECK(text.find(' ' + key + ": ") + text.find('\n' + key + ": ") != 2 * std::string::npos);
  }
  CHECK(text.find(
            "  acquire_timeout: 5s  # for a connection to become free or be made (10ms to 1h; restart)\n") !=
        std::string::npos);
  CHECK(text.find("    max_reclaims: 3  # by the next worker (0 to 1000000, or unlimited)\n") !=
        std::string::npos);
  CHECK(text.find("\n# filter:  # for every reconciler; each may have its own\n#   namespace: tenant-a") !=
        std::string::npos);
}
