// Connectionist temporal classification (Graves, Fernandez, Gomez, Schmidhuber, ICML 2006), in logarithms.
//
// A target of S labels has 2 S + 1 states: labels at odd ones, blanks around them. A block has a sample; its threads
// have states, and all of them go through time together, so that a step waits for nothing but the one before it.
//
//   forward   alpha[t][state]: all ways that end there; kept for the gradient. The loss comes from the last two
//   backward  beta[t][state], two steps of it at a time, and the gradient of each step as soon as beta is known:
//             exp(log_prob) less what the states of the class have of all ways. States of a class are chained
//             together first, and summed in their order: the result is the same in every run, without atomics
//
// log_probs have shape (time, samples, classes), any strides; `targets` has the labels of a sample at `start[sample]`.

#pragma once

struct Ctc {
    long long time_step, sample_step, class_step;  // of log_probs
    long long samples, classes, times, states;     // states is 2 * longest target + 1
    long long blank;
};

template <class W>
__device__ inline W nothing() { return -W(__int_as_float(0x7f800000)); }

template <class W>
__device__ inline W log_sum(W a, W b, W c) {
    const W most = fmax(a, fmax(b, c));
    if (most == nothing<W>()) return most;
    return most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

struct Labels {
    const long long* labels;
    long long blank;
    __device__ long long operator()(long long state) const { return state % 2 ? labels[state / 2] : blank; }
    // Whether a way may go from `state` to the label after next, over the blank between them.
    __device__ bool skips(long long state) const { return state % 2 && labels[state / 2] != labels[state / 2 + 1]; }
};

template <class W>
__device__ void ctc_forward(
    Ctc sizes, const W* log_probs, const long long* targets, const long long* start, const long long* lengths,
    const long long* target_lengths, W* alpha, W* loss) {
    for (long long sample = blockIdx.x; sample < sizes.samples; sample += gridDim.x) {
        const Labels label{targets + start[sample], sizes.blank};
        const long long times = lengths[sample], states = 2 * target_lengths[sample] + 1;
        const W* given = log_probs + sample * sizes.sample_step;
        W* own = alpha + sample * sizes.times * sizes.states;
        for (long long s = threadIdx.x; s < states; s += blockDim.x)
            assert(label(s) >= 0 && label(s) < sizes.classes && "ctc_loss(): a target is no class");
        for (long long t = 0; t < times; ++t) {
            const W* before = own + (t - 1) * sizes.states;
            for (long long s = threadIdx.x; s < states; s += blockDim.x) {
                const W here = given[t * sizes.time_step + label(s) * sizes.class_step];
                W ways = s < 2 ? W(0) : nothing<W>();
                if (t > 0)
                    ways = log_sum(
                        before[s], s > 0 ? before[s - 1] : nothing<W>(),
                        s > 1 && label.skips(s - 2) ? before[s - 2] : nothing<W>());
                own[t * sizes.states + s] = ways + here;
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            const W* last = own + (times - 1) * sizes.states;
            if (times == 0) loss[sample] = states == 1 ? W(0) : -nothing<W>();
            else
                loss[sample] = -log_sum(
                    last[states - 1], states > 1 ? last[states - 2] : nothing<W>(), nothing<W>());
        }
    }
}

// `chain` says for each state the next one of the same class (0: none), and by a sign whether it is the first one.
template <class W>
__device__ void ctc_backward(
    Ctc sizes, bool zero_infinity, const W* log_probs, const long long* targets, const long long* start,
    const long long* lengths, const long long* target_lengths, const W* alpha, const W* loss, const W* grad,
    int* chain, W* beta, W* out) {
    for (long long sample = blockIdx.x; sample < sizes.samples; sample += gridDim.x) {
        const Labels label{targets + start[sample], sizes.blank};
        const long long times = lengths[sample], states = 2 * target_lengths[sample] + 1;
        const W* given = log_probs + sample * sizes.sample_step;
        const W* own = alpha + sample * sizes.times * sizes.states;
        W* rows = beta + 2 * sample * sizes.states;
        int* next = chain + 2 * sample * sizes.states;
        int* first = next + sizes.states;
        for (long long s = threadIdx.x; s < states; s += blockDim.x) {
            int found = 0, is_first = 1;
            const long long wanted = label(s);
            for (long long other = s - 1; other >= 0 && is_first; --other) is_first = label(other) != wanted;
            for (long long other = s + 1; other < states && !found; ++other)
                if (label(other) == wanted) found = static_cast<int>(other);
            next[s] = found;
            first[s] = is_first;
        }
        const W lost = loss[sample];
        const bool drop = zero_infinity && lost == -nothing<W>();
        const W factor = grad[sample];
        for (long long t = sizes.times - 1; t >= 0; --t) {
            W* now = rows + t % 2 * sizes.states;
            const W* after = rows + (t + 1) % 2 * sizes.states;
            const bool counts = t < times && !drop;
            if (counts) {
                for (long long s = threadIdx.x; s < states; s += blockDim.x) {
                    const W here = given[t * sizes.time_step + label(s) * sizes.class_step];
                    W ways = s >= states - 2 ? W(0) : nothing<W>();
                    if (t < times - 1)
                        ways = log_sum(
                            after[s], s + 1 < states ? after[s + 1] : nothing<W>(),
                            s + 2 < states && label.skips(s) ? after[s + 2] : nothing<W>());
                    now[s] = ways + here;
                }
            }
            __syncthreads();
            W* made = out + (t * sizes.samples + sample) * sizes.classes;
            for (long long c = threadIdx.x; c < sizes.classes; c += blockDim.x)
                made[c] = counts ? exp(given[t * sizes.time_step + c * sizes.class_step]) * factor : W(0);
            __syncthreads();
            if (counts) {
                for (long long s = threadIdx.x; s < states; s += blockDim.x) {
                    if (!first[s]) continue;
                    const long long c = label(s);
                    const W here = given[t * sizes.time_step + c * sizes.class_step];
                    W share = 0;
                    long long at = s;
                    do {
                        share += exp(own[t * sizes.states + at] + now[at] - here + lost);
                        at = next[at];
                    } while (at);
                    made[c] -= share * factor;
                }
            }
            __syncthreads();
        }
    }
}
