// The allocator's settings for a short-lived program that reads megabytes.
#pragma once

namespace foretrain::app {

// Keeps freed memory for what comes next, and lets the first 512 MiB of the heap lie in huge pages where the
// system has them on request, as far as they are used: with small pages, first touches were a fifth to a
// third of a simulation's time on a virtual machine. glibc on Linux; nothing elsewhere.
void prepare_heap();

}  // namespace foretrain::app
