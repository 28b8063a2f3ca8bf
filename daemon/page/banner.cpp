#include <fmt/format.h>

#include "base/partitions.hpp"
#include "base/printable.hpp"
#include "explain/words.hpp"
#include "page/markup.hpp"
#include "page/sections.hpp"

namespace ff::daemon::page {
namespace {

Severity worst_of(const Model& model, const std::vector<Attention>& attention) {
  if (!is_ready(model.board.state) || !model.alive) return Severity::problem;
  return attention.empty() ? Severity::fine : attention.front().severity;
}

std::string state_text(const Model& model, const std::vector<Attention>& attention) {
  const std::string_view state = name(model.board.state);
  if (attention.empty()) return std::string(state);
  return fmt::format("{}, {} {} attention", state, attention.size(),
                     attention.size() == 1 ? "needs" : "need");
}

std::string fact(std::string_view name, std::string_view value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, value);
}

std::string partitions_text(const Model& model) {
  const auto& coverage = model.board.coverage;
  if (!coverage) return "not counted yet";
  std::string text = fmt::format("{} of {}", coverage->covered.size(), coverage->count);
  if (!coverage->left_out.empty())
    text += fmt::format(" <small>left to others: {}</small>", escaped(format_partitions(coverage->left_out)));
  return text;
}

}  // namespace

std::string banner(const Model& model, const std::vector<Attention>& attention) {
  const auto& board = model.board;
  std::int64_t moved = 0;
  for (const auto& [its_name, entry] : board.reconcilers) moved += entry.totals.processed;
  const Severity worst = worst_of(model, attention);
  const std::string renewal =
      model.renewed_every
          ? fmt::format(R"(renews itself every {:.0f} s · <a href="/">hold still</a>)",
                        seconds(*model.renewed_every))
          : R"(does not renew itself · <a href="/">reload</a> · <a href="/live">renew every 10 s</a>)";
  return fmt::format(
             "<header class=\"{}\">\n<div class=\"title\"><h1>{}</h1><p>ff-reconcilerd on {}</p></div>\n",
             css(worst), mark(worst, state_text(model, attention)), escaped(model.database)) +
         "<dl class=\"facts\">\n" + fact("ready", is_ready(board.state) ? "yes" : "no") +
         fact("in this state for", explain::age(model.state_since, model.now)) +
         fact("running for", explain::age(board.started_at, model.now)) + fact("rows moved", grouped(moved)) +
         fact("partitions", partitions_text(model)) +
         (board.schema_version > 0 ? fact("schema level", grouped(board.schema_version)) : "") +
         fact("version", escaped(model.version)) + "</dl>\n" +
         fmt::format("<p class=\"asof\">as of {} UTC · {}</p>\n</header>\n", date_text(model.now), renewal);
}

std::string attention_list(const std::vector<Attention>& attention) {
  if (attention.empty())
    return section(
        "attention", "Needs attention",
        "<p class=\"calm\">Nothing. What is due of the reconcilers that are on is being moved.</p>\n");
  std::string list = "<ul>\n";
  for (const Attention& it : attention) {
    list += fmt::format("<li class=\"{}\">{} <strong>{}</strong>\n", css(it.severity),
                        mark(it.severity, css(it.severity)), escaped(it.what));
    if (!it.why.empty()) list += fmt::format("<p>{}</p>\n", escaped(it.why, kLongestShown));
    list += command_lines(it.paste) + "</li>\n";
  }
  return section("attention", fmt::format("Needs attention <small>{}</small>", attention.size()),
                 list + "</ul>\n");
}

}  // namespace ff::daemon::page
