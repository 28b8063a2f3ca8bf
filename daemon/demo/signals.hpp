#pragma once

#include <signal.h>

#include <array>

namespace ff::daemon {

/// Somebody asked twice for the end.
struct Impatient {};

/// SIGINT, SIGTERM and SIGHUP as requests: the first asks for an orderly end, the second for one that skips
/// whatever takes time, the third ends the process on the spot. While this lives, signals reach the thread
/// that made it; those that other threads start meanwhile are to be started under SignalsHeld. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool asked() const;
  /// Throws Impatient at the second request.
  void end_if_impatient() const;

 private:
  std::array<struct sigaction, 3> before_{};
};

/// Holds these signals back in this thread and in the threads that it starts meanwhile.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace ff::daemon
