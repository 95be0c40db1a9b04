package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/backup"
	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/program"
)

// backupCommands are the sub-commands of `tsdb backup`.
type backupCommands struct {
	server         client.Server
	storagePath    string
	repository, to string
	name           string
	keep           int
	s3             backup.S3Options
	output         program.Output
}

// AddBackup declares `tsdb backup` and its sub-commands.
func AddBackup(app *kingpin.Application) program.Commands {
	cmd := app.Command("backup", "Back up a database to a directory or to S3-compatible storage, and restore it.")
	c := &backupCommands{}
	create := cmd.Command("create", "Make a backup of a running server on this machine, or of a stopped one.")
	create.Flag("to", "Directory of all backups, preferably on another disk, or s3://BUCKET/PREFIX. Files of older backups are not "+
		"copied again.").Required().StringVar(&c.repository)
	c.addS3Flags(create)
	c.server.AddFlags(create, "The running server; it runs with --web.enable-admin-api. Default: "+client.DefaultURL+".", "")
	create.Flag("storage.path", "Directory of a stopped server, instead of --url.").StringVar(&c.storagePath)
	commands := program.Commands{create.FullCommand(): c.runner(c.create)}
	add := func(name, help string, run func(context.Context, *backup.Repository, io.Writer) error) *kingpin.CmdClause {
		sub := cmd.Command(name, help)
		sub.Flag("from", "Directory of all backups, or s3://BUCKET/PREFIX.").Required().StringVar(&c.repository)
		c.addS3Flags(sub)
		commands[sub.FullCommand()] = c.runner(run)
		return sub
	}
	c.output.AddFlag(add("list", "List the backups, oldest first.", c.list))
	verify := add("verify", "Read every file of the backups and compare it with its checksum.", c.verify)
	verify.Arg("name", "Name of a backup. Default: all backups.").StringVar(&c.name)
	restore := add("restore", "Copy a backup into a new directory for --storage.path.", c.restore)
	restore.Flag("to", "The new directory.").Required().StringVar(&c.to)
	restore.Arg("name", "Name of the backup. Default: the newest one.").StringVar(&c.name)
	prune := add("prune", "Remove old backups.", c.prune)
	prune.Flag("keep", "Number of backups to keep, the newest ones.").Required().IntVar(&c.keep)
	return commands
}

// addS3Flags declares the flags for backups in a bucket.
func (c *backupCommands) addS3Flags(cmd *kingpin.CmdClause) {
	cmd.Flag("s3.endpoint", "URL of the S3-compatible service. Default: Amazon's.").Envar("AWS_ENDPOINT_URL").PlaceHolder("URL").
		StringVar(&c.s3.Endpoint)
	cmd.Flag("s3.region", "Region of the bucket. Default: ask the service.").Envar("AWS_REGION").StringVar(&c.s3.Region)
	cmd.Flag("s3.path-style", "Put the bucket into the path of URLs, not into the host. Default: only if the service is neither "+
		"Amazon's nor Google's.").BoolVar(&c.s3.PathStyle)
	cmd.Flag("s3.credentials-file", "File like ~/.aws/credentials. Default: the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY "+
		"and AWS_SESSION_TOKEN.").StringVar(&c.s3.CredentialsFile)
	cmd.Flag("s3.profile", "Section of the credentials file. Default: default.").Envar("AWS_PROFILE").StringVar(&c.s3.Profile)
	cmd.Flag("s3.attempts", "Number of attempts of a request before it fails.").Default("10").IntVar(&c.s3.Attempts)
}

// runner opens the repository for a command.
func (c *backupCommands) runner(run func(context.Context, *backup.Repository, io.Writer) error) program.Command {
	return func(ctx context.Context, w io.Writer) error {
		r, err := backup.Open(c.repository, backup.Options{S3: c.s3})
		if err != nil {
			return err
		}
		return run(ctx, r, w)
	}
}

func progress() *backup.Progress { return backup.NewProgress(os.Stderr, time.Now) }

func (c *backupCommands) create(ctx context.Context, r *backup.Repository, w io.Writer) (err error) {
	var source backup.Source
	switch {
	case c.server.URL != "" && c.storagePath != "":
		return errors.New("--url and --storage.path contradict each other: a server either runs or is stopped")
	case c.storagePath != "":
		if _, err := os.Stat(datadir.WALDir(c.storagePath)); err != nil {
			return fmt.Errorf("--storage.path: %s is not the directory of a server: %w", c.storagePath, err)
		}
		lock, err := datadir.Lock(c.storagePath)
		if err != nil {
			return fmt.Errorf("%w (use --url for a running server)", err)
		}
		defer lock.Close()
		if err := c.checkRepository(c.storagePath); err != nil {
			return err
		}
		source.Dir = c.storagePath
	default:
		if c.server.URL == "" {
			c.server.URL = client.DefaultURL
		}
		snapshot, err := takeSnapshot(ctx, &c.server)
		if err != nil {
			return err
		}
		source = backup.Source{Dir: snapshot.Path, Snapshot: true}
		defer func() { err = errors.Join(err, backup.RemoveSnapshot(source.Dir)) }()
		if err := c.checkRepository(filepath.Dir(filepath.Dir(snapshot.Path))); err != nil {
			return err
		}
	}
	created, err := r.Create(ctx, source, progress())
	if err != nil {
		return err
	}
	m := created.Manifest
	fmt.Fprintf(w, "backup %s: %d files, %d bytes; copied %d bytes, shares %d bytes with older backups\n", m.Name, len(m.Files),
		m.SizeBytes(), created.CopiedBytes, created.SharedBytes)
	return warnOfMissingTables(w, m)
}

// checkRepository refuses a repository among the files of a server, because each later backup would copy it again.
func (c *backupCommands) checkRepository(dataDir string) error {
	if strings.Contains(c.repository, "://") {
		return nil // a bucket
	}
	repository, err := filepath.Abs(c.repository)
	if err != nil {
		return err
	}
	if dataDir, err = filepath.Abs(dataDir); err != nil {
		return err
	}
	for _, dir := range []string{datadir.TablesDir(dataDir), datadir.WALDir(dataDir)} {
		if inside, err := filepath.Rel(dir, repository); err == nil && filepath.IsLocal(inside) {
			return fmt.Errorf("--to: %s lies in %s, which the backup copies; choose another directory", c.repository, dir)
		}
	}
	return nil
}

// warnOfMissingTables prints a warning if the backup has no tables.
func warnOfMissingTables(w io.Writer, m *backup.Manifest) (err error) {
	if !m.Tables {
		_, err = fmt.Fprintln(w, "it holds the log and the open hour only: the tables are in Bigtable; back them up there")
	}
	return err
}

// listedBackup is a backup in the JSON of `tsdb backup list`.
type listedBackup struct {
	Name      string `json:"name"`
	Time      string `json:"time"`
	Files     int    `json:"files"`
	SizeBytes int64  `json:"sizeBytes"`
	// Tables is false if the backup holds the log only.
	Tables bool   `json:"tables"`
	Host   string `json:"host"`
	Source string `json:"source"`
	Error  string `json:"error,omitempty"`
}

func (c *backupCommands) list(ctx context.Context, r *backup.Repository, w io.Writer) error {
	backups, unfinished, err := r.List(ctx)
	if err != nil {
		return err
	}
	var faults []error
	result := struct {
		Backups    []listedBackup `json:"backups"`
		Unfinished []string       `json:"unfinished"`
	}{[]listedBackup{}, append([]string{}, unfinished...)}
	for _, e := range backups {
		listed := listedBackup{Name: e.Name}
		if m := e.Manifest; m != nil {
			listed = listedBackup{e.Name, m.Time().Format(time.RFC3339Nano), len(m.Files), m.SizeBytes(), m.Tables, m.Host, m.Source, ""}
		}
		if e.Err != nil {
			listed.Error = e.Err.Error()
			faults = append(faults, fmt.Errorf("backup %s: %w", e.Name, e.Err))
		}
		result.Backups = append(result.Backups, listed)
	}
	err = c.output.Print(w, result, func(w io.Writer) error {
		for _, e := range backups {
			if e.Err != nil {
				continue // the error at the end names it
			}
			parts := "tables and log"
			if !e.Manifest.Tables {
				parts = "log only"
			}
			if _, err := fmt.Fprintf(w, "%s  %6d files  %15d bytes  %s  %s:%s\n", e.Name, len(e.Manifest.Files), e.Manifest.SizeBytes(),
				parts, e.Manifest.Host, e.Manifest.Source); err != nil {
				return err
			}
		}
		for _, name := range unfinished {
			if _, err := fmt.Fprintf(w, "%s is not finished; the next create or prune removes it\n", name); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(append(faults, err)...)
}

func (c *backupCommands) verify(ctx context.Context, r *backup.Repository, w io.Writer) error {
	names := []string{c.name}
	if c.name == "" {
		names = nil
		backups, _, err := r.List(ctx)
		if err != nil {
			return err
		}
		for _, e := range backups {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no backup", c.repository)
	}
	damaged := 0
	for _, name := range names {
		m, err := r.Find(ctx, name)
		if err != nil {
			damaged++
			fmt.Fprintln(w, err)
			continue
		}
		faults, err := r.Verify(ctx, m, progress())
		if err != nil {
			return err
		}
		for _, f := range faults {
			fmt.Fprintf(w, "backup %s: %s: %s\n", m.Name, f.Path, f.Reason)
		}
		if len(faults) > 0 {
			damaged++
			continue
		}
		if _, err := fmt.Fprintf(w, "backup %s is complete: %d files, %d bytes\n", m.Name, len(m.Files), m.SizeBytes()); err != nil {
			return err
		}
	}
	if damaged > 0 {
		return fmt.Errorf("%d of %d backups are damaged", damaged, len(names))
	}
	return nil
}

func (c *backupCommands) restore(ctx context.Context, r *backup.Repository, w io.Writer) error {
	m, err := r.Find(ctx, c.name)
	if err != nil {
		return err
	}
	if err := r.Restore(ctx, m, c.to, progress()); err != nil {
		return err
	}
	fmt.Fprintf(w, "restored backup %s: %d files, %d bytes; start the server with --storage.path=%s\n", m.Name, len(m.Files),
		m.SizeBytes(), c.to)
	return warnOfMissingTables(w, m)
}

func (c *backupCommands) prune(ctx context.Context, r *backup.Repository, w io.Writer) error {
	removed, err := r.Prune(ctx, c.keep)
	for _, name := range removed {
		fmt.Fprintf(w, "removed backup %s\n", name)
	}
	if err == nil && len(removed) == 0 {
		_, err = fmt.Fprintln(w, "nothing to remove")
	}
	return err
}
