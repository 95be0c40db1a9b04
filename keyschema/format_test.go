package keyschema

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"halite/keyschema/chunktest"
)

// TestFormat pins the bytes of keys and qualifiers and checks that FORMAT.md shows each example exactly.
func TestFormat(t *testing.T) {
	chunktest.CheckFormat(t, "FORMAT.md", example)
}

func example(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	rule := DefaultRule()
	rule.Pattern = "m*"
	scanRule(t, d, &rule)
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		switch d.Cmd {
		case "escape":
			text, err := strconv.Unquote(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			fmt.Fprintf(&out, "%s\n", AppendEscaped(nil, text))
		case "key":
			s, hour := scanSeries(t, line)
			fmt.Fprintf(&out, "%s\n", key(&rule, s, hour))
		case "hex":
			s, hour := scanSeries(t, line)
			out.WriteString(hex.Dump(key(&rule, s, hour)))
		case "hash":
			s, _ := scanSeries(t, line)
			h := saltHash(saltSeed).field(s.metric)
			for _, tag := range s.tags {
				h = h.field(tag.Name).field(tag.Value)
			}
			fmt.Fprintf(&out, "state %016x, salts of 2, 16, 100, 1000: %d %d %d %d\n", uint64(h),
				h.modulo(2), h.modulo(16), h.modulo(100), h.modulo(1000))
		case "tagshash":
			s, _ := scanSeries(t, line)
			fmt.Fprintf(&out, "%s\n", appendTagsHash(nil, s.tags))
		case "series-range", "metric-range", "promoted-range":
			out.WriteString(exampleRange(t, d.Cmd, &rule, line))
		case "qualifier":
			kind, text, _ := strings.Cut(line, " ")
			text, after, _ := strings.Cut(text, " after deletion ")
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			q := AppendChunkQualifier(nil, uint32(n))
			switch kind {
			case "sample":
				seq, _ := strconv.ParseUint(cmp.Or(after, "0"), 10, 32)
				q = AppendLaterSampleQualifier(nil, uint32(n), uint32(seq))
			case "mark":
				q = AppendMarkQualifier(nil, n)
			}
			fmt.Fprintf(&out, "% x\n", q)
		default:
			t.Fatalf("%s: unknown command", d.Pos)
		}
	}
	return out.String()
}

func scanRule(t *testing.T, d *datadriven.TestData, rule *Rule) {
	d.MaybeScanArgs(t, "salts", &rule.Salts)
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "promoted":
			rule.Promoted = arg.Vals
		case "basis":
			if err := rule.Basis.UnmarshalText([]byte(arg.Vals[0])); err != nil {
				t.Fatal(err)
			}
		case "reversed":
			rule.ReversedDomains = arg.Vals
		}
	}
	if err := rule.Validate(); err != nil {
		t.Fatal(err)
	}
}

// scanSeries reads metric{name="value", …} and an optional hour.
func scanSeries(t *testing.T, line string) (series, int64) {
	metric, rest, _ := strings.Cut(line, "{")
	inner, hourText, _ := strings.Cut(rest, "}")
	s := series{metric: metric}
	for _, field := range strings.Split(inner, ", ") {
		if name, quoted, ok := strings.Cut(field, "="); ok {
			value, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			s.tags = append(s.tags, Tag{name, value})
		}
	}
	hour, err := strconv.ParseInt("0"+strings.TrimSpace(hourText), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return s, hour
}

func exampleRange(t *testing.T, cmd string, rule *Rule, line string) string {
	s, hour := scanSeries(t, line)
	switch cmd {
	case "series-range": // three hours up to the one given
		start, end := SeriesRange(rule.AppendPrefix(nil, s.metric, s.tags), hour-2, hour)
		return fmt.Sprintf("from %s\nto   %s\n", start, end)
	case "metric-range":
		start, end := rule.MetricRange(s.metric, rule.Salt(s.metric, s.tags))
		return fmt.Sprintf("from %s\nto   %s\n", start, end)
	}
	var values []string
	for _, tag := range s.tags {
		values = append(values, tag.Value)
	}
	_, start, end, ok := rule.PromotedRange(s.metric, values)
	if !ok {
		return "none\n"
	}
	return fmt.Sprintf("from %s\nto   %s\n", start, end)
}
