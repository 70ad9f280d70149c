// Charts as SVG text, drawn with the colours of the page's style sheet: they follow its dark and light theme,
// and scale to its width.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrain {

// Text for HTML and SVG, attributes included.
std::string escaped_html(std::string_view text);

// A bar of parts for each row, all on one scale that starts at zero.
struct StackedBars {
  struct Part {
    double value = 0;
    int colour = 0;    // of the style sheet: var(--c0), var(--c1), ...
    std::string hint;  // shown when pointed at
  };
  struct Row {
    std::string label, value;  // value: the sum, as text
    std::vector<Part> parts;
    double low = 0, high = 0;  // an interval of the sum; equal where there is none
  };
  std::string title;
  std::vector<Row> rows;
};
std::string svg_of(const StackedBars& chart);

// Lines over an axis of powers of two, or over one that begins at zero.
struct LineChart {
  struct Series {
    std::string label;
    std::vector<std::pair<double, double>> points;  // x above zero, ascending
    bool dashed = false;
    std::vector<std::pair<double, double>> intervals = {};  // of each point, or none
  };
  std::string title, x_title, y_title;
  bool linear = false;  // x from zero, without a mark at each point
  std::vector<Series> series;
};
std::string svg_of(const LineChart& chart);

// Round numbers from zero to `top` or a little above, about `count` of them: 0, 5, 10, ...
std::vector<double> axis_ticks(double top, int count);

}  // namespace foretrain
