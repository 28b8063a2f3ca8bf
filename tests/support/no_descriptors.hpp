#pragma once

#include <sys/resource.h>

namespace ff::test {

/// For as long as it lives the process gets no further file descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &usual_);
    const rlimit none_free{0, usual_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none_free);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &usual_); }

 private:
  rlimit usual_{};
};

}  // namespace ff::test
