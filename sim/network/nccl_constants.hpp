// Constants of NCCL's own cost model: NVIDIA/nccl 2.30.7 (commit 5067397c), src/graph/tuning.cc (latencies in
// microseconds, bandwidths in GB/s) and src/graph/search.cc (speeds). Indexed by tree or ring, then by LL,
// LL128, Simple; bandwidths by generation (Volta, Ampere, Hopper, Blackwell), then by 1, 2, 4 and more nodes.
#pragma once

#include <span>

namespace foretrain::nccl_constants {

inline constexpr int tree = 0;
inline constexpr int ring = 1;

inline constexpr double base_latencies[2][3] = {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}};
inline constexpr double nvlink_latencies[2][3] = {{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}};
inline constexpr double pcie_latencies[2][3] = {{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}};
inline constexpr double network_latencies[2][3] = {{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}};

// Over nodes the first index is the processor: 0 Intel and others, 1 AMD.
inline constexpr double ll_limits[4][3] = {
    {39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}};
inline constexpr double ring_ll128_limits_per_channel[4][3] = {
    {20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {40.0, 40.0, 40.0}};
inline constexpr double tree_ll128_limits_per_channel[4][3] = {
    {20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}};
inline constexpr double tree_limits_per_channel[4][3] = {
    {26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}};

// Trees of medium size do not keep to the model: a factor on their bandwidth for 64 B x 2^i.
inline constexpr int tree_correction_sizes = 23;
inline constexpr double tree_corrections[3][24] = {
    {1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1.0, 1.0, 1.0, 1.0, 1.0},
    {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1.0, 1.0, 1.0},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

// Of one NVLink and direction (src/graph/topo.h, Volta to Blackwell), and NCCL_P2P_LL_THRESHOLD, of a
// channel.
inline constexpr double nvlink_speeds[] = {20, 20, 20.6, 40.1};
inline constexpr double direct_ll_bytes = 16384;

// Channel speeds that the search tries, fastest first.
inline constexpr double speeds_inside[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
inline constexpr double speeds_inside_hopper[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
inline constexpr double speeds_inside_blackwell[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
inline constexpr double speeds_between[] = {48, 30, 28, 24, 20, 18,  15,  12,  10, 9,
                                            7,  6,  5,  4,  3,  2.4, 1.2, .24, .12};
inline constexpr double speeds_between_hopper[] = {48, 45, 42, 40, 30,  24,  22,  20, 17.5,
                                                   15, 12, 6,  3,  2.4, 1.2, .24, .12};
inline constexpr double speeds_between_blackwell[] = {96, 86,   80, 48, 45.1, 42, 40,  30,  24,  22,
                                                      20, 17.5, 15, 12, 6,    3,  2.4, 1.2, .24, .12};

}  // namespace foretrain::nccl_constants
