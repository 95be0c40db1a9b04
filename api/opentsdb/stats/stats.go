package stats

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Point is one data point.
type Point struct {
	Metric string `json:"metric"`
	// Timestamp is in seconds since 1970.
	Timestamp int64             `json:"timestamp"`
	Value     string            `json:"value"`
	Tags      map[string]string `json:"tags"`
	tagText   string
}

// Source returns the data points.
type Source struct {
	Gatherer prometheus.Gatherer
	// Host is the value of tag host.
	Host string
	// Now is the clock.
	Now func() time.Time
}

// Points returns a data point for each counter and gauge, and two for each histogram and summary: count and sum.
func (s *Source) Points() ([]Point, error) {
	families, err := s.Gatherer.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather the server's metrics: %w", err)
	}
	var out []Point
	ts := s.Now().Unix()
	for _, family := range families {
		name := "tsd." + strings.ReplaceAll(family.GetName(), "_", ".")
		for _, m := range family.Metric {
			tags, text := s.tags(m)
			add := func(metric string, v float64) {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					value := strconv.FormatFloat(v, 'f', -1, 64)
					out = append(out, Point{Metric: metric, Timestamp: ts, Value: value, Tags: tags, tagText: text})
				}
			}
			switch {
			case m.Counter != nil:
				add(name, m.Counter.GetValue())
			case m.Gauge != nil:
				add(name, m.Gauge.GetValue())
			case m.Untyped != nil:
				add(name, m.Untyped.GetValue())
			case m.Histogram != nil:
				add(name+".count", float64(m.Histogram.GetSampleCount()))
				add(name+".sum", m.Histogram.GetSampleSum())
			case m.Summary != nil:
				add(name+".count", float64(m.Summary.GetSampleCount()))
				add(name+".sum", m.Summary.GetSampleSum())
			}
		}
	}
	return out, nil
}

// tags returns the labels of a metric as tags, and as text.
func (s *Source) tags(m *dto.Metric) (map[string]string, string) {
	tags := make(map[string]string, len(m.Label)+1)
	var text strings.Builder
	for _, l := range m.Label {
		if value := legal(l.GetValue()); value != "" {
			tags[l.GetName()] = value
			text.WriteString(" " + l.GetName() + "=" + value)
		}
	}
	tags["host"] = legal(s.Host)
	text.WriteString(" host=" + tags["host"])
	return tags, text.String()
}

// legal replaces the characters that OpenTSDB does not allow in a value.
func legal(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./", c) {
			return c
		}
		return '_'
	}, text)
}

// AppendLine appends a data point as a line of telnet, without the command put.
func (p *Point) AppendLine(dst []byte) []byte {
	dst = append(append(dst, p.Metric...), ' ')
	dst = append(strconv.AppendInt(dst, p.Timestamp, 10), ' ')
	return append(append(append(dst, p.Value...), p.tagText...), '\n')
}

// Lines returns all data points as lines.
func (s *Source) Lines() ([]byte, error) {
	points, err := s.Points()
	if err != nil {
		return nil, err
	}
	var out []byte
	for n := range points {
		out = points[n].AppendLine(out)
	}
	return out, nil
}
