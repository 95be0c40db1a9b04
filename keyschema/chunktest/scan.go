package chunktest

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// ScanTimes reads timestamps, or n of them as "every A from B".
func ScanTimes(t testing.TB, words []string, n int) []int64 {
	if words[0] == "every" {
		interval, base := scanInt(t, words[1]), scanInt(t, words[3])
		tsMs := make([]int64, n)
		for i := range tsMs {
			tsMs[i] = base + int64(i)*interval
		}
		return tsMs
	}
	var tsMs []int64
	for _, word := range words {
		tsMs = append(tsMs, scanInt(t, word))
	}
	return tsMs
}

func scanInt(t testing.TB, word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ScanValues reads numbers (0x1.8p-3 too), bit patterns in hexadecimal, and "stale". A count may follow each item.
func ScanValues(t testing.TB, words []string) []float64 {
	var values []float64
	for _, word := range words {
		text, times, repeated := strings.Cut(word, "*")
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case text == "stale":
			v, err = math.Float64frombits(0x7ff0000000000002), nil
		case err != nil && strings.HasPrefix(text, "0x"):
			var pattern uint64
			pattern, err = strconv.ParseUint(text[2:], 16, 64)
			v = math.Float64frombits(pattern)
		}
		if err != nil {
			t.Fatal(err)
		}
		n := int64(1)
		if repeated {
			n = scanInt(t, times)
		}
		for range n {
			values = append(values, v)
		}
	}
	return values
}
