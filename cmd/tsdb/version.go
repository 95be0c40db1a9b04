package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is the release; a build may overwrite it with -ldflags "-X main.version=…".
var version = "0.1.0-dev"

// buildInfo is what `tsdb version`, /api/v1/status/buildinfo and tsdb_build_info show.
type buildInfo struct {
	version, revision, date string
}

func readBuildInfo() buildInfo {
	info := buildInfo{version: version, revision: "unknown", date: "unknown"}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.revision = s.Value
		case "vcs.time":
			info.date = s.Value
		}
	}
	return info
}

func versionText() string {
	b := readBuildInfo()
	return fmt.Sprintf("tsdb (Halite) %s, commit %s of %s, %s %s/%s, engines pebble, bigtable",
		b.version, b.revision, b.date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
