#pragma once

#include <string>

#include "bench/regime.hpp"

namespace ff::bench {

/// The regime's plot as a self-contained SVG document: bars of its ways' medians, or its curves where it has
/// any. On a light ground of its own, so that it can be read on any page.
std::string svg_of(const Regime& regime);

}  // namespace ff::bench
