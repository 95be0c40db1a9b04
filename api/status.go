package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"halite/storage/index"
)

const (
	rankingDefault = 10
	rankingMax     = 10_000
)

// buildInfo answers /api/v1/status/buildinfo. The version is that of the Prometheus API, because clients choose their
// requests by it; the program's own version is on the landing page and in tsdb_build_info.
func (s *Server) buildInfo(*http.Request) (reply, *apiError) {
	b := &s.opts.Build
	return document(struct {
		Version   string `json:"version"`
		Revision  string `json:"revision"`
		Branch    string `json:"branch"`
		BuildUser string `json:"buildUser"`
		BuildDate string `json:"buildDate"`
		GoVersion string `json:"goVersion"`
	}{b.APIVersion, b.Revision, b.Branch, b.BuildUser, b.BuildDate, b.GoVersion})
}

// flags answers /api/v1/status/flags.
func (s *Server) flags(*http.Request) (reply, *apiError) {
	flags := s.opts.Flags
	if flags == nil {
		flags = map[string]string{}
	}
	return document(flags)
}

// config answers /api/v1/status/config.
func (s *Server) config(*http.Request) (reply, *apiError) {
	var yaml string
	if s.opts.Config != nil {
		yaml = s.opts.Config()
	}
	return document(map[string]string{"yaml": yaml})
}

// runtimeInfo answers /api/v1/status/runtimeinfo.
func (s *Server) runtimeInfo(*http.Request) (reply, *apiError) {
	var info RuntimeInfo
	if s.opts.Runtime != nil {
		info = s.opts.Runtime()
	}
	// A process without a working directory or host name is odd but serves on, so these stay empty then.
	dir, _ := os.Getwd()
	host, _ := os.Hostname()
	return document(struct {
		StartTime           time.Time `json:"startTime"`
		CWD                 string    `json:"CWD"`
		Hostname            string    `json:"hostname"`
		ServerTime          time.Time `json:"serverTime"`
		ReloadConfigSuccess bool      `json:"reloadConfigSuccess"`
		LastConfigTime      time.Time `json:"lastConfigTime"`
		CorruptionCount     int64     `json:"corruptionCount"`
		GoroutineCount      int       `json:"goroutineCount"`
		GOMAXPROCS          int       `json:"GOMAXPROCS"`
		GOMEMLIMIT          int64     `json:"GOMEMLIMIT"`
		GOGC                string    `json:"GOGC"`
		GODEBUG             string    `json:"GODEBUG"`
		StorageRetention    string    `json:"storageRetention"`
	}{
		info.StartTime.UTC(), dir, host, s.opts.Now().UTC(), info.ConfigLoaded, info.ConfigTime.UTC(),
		info.CorruptionCount, runtime.NumGoroutine(), runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1),
		os.Getenv("GOGC"), os.Getenv("GODEBUG"), info.StorageRetention,
	})
}

// count is a line of a ranking.
type count struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

func counts(ranking []index.NameCount) []count {
	list := make([]count, 0, len(ranking))
	for _, n := range ranking {
		list = append(list, count{n.Name, n.Count})
	}
	return list
}

// rankingLimit is the parameter limit of a request for rankings.
func rankingLimit(r *http.Request) (int, *apiError) {
	text := r.FormValue("limit")
	if text == "" {
		return rankingDefault, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return 0, badData(errors.New("limit must be a positive number"))
	}
	if limit > rankingMax {
		return 0, badData(fmt.Errorf("limit must not exceed %d", rankingMax))
	}
	return limit, nil
}

// tsdbStatus answers /api/v1/status/tsdb: size of the active catalogue and what it consists of.
func (s *Server) tsdbStatus(r *http.Request) (reply, *apiError) {
	limit, fault := rankingLimit(r)
	if fault != nil {
		return reply{}, fault
	}
	// The bounds of an empty head, as Prometheus gives them.
	stats := StoreStats{MinTimeMs: math.MaxInt64, MaxTimeMs: math.MinInt64}
	if s.opts.Stats != nil {
		stats = s.opts.Stats.StoreStats(limit)
	}
	type head struct {
		Series     int   `json:"numSeries"`
		LabelPairs int   `json:"numLabelPairs"`
		Chunks     int64 `json:"chunkCount"`
		MinTime    int64 `json:"minTime"`
		MaxTime    int64 `json:"maxTime"`
	}
	return document(struct {
		Head           head    `json:"headStats"`
		SeriesByMetric []count `json:"seriesCountByMetricName"`
		ValuesByLabel  []count `json:"labelValueCountByLabelName"`
		BytesByLabel   []count `json:"memoryInBytesByLabelName"`
		SeriesByPair   []count `json:"seriesCountByLabelValuePair"`
	}{
		head{stats.Series, stats.LabelPairs, stats.Chunks, stats.MinTimeMs, stats.MaxTimeMs},
		counts(stats.SeriesByMetric), counts(stats.ValuesByLabel),
		counts(stats.BytesByLabel), counts(stats.SeriesByPair),
	})
}

// tsdbBlocks answers /api/v1/status/tsdb/blocks. Halite has no blocks.
func (s *Server) tsdbBlocks(*http.Request) (reply, *apiError) {
	return document(map[string]any{"blocks": []any{}})
}

// walReplay answers /api/v1/status/walreplay, before the server is ready too.
func (s *Server) walReplay(*http.Request) (reply, *apiError) {
	state := s.opts.Ready()
	return document(struct {
		Min     int `json:"min"`
		Max     int `json:"max"`
		Current int `json:"current"`
	}{state.ReplayMin, state.ReplayMax, state.ReplayCurrent})
}
