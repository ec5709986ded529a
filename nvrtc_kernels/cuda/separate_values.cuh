// separate(x) is x, and no operation on it is contracted with the one that x comes from.
//
// The compiler makes one instruction, which rounds once, of a product and a sum that takes it. In a kernel that computes
// several operations it may do so within each of them, as it does where each is a kernel of its own, but not across them:
// results would have other bits. A product that says how it is rounded is left alone.

#pragma once

template <class T>
__device__ inline T separate(T x) { return x; }
template <>
__device__ inline float separate(float x) { return __fmul_rn(x, 1.0f); }
template <>
__device__ inline double separate(double x) { return __dmul_rn(x, 1.0); }
