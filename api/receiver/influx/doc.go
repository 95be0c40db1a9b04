// Package influx receives InfluxDB's line protocol as InfluxDB 1 and 2 do over HTTP.
//
// Each field of a line is a series: its metric is measurement_field, or the measurement if the field is named value. Tags are
// labels, and the database is the label db. A line that does not parse is left out and named by its number.
package influx
