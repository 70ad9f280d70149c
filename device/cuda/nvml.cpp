#include "device/cuda/nvml.hpp"

#include <dlfcn.h>

#include <array>

namespace foretrain::device::cuda {
namespace {

// The few declarations of nvml.h that are used here; they are part of NVML's stable interface.
using Device = void*;
using Result = int;  // 0: success
constexpr int sm_clock = 1, temperature_gpu = 0;
constexpr unsigned nvlinks = 18;

struct Utilization {
  unsigned gpu = 0, memory = 0;  // per cent of the last sampling period
};
struct Memory {
  unsigned long long total = 0, free = 0, used = 0;
};

struct Reason {
  unsigned long long bit;
  const char* name;
};
// nvmlClocksEventReasons that mean that the clock is held below what was asked; not idle, not set by a user.
constexpr Reason reasons[] = {{0x04, "power cap"},
                              {0x08, "hardware slowdown"},
                              {0x20, "thermal, software"},
                              {0x40, "thermal, hardware"},
                              {0x80, "hardware power brake"}};

struct Nvml {
  Result (*init)() = nullptr;
  Result (*handle)(const char*, Device*) = nullptr;
  Result (*clock)(Device, int, unsigned*) = nullptr;
  Result (*max_clock)(Device, int, unsigned*) = nullptr;
  Result (*temperature)(Device, int, unsigned*) = nullptr;
  Result (*power)(Device, unsigned*) = nullptr;
  Result (*throttle)(Device, unsigned long long*) = nullptr;
  Result (*use)(Device, Utilization*) = nullptr;
  Result (*memory)(Device, Memory*) = nullptr;
  Result (*driver)(char*, unsigned) = nullptr;
  Result (*nvlink)(Device, unsigned, unsigned*) = nullptr;
  bool usable = false;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    const auto find = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(init, "nvmlInit_v2");
    find(handle, "nvmlDeviceGetHandleByPciBusId_v2");
    find(clock, "nvmlDeviceGetClockInfo");
    find(max_clock, "nvmlDeviceGetMaxClockInfo");
    find(temperature, "nvmlDeviceGetTemperature");
    find(power, "nvmlDeviceGetPowerUsage");
    find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(use, "nvmlDeviceGetUtilizationRates");
    find(memory, "nvmlDeviceGetMemoryInfo");
    find(driver, "nvmlSystemGetDriverVersion");
    find(nvlink, "nvmlDeviceGetNvLinkState");
    usable = init && handle && init() == 0;
  }
};

const Nvml& nvml() {
  static const Nvml library;
  return library;
}

Device device_at(const std::string& bus_id) {
  Device device = nullptr;
  if (nvml().usable && nvml().handle(bus_id.c_str(), &device) != 0) device = nullptr;
  return device;
}

}  // namespace

Clocks read_clocks(const std::string& bus_id) {
  Clocks clocks;
  const Device device = device_at(bus_id);
  if (!device) return clocks;
  const Nvml& n = nvml();
  unsigned value = 0;
  if (n.clock && n.clock(device, sm_clock, &value) == 0) clocks.sm_hz = value * 1e6;
  if (n.max_clock && n.max_clock(device, sm_clock, &value) == 0) clocks.sm_max_hz = value * 1e6;
  if (n.temperature && n.temperature(device, temperature_gpu, &value) == 0) clocks.temperature = value;
  if (n.power && n.power(device, &value) == 0) clocks.power_watts = value * 1e-3;
  Utilization use;
  if (n.use && n.use(device, &use) == 0) clocks.use = use.gpu * 0.01;
  Memory memory;
  if (n.memory && n.memory(device, &memory) == 0) clocks.memory_used = static_cast<double>(memory.used);
  unsigned long long bits = 0;
  if (n.throttle && n.throttle(device, &bits) == 0) {
    for (const Reason& reason : reasons) {
      if (!(bits & reason.bit)) continue;
      clocks.throttled = true;
      clocks.throttle_reason += (clocks.throttle_reason.empty() ? "" : ", ") + std::string(reason.name);
    }
  }
  return clocks;
}

std::string driver_version() {
  std::array<char, 96> text{};
  if (!nvml().usable || !nvml().driver || nvml().driver(text.data(), text.size()) != 0) return {};
  return text.data();
}

int active_nvlinks(const std::string& bus_id) {
  const Device device = device_at(bus_id);
  int active = 0;
  for (unsigned link = 0; device && nvml().nvlink && link < nvlinks; ++link) {
    unsigned on = 0;
    if (nvml().nvlink(device, link, &on) == 0 && on) ++active;
  }
  return active;
}

}  // namespace foretrain::device::cuda
