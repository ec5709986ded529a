// Rows of contiguous (rows, n) arrays normalised, and the gradient of that: layer, group and root-mean-square
// normalisation, each in one kernel. W is the type that is computed in: float for half precision.
//
// rows  n up to some thousands: a team has a row in registers (rows.cuh), which is read once;
// long  longer: a block has a row and reads it again for each of its moments; the second time it is in the cache.
//
// Both take the mean first and then the squares of the distances from it, so that no digits are lost to a mean
// that is large against the deviation. `Center` says whether there is a mean to take away.
//
// Weight and bias may be null. Which of their elements belongs to element i of a row is said by
//
//   Each     element i: layer normalisation
//   Grouped  a row has `per` of the `groups * per` channels, of `inner` elements each: group normalisation
//
// The rows of the variant `rows` may be computed, and its results be gone on with: see fused_rows.cuh.

#pragma once
#include "rows.cuh"

struct Each {
    static constexpr bool packed = true;
    __device__ long long operator()(long long, long long i) const { return i; }
};

struct Grouped {
    static constexpr bool packed = false;
    long long groups;
    unsigned int per, inner;
    __device__ long long operator()(long long row, long long i) const {
        return row % groups * per + static_cast<unsigned int>(i) / inner;
    }
};

// What elements of a row are multiplied with, or what is added to them.
template <class W, int Along, int Packs, int Width, class Channel, class V>
__device__ void load_channels(
    RowPart<W, Along, Packs, Width>& part, const V* values, const Channel& channel, long long row, int n, int rank,
    W otherwise) {
    if (values == nullptr) {
#pragma unroll
        for (int i = 0; i < Packs * Width; ++i) part.items[i] = otherwise;
    } else if constexpr (Channel::packed) {
        part.load(values, n, rank, otherwise);
    } else {
#pragma unroll
        for (int p = 0; p < Packs; ++p) {
#pragma unroll
            for (int i = 0; i < Width; ++i) {
                const int at = (p * Along + rank) * Width + i;
                part.items[p * Width + i] = at < n ? W(to_compute(values[channel(row, at)])) : otherwise;
            }
        }
    }
}

template <class W, class V>
__device__ inline W value_or(const V* values, long long at, W otherwise) {
    return values == nullptr ? otherwise : W(to_compute(values[at]));
}

template <bool Center, class W, int Threads, int Along, int Packs, int Width, class Channel, class In, class V, class Out>
__device__ void normalize_rows(
    long long rows, int n, Channel channel, double eps, In in, const V* weight, const V* bias, Out out, W* mean,
    W* scale) {
    const RowTeam<Threads, Along> team;
    const int length = team.row < rows ? n : 0;
    RowPart<W, Along, Packs, Width> part;
    part.load(in + team.row * n, length, team.rank, W(0));
    W center = 0;
    if constexpr (Center) {
#pragma unroll
        for (int i = 0; i < Packs * Width; ++i) center += part.items[i];
        center = team.all(center, Plus()) / n;
    }
    W squares = 0;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
        if ((p * Along + team.rank) * Width < length) {
#pragma unroll
            for (int i = p * Width; i < (p + 1) * Width; ++i) {
                part.items[i] -= center;
                squares += part.items[i] * part.items[i];
            }
        }
    }
    squares = team.all(squares, Plus());
    if (team.row >= rows) return;
    const W by = rsqrt(squares / n + static_cast<W>(eps));
    if (team.rank == 0) {
        if constexpr (Center) mean[team.row] = center;
        scale[team.row] = by;
    }
    RowPart<W, Along, Packs, Width> factor;
    load_channels(factor, weight, channel, team.row, n, team.rank, W(1));
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i) part.items[i] *= by * factor.items[i];
    if (bias != nullptr) {
        load_channels(factor, bias, channel, team.row, n, team.rank, W(0));
#pragma unroll
        for (int i = 0; i < Packs * Width; ++i) part.items[i] += factor.items[i];
    }
    part.store(out + team.row * n, n, team.rank);
}

template <bool Center, class W, int Threads, class Channel, class In, class V, class Out>
__device__ void normalize_long(
    long long rows, long long n, Channel channel, double eps, const In* in, const V* weight, const V* bias, Out* out,
    W* mean, W* scale) {
    const RowTeam<Threads, Threads> team;
    in += team.row * n;
    out += team.row * n;
    W center = 0;
    if constexpr (Center) {
        for (long long i = team.rank; i < n; i += Threads) center += W(to_compute(in[i]));
        center = team.all(center, Plus()) / n;
    }
    W squares = 0;
    for (long long i = team.rank; i < n; i += Threads) {
        const W away = W(to_compute(in[i])) - center;
        squares += away * away;
    }
    squares = team.all(squares, Plus());
    const W by = rsqrt(squares / n + static_cast<W>(eps));
    if (team.rank == 0) {
        if constexpr (Center) mean[team.row] = center;
        scale[team.row] = by;
    }
    for (long long i = team.rank; i < n; i += Threads) {
        const long long at = channel(team.row, i);
        const W factor = by * value_or(weight, at, W(1));
        out[i] = to_element<Out>((W(to_compute(in[i])) - center) * factor + value_or(bias, at, W(0)));
    }
}

// With x the normalised row and g the gradient times the weight: scale * (g - mean(g) - x * mean(g * x)).
template <bool Center, class W, int Threads, int Along, int Packs, int Width, class Channel, class Grad, class In, class V, class Out>
__device__ void normalize_rows_backward(
    long long rows, int n, Channel channel, Grad grad, const In* in, const V* weight, const W* mean,
    const W* scale, Out out) {
    const RowTeam<Threads, Along> team;
    const bool has = team.row < rows;
    const int length = has ? n : 0;
    RowPart<W, Along, Packs, Width> part, factor;
    load_channels(factor, weight, channel, has ? team.row : 0, length, team.rank, W(1));
    part.load(grad + team.row * n, length, team.rank, W(0));
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i) factor.items[i] *= part.items[i];
    part.load(in + team.row * n, length, team.rank, W(0));
    const W by = has ? scale[team.row] : W(0);
    W center = 0;
    if constexpr (Center) center = has ? mean[team.row] : W(0);
    W total = 0, along = 0;
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i) {
        // Behind the end of the row the factor is 0.
        part.items[i] = (part.items[i] - center) * by;
        total += factor.items[i];
        along += factor.items[i] * part.items[i];
    }
    total = Center ? team.all(total, Plus()) / n : W(0);
    along = team.all(along, Plus()) / n;
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i)
        part.items[i] = by * (factor.items[i] - total - part.items[i] * along);
    part.store(out + team.row * n, length, team.rank);
}

// The same for rows `team`, `team + teams`, ... by each team, which leaves its sums of the gradients of weight and bias:
// grad and input are read once for all three.
template <bool Center, class W, int Threads, int Along, int Packs, int Width, class Grad, class In, class V, class Out>
__device__ void normalize_rows_gradients(
    long long rows, int n, long long teams, const Grad* grad, const In* in, const V* weight, const W* mean,
    const W* scale, Out* out, W* sums) {
    const RowTeam<Threads, Along> team;
    RowPart<W, Along, Packs, Width> weights, of_weight, of_bias, part, factor;
    load_channels(weights, weight, Each(), 0, n, team.rank, W(1));
#pragma unroll
    for (int i = 0; i < Packs * Width; ++i) of_weight.items[i] = of_bias.items[i] = 0;
    for (long long first = 0; first < rows; first += teams) {
        const long long row = first + team.row;
        const bool has = team.row < teams && row < rows;
        const int length = has ? n : 0;
        factor.load(grad + row * n, length, team.rank, W(0));
        part.load(in + row * n, length, team.rank, W(0));
        const W by = has ? scale[row] : W(0);
        W center = 0;
        if constexpr (Center) center = has ? mean[row] : W(0);
        W total = 0, along = 0;
#pragma unroll
        for (int i = 0; i < Packs * Width; ++i) {
            // Behind the end of the row the factor is 0.
            part.items[i] = (part.items[i] - center) * by;
            if constexpr (Center) of_bias.items[i] += factor.items[i];
            of_weight.items[i] += factor.items[i] * part.items[i];
            factor.items[i] *= weights.items[i];
            total += factor.items[i];
            along += factor.items[i] * part.items[i];
        }
        total = Center ? team.all(total, Plus()) / n : W(0);
        along = team.all(along, Plus()) / n;
#pragma unroll
        for (int i = 0; i < Packs * Width; ++i)
            part.items[i] = by * (factor.items[i] - total - part.items[i] * along);
        part.store(out + row * n, length, team.rank);
    }
    if (team.row >= teams) return;
    of_weight.store(sums + team.row * n, n, team.rank);
    if constexpr (Center) of_bias.store(sums + (teams + team.row) * n, n, team.rank);
}

template <bool Center, class W, int Threads, class Channel, class Grad, class In, class V, class Out>
__device__ void normalize_long_backward(
    long long rows, long long n, Channel channel, const Grad* grad, const In* in, const V* weight, const W* mean,
    const W* scale, Out* out) {
    const RowTeam<Threads, Threads> team;
    const long long start = team.row * n;
    const W by = scale[team.row];
    W center = 0;
    if constexpr (Center) center = mean[team.row];
    W total = 0, along = 0;
    for (long long i = team.rank; i < n; i += Threads) {
        const W g = W(to_compute(grad[start + i])) * value_or(weight, channel(team.row, i), W(1));
        total += g;
        along += g * ((W(to_compute(in[start + i])) - center) * by);
    }
    total = Center ? team.all(total, Plus()) / n : W(0);
    along = team.all(along, Plus()) / n;
    for (long long i = team.rank; i < n; i += Threads) {
        const W g = W(to_compute(grad[start + i])) * value_or(weight, channel(team.row, i), W(1));
        out[start + i] = to_element<Out>(by * (g - total - (W(to_compute(in[start + i])) - center) * by * along));
    }
}
