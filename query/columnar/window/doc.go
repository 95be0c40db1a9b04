// Package window computes PromQL's functions over time: from the samples of one series, one value for each step.
//
// [Window] finds the samples in the window of each step. A [Func] computes a row of values from it. [Sliding] joins the
// rolled-up states of a window instead of its samples. The package has no expressions and no plans: it works on slices.
//
// If samples are evenly spaced and a step is a whole number of sample intervals, the bounds of windows are computed instead
// of searched. Long overlapping windows are summed by blocks if the result does not depend on the order of additions. Under
// the same condition, variances and lines use differences of running sums. Quantiles keep the window sorted.
package window
