#include "demo/signals.hpp"

#include <csignal>

namespace ff::daemon {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
constexpr int kSecond = 2;

volatile std::sig_atomic_t requests = 0;

extern "C" void count_request(int number) {
  requests = requests + 1;
  if (requests <= kSecond) return;
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

StopSignals::StopSignals() {
  requests = 0;
  struct sigaction action {};
  action.sa_handler = count_request;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

bool StopSignals::asked() const {
  return requests > 0;
}

void StopSignals::end_if_impatient() const {
  if (requests >= kSecond) throw Impatient{};
}

SignalsHeld::SignalsHeld() {
  sigset_t held;
  ::sigemptyset(&held);
  for (const int number : kSignals) ::sigaddset(&held, number);
  ::pthread_sigmask(SIG_BLOCK, &held, &before_);
}

SignalsHeld::~SignalsHeld() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace ff::daemon
