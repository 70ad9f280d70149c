// What a backend's module may export beside foretrain_backend.
#pragma once

// Why no device answers, in the words of the module's library; nullptr where one does, or where no more is
// known.
extern "C" const char* foretrain_backend_problem();
