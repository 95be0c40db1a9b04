package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/storage/principal"
)

// HasFiles reports whether Reload has files to read.
func (a *Authenticator) HasFiles() bool { return a.opts.WebConfigFile != "" || a.opts.AccessFile != "" }

// Reload loads the files and makes them the current configuration. After an error the previous configuration stays.
func (a *Authenticator) Reload() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reload()
}

func (a *Authenticator) reload() error {
	files, err := a.readFiles()
	if err == nil {
		err = a.replace(files)
	}
	a.loaded.Store(err == nil)
	a.lastErr = ""
	if err != nil {
		a.lastErr = err.Error()
		return err
	}
	a.at.Store(a.opts.Now().UnixMilli())
	return nil
}

// Watch reloads when a file has changed, until ctx ends.
func (a *Authenticator) Watch(ctx context.Context) {
	if !a.HasFiles() {
		return
	}
	tick := time.NewTicker(a.opts.CheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.reloadChanged()
		}
	}
}

// reloadChanged reloads if a file has changed. It logs an error once.
func (a *Authenticator) reloadChanged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	files, err := a.readFiles()
	if err == nil && files.sum() == a.seen {
		return
	}
	before := a.lastErr
	switch err := a.reload(); {
	case err == nil:
		a.opts.Logger.Info("reloaded users, tokens and certificates", "web_config_file", a.opts.WebConfigFile,
			"access_file", a.opts.AccessFile)
	case err.Error() != before:
		a.opts.Logger.Error("cannot reload users, tokens and certificates; the previous configuration stays", "err", err)
	}
}

// fileContents are the contents of the two files.
type fileContents struct {
	web, access []byte
	others      digest // of the certificates and keys that the web configuration names
}

func (f *fileContents) sum() digest {
	web, access := sha256.Sum256(f.web), sha256.Sum256(f.access)
	return sha256.Sum256(append(append(web[:], access[:]...), f.others[:]...))
}

// readFiles reads all files of a reload.
func (a *Authenticator) readFiles() (f fileContents, err error) {
	if f.web, err = a.read("--web.config.file", a.opts.WebConfigFile); err != nil {
		return f, err
	}
	if f.access, err = a.read("--web.access-file", a.opts.AccessFile); err != nil {
		return f, err
	}
	f.others = a.sumOf(a.watched)
	return f, nil
}

// sumOf is the digest of files. A file that cannot be read counts as empty: the reload reports the error.
func (a *Authenticator) sumOf(files []string) (d digest) {
	var all []byte
	for _, path := range files {
		content, _ := a.read("", path)
		sum := sha256.Sum256(content)
		all = append(all, sum[:]...)
	}
	return sha256.Sum256(all)
}

// read reads a file up to the size limit. Without a path it returns nothing.
func (a *Authenticator) read(flag, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, a.opts.FileBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if int64(len(content)) > a.opts.FileBytesMax {
		return nil, fmt.Errorf("%s: %s has more than %d bytes", flag, path, a.opts.FileBytesMax)
	}
	return content, nil
}

// replace makes the contents of the files the current configuration.
func (a *Authenticator) replace(files fileContents) error {
	// Store the digest of the files before they are loaded, so that a change during the load leads to another reload.
	a.seen = files.sum()
	next, err := a.load(files)
	// Even if the load failed, watch the certificates and keys that the new file names: their repair leads to another reload.
	if !slices.Equal(a.watched, next.web.files) {
		a.watched = next.web.files
		files.others = a.sumOf(a.watched)
		a.seen = files.sum()
	}
	if err != nil {
		return err
	}
	before := a.current.Load()
	switch {
	case before == nil:
	case next.blank && !before.blank:
		return errors.New("--web.config.file or --web.access-file is empty, as a file is while it is being written")
	case next.open && !before.open:
		return errors.New("without users, tokens and client certificates, everybody has every right; only a restart allows that")
	case (next.web.tls == nil) != (before.web.tls == nil):
		return fmt.Errorf("--web.config.file: %s: only a restart turns TLS on or off", a.opts.WebConfigFile)
	}
	a.current.Store(next)
	a.passwords.retain(next.web.users)
	return nil
}

// load makes a configuration from the contents of the files. After an error it still holds the files that the web configuration
// names.
func (a *Authenticator) load(files fileContents) (*state, error) {
	s := &state{
		web: &webConfig{}, users: map[string]*principal.Principal{}, everyone: &principal.Principal{Scopes: principal.Every},
	}
	s.blank = a.opts.WebConfigFile != "" && len(bytes.TrimSpace(files.web)) == 0 ||
		a.opts.AccessFile != "" && len(bytes.TrimSpace(files.access)) == 0
	if path := a.opts.WebConfigFile; path != "" {
		// The errors of this parser name the user or the file, so it comes before the toolkit's.
		err := s.web.parse(path, files.web)
		if err == nil {
			err = checkWebConfig(path)
		}
		if err != nil {
			return s, fmt.Errorf("--web.config.file: %s: %w", path, err)
		}
	}
	var err error
	if s.access, err = parseAccess(files.access, a.opts.Tenants); err != nil {
		return s, fmt.Errorf("--web.access-file: %s: %w", a.opts.AccessFile, err)
	}
	s.open = len(s.web.users) == 0 && len(s.access.tokens) == 0 && !s.web.certificates
	for name := range s.web.users {
		s.users[name] = &principal.Principal{Name: name, Scopes: principal.Every}
	}
	for name, p := range s.access.users {
		if s.users[name] == nil && !s.web.certificates {
			return s, fmt.Errorf("--web.access-file: %s: user %q has rights, but no password in --web.config.file",
				a.opts.AccessFile, name)
		}
		s.users[name] = p
	}
	if s.open && a.opts.AccessFile != "" {
		return s, fmt.Errorf("--web.access-file: %s: there is neither a token nor a user", a.opts.AccessFile)
	}
	return s, nil
}

// register registers the metrics.
func (a *Authenticator) register() error {
	if a.opts.Registerer == nil {
		return nil
	}
	gauge := func(name, help string, value func() float64) error {
		return a.opts.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	return errors.Join(
		gauge("tsdb_web_auth_last_reload_successful", "Whether the last reload of users, tokens and certificates succeeded.",
			func() float64 {
				if ok, _ := a.Last(); ok {
					return 1
				}
				return 0
			}),
		gauge("tsdb_web_auth_last_reload_success_timestamp_seconds",
			"Time of the last successful load of users, tokens and certificates.",
			func() float64 { _, at := a.Last(); return float64(at.UnixMilli()) / 1e3 }),
	)
}
