#include "sim/job/rehearsal.hpp"

#include "sim/job/predict_job.hpp"

namespace foretrain {

void rehearse(const Scenario& scenario, Diagnostics& diagnostics) {
  try {
    predict_job(scenario);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unavailable) throw;
    diagnostics.add(error);
  }
}

}  // namespace foretrain
