package influx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// ProtocolV1 and ProtocolV2 are the names of the protocols. Version is the version of InfluxDB 1 whose writes are compatible.
const (
	ProtocolV1 = "InfluxDB 1 line protocol"
	ProtocolV2 = "InfluxDB 2 line protocol"
	Version    = "1.8.10"
)

// linesShown bounds the bad lines in a response.
const linesShown = 10

// Options name series. The zero value is not valid; see DefaultOptions. The names of VictoriaMetrics's flags are in brackets.
type Options struct {
	// DatabaseLabel is the label of the database or bucket; "" leaves it out (influxDBLabel).
	DatabaseLabel string
	// Separator joins measurement and field to the name of the metric (influxMeasurementFieldSeparator).
	Separator string
	// KeepValue keeps the name of a field that is named value. Otherwise its metric is the measurement, as in Telegraf.
	KeepValue bool
	// SkipSingleField names the metric of the only field of a line by the measurement (influxSkipSingleField).
	SkipSingleField bool
	// SkipMeasurement names metrics by their fields alone (influxSkipMeasurement).
	SkipMeasurement bool
}

// Defaults of Options.
const (
	DatabaseLabelDefault = "db"
	SeparatorDefault     = "_"
)

// DefaultOptions returns the names of Telegraf's output for Prometheus.
func DefaultOptions() Options {
	return Options{DatabaseLabel: DatabaseLabelDefault, Separator: SeparatorDefault}
}

// appendKey appends the options to the key of a series, because they determine its labels.
func (o *Options) appendKey(dst []byte) []byte {
	flags := byte('0')
	for n, set := range []bool{o.KeepValue, o.SkipSingleField, o.SkipMeasurement} {
		if set {
			flags += 1 << n
		}
	}
	dst = append(dst, flags)
	for _, text := range []string{o.DatabaseLabel, o.Separator} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return dst
}

// request is one write of lines.
type request struct {
	v2       bool
	options  Options
	fault    error
	database string
	unit     unit
	nowMs    int64

	prefix []byte // begins all keys
	line   line
	// bad counts the lines that were left out. badLines are their errors.
	bad      []string
	firstBad int
	badLines int
}

// unit is a unit of timestamps: a millisecond has perMs of them, or one has ms milliseconds.
type unit struct{ perMs, ms int64 }

func units() map[string]unit {
	return map[string]unit{
		"": {perMs: 1e6}, "n": {perMs: 1e6}, "ns": {perMs: 1e6}, "u": {perMs: 1e3}, "us": {perMs: 1e3}, "µ": {perMs: 1e3},
		"ms": {perMs: 1}, "s": {ms: 1e3}, "m": {ms: 60e3}, "h": {ms: 3600e3},
	}
}

// keyMark begins the keys. No label field and no key of another protocol begins so.
const keyMark = 2

// V1 returns the protocol of /write. The URL may have the parameters db and precision. It asks for the options at each request.
func V1(now func() time.Time, options func() Options) receiver.Open {
	return open(now, options, false, "db")
}

// V2 returns the protocol of /api/v2/write. The URL may have the parameters bucket and precision.
func V2(now func() time.Time, options func() Options) receiver.Open {
	return open(now, options, true, "bucket")
}

func open(now func() time.Time, options func() Options, v2 bool, database string) receiver.Open {
	known := units()
	return func(r *http.Request) receiver.Request {
		query := r.URL.Query()
		x := &request{v2: v2, options: options(), database: query.Get(database), nowMs: now().UnixMilli()}
		x.prefix = append(append(x.options.appendKey([]byte{keyMark}), x.database...), '\n')
		var ok bool
		precision := query.Get("precision")
		if x.unit, ok = known[precision]; !ok || v2 && (precision == "m" || precision == "h") {
			valid := "n, u, ms, s, m and h"
			if v2 {
				valid = "ns, us, ms, and s"
			}
			x.fault = fmt.Errorf("invalid precision %q; valid precision units are %s", precision, valid)
		}
		return x
	}
}

func (x *request) Protocol() string {
	if x.v2 {
		return ProtocolV2
	}
	return ProtocolV1
}

func (x *request) Check() error { return x.fault }

// Parse adds the fields of all lines to a batch.
func (x *request) Parse(body []byte, b *batch.Batch) error {
	b.SetLabels(x.appendFields)
	for number := 1; len(body) > 0; {
		text, rest := cutLine(body)
		body = rest
		at := number
		number += 1 + bytes.Count(text, []byte{'\n'})
		text = bytes.TrimLeft(bytes.TrimSuffix(text, []byte{'\r'}), " \t\r\x00")
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		err := x.line.parse(text)
		tsMs := x.nowMs
		if err == nil && x.line.hasTime {
			tsMs, err = x.milliseconds(x.line.time, b)
		}
		if err != nil {
			x.reject(at, text, err, b)
			continue
		}
		if x.line.strings > 0 {
			b.Reject(batch.Rejection{Count: x.line.strings, Reason: ingest.ReasonNotNumeric, Silent: true})
		}
		end := []byte(fieldFollows)
		if x.options.SkipSingleField && len(x.line.fields)+x.line.strings == 1 {
			end = []byte(onlyField)
		}
		for _, f := range x.line.fields {
			if err := b.Begin(x.prefix, x.line.head, end, f.key); err != nil {
				return err
			}
			b.Sample(remotewrite.Sample{TsMs: tsMs, Value: f.value})
		}
	}
	return nil
}

// What follows the measurement and the tags in a key: a field of several, or the only one if that changes its name.
const (
	fieldFollows = "\n"
	onlyField    = "\n\n"
)

// metric returns the name of the metric of a field. field is "" if it is the only one and that changes its name.
func (o *Options) metric(measurement, field string) string {
	switch {
	case field == "" || field == "value" && !o.KeepValue && !o.SkipMeasurement:
		return measurement
	case o.SkipMeasurement:
		return field
	}
	return measurement + o.Separator + field
}

// milliseconds converts a timestamp into milliseconds since 1970. Smaller fractions are cut off.
func (x *request) milliseconds(ts int64, b *batch.Batch) (int64, error) {
	if x.unit.ms > 0 {
		if ts > math.MaxInt64/x.unit.ms || ts < math.MinInt64/x.unit.ms {
			return 0, errTime
		}
		return ts * x.unit.ms, nil
	}
	ms := ts / x.unit.perMs
	switch rest := ts - ms*x.unit.perMs; {
	case rest < 0:
		ms--
		fallthrough
	case rest > 0:
		b.CountEqual()
	}
	return ms, nil
}

// reject leaves out a line.
func (x *request) reject(number int, text []byte, err error, b *batch.Batch) {
	x.badLines++
	if x.badLines == 1 {
		x.firstBad = number
	}
	detail := ""
	if x.badLines <= linesShown {
		detail = lineError(number, text, err)
		x.bad = append(x.bad, detail)
	}
	b.Reject(batch.Rejection{Count: 1, Reason: ingest.ReasonMalformedLine, Detail: detail})
}

// appendFields appends the label fields of the series with a key.
func (x *request) appendFields(dst, key []byte) ([]byte, error) {
	rest := key[len(x.prefix):]
	at := bytes.IndexByte(rest, '\n')
	head, field := rest[:at], rest[at+1:]
	if field[0] == '\n' {
		field = nil
	}
	at, stop := until(head, 0, ',', ',')
	dst = remotewrite.AppendField(dst, model.MetricNameLabel, x.options.metric(unescape(head[:at]), unescape(field)))
	hasDatabase := x.database == "" || x.options.DatabaseLabel == ""
	for stop == ',' {
		from := at + 1
		at, _ = until(head, from, '=', '=')
		tag := unescape(head[from:at])
		from = at + 1
		at, stop = until(head, from, ',', ',')
		hasDatabase = hasDatabase || tag == x.options.DatabaseLabel
		dst = remotewrite.AppendField(dst, tag, unescape(head[from:at]))
	}
	if !hasDatabase {
		dst = remotewrite.AppendField(dst, x.options.DatabaseLabel, x.database)
	}
	return dst, nil
}

// unescape removes the backslashes before commas, equals signs and spaces. Others stay.
func unescape(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	var out strings.Builder
	for n := 0; n < len(text); n++ {
		if text[n] == '\\' && n+1 < len(text) && strings.IndexByte(", =", text[n+1]) >= 0 {
			n++
		}
		out.WriteByte(text[n])
	}
	return out.String()
}

// Respond names the lines and samples that were left out.
func (x *request) Respond(result *ingest.Result) receiver.Response {
	if result.Rejected == 0 {
		return receiver.Response{Status: http.StatusNoContent, Header: versionHeader()}
	}
	text := strings.Join(x.bad, "\n")
	if more := x.badLines - len(x.bad); more > 0 {
		text += fmt.Sprintf("\n%d more lines", more)
	}
	if result.Rejected > x.badLines {
		text = strings.TrimPrefix(text+"\n"+result.Summary(), "\n")
	}
	return x.failure(http.StatusBadRequest, fmt.Sprintf("partial write: %s dropped=%d", text, result.Rejected))
}

// Refuse is an error in InfluxDB's JSON.
func (x *request) Refuse(status int, err error) receiver.Response {
	return x.failure(status, err.Error())
}

func (x *request) failure(status int, message string) receiver.Response {
	var document any = map[string]string{"error": message}
	if x.v2 {
		v2 := map[string]any{"code": code(status), "message": message}
		if x.firstBad > 0 {
			v2["line"] = x.firstBad
		}
		document = v2
	}
	body, err := json.Marshal(document)
	if err != nil {
		body = []byte(`{}`) // texts and numbers always encode
	}
	response := receiver.Response{Status: status, Type: "application/json", Body: append(body, '\n'), Header: versionHeader()}
	if !x.v2 {
		response.Header["X-Influxdb-Error"] = strings.ReplaceAll(message, "\n", " ")
	}
	return response
}

func versionHeader() map[string]string { return map[string]string{"X-Influxdb-Version": Version} }

// code is InfluxDB 2's word for a status.
func code(status int) string {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return "request too large"
	case http.StatusServiceUnavailable:
		return "unavailable"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusInternalServerError:
		return "internal error"
	}
	return "invalid"
}
