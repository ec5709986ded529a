// Rows of contiguous (rows, n) arrays normalised, and the gradient of that: layer, group and root-mean-square
// normalisation, each in one kernel. W is the type that is computed in: float for half precision.
//
// rows  n up to some thousands: a team has a row in registers (rows.cuh), which is read once;
// long  longer: a block has a row and reads it again to normalise it; the second time it is in the cache.
//
// Both take the squares of distances from a mean, so that no digits are lost to one that is large against the deviation: of
// the row, or of some packs, whose moments are then combined. `Center` says whether there is a mean to take away.
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

// Mean of the values that a thread has taken, and sum of their squared distances from it (or without `Center` from 0).
template <bool Center, class W>
struct ThreadMoments {
    W count = 0, mean = 0, squares = 0;

    // Combined as Chan, Golub and LeVeque do.
    template <int N>
    __device__ void take(const W (&x)[N]) {
        if constexpr (Center) {
            W sum = 0, own = 0;
#pragma unroll
            for (int i = 0; i < N; ++i) sum += x[i];
            const W center = sum * (W(1) / N);
#pragma unroll
            for (int i = 0; i < N; ++i) own += (x[i] - center) * (x[i] - center);
            const W away = center - mean, share = N / (count + N);
            squares += own + away * away * count * share;
            mean += away * share;
            count += N;
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i) squares += x[i] * x[i];
        }
    }
};

// Factors of elements, or what is added to them, from element `at` of a row on.
template <class W, int N, class Channel, class V>
__device__ void channels_from(W (&items)[N], const V* values, const Channel& channel, long long row, long long at) {
    if constexpr (Channel::packed) {
#pragma unroll
        for (int i = 0; i < N; ++i) items[i] = W(to_compute(values[channel(row, at + i)]));
    } else {
        const long long first = channel(row, at), last = channel(row, at + N - 1);
        if (first == last) {
            const W value = to_compute(values[first]);
#pragma unroll
            for (int i = 0; i < N; ++i) items[i] = value;
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i) items[i] = W(to_compute(values[channel(row, at + i)]));
        }
    }
}

template <bool Center, class W, int Threads, class Channel, class In, class V, class Out>
__device__ void normalize_long(
    long long rows, long long n, Channel channel, double eps, const In* in, const V* weight, const V* bias, Out* out,
    W* mean, W* scale) {
    constexpr int Width = 16 / sizeof(In);
    const RowTeam<Threads, Threads> team;
    const RaggedRow<Width> row(team.row * n, n, is_aligned<Width>(in) && is_aligned<Width>(out));
    in += team.row * n;
    out += team.row * n;
    const auto load = [&](auto width, long long at) { return pack_of<width.value>(in + at); };
    ThreadMoments<Center, W> own;
    over_row<Threads, 4>(row, team.rank, load, [&](auto width, auto count, const auto& packs, long long, int) {
        W x[count.value * width.value];
        widen(x, packs);
        own.take(x);
    });
    W center = 0;
    if constexpr (Center) {
        center = team.all(own.count * own.mean, Plus()) / n;
        own.squares += own.count * (own.mean - center) * (own.mean - center);
    }
    const W squares = team.all(own.squares, Plus());
    const W by = rsqrt(squares / n + static_cast<W>(eps));
    if (team.rank == 0) {
        if constexpr (Center) mean[team.row] = center;
        scale[team.row] = by;
    }
    over_row<Threads, 2>(row, team.rank, load, [&](auto width, auto count, const auto& packs, long long at, int step) {
        Pack<Out, width.value> results[count.value];
#pragma unroll
        for (int u = 0; u < count.value; ++u) {
            W factor[width.value], more[width.value];
            if (weight != nullptr) {
                channels_from(factor, weight, channel, team.row, at + u * step);
            } else {
#pragma unroll
                for (int i = 0; i < width.value; ++i) factor[i] = W(1);
            }
            if (bias != nullptr) {
                channels_from(more, bias, channel, team.row, at + u * step);
            } else {
#pragma unroll
                for (int i = 0; i < width.value; ++i) more[i] = W(0);
            }
#pragma unroll
            for (int i = 0; i < width.value; ++i)
                results[u].items[i] =
                    to_element<Out>((W(to_compute(packs[u].items[i])) - center) * (by * factor[i]) + more[i]);
        }
        store_packs(out + at, step, results);
    });
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
    long long rows, int n, long long teams, Grad grad, const In* in, const V* weight, const W* mean, const W* scale,
    Out out, W* sums) {
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
