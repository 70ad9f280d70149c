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

// 1 KiB, 64 MiB
std::string format_bytes_binary(double bytes) {
  for (const auto& [size, suffix] : {std::pair(1073741824.0, "GiB"), {1048576.0, "MiB"}, {1024.0, "KiB"}}) {
    if (bytes >= size) return fmt::format("{:.3g} {}", bytes / size, suffix);
  }
  return fmt::format("{:g} B", bytes);
}

std::string open_svg(double height, const std::string& title) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}: the numbers follow as a table\" "
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

TimeUnit time_unit(double most) {
  if (most >= 1) return {1, "s"};
  if (most >= 1e-3) return {1e3, "ms"};
  return {1e6, "us"};
}

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
  constexpr double bar_height = 16;
  double largest = 0;
  for (const auto& row : chart.rows) {
    double sum = 0;
    for (const auto& part : row.parts) sum += part.value;
    largest = std::max({largest, sum, row.high});
  }
  const double scale = largest > 0 ? (width - 8) / largest : 0;
  std::string out =
      fmt::format("<div class=\"bars\" role=\"group\" aria-label=\"{}\">\n", escaped_html(chart.title));
  for (const auto& row : chart.rows) {
    out += fmt::format(
        "<div><span>{}</span><span class=\"v\">{}</span>\n<svg viewBox=\"0 0 {:.0f} {:.0f}\" "
        "preserveAspectRatio=\"none\" aria-hidden=\"true\" xmlns=\"http://www.w3.org/2000/svg\">\n",
        escaped_html(row.label), escaped_html(row.value), width, bar_height);
    double x = 0;
    for (const auto& part : row.parts) {
      if (part.value <= 0) continue;
      out += fmt::format("<rect class=\"c{}\" x=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>\n",
                         part.colour, number(x), number(part.value * scale), number(bar_height),
                         escaped_html(part.hint));
      x += part.value * scale;
    }
    if (row.high > row.low) {
      constexpr double middle = bar_height / 2;
      out += line(row.low * scale, middle, row.high * scale, middle, "whisker");
      for (const double end : {row.low, row.high})
        out += line(end * scale, middle - 4, end * scale, middle + 4, "whisker");
    }
    out += "</svg></div>\n";
  }
  std::string rows;
  for (const auto& row : chart.rows) {
    rows += "<tr><td>" + escaped_html(row.label) + "</td><td class=\"n\">" + escaped_html(row.value) +
            "</td><td>";
    for (const auto& part : row.parts) rows += escaped_html(part.hint) + "; ";
    rows += "</td></tr>\n";
  }
  return out + "</div>\n" +
         numbers_table(chart.title, "<th>bar</th><th class=\"n\">whole</th><th>parts</th>", rows);
}

namespace {

std::string numbers_of(const LineChart& chart) {
  constexpr std::size_t most_rows = 200;
  std::string rows;
  std::size_t count = 0;
  for (const auto& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      if (++count > most_rows) break;
      rows += fmt::format("<tr><td>{}</td><td class=\"n\">{:.5g}</td><td class=\"n\">{:.5g}</td></tr>\n",
                          escaped_html(series.label), x, y);
    }
  }
  return numbers_table(chart.title,
                       "<th>line</th><th class=\"n\">" + escaped_html(chart.x_title) +
                           "</th><th class=\"n\">" + escaped_html(chart.y_title) + "</th>",
                       rows);
}

}  // namespace

std::string svg_of(const LineChart& chart) {
  constexpr double left = 68, right = 24, top = 44, plot_height = 240, bottom = 60;
  constexpr double letter = 12;  // as large as on a phone
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
  std::string out = open_svg(top + plot_height + bottom, chart.title);
  out += text_at(0, 21, chart.y_title, "start", "v");
  for (const double tick : ticks) {
    out += line(left, place_y(tick), width - right, place_y(tick), "grid");
    out += text_at(left - 6, place_y(tick) + 4, tick_text(tick), "end", "v");
  }
  double label_end = -1e9;
  for (const double x : xs) {
    const std::string text = chart.x_is_bytes ? format_bytes_binary(x) : tick_text(x);
    const double half = std::max(15.0, letter * static_cast<double>(text.size()) / 2);
    if (place_x(x) - half < label_end || place_x(x) + half > width) continue;
    label_end = place_x(x) + half + 10;
    out += text_at(place_x(x), top + plot_height + 28, text, "middle", "v");
  }
  out += text_at(width - right, top + plot_height + 52, chart.x_title, "end", "v");
  std::vector<std::pair<std::string, std::string>> legend;
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
    legend.emplace_back(style, series.label);
  }
  return legend_of(legend) + out + "</svg>\n" + numbers_of(chart);
}

std::string svg_of(const SpanChart& chart) {
  constexpr double label_height = 28, bar_height = 18, row_gap = 6, axis = 34;
  constexpr double row_height = label_height + bar_height + row_gap;
  double last = 0;
  for (const auto& row : chart.rows) {
    for (const auto& piece : row.pieces) last = std::max(last, piece.end);
  }
  const TimeUnit unit = time_unit(last);
  const std::vector<double> ticks = axis_ticks(unit.per_second * last, 4);
  const double scale = last > 0 ? (width - 8) / ticks.back() * unit.per_second : 0;
  const double bottom = row_height * static_cast<double>(chart.rows.size());
  std::string out = open_svg(bottom + axis, chart.title);
  for (std::size_t t = 0; t < ticks.size(); ++t) {
    const double x = ticks[t] * scale / unit.per_second;
    out += line(x, 0, x, bottom + 4, "grid");
    const bool is_last = t + 1 == ticks.size();
    out += text_at(x, bottom + 26, tick_text(ticks[t]) + (is_last ? std::string(" ") + unit.name : ""),
                   t == 0    ? "start"
                   : is_last ? "end"
                             : "middle",
                   "v");
  }
  double y = 0;
  for (const auto& row : chart.rows) {
    out += text_at(0, y + label_height - 6, row.label);
    for (const auto& piece : row.pieces) {
      constexpr double least = 0.4;  // or it would not be seen
      out += fmt::format(
          "<rect class=\"c{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>\n",
          piece.colour, number(piece.begin * scale), number(y + label_height),
          number(std::max(least, (piece.end - piece.begin) * scale)), number(bar_height),
          escaped_html(piece.hint));
    }
    y += row_height;
  }
  return out + "</svg>\n";
}

namespace {

// 1, 2, 5 times powers of ten within a range of logarithms; where that is narrow, round numbers.
std::vector<double> log_ticks(double first, double last) {
  std::vector<double> out;
  for (int power = static_cast<int>(std::floor(first)); power <= static_cast<int>(std::ceil(last)); ++power) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double at = std::log10(digit) + power;
      if (at >= first && at <= last) out.push_back(at);
    }
  }
  constexpr std::size_t enough = 3;
  if (out.size() >= enough) return out;
  out.clear();
  const double low = std::pow(10, first), high = std::pow(10, last);
  const double step = axis_ticks(high - low, 5)[1];
  for (double value = std::ceil(low / step) * step; value <= high; value += step) {
    if (value > 0) out.push_back(std::log10(value));
  }
  return out;
}

}  // namespace

std::string svg_of(const ScatterChart& chart) {
  constexpr double left = 68, right = 24, top = 44, side = width - left - right, bottom = 60;
  if (chart.points.empty()) return "";
  double first = 1e300, last = -1e300;
  for (const auto& point : chart.points) {
    first = std::min(first, std::log10(std::min(point.x, point.y)));
    last = std::max(last, std::log10(std::max(point.x, point.y)));
  }
  constexpr double margin = 0.06;
  first -= margin;
  last += margin;
  const auto place = [&](double logarithm) {
    return std::clamp((logarithm - first) / (last - first), 0.0, 1.0) * side;
  };
  const auto at_x = [&](double value) { return left + place(std::log10(value)); };
  const auto at_y = [&](double value) { return top + side - place(std::log10(value)); };
  std::string out = open_svg(top + side + bottom, chart.title);
  out += text_at(0, 21, chart.y_title, "start", "v");
  double labelled = -1e9;
  for (const double tick : log_ticks(first, last)) {
    out += line(left + place(tick), top, left + place(tick), top + side, "grid");
    out += line(left, top + side - place(tick), left + side, top + side - place(tick), "grid");
    constexpr double least_distance = 40;
    if (place(tick) - labelled < least_distance) continue;
    labelled = place(tick);
    const std::string text = tick_text(std::stod(fmt::format("{:.3g}", std::pow(10, tick))));
    out += text_at(left + place(tick), top + side + 28, text, "middle", "v");
    out += text_at(left - 6, top + side - place(tick) + 4, text, "end", "v");
  }
  out += text_at(left + side, top + side + 52, chart.x_title, "end", "v");
  std::vector<double> ratios = chart.bounds;
  ratios.push_back(1);
  for (const double ratio : ratios) {
    const double shift = std::log10(ratio), from = first + std::max(0.0, -shift),
                 to = last - std::max(0.0, shift);
    out += line(left + place(from), top + side - place(from + shift), left + place(to),
                top + side - place(to + shift), ratio == 1 ? "equal" : "bound");
  }
  for (const auto& point : chart.points) {
    if (point.high > point.low && point.low > 0)
      out += line(at_x(point.x), at_y(point.low), at_x(point.x), at_y(point.high), "faint");
  }
  for (const auto& point : chart.points) {
    out += fmt::format("<circle class=\"s{}\" cx=\"{}\" cy=\"{}\" r=\"4\"><title>{}</title></circle>\n",
                       point.kind, number(at_x(point.x)), number(at_y(point.y)), escaped_html(point.hint));
  }
  std::vector<std::pair<std::string, std::string>> legend;
  for (std::size_t i = 0; i < chart.labels.size(); ++i)
    legend.emplace_back(fmt::format("dot s{}", i), chart.labels[i]);
  return legend_of(legend) + out + "</svg>\n";
}

std::string scrolled_table(std::string_view name, const std::string& head, const std::string& rows,
                           std::size_t count) {
  constexpr std::size_t tall = 40, most_on_paper = 120;  // as the style sheet has it
  const bool is_tall = count > tall;
  return fmt::format(
             "<div class=\"scroll{}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>{}<tbody>\n",
             is_tall ? " tall" : "", escaped_html(name),
             head.empty() ? "" : "<thead><tr>" + head + "</tr></thead>") +
         rows + "</tbody></table></div>\n" +
         (count > most_on_paper
              ? fmt::format("<p class=\"note paper\">On paper: the first {} rows.</p>\n", most_on_paper)
              : "");
}

std::string numbers_table(std::string_view chart, const std::string& head, const std::string& rows) {
  return "<details class=\"data\"><summary>The numbers</summary>" +
         scrolled_table(fmt::format("{}: the numbers", chart), head, rows) + "</details>\n";
}

std::string legend_of(std::span<const std::pair<std::string, std::string>> entries) {
  std::string out = "<p class=\"legend\">";
  for (const auto& [style, name] : entries)
    out += fmt::format("<span><i class=\"{}\"></i>{}</span> ", style, escaped_html(name));
  return out + "</p>\n";
}

}  // namespace foretrain
