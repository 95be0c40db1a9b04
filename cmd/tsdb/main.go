package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kingpin/v2"
)

func main() {
	privateFiles()
	if err := runCommand(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tsdb:", withAdvice(err))
		os.Exit(1)
	}
}

// runCommand parses the arguments and runs one sub-command.
func runCommand(args []string) error {
	app := kingpin.New("tsdb", "Halite, a time-series database on wide-column tables.")
	app.HelpFlag.Short('h')
	app.UsageWriter(os.Stdout)

	serve := app.Command("serve", "Take remote write and answer queries.")
	serveConfig := addServeFlags(serve)

	demo := app.Command("demo", "Serve six hours of a made-up fleet, and go on with it; takes the flags of serve.")
	demoConfig := addDemoFlags(demo)

	graph := app.Command("graph", "Draw a query of a running server in the terminal.")
	graphConfig := addGraphFlags(graph)

	remove := app.Command("delete", "Delete samples of a running server, or count what would be deleted.")
	deleteConfig := addDeleteFlags(remove)

	inspect := app.Command("inspect", "Print what is stored, readably. A server on the same path must have stopped.")
	inspectCommands := addInspectCommands(inspect)

	load := app.Command("loadtest", "Load a running server and read every acknowledged sample back; see docs/loadtest.md.")
	loadtestCommands := addLoadtestCommands(load)

	migrate := app.Command("migrate", "Copy all tables between --storage.path and Bigtable, row for row, and prove them equal.")
	migrateConfig := addMigrateFlags(migrate)
	emulator := app.Command("emulator", "Run a Bigtable in memory, to try out --storage.engine=bigtable on one machine.")
	emulatorConfig := addEmulatorFlags(emulator)
	rollups := app.Command("rollup", "Check or compute the rollups of a stopped server; see its sub-commands.")
	rollupCommands := addRollupCommands(rollups)
	planning := app.Command("plan", "Reckon what a load takes in Bigtable: rows, bytes and nodes; see docs/bigtable.md.")
	planConfig := addPlanFlags(planning)

	verifying := addVerifyCommand(app)
	keeping := addRetentionCommand(app)
	version := app.Command("version", "Print the version.")

	command, err := app.Parse(normalArgs(args))
	if err != nil {
		return fmt.Errorf("%w (tsdb --help lists the commands and flags)", err)
	}
	switch command {
	case serve.FullCommand():
		return serveUntilSignal(serveConfig)
	case demo.FullCommand():
		return runDemo(demoConfig, os.Stdout)
	case graph.FullCommand():
		return drawGraph(graphConfig, os.Stdout)
	case remove.FullCommand():
		return deleteFromServer(deleteConfig, os.Stdout)
	case migrate.FullCommand():
		return migrateUntilSignal(migrateConfig, os.Stdout)
	case emulator.FullCommand():
		return emulate(emulatorConfig, os.Stdout)
	case rollupCommands.verify.FullCommand(), rollupCommands.rebuild.FullCommand():
		return rollupCommands.run(command, os.Stdout)
	case planning.FullCommand():
		return planConfig.run(os.Stdout)
	case verifying.command.FullCommand():
		return verifying.run(os.Stdout)
	case keeping.command.FullCommand():
		return keeping.run(os.Stdout)
	case version.FullCommand():
		fmt.Println(versionText())
		return nil
	case loadtestCommands.run.FullCommand(), loadtestCommands.compare.FullCommand():
		return loadtestCommands.loadtest(command, os.Stdout)
	default:
		return inspectCommands.run(command, os.Stdout)
	}
}
