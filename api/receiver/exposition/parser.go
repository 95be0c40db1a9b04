package exposition

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/prometheus/common/model"
	promexemplar "github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"google.golang.org/protobuf/encoding/protowire"

	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// Parser parses one body.
type Parser struct {
	// ContentType is the header of that name. Anything but OpenMetrics and protobuf is read as the text format.
	ContentType string
	// TsMs is the time of samples without a timestamp, in milliseconds since 1970.
	TsMs int64
	// OwnTimeOnly refuses samples that have a time.
	OwnTimeOnly bool

	extra  []label
	prefix []byte // extra as label fields, for the keys
	key    [keyBytes]byte
	format format
	types  model.MetricType
	lines  lines
	meta   remotewrite.Metadata
	labels labels.Labels
	fields []byte
}

type label struct{ name, value string }

// format is the format of a body, as encoded in the keys.
type format byte

const (
	formatText format = iota
	formatOpenMetrics
	formatProtobuf
)

// The first bytes of a key are keyMark, the format, and whether labels le or quantile are numbers. No label field begins so.
const (
	keyMark  = 1
	keyBytes = 3
)

// Parse adds the series of a body to a batch. The error names the line.
func (p *Parser) Parse(body []byte, b *batch.Batch) error {
	body = append(body, '\n')[:len(body)] // the parser appends too, and its results must stay slices of body
	p.lines, p.key[0] = lines{body: body}, keyMark
	switch media, _, _ := strings.Cut(p.ContentType, ";"); strings.TrimSpace(media) {
	case "application/openmetrics-text":
		p.format = formatOpenMetrics
	case "application/vnd.google.protobuf":
		p.format = formatProtobuf
	}
	check := checkLines
	if p.format == formatProtobuf {
		check = checkFamilies
	} else {
		b.SetLabels(p.appendFields)
	}
	if err := check(body); err != nil {
		return err
	}
	defer p.describe(b, nil)
	if p.format != formatText || bytes.IndexByte(body, 0) >= 0 { // the parser ends at a byte 0
		return p.parse(body, b)
	}
	for len(body) > 0 {
		rest, err := p.scanText(body, b)
		if err != nil {
			return err
		}
		head, next := comments(rest)
		if len(head) == 0 {
			head, next = rest, nil
		}
		if len(head) > 0 {
			// The parser appends a line break in place of the last one.
			if err := p.parse(bytes.TrimSuffix(head, []byte{'\n'}), b); err != nil {
				return err
			}
		}
		body = next
	}
	return nil
}

// lineBytesMax bounds a line of text, and a metric in protobuf. Prometheus's labels corrupt or panic for a longer string.
const lineBytesMax = 1<<24 - 1

// checkLines returns an error for a line that is too long.
func checkLines(body []byte) error {
	number := 0
	for len(body) > lineBytesMax {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		if number++; len(line) > lineBytesMax {
			return fmt.Errorf("line %d: it has %d bytes, more than the limit of %d", number, len(line), lineBytesMax)
		}
		body = rest
	}
	return nil
}

// checkFamilies returns an error for a metric in protobuf that is too long. The parser finds all other faults.
func checkFamilies(body []byte) error {
	for number := 1; len(body) > lineBytesMax; number++ {
		family, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return nil
		}
		body = body[n:]
		for len(family) > lineBytesMax {
			if _, _, n = protowire.ConsumeField(family); n < 0 {
				return nil
			}
			if n > lineBytesMax {
				return fmt.Errorf("metric family %d: a field has %d bytes, more than the limit of %d", number, n, lineBytesMax)
			}
			family = family[n:]
		}
	}
	return nil
}

// parse adds the series of a part of the body to a batch by Prometheus's parser.
func (p *Parser) parse(body []byte, b *batch.Batch) error {
	parser, err := textparse.New(body, p.ContentType, labels.NewSymbolTable(), textparse.ParserOptions{
		FallbackContentType: "text/plain",
	})
	if parser == nil {
		return err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = p.append(parser, entry, b)
		}
		if err != nil {
			if line := p.lines.number(); p.format != formatProtobuf {
				err = fmt.Errorf("line %d or later: %w", line, err)
			}
			return err
		}
	}
}

// append adds one entry to the batch.
func (p *Parser) append(parser textparse.Parser, entry textparse.Entry, b *batch.Batch) error {
	switch entry {
	case textparse.EntrySeries:
		series, ts, value := parser.Series()
		p.lines.at(series)
		tsMs, err := p.time(ts)
		if err != nil {
			return err
		}
		if err := p.begin(parser, series, b); err != nil {
			return err
		}
		b.Sample(remotewrite.Sample{TsMs: tsMs, StartMs: p.start(parser), Value: value})
		p.exemplars(parser, tsMs, b)
	case textparse.EntryHistogram:
		series, ts, h, fh := parser.Histogram()
		tsMs, err := p.time(ts)
		if err != nil {
			return err
		}
		if err := p.begin(parser, series, b); err != nil {
			return err
		}
		b.Histogram(remotewrite.Histogram{TsMs: tsMs, StartMs: p.start(parser), H: h, FH: fh})
		p.exemplars(parser, tsMs, b)
	case textparse.EntryType:
		name, kind := parser.Type()
		p.types = kind
		p.describe(b, name)
		p.meta.Type = string(kind)
	case textparse.EntryHelp:
		name, help := parser.Help()
		p.describe(b, name)
		p.meta.Help = string(help)
	case textparse.EntryUnit:
		name, unit := parser.Unit()
		p.describe(b, name)
		p.meta.Unit = string(unit)
	}
	return nil
}

// time returns the time of a sample.
func (p *Parser) time(ts *int64) (int64, error) {
	if ts == nil {
		return p.TsMs, nil
	}
	if p.OwnTimeOnly {
		return 0, errors.New("pushed metrics must not have timestamps")
	}
	return *ts, nil
}

// start returns the start timestamp of the current sample, 0 if there is none. In OpenMetrics start timestamps are separate
// series, as in Prometheus. Prometheus's parser could assign them, but for each sample it would read to the end of the metric.
func (p *Parser) start(parser textparse.Parser) int64 {
	if p.format != formatProtobuf {
		return 0
	}
	return parser.StartTimestamp()
}

// describe adds the description of a metric to the batch once the next metric begins.
func (p *Parser) describe(b *batch.Batch, metric []byte) {
	if p.meta.Metric == string(metric) {
		return
	}
	if p.meta.Metric != "" {
		if p.meta.Type == "" {
			p.meta.Type = string(model.MetricTypeUnknown)
		}
		b.Metadata(p.meta)
	}
	p.meta = remotewrite.Metadata{Metric: string(metric)}
}

// exemplars adds the exemplars of the current sample.
func (p *Parser) exemplars(parser textparse.Parser, tsMs int64, b *batch.Batch) {
	if p.format == formatText {
		return // the parser returns no exemplar
	}
	var e promexemplar.Exemplar
	for parser.Exemplar(&e) {
		if !e.HasTs {
			e.Ts = tsMs
		}
		b.Exemplar(remotewrite.Exemplar{TsMs: e.Ts, Value: e.Value, Labels: e.Labels})
		e = promexemplar.Exemplar{}
	}
}

// begin begins a series. Its key is its text. Protobuf has no text, so there the key has the labels.
func (p *Parser) begin(parser textparse.Parser, series []byte, b *batch.Batch) error {
	if p.format != formatProtobuf {
		return b.Begin([]byte{keyMark, byte(p.format), numbersOf(p.types)}, p.prefix, series)
	}
	parser.Labels(&p.labels)
	p.fields = p.appendLabels(p.fields[:0], p.labels)
	return b.Begin(p.fields)
}

// Metric types whose parser writes the numbers in labels in one way.
const (
	numbersNone = iota
	numbersHistogram
	numbersSummary
)

func numbersOf(kind model.MetricType) byte {
	switch kind {
	case model.MetricTypeHistogram, model.MetricTypeGaugeHistogram:
		return numbersHistogram
	case model.MetricTypeSummary:
		return numbersSummary
	}
	return numbersNone
}

// appendFields appends the label fields of the series with a key. It parses the text of the series again.
func (p *Parser) appendFields(dst, key []byte) ([]byte, error) {
	var text bytes.Buffer
	switch key[2] {
	case numbersHistogram:
		text.WriteString("# TYPE x histogram\n")
	case numbersSummary:
		text.WriteString("# TYPE x summary\n")
	}
	series := key[keyBytes+len(p.prefix):]
	text.Write(series)
	text.WriteString(" 0\n")
	contentType := "text/plain"
	if format(key[1]) == formatOpenMetrics {
		contentType = p.ContentType
	}
	parser, err := textparse.New(text.Bytes(), contentType, labels.NewSymbolTable(), textparse.ParserOptions{
		FallbackContentType: "text/plain",
	})
	if parser == nil {
		return dst, err
	}
	for {
		entry, err := parser.Next()
		if err != nil {
			return dst, fmt.Errorf("%s: %w", p.lines.place(series), err)
		}
		if entry == textparse.EntrySeries {
			break
		}
	}
	if found, _, _ := parser.Series(); len(found) != len(series) {
		return dst, fmt.Errorf("%s: more text after the timestamp", p.lines.place(series))
	}
	var ls labels.Labels
	parser.Labels(&ls)
	return p.appendLabels(dst, ls), nil
}

// appendLabels appends the label fields of a series. The extra labels replace its own labels of the same name.
func (p *Parser) appendLabels(dst []byte, ls labels.Labels) []byte {
	if len(p.extra) == 0 {
		return remotewrite.AppendFields(dst, ls)
	}
	builder := labels.NewBuilder(ls)
	for _, l := range p.extra {
		builder.Set(l.name, l.value)
	}
	return remotewrite.AppendFields(dst, builder.Labels())
}

// lines finds the numbers of lines.
type lines struct {
	body []byte
	last []byte // offset of the last series read
}

func (l *lines) at(series []byte) { l.last = series }

// number returns the number of the line after the last series, or 1.
func (l *lines) number() int {
	// Slices of one array have the same end.
	from := cap(l.body) - cap(l.last)
	if l.last == nil || from < 0 || from > len(l.body) {
		return 1
	}
	return 2 + bytes.Count(l.body[:from], []byte("\n"))
}

// place describes the place of a series.
func (l *lines) place(series []byte) string {
	line := 1 + bytes.Count(l.body[:max(0, bytes.Index(l.body, series))], []byte("\n"))
	return fmt.Sprintf("line %d: series %.200q", line, series)
}

// decodeBase64 decodes the alphabet of URLs, with or without padding. A single = stands for the empty text.
func decodeBase64(text string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	return string(raw), err
}
