#include "support/pooler.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace ff::test {
namespace {

constexpr const char* kProgram = "/usr/sbin/pgbouncer";

std::string configuration(const std::string& directory, const std::string& server, std::string_view mode,
                          const std::string& role) {
  return "[databases]\n* = host=" + server + " port=5432 user=" + role + "\n" +  //
         "[pgbouncer]\nunix_socket_dir = " + directory + "\nlisten_port = 5432\n" +
         "auth_type = any\nserver_round_robin = 1\npool_mode = " + std::string(mode) + "\n";
}

}  // namespace

// It refuses to be root, and its account must reach the server's socket: so it takes the account of that.
Pooler::Pooler(const testserver::PrivateServer& server, std::string_view mode, const std::string& role) {
  const std::string server_socket = server.socket_directory();
  struct stat account {};
  if (::stat(server_socket.c_str(), &account) != 0 ||
      ::chown(directory_.path().c_str(), account.st_uid, account.st_gid) != 0)
    throw std::system_error(errno, std::generic_category(), "giving a directory to PgBouncer");
  const std::string file =
      directory_.write("pgbouncer.ini", configuration(directory_.path(), server_socket, mode, role));
  std::vector<std::string> command{kProgram, "--quiet", file};
  if (::geteuid() == 0)
    command.insert(command.begin(), {"setpriv", "--reuid=" + std::to_string(account.st_uid),
                                     "--regid=" + std::to_string(account.st_gid), "--clear-groups"});
  process_ = std::make_unique<Process>(command);
  const auto socket = directory_.path() / ".s.PGSQL.5432";
  if (!wait_until([&] { return std::filesystem::exists(socket) || !process_->running(); }) ||
      !process_->running())
    throw std::runtime_error("PgBouncer did not start: " + process_->err());
}

std::string Pooler::detour() const {
  return " host='" + directory_.path().string() + "'";
}

}  // namespace ff::test
