// Package window computes PromQL's functions over time: from the samples of one series, one value for each step.
//
// A [Window] has the samples in the window of each step. A [Func] computes a row of values from it, one value for each step.
// [Sliding] joins the rollup states of a window in place of its samples. The package works on slices and knows no expressions
// and no plans.
//
// If samples are evenly spaced and a step is a whole number of sample intervals, the bounds of windows are computed instead
// of searched. Long overlapping windows are summed by blocks if the result does not depend on the order of additions. Under
// the same condition, variances and lines use differences of running sums. Quantiles keep the window sorted.
package window
