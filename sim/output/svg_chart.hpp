// Charts as SVG text, drawn with the colours of the page's style sheet: they follow its dark and light theme,
// and scale to its width.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrain {

// Text for HTML and SVG, attributes included.
std::string escaped_html(std::string_view text);

// A bar of parts for each row, all on one scale that starts at zero; labels are text of the page and break as
// it does.
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
  bool x_is_bytes = false;
  bool linear = false;  // x from zero, without a mark at each point
  std::vector<Series> series;
};
std::string svg_of(const LineChart& chart);

// Spans of time on a row each, all on one scale that starts at zero; seconds.
struct SpanChart {
  struct Piece {
    double begin = 0, end = 0;
    int colour = 0;
    std::string hint;
  };
  struct Row {
    std::string label;
    std::vector<Piece> pieces;
  };
  std::string title;
  std::vector<Row> rows;
};
std::string svg_of(const SpanChart& chart);

// Points over two axes of powers of ten, with the line on which both are equal and others at fixed ratios.
struct ScatterChart {
  struct Point {
    double x = 0, y = 0;       // above zero
    double low = 0, high = 0;  // an interval of y; equal where there is none
    int kind = 0;              // of labels
    std::string hint;
  };
  std::string title, x_title, y_title;
  std::vector<double> bounds;  // y over x
  std::vector<std::string> labels;
  std::vector<Point> points;
};
std::string svg_of(const ScatterChart& chart);

// A table that scrolls by itself where the page is too narrow; its name is for readers who do not see it.
// Cells of the head (none: no head), rows of the body; one of very many rows (`count`) scrolls downwards,
// too, and on paper has its first ones.
std::string scrolled_table(std::string_view name, const std::string& head, const std::string& rows,
                           std::size_t count = 0);

// The numbers of a chart for those who do not see it, folded away.
std::string numbers_table(std::string_view chart, const std::string& head, const std::string& rows);

// What colours and lines stand for: classes of the style sheet and names.
std::string legend_of(std::span<const std::pair<std::string, std::string>> entries);

// What an axis of times up to `most` seconds is in: us, ms from a millisecond on, s from a second on.
struct TimeUnit {
  double per_second;
  const char* name;
};
TimeUnit time_unit(double most);

// Round numbers from zero to `top` or a little above, about `count` of them: 0, 5, 10, ...
std::vector<double> axis_ticks(double top, int count);

}  // namespace foretrain
