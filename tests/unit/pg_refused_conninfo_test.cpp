// Connection strings that are refused before anybody connects: what is said of them, and that it holds no password.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "pg/connect.hpp"
#include "pg/conninfo.hpp"

using namespace ff;

namespace {

pg::ConnectOptions to(const std::string& conninfo) {
  pg::ConnectOptions options;
  options.conninfo = conninfo;
  return options;
}

std::string refusal_of(const std::string& conninfo) {
  try {
    const pg::Connector connector(to(conninfo));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  FAIL("it was accepted: " << conninfo);
  return {};
}

/// Connection strings with a secret, and what is said of each.
using Refusals = std::vector<std::pair<std::string, std::string>>;

void check_refused(const Refusals& all) {
  for (const auto& [conninfo, why] : all) {
    CAPTURE(conninfo);
    CHECK_THAT(refusal_of(conninfo), Catch::Contains(why) && !Catch::Contains("s3cret"));
  }
}

void check_unparsed(const Refusals& all) {
  check_refused(all);
  for (const auto& [conninfo, why] : all) {
    CAPTURE(conninfo);
    CHECK_THAT(refusal_of(conninfo), Catch::Contains("cannot be parsed") && Catch::EndsWith(why));
  }
}

}  // namespace

TEST_CASE("a number of ports that does not fit the hosts is refused at once") {
  CHECK_THROWS_AS(pg::Connector(to("host=a,b port=1,2,3")), std::invalid_argument);
  CHECK_NOTHROW(pg::Connector(to("host=a,b port=1,2")));
  CHECK_NOTHROW(pg::Connector(to("host=a,b port=1")));
}

TEST_CASE("what libpq can never use is refused at once") {
  const auto conninfo =
      GENERATE(as<std::string>(), "host=a sslmode=bogus", "host=a channel_binding=bogus",
               "host=a,b hostaddr=127.0.0.1,127.0.0.1,127.0.0.1", "host=a service=not_there");
  CAPTURE(conninfo);
  CHECK_THROWS_AS(pg::Connector(to(conninfo)), std::invalid_argument);
}

TEST_CASE("a word that a keyword cannot have is refused with those that it can have") {
  for (const auto& [conninfo, message] : std::vector<std::pair<std::string, std::string>>{
           {"host=a sslmode=bogus",
            "sslmode has a value that it cannot have (allowed: disable, allow, prefer, require, verify-ca, "
            "verify-full)"},
           {"host=a target_session_attrs=zzz",
            "target_session_attrs has a value that it cannot have (allowed: read-"},
           {"host=a gssencmode=maybe", "(allowed: disable, prefer, require)"}})
    CHECK_THAT(refusal_of(conninfo), Catch::Contains(message) && !Catch::Contains("bogus"));
}

TEST_CASE("a URL with a bare sign in its password is refused, without the password") {
  const auto url = GENERATE(as<std::string>(), "postgresql://u:s3/cret@h/d", "postgresql://u:s3@cret@h/d",
                            "postgres://u:s3%40/cret@h:5432/d?application_name=x");
  CAPTURE(url);
  CHECK_THAT(refusal_of(url), Catch::Contains("percent-encode") && !Catch::Contains("cret"));
  CHECK_NOTHROW(pg::Connector(to("postgresql://u:s3%40%2fcret@h/d?application_name=a@b/c")));
  CHECK_NOTHROW(pg::Connector(to("user=u password=a@b/c://d host=h")));
}

TEST_CASE("a connection string that cannot be parsed is refused without its password") {
  const auto conninfo =
      GENERATE(as<std::string>(), "host=a password='s3cret", "host=a password s3cret", "host=a s3cret",
               "host=a user=b password=x s3cret=1", "postgresql://user:s3cret@host:port:port/db?x",
               "postgresql://u:s3cret%zz@h/d", "postgresql://u:a\"%zzs3cret@h/d",
               "postgresql://u:s3cret@h/d?nonsense=s3cret");
  CAPTURE(conninfo);
  CHECK_THAT(refusal_of(conninfo), Catch::Contains("cannot be parsed") && !Catch::Contains("s3cret"));
}

TEST_CASE("a parameter of a URL that libpq does not know is named, but for its value") {
  check_unparsed(
      {{"postgresql://h/db?sslmod=s3cret", "no parameter sslmod, did you mean sslmode?"},
       {"postgres://u:pw@h:5432/db?sslmode=require&conect_timeout=3",
        "no parameter conect_timeout, did you mean "
        "connect_timeout?"},
       {"postgresql://u:p%3fw@[::1]:5432,h2:5433/db?ssl=true&nonsense=s3cret", "no parameter nonsense"},
       {"postgresql://[::1]:5432,h2?sslrootcert=/etc/ssl/db.crt&pasword=s3cret",
        "no parameter pasword, did you mean password?"},
       {"postgresql:///?jdbc_url_of_ours=s3cret", "no parameter jdbc_url_of_ours"}});
}

TEST_CASE("a keyword that libpq does not know is named, but for its value") {
  check_unparsed({{"host=h bogus=s3cret", "no parameter bogus"},
                  {"host=h  prot=5432 password=s3cret", "no parameter prot, did you mean port?"},
                  {"host=h pasword=s3cret", "no parameter pasword, did you mean password?"}});
  const auto hidden = GENERATE(as<std::string>(), "host=h password=a s3cret=b", "host=h user= a s3cret=b",
                               "host=h sslpassword=a s3cret=b", "host=h user='a' s3cret=b");
  CAPTURE(hidden);
  CHECK_THAT(refusal_of(hidden), !Catch::Contains("s3cret"));
}

TEST_CASE("what is wrong with a URL is said in words that libpq puts in quotes") {
  check_refused(
      {{"postgres//u:s3cret@h/ff", "a URL of a database begins with postgresql://, and this one does not"},
       {"postgresql:/u:s3cret@h/ff", "begins with postgresql://"},
       {"//u:s3cret@h/ff", "begins with postgresql://"},
       {"postgresql://u:s3cret@[::1/ff", "an IPv6 address needs its closing ]"},
       {"postgresql://u:s3cret@[::1]5432/ff", "behind the ] of an IPv6 address comes"},
       {"postgresql://u:s3cret@h/ff?sslmode", "a parameter of the URL has no = and value"},
       {"host=h s3cret", "a keyword has no = and value"}});
}

TEST_CASE("what may be part of a password is not named, be it a parameter otherwise") {
  const auto url = GENERATE(
      as<std::string>(), "postgresql://u:a?s3cret=b", "postgresql://u:a?s3cret=b&c=d",
      "postgresql://h/d?password=a&s3cret=b", "postgresql://h/d?sslpassword=a&sslmode=require&s3cret=b",
      "postgresql://u:p@h/d?user=a&b@c&s3cret=d", "postgresql://u:1?2?s3cret=b",
      "postgresql://h/d?s3cret%20=b", "postgresql://h/d?s3cret=a=b", "postgresql://h/d?s3cret",
      "postgresql://u:12a,b:1/d?s3cret=b", "host=h password=a://b?s3cret=c d");
  CAPTURE(url);
  CHECK_THAT(refusal_of(url), !Catch::Contains("s3cret"));
}

TEST_CASE("what only a connection would show is refused beforehand") {
  check_refused({{"postgresql://u@h/d?keepalives_idle=abc", "keepalives_idle is a whole number"},
                 {"postgresql://u@h/d?connect_timeout=abc", "connect_timeout is a whole number"},
                 {"host=h tcp_user_timeout=soon", "tcp_user_timeout is a whole number"},
                 {"http://u:s3cret@h/d", "begins with postgresql://"},
                 {"postgres+ssl://u:s3cret@h/d", "begins with postgresql://"}});
}

TEST_CASE("a number may be written in each way that libpq reads") {
  for (const char* number : {"10", "+10", "' 10 '"}) {
    CAPTURE(number);
    CHECK_NOTHROW(pg::Connector(to("host=h connect_timeout=" + std::string(number))));
  }
  for (const char* none : {"++1", "1 0", " ", "+"}) {
    CAPTURE(none);
    CHECK_THROWS_AS(pg::Connector(to("host=h connect_timeout='" + std::string(none).append("'"))),
                    std::invalid_argument);
  }
}

TEST_CASE("what only looks like an address is said to be none") {
  check_refused({{"hostaddr=999.1.1.1", "hostaddr is no valid address: 999.1.1.1 (allowed: "},
                 {"hostaddr=1::2::3", "hostaddr is no valid address: 1::2::3 (allowed: "},
                 {"hostaddr=db.example", "hostaddr is an address, not a name: write host=db.example"}});
}

namespace {

struct Exported {
  Exported(const std::string& its, const std::string& value) : name(its) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Exported() { ::unsetenv(name.c_str()); }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  const std::string name;
};

}  // namespace

TEST_CASE("what the environment adds to a connection string is blamed on the variable") {
  const auto [name, value, why] = GENERATE(table<std::string, std::string, std::string>({
      {"PGTARGETSESSIONATTRS", "foo",
       "target_session_attrs has a value that it cannot have (allowed: read-write"},
      {"PGCONNECT_TIMEOUT", "abc", "connect_timeout is a whole number"},
      {"PGSSLMODE", "bogus", "(allowed: disable, allow"},
      {"PGSERVICE", "nope", "(allowed: a service of PGSERVICEFILE"},
      {"PGSSLMINPROTOCOLVERSION", "9", "what libpq takes for ssl_min_protocol_version"},
      {"PGPORT", "1,2,3", "what libpq takes for port"},
      {"PGPORT", "77777", "port is no number that a port can have (allowed: 1 to 65535)"},
      {"PGHOSTADDR", "h", "hostaddr is an address, not a name"},
  }));
  CAPTURE(name);
  const Exported variable(name, value);
  try {
    pg::parse_conninfo("host=h");
    FAIL("it was accepted");
  } catch (const pg::VariableRefused& refused) {
    CHECK(refused.name() == name);
    CHECK(refused.value() == value);
    CHECK_THAT(refused.why(), Catch::Contains(why));
    CHECK_THAT(refused.what(), Catch::StartsWith(name + '=' + value + ": "));
  }
}

TEST_CASE("what the string says itself is not blamed on a variable, whose password is not shown") {
  const Exported mode("PGSSLMODE", "bogus");
  CHECK_NOTHROW(pg::parse_conninfo("host=h sslmode=disable"));
  CHECK_THAT(refusal_of("host=h sslmode=nonsense"), Catch::StartsWith("sslmode has a value"));
  const Exported user("PGUSER", "postgres://u:s3cret@h/d");
  CHECK_THAT(refusal_of("host=h sslmode=disable"),
             Catch::StartsWith("PGUSER: user is a connection string") && !Catch::Contains("s3cret"));
}

TEST_CASE("what stands where a port should is not shown, for it may be a password") {
  CHECK_THAT(refusal_of("postgresql://u:s3cret/x?sslmode=require&user=y@h/d"),
             Catch::Contains("allowed: 1 to 65535") && !Catch::Contains("s3cret"));
}

TEST_CASE("the description of a connector has hosts, database and user but no password") {
  auto options = to("postgresql://someone:s3cret@h1:5433,h2:5434/things?connect_timeout=3");
  options.password = "s3cret2";
  const auto text = pg::Connector(options).description();
  CHECK(text == "someone@h1:5433,h2:5434/things");
}
