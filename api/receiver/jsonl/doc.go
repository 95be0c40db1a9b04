// Package jsonl reads the JSON lines of VictoriaMetrics's /api/v1/import and /api/v1/export. A line has samples of one series:
//
//	{"metric":{"__name__":"up","job":"node"},"values":[1,0.5,null],"timestamps":[1700000000000,1700000015000,1700000030000]}
//
// Timestamps are milliseconds since 1970. A value is a number, "Infinity", "-Infinity", "NaN", or null, which is a staleness
// marker. The words may come without quotes. Lines with "histograms" in place of "values" are an extension for native histograms.
package jsonl
