package status

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/api/keyviz"
	"halite/keyschema"
	"halite/storage"
)

// Keys makes row keys for /api/v1/status/encode_key.
type Keys struct {
	// Rules returns the schema rules in force; nil answers with ErrOff.
	Rules func() []keyschema.Rule
	// ParseSelector parses a selector such as up{job="a"}. ParseTime parses a time.
	ParseSelector func(text string) ([]*labels.Matcher, error)
	ParseTime     func(text string) (time.Time, error)
}

// EncodedKey is the response to /api/v1/status/encode_key.
type EncodedKey struct {
	Series string `json:"series"`
	TimeMs int64  `json:"timeMs"`
	// Now is the key under the rules in force, Other the key under the rules of the request.
	Now   RowKey  `json:"now"`
	Other *RowKey `json:"other,omitempty"`
}

// RowKey is a row key with the rule that made it.
type RowKey struct {
	Table  string `json:"table"`
	Family string `json:"family"`
	// Key is the key as text, KeyBase64 as base64url.
	Key       string `json:"key"`
	KeyBase64 string `json:"keyBase64"`
	SizeBytes int    `json:"sizeBytes"`
	// Parts are the parts of the key in their order, with the separators after them.
	Parts []KeyPart `json:"parts"`
	Salt  int       `json:"salt"`
	// SaltFrom are the labels that decide the salt; "" stands for all labels. The metric always counts too.
	SaltFrom []string `json:"saltFrom"`
	// TagsHash is set if the tags are too long for a key. The key holds this hash instead of them.
	TagsHash string `json:"tagsHash,omitempty"`
	// HourStartMs is the start of the hour that the row holds. OffsetMs is the place of the sample in it.
	HourStartMs int64 `json:"hourStartMs"`
	OffsetMs    int64 `json:"offsetMs"`
	// Rule is the rule of the key. Generations are all rules of the metric, newest first.
	Rule        keyschema.Rule  `json:"rule"`
	Generations []KeyGeneration `json:"generations"`
}

// KeyPart is a part of a row key. Kind is metric, salt, tag, hash or hour.
type KeyPart struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Name and Value say what the text encodes. A promoted tag stands first. A reversed tag has its domain labels in reverse order.
	Name     string `json:"name,omitempty"`
	Value    string `json:"value"`
	Promoted bool   `json:"promoted,omitempty"`
	Reversed bool   `json:"reversed,omitempty"`
}

// KeyGeneration is a span of time in which one rule makes the keys of a metric. ToMs is exclusive; 0 means that there is no end.
type KeyGeneration struct {
	FromMs  int64  `json:"fromMs"`
	ToMs    int64  `json:"toMs,omitempty"`
	Pattern string `json:"pattern"`
	Salts   int    `json:"salts"`
}

// EncodeKey answers /api/v1/status/encode_key: the row key of a series at a time.
func (h *Handler) EncodeKey(r *http.Request) (any, error) {
	if h.opts.Keys.Rules == nil {
		return nil, fmt.Errorf("%w: schema rules", ErrOff)
	}
	if err := onlyParams(r, "series", "time", "tenant", "rules"); err != nil {
		return nil, err
	}
	metric, tags, err := h.seriesOf(r)
	if err != nil {
		return nil, err
	}
	out := EncodedKey{Series: r.FormValue("series"), TimeMs: h.opts.Now().UnixMilli()}
	if text := r.FormValue("time"); text != "" {
		t, err := h.opts.Keys.ParseTime(text)
		if err != nil {
			return nil, badParam("time", err)
		}
		out.TimeMs = t.UnixMilli()
	}
	if out.TimeMs < 0 || keyschema.HourOf(out.TimeMs) > keyschema.HourMax {
		return nil, badParam("time", errors.New("row keys hold times from 1970 to 3110 only"))
	}
	schema, err := keyschema.NewSchema(h.opts.Keys.Rules())
	if err != nil {
		return nil, err
	}
	if out.Now, err = encode(schema, metric, tags, out.TimeMs); err != nil {
		return nil, err
	}
	if text := r.FormValue("rules"); text != "" {
		if schema, err = keyviz.ParseRules([]byte(text)); err != nil {
			return nil, badParam("rules", err)
		}
		other, err := encode(schema, metric, tags, out.TimeMs)
		if err != nil {
			return nil, err
		}
		out.Other = &other
	}
	return out, nil
}

// seriesOf reads the stored name of the metric and the tags from the parameters series and tenant.
func (h *Handler) seriesOf(r *http.Request) (metric string, tags []keyschema.Tag, err error) {
	text := r.FormValue("series")
	if most := h.opts.Limits.SeriesBytesMax; len(text) > most {
		return "", nil, badParam("series", fmt.Errorf("has %d bytes, at most %d are allowed", len(text), most))
	}
	matchers, err := h.opts.Keys.ParseSelector(text)
	if err != nil {
		return "", nil, badParam("series", err)
	}
	seen := map[string]bool{}
	for _, m := range matchers {
		if m.Type != labels.MatchEqual || seen[m.Name] {
			return "", nil, badParam("series", fmt.Errorf("the label %q needs one value, with =", m.Name))
		}
		seen[m.Name] = true
		switch {
		case m.Name == model.MetricNameLabel:
			metric = m.Value
		case m.Value != "":
			tags = append(tags, keyschema.Tag{Name: m.Name, Value: m.Value})
		}
	}
	if metric == "" {
		return "", nil, badParam("series", errors.New(`needs a metric, as in up{job="a"}`))
	}
	if tenant := r.FormValue("tenant"); tenant != "" {
		if err := keyschema.CheckTenant(tenant); err != nil {
			return "", nil, badParam("tenant", err)
		}
		metric = keyschema.TenantPrefix(tenant) + metric
	}
	if len(metric) > keyschema.MetricBytesMax {
		return "", nil, badParam("series", fmt.Errorf("the metric has %d bytes, at most %d are allowed", len(metric),
			keyschema.MetricBytesMax))
	}
	slices.SortFunc(tags, func(a, b keyschema.Tag) int { return strings.Compare(a.Name, b.Name) })
	return metric, tags, nil
}

// encode makes the key of a series at a time.
func encode(schema *keyschema.Schema, metric string, tags []keyschema.Tag, tsMs int64) (RowKey, error) {
	hour := keyschema.HourOf(tsMs)
	rule := schema.RuleAt(metric, hour)
	key := keyschema.AppendHour(rule.AppendPrefix(nil, metric, tags), hour)
	k := RowKey{
		Table: storage.TableData, Family: storage.FamilySamples, Key: string(key), KeyBase64: base64.RawURLEncoding.EncodeToString(key),
		SizeBytes: len(key), Salt: rule.Salt(metric, tags), SaltFrom: saltFrom(rule), HourStartMs: keyschema.HourStartMs(hour),
		OffsetMs: tsMs - keyschema.HourStartMs(hour), Rule: *rule, Generations: []KeyGeneration{},
	}
	k.TagsHash, _ = rule.LongTags(metric, tags)
	for _, g := range schema.Generations(metric, 0, keyschema.HourMax) {
		made := KeyGeneration{FromMs: keyschema.HourStartMs(g.FromHour), Pattern: g.Rule.Pattern, Salts: g.Rule.Salts}
		if g.ToHour < keyschema.HourMax {
			made.ToMs = keyschema.HourStartMs(g.ToHour + 1)
		}
		k.Generations = append(k.Generations, made)
	}
	var err error
	k.Parts, err = partsOf(rule, key, metric, tags)
	return k, err
}

// saltFrom returns the labels that decide the salt. "" stands for all.
func saltFrom(r *keyschema.Rule) []string {
	switch {
	case r.Salts == 1:
		return []string{}
	case r.Basis != keyschema.BasisPromoted:
		return []string{""}
	case r.SaltTags > 0:
		return r.Promoted[:r.SaltTags]
	}
	return r.Promoted
}

// partsOf divides a key at its separators. Escaped text contains no separators.
func partsOf(rule *keyschema.Rule, key []byte, metric string, tags []keyschema.Tag) ([]KeyPart, error) {
	parsed, err := keyschema.ParseRowKey(key)
	if err != nil {
		return nil, err
	}
	fields := strings.SplitAfter(string(key), "#")
	parts := []KeyPart{
		{Kind: "metric", Text: fields[0], Value: metric}, {Kind: "salt", Text: fields[1], Value: fmt.Sprint(parsed.Salt)},
	}
	for _, text := range strings.SplitAfter(fields[2], ",") {
		bare := strings.TrimRight(text, ",#")
		if strings.HasPrefix(bare, "$") {
			parts = append(parts, KeyPart{Kind: "hash", Text: text, Value: parsed.TagsHash})
			continue
		}
		p := KeyPart{Kind: "tag", Text: text, Reversed: strings.Contains(bare, "=+")}
		for _, t := range tags {
			escaped := keyschema.AppendEscaped(nil, t.Name)
			if strings.HasPrefix(bare, string(escaped)+"=") {
				p.Name, p.Value, p.Promoted = t.Name, t.Value, slices.Contains(rule.Promoted, t.Name)
			}
		}
		parts = append(parts, p)
	}
	start := time.UnixMilli(keyschema.HourStartMs(parsed.Hour)).UTC()
	return append(parts, KeyPart{Kind: "hour", Text: fields[3], Value: start.Format(time.RFC3339)}), nil
}
