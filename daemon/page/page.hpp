#pragma once

#include "http_server.hpp"
#include "page/model.hpp"

namespace ff::daemon::page {

/// The page for people: one HTML document with its style in it, no script, no picture from elsewhere. Below 600 KB
/// whatever happens. `nonce` names the style in the Content-Security-Policy, which permits nothing else.
std::string render(const Model& model, std::string_view nonce);

/// The same with its headers and a nonce of its own.
HttpReply reply(const Model& model);

}  // namespace ff::daemon::page
