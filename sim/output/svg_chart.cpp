#include "sim/output/svg_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace foretrain {
namespace {

// Units of the viewBox; the page scales them. Narrow, so that text stays readable on a phone.
constexpr double width = 640;
constexpr int series_colours = 6;

std::string number(double value) {
  return fmt::format("{:.1f}", value);
}

std::string tick_text(double value) {
  for (const auto& [size, suffix] : {std::pair(1e9, "G"), {1e6, "M"}, {1e3, "k"}}) {
    if (std::fabs(value) >= size) return fmt::format("{:g}{}", value / size, suffix);
  }
  return fmt::format("{:g}", value);
}

std::string open_svg(double height, const std::string& title) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\" "
      "xmlns=\"http://www.w3.org/2000/svg\">\n",
      width, height, escaped_html(title));
}

std::string text_at(double x, double y, std::string_view text, const char* anchor = "start",
                    const char* style = "t") {
  return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", style, number(x),
                     number(y), anchor, escaped_html(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style, number(x1),
                     number(y1), number(x2), number(y2));
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        // Control characters are no part of HTML.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

std::vector<double> axis_ticks(double top, int count) {
  if (!(top > 0)) return {0, 1};
  const double rough = top / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double nice : {1.0, 2.0, 2.5, 5.0}) {
    if (nice * power >= rough * 0.999999) {
      step = nice * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (int i = 0;; ++i) {
    ticks.push_back(step * i);
    if (ticks.back() >= top * 0.999999) return ticks;
  }
}

std::string svg_of(const StackedBars& chart) {
  constexpr double label_height = 26, bar_height = 16, row_gap = 10, top_margin = 4;
  constexpr double row_height = label_height + bar_height + row_gap;
  double largest = 0;
  for (const auto& row : chart.rows) {
    double sum = 0;
    for (const auto& part : row.parts) sum += part.value;
    largest = std::max({largest, sum, row.high});
  }
  const double scale = largest > 0 ? (width - 8) / largest : 0;
  std::string out = open_svg(top_margin + row_height * static_cast<double>(chart.rows.size()), chart.title);
  double y = top_margin;
  for (const auto& row : chart.rows) {
    out += text_at(0, y + label_height - 7, row.label);
    out += text_at(width, y + label_height - 7, row.value, "end", "v");
    double x = 0;
    for (const auto& part : row.parts) {
      if (part.value <= 0) continue;
      out += fmt::format(
          "<rect class=\"c{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>\n",
          part.colour, number(x), number(y + label_height), number(part.value * scale), number(bar_height),
          escaped_html(part.hint));
      x += part.value * scale;
    }
    if (row.high > row.low) {
      const double middle = y + label_height + bar_height / 2;
      out += line(row.low * scale, middle, row.high * scale, middle, "whisker");
      for (const double end : {row.low, row.high}) {
        out += line(end * scale, middle - 4, end * scale, middle + 4, "whisker");
      }
    }
    y += row_height;
  }
  return out + "</svg>\n";
}

std::string svg_of(const LineChart& chart) {
  constexpr double left = 68, right = 12, top = 32, plot_height = 240, bottom = 46, legend_row = 26;
  std::set<double> xs;
  double largest = 0;
  for (const auto& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      xs.insert(x);
      largest = std::max(largest, y);
    }
    for (const auto& [low, high] : series.intervals) largest = std::max(largest, high);
  }
  if (xs.empty()) return "";
  const std::vector<double> ticks = axis_ticks(largest, 5);
  const double first = std::log2(*xs.begin()), last = std::log2(*xs.rbegin());
  const std::vector<double> x_ticks = axis_ticks(*xs.rbegin(), 8);
  if (chart.linear) xs = {x_ticks.begin(), x_ticks.end()};
  auto place_x = [&](double x) {
    if (chart.linear) return left + x / x_ticks.back() * (width - left - right);
    const double share = last > first ? (std::log2(x) - first) / (last - first) : 0.5;
    return left + 8 + share * (width - left - right - 16);
  };
  auto place_y = [&](double y) { return top + plot_height * (1 - y / ticks.back()); };
  // Two to a row where all labels are short enough for it.
  constexpr double sample = 26, letter = 12;  // as large as on a phone
  std::size_t columns = 2;
  for (const auto& series : chart.series) {
    if (sample + letter * static_cast<double>(series.label.size()) > (width - left) / 2) columns = 1;
  }
  const double height = top + plot_height + bottom +
                        legend_row * static_cast<double>((chart.series.size() + columns - 1) / columns);
  std::string out = open_svg(height, chart.title);
  out += text_at(0, 18, chart.y_title, "start", "v");
  for (const double tick : ticks) {
    out += line(left, place_y(tick), width - right, place_y(tick), "grid");
    out += text_at(left - 6, place_y(tick) + 4, tick_text(tick), "end", "v");
  }
  double last_label = -1e9;
  for (const double x : xs) {
    constexpr double least_distance = 30;
    if (place_x(x) - last_label < least_distance) continue;
    last_label = place_x(x);
    out += text_at(place_x(x), top + plot_height + 20, tick_text(x), "middle", "v");
  }
  out += text_at(width - right, top + plot_height + 40, chart.x_title, "end", "v");
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const auto& series = chart.series[s];
    const std::string style =
        series.dashed ? "ideal" : fmt::format("s{}", s % static_cast<std::size_t>(series_colours));
    std::string points;
    for (const auto& [x, y] : series.points) points += number(place_x(x)) + ',' + number(place_y(y)) + ' ';
    out += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", style, points);
    for (const auto& [x, y] : series.points) {
      if (series.dashed || chart.linear) break;
      out += fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"4\"><title>{}</title></circle>\n",
                         style, number(place_x(x)), number(place_y(y)),
                         escaped_html(fmt::format("{}: {:g}, {:.4g}", series.label, x, y)));
    }
    for (std::size_t i = 0; i < std::min(series.points.size(), series.intervals.size()); ++i) {
      const double middle = place_x(series.points[i].first);
      const auto& [low, high] = series.intervals[i];
      if (!(high > low)) continue;
      out += line(middle, place_y(low), middle, place_y(high), "whisker");
      for (const double end : {low, high})
        out += line(middle - 4, place_y(end), middle + 4, place_y(end), "whisker");
    }
    const double x = left + static_cast<double>(s % columns) * (width - left) / 2;
    const double y = top + plot_height + bottom + legend_row * (static_cast<double>(s / columns) + 0.5);
    out += fmt::format("<polyline class=\"{}\" points=\"{},{} {},{}\"/>\n", style, number(x), number(y - 4),
                       number(x + 20), number(y - 4));
    out += text_at(x + sample, y, series.label, "start", "v");
  }
  return out + "</svg>\n";
}

}  // namespace foretrain
