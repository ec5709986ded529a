// Transforms of Winograd's F(2 x 2, 3 x 3) of the elements of a tile, which are given and returned row by row.

#pragma once

template <int count>
struct Elements {
    float of[count];
};

// Rows, and then columns, of 4 elements become (d0 - d2, d1 + d2, d2 - d1, d1 - d3).
__device__ inline void image_step(float& a, float& b, float& c, float& d) {
    const float first = a - c, last = b - d, sum = b + c, difference = c - b;
    a = first, b = sum, c = difference, d = last;
}
__device__ inline Elements<16> image(Elements<16> tile) {
    float* t = tile.of;
#pragma unroll
    for (int i = 0; i < 4; i++) image_step(t[i], t[4 + i], t[8 + i], t[12 + i]);
#pragma unroll
    for (int i = 0; i < 16; i += 4) image_step(t[i], t[i + 1], t[i + 2], t[i + 3]);
    return tile;
}

// Of 4 to 2: (p0 + p1 + p2, p1 - p2 - p3).
__device__ inline Elements<4> products(Elements<16> tile) {
    const float* t = tile.of;
    float rows[8];
    Elements<4> result;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        rows[i] = t[i] + t[4 + i] + t[8 + i];
        rows[4 + i] = t[4 + i] - t[8 + i] - t[12 + i];
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float* r = rows + 4 * i;
        result.of[2 * i] = r[0] + r[1] + r[2];
        result.of[2 * i + 1] = r[1] - r[2] - r[3];
    }
    return result;
}

// Of 2 to 4: (a, a + b, a - b, -b).
__device__ inline Elements<16> gradient(Elements<4> tile) {
    const float* t = tile.of;
    Elements<16> result;
    const float rows[8] = {t[0], t[1], t[0] + t[2], t[1] + t[3], t[0] - t[2], t[1] - t[3], -t[2], -t[3]};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float a = rows[2 * i], b = rows[2 * i + 1];
        float* to = result.of + 4 * i;
        to[0] = a, to[1] = a + b, to[2] = a - b, to[3] = -b;
    }
    return result;
}

// Of 3 to 4: (g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2).
__device__ inline Elements<16> weight(Elements<9> tile) {
    const float* t = tile.of;
    float rows[12];
    Elements<16> result;
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const float outer = 0.5f * (t[i] + t[6 + i]), inner = 0.5f * t[3 + i];
        rows[i] = t[i], rows[3 + i] = outer + inner, rows[6 + i] = outer - inner, rows[9 + i] = t[6 + i];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float* r = rows + 3 * i;
        const float outer = 0.5f * (r[0] + r[2]), inner = 0.5f * r[1];
        float* to = result.of + 4 * i;
        to[0] = r[0], to[1] = outer + inner, to[2] = outer - inner, to[3] = r[2];
    }
    return result;
}

// Of 4 to 3: (u0 + (u1 + u2) / 2, (u1 - u2) / 2, (u1 + u2) / 2 + u3).
__device__ inline Elements<9> weight_gradient(Elements<16> tile) {
    const float* t = tile.of;
    float rows[12];
    Elements<9> result;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float half = 0.5f * (t[4 + i] + t[8 + i]);
        rows[i] = t[i] + half, rows[4 + i] = 0.5f * (t[4 + i] - t[8 + i]), rows[8 + i] = half + t[12 + i];
    }
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const float* r = rows + 4 * i;
        const float half = 0.5f * (r[1] + r[2]);
        float* to = result.of + 3 * i;
        to[0] = r[0] + half, to[1] = 0.5f * (r[1] - r[2]), to[2] = half + r[3];
    }
    return result;
}
