// A small profile with every kind of entry, for tests.
#pragma once

#include "sim/training/profile.hpp"

namespace foretrain {

inline Profile example_profile() {
  const Sample sample{2e-5, 1.9e-5, 2.1e-5, 1e-6, 50};
  Profile profile;
  profile.name = "h100";
  profile.device = "cuda";
  CalibrationRun run;
  run.date = "2026-01-01T00:00:00Z";
  run.command = "foretrain calibrate --model resnet50 --batch 64";
  run.foretrain = "0.1.0";
  run.machine.gpu = "NVIDIA H100";
  run.machine.gpus = 2;
  run.machine.environment = {{"NCCL_NVLS_ENABLE", "0"}};
  run.seconds = 12.5;
  profile.runs = {run};
  OperatorEntry conv;
  conv.key = "conv2d in=64x56x56 out=64x56x56 k=3x3 s=1x1 p=1x1 d=1x1 g=1";
  conv.layer = "layer1.0.conv2";
  conv.context = "resnet50";
  conv.precision = Precision::bf16;
  conv.batch = 64;
  for (PassTiming& pass : conv.passes) pass = {sample, {5e-6, 5e-6, 5e-6, 0, 50}, 1};
  profile.operators = {conv};
  StepEntry step;
  step.model = "resnet50";
  step.precision = Precision::bf16;
  step.batch = 64;
  step.step = {0.025, 0.0249, 0.0251, 1e-4, 100};
  step.launches = 800;
  profile.steps = {step};
  profile.optimizers = {{"sgd-momentum", "resnet50", Precision::bf16, 25557032, {sample, sample, 4}}};
  profile.step_work = {{"input_copy", "resnet50", Precision::bf16, 64, 0, {sample, sample, 1}}};
  CollectiveEntry collective;
  collective.kind = "all_reduce";
  collective.ranks = 2;
  collective.network = "nvlink";
  collective.algorithm = "auto";
  collective.protocol = "auto";
  collective.bytes = 1048576;
  collective.time = {3e-5, 2.9e-5, 3.1e-5, 1e-6, 20};
  profile.collectives = {collective};
  InterferenceEntry interference;
  interference.model = "resnet50";
  interference.batch = 64;
  interference.ranks = 2;
  interference.bytes = 26214400;
  interference.compute_slowdown = {1.05, 1.04, 1.06, 0.01, 20};
  interference.collective_slowdown = {1.2, 1.1, 1.3, 0.01, 20};
  profile.interference = {interference};
  LaunchCosts launch;
  launch.launch = {3e-6, 3e-6, 3e-6, 0, 100};
  launch.queue_depth = 1024;
  profile.launches = {launch};
  profile.copies = {{"host_to_device", 38535168, true, sample}};
  profile.noise = {{"device", "", Precision::fp32, 0, 0, 0.01, 0, 1}};
  return profile;
}

}  // namespace foretrain
