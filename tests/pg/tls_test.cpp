// What the documentation says of TLS, against a server with certificates.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "check/server.hpp"
#include "pg/connect.hpp"
#include "support/process.hpp"
#include "testserver/private_server.hpp"

using namespace ff;
using Catch::Matchers::Contains;
using namespace std::chrono_literals;

namespace {

// An authority, another that nobody has asked for, and a certificate of the first for db.test.
constexpr auto kCertificates = R"(
umask 077 && cd "$DATA" &&
for authority in ours another; do
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=$authority -keyout $authority.key -out $authority.crt
done &&
openssl req -newkey rsa:2048 -nodes -subj /CN=db -keyout server.key -out server.csr &&
printf 'subjectAltName=DNS:db.test\n' > extensions &&
openssl x509 -req -in server.csr -CA ours.crt -CAkey ours.key -CAcreateserial -days 2 -extfile extensions -out server.crt &&
{ printf 'hostnossl all all all reject\nhostssl all guarded all scram-sha-256\n' && cat pg_hba.conf; } > new &&
mv new pg_hba.conf)";

std::string quoted(const std::string& text) {
  std::string literal = "'";
  for (const char c : text) literal += c == '\'' ? std::string("''") : std::string(1, c);
  return literal + "'";
}

/// A server that listens on a loopback address which is nobody else's, so that its port does not matter, and takes
/// nobody there without TLS: "guarded" with the password "right", "trusted" without.
struct TlsServer {
  std::string address =
      "127.9." + std::to_string(::getpid() / 250 % 250) + "." + std::to_string(::getpid() % 250 + 1);
  testserver::PrivateServer server{{.settings = {{"listen_addresses", address}}}};
  test::TemporaryDirectory directory;

  TlsServer() {
    auto admin = connect(server.conninfo());
    admin.execute_script("CREATE ROLE guarded LOGIN PASSWORD 'right'; CREATE ROLE trusted LOGIN");
    const std::string script = "DATA='" + server.data().string() + "'; " + kCertificates;
    // By the server's account, to which they have to belong. What does not read the empty row may be gone before it is
    // written, and that is an error: hence the `cat`.
    admin.execute_script("COPY (SELECT) TO PROGRAM " + quoted("cat; " + script + " > log.openssl 2>&1"));
    admin.execute_script("ALTER SYSTEM SET ssl = on");
    for (const char* name : {"ours", "another"}) {
      const auto text = admin.execute("SELECT pg_read_file($1)", pg::Params::of(std::string(name) + ".crt"));
      std::ofstream(root(name)) << text.one().get<std::string>(0);
    }
    server.restart();
  }

  std::filesystem::path root(const std::string& authority) const {
    return directory.path() / (authority + ".crt");
  }
  static pg::Connection connect(const std::string& conninfo, const std::string& password = {}) {
    return pg::Connector({.conninfo = conninfo, .password = password}).connect(Clock::system().now() + 20s);
  }
  /// The URL of the documentation, with what makes its name that of this server.
  std::string url(const std::string& host = "db.test", const std::string& authority = "ours",
                  const std::string& user = "guarded") const {
    return "postgresql://" + user + "@" + host +
           "/postgres?sslmode=verify-full&sslrootcert=" + root(authority).string() +
           "&channel_binding=require&hostaddr=" + address;
  }
  std::string refusal(const std::string& conninfo, const std::string& password = "right") const {
    try {
      connect(conninfo, password);
    } catch (const pg::Error& error) {
      return error.what();
    }
    return "it connected";
  }
};

}  // namespace

TEST_CASE(
    "a connection with verify-full and channel binding is made to the server that was meant, and to no "
    "other") {
  const TlsServer tls;
  auto db = TlsServer::connect(tls.url(), "right");
  CHECK(db.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").one().get<bool>(0));
  CHECK_THAT(tls.refusal(tls.url("db.test", "another")), Contains("certificate verify failed"));
  CHECK_THAT(tls.refusal(tls.url("other.test")), Contains("does not match host name \"other.test\""));
  CHECK_THAT(tls.refusal(tls.url(), "wrong"), Contains("password authentication failed"));
  // A server that asks for no password cannot show that it knows it.
  CHECK_THAT(tls.refusal(tls.url("db.test", "ours", "trusted")), Contains("channel binding"));
  CHECK_THAT(tls.refusal("host=db.test user=guarded dbname=postgres sslmode=disable hostaddr=" + tls.address),
             Contains("no encryption"));
}

TEST_CASE("a connection over a network notices that its peer is gone") {
  const TlsServer tls;
  const auto db = TlsServer::connect(tls.url(), "right");
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(file.path().filename());
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0 || peer.sin_family != AF_INET)
      continue;
    ++found;
    const auto option = [&](int level, int name) {
      int value = -1;
      socklen_t size = sizeof value;
      return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
    };
    CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) +
              option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT) <=
          30);
    CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 10'000);
  }
  CHECK(found == 1);
}

TEST_CASE("a network without TLS is a warning, as is one where nobody makes sure who answers") {
  const TlsServer tls;
  const auto verdict = [](pg::Connection db, std::string_view sslmode) {
    const check::Lines lines = check::encryption(db, sslmode);
    REQUIRE(lines.size() == 1);
    CAPTURE(lines[0].text);
    CHECK(lines[0].next.empty() == (lines[0].verdict == check::Verdict::fine));
    return lines[0].verdict;
  };
  CHECK(verdict(TlsServer::connect(tls.url(), "right"), "verify-full") == check::Verdict::fine);
  const std::string plain = "host=db.test user=guarded dbname=postgres hostaddr=" + tls.address;
  CHECK(verdict(TlsServer::connect(plain + " sslmode=require", "right"), "require") ==
        check::Verdict::warning);
  auto admin = TlsServer::connect(tls.server.conninfo());
  admin.execute_script("COPY (SELECT) TO PROGRAM 'cat; sed -i s/reject/trust/ \"" +
                       tls.server.data().string() + "/pg_hba.conf\"'; SELECT pg_reload_conf()");
  REQUIRE(test::wait_until([&] { return tls.refusal(plain + " sslmode=disable") == "it connected"; }));
  CHECK(verdict(TlsServer::connect(plain + " sslmode=disable"), "disable") == check::Verdict::warning);
}
