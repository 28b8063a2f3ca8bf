#include "page/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "page/markup.hpp"
#include "page/sections.hpp"
#include "page/style.hpp"

namespace ff::daemon::page {
namespace {

// 128 bits that nobody guesses before the page is there.
std::string new_nonce() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// Stands first in the title, where a row of tabs shows it.
std::string title(const Model& model, const std::vector<Attention>& attention) {
  if (!attention.empty()) {
    const Severity worst = attention.front().severity;
    const auto number = std::ranges::count(attention, worst, &Attention::severity);
    return fmt::format("{} {}{} · ff-reconcilerd", number, worst == Severity::problem ? "problem" : "warning",
                       number == 1 ? "" : "s");
  }
  return fmt::format("{} · ff-reconcilerd", name(model.board.state));
}

std::string head(const Model& model, const std::vector<Attention>& attention, std::string_view nonce) {
  const std::string renewal =
      model.renewed_every
          ? fmt::format("<meta http-equiv=\"refresh\" content=\"{:.0f}\"/>\n", seconds(*model.renewed_every))
          : "";
  return fmt::format(
             "<head>\n<meta charset=\"utf-8\"/>\n<title>{}</title>\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
             "<meta name=\"color-scheme\" content=\"light dark\"/>\n{}<style nonce=\"{}\">\n",
             title(model, attention), renewal, nonce) +
         std::string(kStyle) + "</style>\n</head>\n";
}

}  // namespace

std::string render(const Model& model, std::string_view nonce) {
  const auto attention = needs_attention(model);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n" + head(model, attention, nonce) + "<body>\n" +
         banner(model, attention) + "<main>\n" + attention_list(attention) + reconciler_table(model) +
         partition_map(model) + event_list(model) + connections(model) + quarantine_list(model) +
         configuration(model) + "</main>\n</body>\n</html>\n";
}

HttpReply reply(const Model& model) {
  const std::string nonce = new_nonce();
  return {200,
          "text/html; charset=utf-8",
          render(model, nonce),
          {{"Cache-Control", "no-store"},
           {"Content-Security-Policy",
            fmt::format("default-src 'none'; style-src 'nonce-{}'; base-uri 'none'; form-action 'none'; "
                        "frame-ancestors 'none'",
                        nonce)},
           {"X-Content-Type-Options", "nosniff"},
           {"Referrer-Policy", "no-referrer"}}};
}

}  // namespace ff::daemon::page
