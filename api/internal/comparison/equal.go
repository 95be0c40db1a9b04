package comparison

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// tolerance is how far numbers may differ, relative to the larger one: operators add in another order than Prometheus.
const tolerance = 1e-12

// Equal reports whether two JSON texts are equal, except for the tolerance of numbers in strings. Invalid texts differ.
func Equal(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && EqualValues(x, y)
}

// EqualValues is Equal for decoded JSON.
func EqualValues(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key := range a {
			if other, ok := b[key]; !ok || !EqualValues(a[key], other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, EqualValues)
	case string:
		b, ok := b.(string)
		return ok && (a == b || equalNumbers(a, b))
	default:
		return reflect.DeepEqual(a, b)
	}
}

func equalNumbers(a, b string) bool {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	return errA == nil && errB == nil && math.Abs(x-y) <= tolerance*max(math.Abs(x), math.Abs(y))
}
