// Package widerows finds rows with many bytes. It adds up the sizeable writes to each row for a day. A row that reaches 1 %
// of the largest row of Bigtable is wide. The package counts wide rows, so an alert reports them long before reads fail.
package widerows
