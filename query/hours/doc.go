// Package hours computes with spans of hours: sorted lists of disjoint spans.
package hours
