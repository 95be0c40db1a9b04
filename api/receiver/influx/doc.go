// Package influx receives InfluxDB's line protocol over HTTP, as InfluxDB 1 and 2 do.
//
// Each field of a line is a series. Its metric is measurement_field, or the measurement if the field is named value. Tags are
// labels, and the database is the label db. A line that does not parse is left out, and the response names its number.
package influx
