package keyschema

// Basis says which tags a salt is computed from.
type Basis uint8

const (
	// BasisTags hashes the metric and all tags.
	BasisTags Basis = iota
	// BasisPromoted hashes the metric and the promoted tags only.
	BasisPromoted
)

// Rule says how the row keys of a set of metrics are laid out from an hour on.
type Rule struct {
	Pattern         string   `json:"pattern"`
	FromHour        int64    `json:"from_hour"`
	Salts           int      `json:"salts"`
	Promoted        []string `json:"promoted,omitempty"`
	Basis           Basis    `json:"basis"`
	ReversedDomains []string `json:"reversed_domains,omitempty"`
}

// Schema is an immutable set of rules.
type Schema struct {
	rules []Rule
}

// Generation is a span of hours in which one rule holds for a metric.
type Generation struct {
	Rule             *Rule
	FromHour, ToHour int64
}

// DefaultRule is the rule of every metric that no other rule matches.
func DefaultRule() Rule { return Rule{Pattern: "*", Salts: 16} }

// NewSchema validates rules.
func NewSchema(rules []Rule) (*Schema, error) { panic("declared") }

// Rules returns the rules.
func (s *Schema) Rules() []Rule { panic("declared") }

// RuleAt returns the rule in force for a metric at an hour.
func (s *Schema) RuleAt(metric string, hour int64) *Rule { panic("declared") }

// Generations returns the rules of a metric over a span of hours, newest first.
func (s *Schema) Generations(metric string, fromHour, toHour int64) []Generation { panic("declared") }
