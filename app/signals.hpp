// Ctrl-C and closed pipes.
#pragma once

#include <atomic>

namespace foretrain::app {

// From now on the first SIGINT, SIGTERM, SIGHUP or SIGXCPU sets interrupt_requested(): a verb that sees it
// writes what is finished ("complete": false) and returns. After most of a second, or at the second signal,
// the program ends anyway and leaves no file half written. A closed pipe shows as ClosedPipe where it is
// written to. A crash says where it happened before it ends the program.
void install_signal_handlers();

const std::atomic<bool>& interrupt_requested();

// While one lives, what is finished is being written: the program does not end before, but for a second
// signal.
class Patience {
 public:
  Patience();
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
};

// Ends the program as if the signal had met no handler, so that shells and pipelines see what happened.
[[noreturn]] void die_by_signal(int signal);
// The signal that has set interrupt_requested(), 0 where none has.
int signal_received();

}  // namespace foretrain::app
