#include "bench/plot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/compare.hpp"
#include "bench/svg.hpp"

namespace ff::bench {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr double kMargin = 20;
constexpr double kBarHeight = 22;
constexpr double kBarStep = 32;
constexpr double kPlotHeight = 300;
constexpr double kLegendStep = 18;
constexpr std::size_t kMostDots = 24;

/// From values to pixels, and where the axis is marked.
class Axis {
 public:
  Axis(double least, double most, bool logarithmic, double from, double to)
      : logarithmic_(logarithmic), from_(from), to_(to) {
    if (logarithmic)
      mark_decades(least, most);
    else
      mark_steps(std::min(least, 0.0), most);
  }

  double at(double value) const {
    const double low = scaled(ticks_.front()), high = scaled(ticks_.back());
    const double share =
        (scaled(std::max(value, logarithmic_ ? ticks_.front() : value)) - low) / (high - low);
    return from_ + share * (to_ - from_);
  }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double scaled(double value) const { return logarithmic_ ? std::log10(value) : value; }

  // Round steps, about five of them, the ends included.
  void mark_steps(double least, double most) {
    const double range = most > least ? most - least : 1;
    const double power = std::pow(10, std::floor(std::log10(range / 5)));
    double step = 10 * power;
    for (const double nice : {5.0, 2.0, 1.0})
      if (nice * power * 5 >= range) step = nice * power;
    const double first = std::floor(least / step);
    const double last = std::max(std::ceil(most / step), first + 1);
    for (double i = first; i <= last; ++i) ticks_.push_back(i * step);
  }

  // Powers of ten, and 2 and 5 times these where they are few; the ends are the next ones around.
  void mark_decades(double least, double most) {
    const bool few = std::log10(most / least) < 3;
    for (int power = static_cast<int>(std::floor(std::log10(least))); ticks_.empty() || ticks_.back() < most;
         ++power)
      for (const double nice : {1.0, 2.0, 5.0}) {
        if (!few && nice > 1) break;
        const double value = nice * std::pow(10, power);
        if (!ticks_.empty() && (ticks_.back() >= most * (1 - 1e-9))) break;
        if (!ticks_.empty() && value <= least * (1 + 1e-9)) ticks_.clear();
        ticks_.push_back(value);
      }
    if (ticks_.size() == 1) ticks_.push_back(10 * ticks_.front());
  }

  const bool logarithmic_;
  const double from_;
  const double to_;
  std::vector<double> ticks_;
};

// Without the zeros that only tell how exact a measured figure is.
std::string mark(double tick) {
  std::string text = figure(tick);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string bars(const Regime& regime) {
  Drawing drawing(regime.title);
  double labels = 0, values = 0, most = 0;
  for (const Way& way : regime.ways) {
    labels = std::max(labels, text_width(way.name));
    values = std::max(values, text_width(figure(way.median()) + ' ' + regime.unit));
    most = std::max(most, way.median());
  }
  const double left = kMargin + labels + 10;
  const double width = Drawing::kWidth - left - values - kMargin - 8;
  double y = drawing.top();
  for (std::size_t i = 0; i < regime.ways.size(); ++i, y += kBarStep) {
    const double value = regime.ways[i].median();
    const double length = most > 0 ? std::max(0.0, value / most) * width : 0;
    drawing.text(left - 10, y + 15, regime.ways[i].name, Anchor::end);
    drawing.bar(left, y, std::max(length, 1.0), kBarHeight,
                Drawing::colour(regime.ways[i].name.starts_with("ours") || i == 0 ? 0 : 2));
    drawing.text(left + std::max(length, 1.0) + 8, y + 15, figure(value) + ' ' + regime.unit);
  }
  return drawing.document(y + kMargin - (kBarStep - kBarHeight));
}

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  // A logarithmic axis has no place for anything but positive values: those are drawn at its low end.
  void include(double value, bool logarithmic) {
    if (logarithmic && value <= 0) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool empty() const { return least > most; }
};

void draw_axes(Drawing& drawing, const Plot& plot, const Axis& x, const Axis& y) {
  const double left = x.at(x.ticks().front()), right = x.at(x.ticks().back());
  const double bottom = y.at(y.ticks().front()), top = y.at(y.ticks().back());
  for (const double tick : y.ticks()) {
    drawing.line(left, y.at(tick), right, y.at(tick), Drawing::kGrid);
    drawing.text(left - 8, y.at(tick) + 4, mark(tick), Anchor::end, Drawing::kFaint);
  }
  for (const double tick : x.ticks()) {
    drawing.line(x.at(tick), bottom, x.at(tick), bottom + 5, Drawing::kFaint);
    drawing.text(x.at(tick), bottom + 18, mark(tick), Anchor::middle, Drawing::kFaint);
  }
  drawing.line(left, bottom, right, bottom, Drawing::kFaint);
  drawing.text((left + right) / 2, bottom + 38, plot.x, Anchor::middle, Drawing::kFaint);
  drawing.upright_text(kMargin + 6, (bottom + top) / 2, plot.y);
}

void draw_curve(Drawing& drawing, const Curve& curve, const Axis& x, const Axis& y, std::string_view colour) {
  Points points;
  for (const auto& [at, value] : curve.points) points.emplace_back(x.at(at), y.at(value));
  drawing.path(points, colour);
  if (points.size() > kMostDots) return;
  for (const auto& [at, value] : points) drawing.dot(at, value, colour);
}

// The names of the curves, in as many lines as it takes. Returns where the next thing may begin.
double draw_legend(Drawing& drawing, const std::vector<Curve>& curves, double left) {
  double x = left, y = drawing.top();
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const double width = 26 + text_width(curves[i].name) + 18;
    if (x > left && x + width > Drawing::kWidth - kMargin) {
      x = left;
      y += kLegendStep;
    }
    drawing.bar(x, y + 3, 18, 4, Drawing::colour(i));
    drawing.text(x + 26, y + 9, curves[i].name);
    x += width;
  }
  return y + kLegendStep + 10;
}

std::string lines(const Regime& regime) {
  const Plot& plot = regime.plot;
  Range x_range, y_range;
  for (const Curve& curve : plot.curves)
    for (const auto& [x, y] : curve.points) {
      x_range.include(x, plot.logarithmic_x);
      y_range.include(y, plot.logarithmic_y);
    }
  if (x_range.empty() || y_range.empty()) return bars(regime);

  Drawing drawing(regime.title);
  constexpr double kLeft = kMargin + 70;
  const double top = draw_legend(drawing, plot.curves, kLeft);
  const Axis x(x_range.least, x_range.most, plot.logarithmic_x, kLeft, Drawing::kWidth - kMargin - 20);
  const Axis y(y_range.least, y_range.most, plot.logarithmic_y, top + kPlotHeight, top);
  draw_axes(drawing, plot, x, y);
  for (std::size_t i = 0; i < plot.curves.size(); ++i)
    draw_curve(drawing, plot.curves[i], x, y, Drawing::colour(i));
  return drawing.document(top + kPlotHeight + 38 + kMargin);
}

}  // namespace

std::string svg_of(const Regime& regime) {
  return regime.plot.curves.empty() ? bars(regime) : lines(regime);
}

}  // namespace ff::bench
