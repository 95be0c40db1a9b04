// Package ratelimit bounds the samples per second of all writes together with a token bucket. The bucket holds the samples
// of one second. A request passes while the bucket is not empty, and its samples may bring the bucket below zero. So a
// request larger than the bucket passes too, and later requests wait longer.
package ratelimit
