package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	_ "time/tzdata" // time zones of queries, on machines without them

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/backfill"
	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/keyaudit"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/tables"
	"halite/cmd/tsdb/internal/tools"
	"halite/cmd/tsdb/internal/transfer"
)

func main() {
	datadir.PrivateFiles()
	app := kingpin.New(program.Name(os.Args[0]), "Halite, a time-series database on wide-column tables.\n\n"+program.Units)
	if err := runCommand(app, os.Args[1:]); err != nil {
		if exit := (program.Exit{}); errors.As(err, &exit) {
			os.Exit(exit.Code)
		}
		fmt.Fprintln(program.NewRenamer(app).Writer(os.Stderr), app.Name+":", tables.WithAdvice(err))
		os.Exit(1)
	}
}

// runCommand parses the arguments and runs one sub-command until it ends or a signal arrives.
func runCommand(app *kingpin.Application, args []string) error {
	app.HelpFlag.Short('h')
	app.Version(versionText(app.Name))
	commands := addCommands(app)
	app.UsageWriter(program.NewRenamer(app).Writer(os.Stdout))
	command, err := program.Parse(app, tables.NormalArgs(args))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once; the log of a server holds all acknowledged samples
	return commands[command](ctx, os.Stdout)
}

// addCommands declares all sub-commands and their flags on app. It returns the function of each.
func addCommands(app *kingpin.Application) program.Commands {
	commands := program.Commands{}
	serve := app.Command("serve", "Accept remote write and answer queries.")
	serveConfig := addServeFlags(serve)
	commands[serve.FullCommand()] = func(ctx context.Context, _ io.Writer) error {
		serveConfig.stderr = program.NewRenamer(app).Writer(os.Stderr)
		return runServer(ctx, serveConfig)
	}
	demo := app.Command("demo", "Serve six hours of a simulated fleet and keep writing its samples. Accepts the flags of serve.")
	demoConfig := addDemoFlags(demo)
	commands[demo.FullCommand()] = func(ctx context.Context, w io.Writer) error {
		demoConfig.serve.stderr = program.NewRenamer(app).Writer(os.Stderr)
		return runDemo(ctx, demoConfig, w)
	}
	for _, add := range []func(*kingpin.Application) program.Commands{
		client.AddGraph, client.AddDelete, client.AddTenant, client.AddCheck, client.AddKeyviz, client.AddDoctor, client.AddLoadtest,
		client.AddCompare, keyaudit.AddKeys, tools.AddInspect, tools.AddMigrate, tools.AddEmulator,
		tools.AddRollup, tools.AddPlan, tools.AddVerify, tools.AddRetention,
		tools.AddToken, tools.AddBackup, addImport, addOpenTSDB, transfer.AddExport, backfill.AddRules,
	} {
		maps.Copy(commands, add(app))
	}
	version := app.Command("version", "Print the version.")
	commands[version.FullCommand()] = func(_ context.Context, w io.Writer) error {
		_, err := fmt.Fprintln(w, versionText(app.Name))
		return err
	}
	return commands
}

// version is the release; a build may overwrite it with -ldflags "-X main.version=…".
var version = "0.1.0-dev"

// buildInfo holds the values that `tsdb version`, /api/v1/status/buildinfo and tsdb_build_info show.
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

func versionText(name string) string {
	b := readBuildInfo()
	return fmt.Sprintf("%s (Halite) %s, commit %s of %s, %s %s/%s, engines %s",
		name, b.version, b.revision, b.date, runtime.Version(), runtime.GOOS, runtime.GOARCH,
		strings.Join(tables.Engines(), ", "))
}
