package keyaudit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"halite/cmd/tsdb/internal/client"
	"halite/keyschema"
)

// finding is a label whose values do not belong in keys.
type finding struct {
	Label string `json:"label"`
	Kind  kind   `json:"kind"`
	// Personal is set if the values may be personal data or secrets.
	Personal bool `json:"personal"`
	// Values counts the values of the kind among Read values of the label. Read is at most the limit of the audit.
	Values int `json:"values"`
	Read   int `json:"read"`
	// Example is a value with most of its characters hidden.
	Example string `json:"example"`
	// Metrics are some metrics with the label.
	Metrics []string `json:"metrics"`
	// Promoted names the pattern of a schema rule that puts the label in front of the key, or is empty.
	Promoted string `json:"promoted,omitempty"`
	Advice   string `json:"advice"`
	// Rule is the text for the configuration file that carries out the advice.
	Rule string `json:"rule"`
}

// report is the result of an audit.
type report struct {
	Labels   int       `json:"labels"`
	Values   int       `json:"values"`
	Cut      []string  `json:"cut"` // labels with more values than were read
	Findings []finding `json:"findings"`
}

// auditor reads the labels of a server.
type auditor struct {
	server *client.Server
	// window has start and end.
	window url.Values
	// valuesMax bounds the values that are read of each label, metricsMax the metrics that a finding names.
	valuesMax, metricsMax int
	// shareMin is the minimum share of values of a kind. For personal data a single value suffices.
	shareMin float64
	patterns *patterns
}

// run reads every label.
func (a *auditor) run(ctx context.Context) (*report, error) {
	var names []string
	if err := a.list(ctx, "/api/v1/labels", nil, 0, &names); err != nil {
		return nil, err
	}
	var schema struct{ Rules []keyschema.Rule }
	if err := a.server.Call(ctx, http.MethodGet, "/api/v1/status/schema", url.Values{}, &schema); err != nil {
		return nil, fmt.Errorf("read the schema rules: %w", err)
	}
	r := &report{Findings: []finding{}, Cut: []string{}}
	for _, name := range names {
		var values []string
		if err := a.list(ctx, "/api/v1/label/"+url.PathEscape(name)+"/values", nil, a.valuesMax, &values); err != nil {
			return nil, fmt.Errorf("read the values of label %q: %w", name, err)
		}
		r.Labels++
		r.Values += len(values)
		if len(values) >= a.valuesMax {
			r.Cut = append(r.Cut, name)
		}
		for _, f := range a.findings(name, values) {
			if err := a.complete(ctx, &f, schema.Rules); err != nil {
				return nil, err
			}
			r.Findings = append(r.Findings, f)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b finding) int {
		return cmp.Or(-cmp.Compare(btoi(a.Personal), btoi(b.Personal)), -cmp.Compare(btoi(a.Promoted != ""), btoi(b.Promoted != "")),
			cmp.Compare(a.Label, b.Label))
	})
	return r, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// list fetches a list within the window.
func (a *auditor) list(ctx context.Context, path string, more url.Values, limit int, list *[]string) error {
	form := maps.Clone(a.window)
	maps.Copy(form, more)
	if limit > 0 {
		form.Set("limit", fmt.Sprint(limit))
	}
	return a.server.Call(ctx, http.MethodGet, path, form, list)
}

// findings classifies the values of a label.
func (a *auditor) findings(label string, values []string) (out []finding) {
	counts, examples := map[kind]int{}, map[kind]string{}
	for _, v := range values {
		k := a.patterns.classify(v)
		if counts[k]++; counts[k] == 1 {
			examples[k] = v
		}
	}
	if n := sequential(values); n > 0 && n > counts[kindTime] {
		counts[kindCount], examples[kindCount] = n, values[len(values)/2]
		// Long sequential numbers may look like phone or card numbers by chance.
		delete(counts, kindCard)
		delete(counts, kindTime)
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		enough := counts[k] > 0 && (k.personal() || float64(counts[k]) >= a.shareMin*float64(len(values)))
		if k == kindNone || !enough || (k == kindUUID || k == kindTime) && counts[k] < sequenceMin {
			continue
		}
		out = append(out, finding{
			Label: label, Kind: k, Personal: k.personal(), Values: counts[k], Read: len(values), Example: hide(examples[k]),
		})
	}
	return out
}

// hide replaces most characters of a value, so that the report holds no personal data.
func hide(value string) string {
	runes := []rune(value)
	if keep := min(3, len(runes)/3); keep > 0 {
		return string(runes[:keep]) + strings.Repeat("*", min(len(runes)-keep, 12))
	}
	return strings.Repeat("*", len(runes))
}

// complete adds metrics, the schema rule and the advice.
func (a *auditor) complete(ctx context.Context, f *finding, rules []keyschema.Rule) error {
	has := url.Values{"match[]": {fmt.Sprintf("{%q!=\"\"}", f.Label)}}
	if err := a.list(ctx, "/api/v1/label/__name__/values", has, a.metricsMax, &f.Metrics); err != nil {
		return fmt.Errorf("read the metrics with label %q: %w", f.Label, err)
	}
	for i := range rules {
		if slices.Contains(rules[i].Promoted, f.Label) {
			f.Promoted = rules[i].Pattern
			break
		}
	}
	f.Advice, f.Rule = advise(f)
	return nil
}
