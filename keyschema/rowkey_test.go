package keyschema

import (
	"bytes"
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// key returns the row key of a series.
func key(r *Rule, s series, hour int64) []byte {
	return AppendHour(r.AppendPrefix(nil, s.metric, s.tags), hour)
}

func TestRowKeyRoundTrip(t *testing.T) {
	r := newRand(t)
	for range 5_000 {
		rule, s, hour := randomRule(r), randomSeries(r, 1)[0], r.Int64N(HourMax+1)
		k := key(rule, s, hour)
		got, err := ParseRowKey(k)
		if err != nil {
			t.Fatalf("%q: %v", k, err)
		}
		want := RowKey{Metric: s.metric, Salt: rule.Salt(s.metric, s.tags), Tags: s.tags, Hour: hour}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %+v, want %+v", k, got, want)
		}
		if bytes.Count(k, []byte{'#'}) != 3 {
			t.Fatalf("%q has not three '#'", k)
		}
		for _, c := range k {
			if c <= ' ' || c > '~' {
				t.Fatalf("%q is not printable", k)
			}
		}
	}
}

// letters writes the fields of a key as numbers that sort as FORMAT.md documents. Separators are extra letters: '#' and ','
// sort between the plain characters ',' and '-', and the separator '=' sorts after the plain '='.
func letters(r *Rule, s series, hour int64) []int {
	const comma, equals = 4*',' + 2, 4*'=' + 1
	const hash = 4*',' + 1
	var out []int
	text := func(s string) {
		for i := range len(s) {
			out = append(out, 4*int(s[i]))
		}
	}
	prefix, name := SplitTenant(s.metric)
	if prefix != "" { // a mark sorts between the plain ',' and '-'
		out = append(out, 4*','+1)
		text(TenantOf(prefix))
		out = append(out, 4*','+1)
	}
	text(name)
	out = append(out, hash, r.Salt(s.metric, s.tags), hash)
	tags := slices.Clone(s.tags)
	place := func(t Tag) int {
		if i := slices.Index(r.Promoted, t.Name); i >= 0 {
			return i
		}
		return len(r.Promoted)
	}
	slices.SortStableFunc(tags, func(a, b Tag) int { return cmp.Compare(place(a), place(b)) })
	for i, tag := range tags {
		if i > 0 {
			out = append(out, comma)
		}
		text(tag.Name)
		out = append(out, equals)
		if slices.Contains(r.ReversedDomains, tag.Name) && isDomain(tag.Value) {
			out = append(out, 4*','+1) // the mark sorts between the plain ',' and '-'
			text(reverseDomain(tag.Value))
		} else {
			text(tag.Value)
		}
	}
	return append(out, hash, int(HourMax-hour))
}

func TestRowKeyOrder(t *testing.T) {
	r := newRand(t)
	for range 20_000 {
		rule, s := randomRule(r), randomSeries(r, 2)
		hourA, hourB := r.Int64N(HourMax+1), r.Int64N(HourMax+1)
		a, b := key(rule, s[0], hourA), key(rule, s[1], hourB)
		want := slices.Compare(letters(rule, s[0], hourA), letters(rule, s[1], hourB))
		if got := bytes.Compare(a, b); got != want {
			t.Fatalf("%q and %q compare as %d, want %d", a, b, got, want)
		}
	}
}

func TestNewestHourFirst(t *testing.T) {
	var before []byte
	for _, hour := range []int64{HourMax, HourMax - 1, 2_562_048 /* 2262 */, 480_001, 480_000, 100, 99, 10, 9, 1, 0} {
		k := AppendHour([]byte("m#00##"), hour)
		if bytes.Compare(before, k) >= 0 {
			t.Errorf("%q is not behind %q", k, before)
		}
		before = k
	}
}

func TestAppendHourRefuses(t *testing.T) {
	for _, hour := range []int64{-1, HourMax + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("hour %d has a key", hour)
				}
			}()
			AppendHour(nil, hour)
		}()
	}
}

func TestPrefixesAreFree(t *testing.T) {
	r := newRand(t)
	for range 100 {
		rule, all := randomRule(r), randomSeries(r, 60)
		for i := range all {
			for j := range all {
				if all[i].equal(all[j]) {
					continue
				}
				a := rule.AppendPrefix(nil, all[i].metric, all[i].tags)
				b := rule.AppendPrefix(nil, all[j].metric, all[j].tags)
				if bytes.HasPrefix(a, b) {
					t.Fatalf("%q of %q starts with %q of %q", a, all[i], b, all[j])
				}
			}
		}
	}
}

func TestParseRowKeyRefuses(t *testing.T) {
	hash := strings.Repeat("0a", tagsHashBytes)
	for _, text := range []string{
		"", "#", "m", "m#00", "m#00#a=b", "m#00##999999", "m#00##99999999", "m#00##999999x", "m#00##9999999 ",
		"m#00###9999999",
		"#00##9999999", "m#0##9999999", "m#0000##9999999", "m#0a##9999999", "m####9999999", "m n#00##9999999",
		"m#00#a#9999999", "m#00#a=b,#9999999", "m#00#,a=b#9999999", "m#00#a=b,a=c#9999999", "m#00#a=b=c#9999999",
		"m#00#a=b c#9999999", "m#00#a==#9999999", "m#00#+a=b#9999999", "m#00#a=+b#9999999", "m#00#a=+1.0.0.10#9999999",
		"m#00#$#9999999", "m#00#$" + hash[1:] + "#9999999", "m#00#$" + strings.ToUpper(hash) + "#9999999",
		"m#00#$" + hash + ",a=b#9999999", "m#00#a=b,$#9999999", "m#00##-000001",
		strings.Repeat("m", 4096) + "#00##9999999",
		strings.Repeat("m", MetricBytesMax+1) + "#00##9999999",
	} {
		if k, err := ParseRowKey([]byte(text)); !errors.Is(err, ErrBadKey) {
			t.Errorf("ParseRowKey(%.60q) = %+v, %v", text, k, err)
		}
	}
}

func TestLongTags(t *testing.T) {
	rule := &Rule{Pattern: "*", Salts: 16, Promoted: []string{"route", "zone"}, ReversedDomains: []string{"host"}}
	fill := func(n int) series {
		tags := []Tag{{"fill", strings.Repeat("x", n)}, {"host", "a.example.com"}, {"route", "7"}, {"zone", "b"}}
		return series{"m", tags}
	}
	const spare = KeyBytesMax - len("m#00#route=7,zone=b,fill=,host=+com.example.a##hhhhhhh") + 1
	for n := spare - 3; n <= spare+3; n++ {
		s := fill(n)
		k := key(rule, s, 5)
		parsed, err := ParseRowKey(k)
		if err != nil {
			t.Fatal(err)
		}
		hash, long := rule.LongTags(s.metric, s.tags)
		switch {
		case long != (n > spare):
			t.Errorf("%d filling bytes: long = %v", n, long)
		case !long && (len(k) != KeyBytesMax-spare+n || parsed.TagsHash != "" ||
			!reflect.DeepEqual(parsed.Tags, s.tags)):
			t.Errorf("%d filling bytes: %d bytes, %+v", n, len(k), parsed)
		case long && (parsed.TagsHash != hash || !reflect.DeepEqual(parsed.Tags, s.tags[2:])):
			t.Errorf("%d filling bytes: %q", n, k)
		}
	}
	a, _ := rule.LongTags("m", fill(5000).tags)
	b, _ := rule.LongTags("m", fill(5001).tags)
	if a == b {
		t.Error("different tags have one hash")
	}
}

// TestLongestKey makes the longest key: the longest metric, all of it escaped, and promoted tags that do not fit.
func TestLongestKey(t *testing.T) {
	rule := &Rule{Pattern: "*", Salts: 1000, Promoted: []string{"p", "q"}}
	tags := []Tag{{"p", strings.Repeat("y", 900)}, {"q", strings.Repeat("z", 900)}}
	s := series{strings.Repeat("\xff", MetricBytesMax), tags}
	k := key(rule, s, 0)
	parsed, err := ParseRowKey(k)
	if err != nil || len(k) > KeyBytesMax {
		t.Fatalf("%d bytes, %v", len(k), err)
	}
	if !reflect.DeepEqual(parsed.Tags, s.tags[:1]) || parsed.TagsHash == "" {
		t.Errorf("%+v", parsed)
	}
}

func TestReverseDomain(t *testing.T) {
	for value, want := range map[string]string{
		"www.example.com": "com.example.www", "www.example.com:9100": "com.example.www:9100", "a.b": "b.a",
		"example.com.": ".com.example", ".": ".", "a..b": "b..a", "a.b:c.d": "b.a:c.d",
		"10.0.0.1": "", "10.0.0.1:9100": "", "localhost": "", "": "", "v1.2": "", "[2001:db8::1]:80": "",
	} {
		if isDomain(value) != (want != "") {
			t.Errorf("isDomain(%q) = %v", value, isDomain(value))
		} else if want != "" && (reverseDomain(value) != want || reverseDomain(want) != value) {
			t.Errorf("reverseDomain(%q) = %q, and back %q", value, reverseDomain(value), reverseDomain(reverseDomain(value)))
		}
	}
}

// benchSeries has ten labels and a key of about 220 bytes.
var benchSeries = series{"http_request_duration_seconds_bucket", []Tag{
	{"arch", "x86_64"}, {"datacenter", "eu-central-1a"}, {"env", "production"}, {"handler", "/api/v2/orders"},
	{"instance", "host-00042.eu-central-1.example.net:9100"}, {"job", "node"}, {"le", "+Inf"}, {"rack", "rack-17"},
	{"region", "eu-central-1"}, {"service", "checkout-api"},
}}

func TestAppendPrefixAllocatesNothing(t *testing.T) {
	for _, rule := range []Rule{
		DefaultRule(),
		{Salts: 200, Promoted: []string{"le", "job"}, Basis: BasisPromoted, ReversedDomains: []string{"instance"}},
	} {
		dst := make([]byte, 0, KeyBytesMax)
		if n := testing.AllocsPerRun(100, func() {
			dst = AppendHour(rule.AppendPrefix(dst[:0], benchSeries.metric, benchSeries.tags), 480_000)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func BenchmarkAppendPrefix(b *testing.B) {
	for name, rule := range map[string]Rule{
		"default":  DefaultRule(),
		"promoted": {Salts: 200, Promoted: []string{"le", "job"}, ReversedDomains: []string{"instance"}},
	} {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, KeyBytesMax)
			b.ReportAllocs()
			for b.Loop() {
				dst = rule.AppendPrefix(dst[:0], benchSeries.metric, benchSeries.tags)
			}
			b.ReportMetric(float64(len(dst)), "B/prefix")
		})
	}
}

func BenchmarkSalt(b *testing.B) {
	rule := DefaultRule()
	for b.Loop() {
		rule.Salt(benchSeries.metric, benchSeries.tags)
	}
}

func BenchmarkParseRowKey(b *testing.B) {
	rule := DefaultRule()
	k := key(&rule, benchSeries, 480_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRowKey(k); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParseRowKey checks that no bytes make ParseRowKey panic and that a key has one spelling for each order of its
// tags.
func FuzzParseRowKey(f *testing.F) {
	f.Add([]byte("http_requests_total#07#job=node,le=!2BInf#9519999"))
	f.Add([]byte("veh#163#route=7,a=x!20y,host=+com.example.www:9100#9519999"))
	f.Add([]byte("m#00##0000000"))
	f.Add([]byte("m#00#route=7,$" + strings.Repeat("0a", tagsHashBytes) + "#9519999"))
	f.Add([]byte("m#00#a=+b#9999999"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := ParseRowKey(text)
		if err != nil {
			if !errors.Is(err, ErrBadKey) {
				t.Fatalf("error %v", err)
			}
			return
		}
		fields := strings.Split(string(text), "#")
		rule := Rule{Salts: 1}
		for _, field := range strings.Split(fields[2], ",") {
			nameText, value, ok := strings.Cut(field, "=")
			if !ok {
				continue
			}
			name, err := Unescape([]byte(nameText))
			if err != nil {
				t.Fatal(err)
			}
			rule.Promoted = append(rule.Promoted, name)
			if strings.HasPrefix(value, "+") {
				rule.ReversedDomains = append(rule.ReversedDomains, name)
			}
		}
		again := append(append(AppendEscaped(nil, k.Metric), '#'), fields[1]...)
		again = rule.appendTags(append(again, '#'), k.Tags)
		if k.TagsHash != "" {
			if len(k.Tags) > 0 {
				again = append(again, ',')
			}
			again = append(append(again, '$'), k.TagsHash...)
		}
		if again = AppendHour(append(again, '#'), k.Hour); !bytes.Equal(again, text) {
			t.Fatalf("%q is a second spelling of %q", text, again)
		}
	})
}

func TestCutHour(t *testing.T) {
	for key, want := range map[string]int64{"m#01#a=b#9999990": 9, "m#01##0000000": HourMax, "#9999999": 0} {
		prefix, hour, ok := CutHour([]byte(key))
		if !ok || hour != want || string(prefix)+key[len(prefix):] != key || len(prefix) != len(key)-HourDigits {
			t.Errorf("%q: prefix %q, hour %d, %t", key, prefix, hour, ok)
		}
	}
	for _, key := range []string{"", "9999990", "m#01#a=b#", "m#01#a=b#999999", "m#01#a=b#99x9999", "m#01#a=b99999999"} {
		if _, hour, ok := CutHour([]byte(key)); ok {
			t.Errorf("%q has hour %d", key, hour)
		}
	}
}

func TestMonthKeys(t *testing.T) {
	rule := DefaultRule()
	prefix := rule.AppendPrefix(nil, "up", []Tag{{Name: "job", Value: "node"}})
	var before []byte
	for _, month := range []int64{MonthMax, 900, 650, 1, 0} {
		key := AppendMonthKey(nil, prefix, month)
		got, gotMonth, ok := CutMonth(key)
		if !ok || !bytes.Equal(got, prefix) || gotMonth != month {
			t.Errorf("%q: prefix %q, month %d, %t", key, got, gotMonth, ok)
		}
		if bytes.Compare(before, key) >= 0 {
			t.Errorf("%q sorts after %q, which is newer", before, key)
		}
		before = key
	}
	for _, bad := range []string{"", "00001", "#0000", "up#03#job=node#0000x", "up#03#job=node00001"} {
		if _, month, ok := CutMonth([]byte(bad)); ok {
			t.Errorf("%q has month %d", bad, month)
		}
	}
}

func TestCutFields(t *testing.T) {
	for n, want := range []string{"", "m#", "m#01#", "m#01#a=b#"} {
		if got, ok := CutFields([]byte("m#01#a=b#9500000"), n); !ok || string(got) != want {
			t.Errorf("%d fields: %q, %t", n, got, ok)
		}
	}
	if got, ok := CutFields([]byte("m#01"), 2); ok || string(got) != "m#01" {
		t.Errorf("too few fields: %q, %t", got, ok)
	}
}
