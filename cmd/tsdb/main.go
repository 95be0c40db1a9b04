package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/tables"
	"halite/cmd/tsdb/internal/tools"
)

func main() {
	datadir.PrivateFiles()
	if err := runCommand(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tsdb:", tables.WithAdvice(err))
		os.Exit(1)
	}
}

// runCommand parses the arguments and runs one sub-command.
func runCommand(args []string) error {
	app := kingpin.New("tsdb", "Halite, a time-series database on wide-column tables.")
	app.HelpFlag.Short('h')
	app.UsageWriter(os.Stdout)
	commands := addCommands(app)
	command, err := app.Parse(tables.NormalArgs(args))
	if err != nil {
		return fmt.Errorf("%w (tsdb --help lists the commands and flags)", err)
	}
	return commands[command](os.Stdout)
}

// addCommands declares all sub-commands and their flags on app. It returns what each of them runs.
func addCommands(app *kingpin.Application) map[string]func(io.Writer) error {
	commands := make(map[string]func(io.Writer) error)
	serve := app.Command("serve", "Take remote write and answer queries.")
	serveConfig := addServeFlags(serve)
	commands[serve.FullCommand()] = func(io.Writer) error { return serveUntilSignal(serveConfig) }
	demo := app.Command("demo", "Serve six hours of a made-up fleet, and go on with it; takes the flags of serve.")
	demoConfig := addDemoFlags(demo)
	commands[demo.FullCommand()] = func(w io.Writer) error { return runDemo(demoConfig, w) }
	for _, add := range []func(*kingpin.Application) map[string]func(io.Writer) error{
		client.AddGraph, client.AddDelete, client.AddCheck, tools.AddInspect, client.AddLoadtest, tools.AddMigrate, tools.AddEmulator,
		tools.AddRollup, tools.AddPlan, tools.AddVerify, tools.AddRetention,
		tools.AddToken, tools.AddBackup,
	} {
		maps.Copy(commands, add(app))
	}
	version := app.Command("version", "Print the version.")
	commands[version.FullCommand()] = func(w io.Writer) error {
		_, err := fmt.Fprintln(w, versionText())
		return err
	}
	return commands
}

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
