package verify

import "fmt"

// examplesMax bounds the missing and different samples that a report names.
const examplesMax = 10

// Result is the outcome of reading acknowledged samples back.
type Result struct {
	// ReadBy is the way in which the server was read: "remote read" or "range selectors".
	ReadBy string `json:"read_by"`
	// Checked samples were acknowledged and looked for. Missing samples were not found. Different samples have a value
	// that no acknowledged write explains. NearlyEqual samples are the different ones whose relative error is below
	// 1e-9, which indicates that the server rounds.
	Checked     int64 `json:"checked_samples"`
	Missing     int64 `json:"missing_samples"`
	Different   int64 `json:"different_samples"`
	NearlyEqual int64 `json:"nearly_equal_samples"`
	// InDoubt samples were sent and never acknowledged; they are not looked for. Extra samples have timestamps that this
	// load did not write, or are duplicates.
	InDoubt int64 `json:"in_doubt_samples"`
	Extra   int64 `json:"extra_samples"`
	// Examples names the first missing and different samples.
	Examples []string `json:"examples,omitempty"`
	// Error is set if reading failed. The counts then cover only a part of the samples.
	Error string `json:"error,omitempty"`
}

// Passed reports whether every acknowledged sample was read back unchanged.
func (r *Result) Passed() bool {
	return r.Error == "" && r.Missing == 0 && r.Different == 0
}

// add adds the counts and examples of another part of the samples.
func (r *Result) add(other *Result) {
	r.Checked += other.Checked
	r.Missing += other.Missing
	r.Different += other.Different
	r.NearlyEqual += other.NearlyEqual
	r.InDoubt += other.InDoubt
	r.Extra += other.Extra
	for _, f := range other.Examples {
		if len(r.Examples) < examplesMax {
			r.Examples = append(r.Examples, f)
		}
	}
}

func (r *Result) addExample(format string, args ...any) {
	if len(r.Examples) < examplesMax {
		r.Examples = append(r.Examples, fmt.Sprintf(format, args...))
	}
}
