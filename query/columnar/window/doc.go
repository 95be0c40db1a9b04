// Package window computes the functions over time of PromQL: from the samples of one series, one value for each step.
//
// [Window] finds the samples in the window of each step. A [Func] computes a row of values from it. [Sliding] joins the
// rolled-up states of a window instead of its samples. The package knows no expression and no plan: it works on slices.
//
// Where samples are evenly spaced and a step is a number of them, the bounds of windows are computed instead of searched.
// Long windows that overlap are summed block by block, if the order of the additions cannot show. Variances and lines take the
// difference of running sums under the same condition. Quantiles keep the window sorted.
package window
