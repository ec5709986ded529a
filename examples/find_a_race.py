"""Two streams, two devices and a race, on a machine without a GPU.

A kernel fills an array on one stream and another kernel sums it on a second stream. Without a wait
between the streams that is a data race: a GPU gives the right sum most of the time. The simulated
driver runs the same kernels from the PTX that NVIDIA's compiler makes, and reports the race every
time. With the wait the program is correct, and its result goes on to a second device.

    python examples/find_a_race.py              # simulated driver, two devices
    python examples/find_a_race.py --nvidia     # the same program on a GPU, where nothing is reported
"""

from __future__ import annotations

import argparse

import numpy as np

import drv
from nvrtc_kernels import RawKernel

SOURCE = r"""
extern "C" __global__ void fill(float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = 1.0f / (1.0f + i);
}

extern "C" __global__ void sum(const float* x, int n, float* total) {
    __shared__ float part[256];
    float mine = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine += x[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *total = part[0];
}
"""

fill = RawKernel(SOURCE, "fill")
total_of = RawKernel(SOURCE, "sum")


def harmonic_sum(count: int, *, wait: bool) -> drv.DeviceMemory:
    """Sum of 1/1 to 1/count, computed on two streams; ``wait=False`` forgets to order them."""
    x, total = drv.DeviceMemory(4 * count), drv.DeviceMemory(4)
    producer, consumer = drv.Stream(), drv.Stream()
    fill(64, 256, (x, np.int32(count)), stream=producer)
    if wait:
        consumer.wait_stream(producer)
    total_of(1, 256, (x, np.int32(count), total), stream=consumer)
    consumer.synchronize()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nvidia", action="store_true", help="run on a GPU instead of the simulated driver")
    parser.add_argument("--count", type=int, default=100_000, help="how many numbers to sum (100000)")
    arguments = parser.parse_args()
    if not arguments.nvidia:
        drv.simulator.install(devices=2, check="race")

    print("Without a wait between the streams:\n")
    try:
        harmonic_sum(arguments.count, wait=False)
        print("no race was reported: a GPU does not tell")
    except drv.DataRaceError as race:
        print(race)

    total = harmonic_sum(arguments.count, wait=True)
    result = np.empty(1, np.float32)
    if drv.device_count() > 1:
        elsewhere = drv.DeviceMemory(4, device=drv.Device(1))
        drv.copy_peer(elsewhere, elsewhere.device, total, total.device)
        total = elsewhere
    drv.copy_to_host(result, total)
    exact = (1 / np.arange(1, arguments.count + 1)).sum()
    print(f"\nWith the wait: {result[0]:.4f} by way of {total.device}, {exact:.4f} expected")


if __name__ == "__main__":
    main()
