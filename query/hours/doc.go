// Package hours has operations on sorted lists of disjoint spans of hours.
package hours
