#include <csignal>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "app/command_line.hpp"
#include "app/heap.hpp"
#include "app/messages.hpp"
#include "app/signals.hpp"
#include "sim/output/file_writer.hpp"

int main(int argc, char** argv) {
  using namespace foretrain;
  // What trains for real has other uses for memory.
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb != "run" && verb != "calibrate") app::prepare_heap();
  app::install_signal_handlers();
  int status = 0;
  try {
    status = app::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const ClosedPipe&) {
    app::end_progress();
    app::die_by_signal(SIGPIPE);
  } catch (const std::exception& thrown) {
    status = app::report_exception(thrown);
  }
  app::end_progress();
  if (app::signal_received() != 0) app::die_by_signal(app::signal_received());
  return status;
}
