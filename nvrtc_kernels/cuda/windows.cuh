// Windows that go over images of three spatial dimensions; missing ones have size 1.

#pragma once

struct Windows {
    int size[3], kernel[3], stride[3], padding[3], dilation[3], out[3];
    long long channel_step, item_channels;  // elements of a channel; of an item of the image
};

// Whether a window reaches element `at` with kernel element `k`, and from which position.
__device__ inline bool window_of(const Windows& w, int axis, int at, int k, int& position) {
    const int from = at + w.padding[axis] - k * w.dilation[axis];
    position = from / w.stride[axis];
    return from >= 0 && position * w.stride[axis] == from && position < w.out[axis];
}

// Calls visit(element, position) for every window that element (z, y, x) lies in.
template <class Visit>
__device__ inline void for_windows(const Windows& w, int z, int y, int x, Visit visit) {
    int pz, py, px;
    for (int kd = 0; kd < w.kernel[0]; ++kd) {
        if (!window_of(w, 0, z, kd, pz)) continue;
        for (int kh = 0; kh < w.kernel[1]; ++kh) {
            if (!window_of(w, 1, y, kh, py)) continue;
            for (int kw = 0; kw < w.kernel[2]; ++kw)
                if (window_of(w, 2, x, kw, px))
                    visit((kd * w.kernel[1] + kh) * w.kernel[2] + kw, (pz * w.out[1] + py) * w.out[2] + px);
        }
    }
}
