package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options configure a Repository. Zero values mean the defaults.
type Options struct {
	// ManifestBytesMax bounds the size of a manifest (256 MiB).
	ManifestBytesMax int64
	// S3 is for backups in a bucket.
	S3 S3Options
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Repository is a directory or a bucket with backups. Several processes may use it. A change does not wait for another change:
// it fails with storage.ErrLocked.
type Repository struct {
	backend backend
	where   string
	opts    Options
	// concurrency is the number of files that are copied at once.
	concurrency int
}

// Open returns the repository at a location: a directory, which Create makes, or s3://BUCKET/PREFIX.
func Open(location string, opts Options) (*Repository, error) {
	opts.ManifestBytesMax = cmp.Or(opts.ManifestBytesMax, ManifestBytesMaxDefault)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Repository{backend: directory{location}, where: location, opts: opts, concurrency: 1}
	switch {
	case location == "":
		return nil, errors.New("the location of the backups is empty: name a directory or s3://BUCKET/PREFIX")
	case !strings.Contains(location, "://"): // a misspelled bucket is not a directory
		return r, nil
	}
	b, err := newBucket(location, opts.S3)
	if err != nil {
		return nil, err
	}
	r.backend, r.concurrency = b, b.opts.Concurrency
	return r, nil
}

// forEach calls visit for the numbers below n, concurrently. It ends at the first error.
func (r *Repository) forEach(ctx context.Context, n int, visit func(ctx context.Context, at int) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(r.concurrency)
	for at := range n {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error { return visit(groupCtx, at) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// List lists the backups, oldest first, and the names of unfinished ones.
func (r *Repository) List(ctx context.Context) (backups []Entry, unfinished []string, err error) {
	names, unfinished, err := r.backend.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		m, err := r.readManifest(ctx, name)
		backups = append(backups, Entry{Name: name, Manifest: m, Err: err})
	}
	return backups, unfinished, nil
}

// readManifest reads the manifest of a backup.
func (r *Repository) readManifest(ctx context.Context, name string) (*Manifest, error) {
	f, err := r.backend.Open(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, r.opts.ManifestBytesMax+1))
	if err != nil {
		return nil, err
	}
	if int64(len(src)) > r.opts.ManifestBytesMax {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrManifestTooLarge, r.opts.ManifestBytesMax)
	}
	m, err := parseManifest(src)
	if err == nil && m.Name != name {
		err = fmt.Errorf("the manifest belongs to backup %s", m.Name)
	}
	return m, err
}

// Find returns the backup with a name, the newest one if name is empty.
func (r *Repository) Find(ctx context.Context, name string) (*Manifest, error) {
	names, _, err := r.backend.List(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" && len(names) > 0 {
		name = names[len(names)-1]
	}
	if name == "" {
		return nil, fmt.Errorf("%s has no backups", r.where)
	}
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("%s has no backup %s (tsdb backup list shows them)", r.where, name)
	}
	m, err := r.readManifest(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", name, err)
	}
	return m, nil
}

// Prune removes all except the newest keep backups. It returns the names of the removed ones. Files that a kept backup
// shares with a removed one stay.
func (r *Repository) Prune(ctx context.Context, keep int) (removed []string, err error) {
	if keep < 1 {
		return nil, fmt.Errorf("--keep is %d: keep at least one backup, for example --keep=7", keep)
	}
	if _, _, err := r.backend.List(ctx); err != nil { // the lock would create the directory
		return nil, err
	}
	ctx, release, err := r.backend.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if releaseErr := release(); err == nil {
			err = releaseErr
		}
	}()
	backups, _, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	// Damaged backups do not count. Otherwise they would displace complete ones.
	whole := 0
	for _, e := range slices.Backward(backups) {
		if e.Err == nil {
			if whole++; whole > keep {
				removed = append(removed, e.Name)
			}
		}
	}
	slices.Reverse(removed)
	others := slices.DeleteFunc(backups, func(e Entry) bool { return slices.Contains(removed, e.Name) })
	if err := r.backend.Remove(ctx, removed, others); err != nil {
		return nil, err
	}
	return removed, nil
}
