// An index as a position in a dimension. One outside of it is printed and fails an assertion, in the words of `Bounds`, which
// nvrtc_kernels.indexing makes for the operation.

#pragma once

// Negative indices count from the end where Wrap says so.
template <class Bounds, bool Wrap, class Index>
__device__ inline Index checked(long long index, Index size, int tensor) {
    const long long limit = static_cast<long long>(size);
    const long long position = Wrap && index < 0 ? index + limit : index;
    Bounds::check(position >= 0 && position < limit, tensor, index, limit);
    return static_cast<Index>(position);
}
