package api

import (
	"slices"
	"testing"
)

// TestByUse: all paths are registered, those asked for most often first.
func TestByUse(t *testing.T) {
	got := byUse(map[string]endpoint{
		"/a": nil, "/api/v1/labels": nil, "/z": nil, "/api/v1/query": nil, "/api/v1/query_range": nil, "/m": nil,
	})
	want := []string{"/api/v1/query_range", "/api/v1/query", "/api/v1/labels", "/a", "/m", "/z"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
